"""Relations and NRRs that change while queries run: a log of versions of rows.

Every row lives from the instant it was inserted to the instant it was deleted; an update ends one
version and begins the next. A change takes effect at the instant it names, or at the clock of the
batch that first reads it, whichever is later (an earlier instant is closed already).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.cql.statements import Delete, Insert, Update
from mayfly.errors import BadInput
from mayfly.kernels.delta import END, ID, LIFE, Delta, concatenated, with_numbers
from mayfly.kernels.expression import evaluate
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.kernels.stateless import satisfying, values_of
from mayfly.lifetime import MIN_TIME, NEVER, instant_text
from mayfly.physical.program import RelationInput
from mayfly.plan.catalog import RelationDefinition
from mayfly.plan.row_intake import as_table
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class Change:
    """Rows inserted and identities deleted at one instant."""

    instant: int
    inserted: pa.Table
    deleted: frozenset[int]


@dataclass(slots=True)
class Changing:
    """A stored table: its rows now, and every change since it was declared."""

    definition: RelationDefinition
    changes: list[Change] = field(default_factory=list)
    _rows: pa.Table = field(init=False)
    _next: int = 1
    _used: set[tuple[Any, ...]] = field(default_factory=set)
    _digests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rows = with_numbers(self._schema().empty_table(), **{ID: np.empty(0, np.int64)})

    def _schema(self) -> pa.Schema:
        """The columns as they are kept: under names that none of ours can have."""
        columns = self.definition.columns
        return pa.schema([(self._own(c.name), arrow_type(c.type)) for c in columns])

    def _own(self, column: str) -> str:
        return f"{self.definition.name}.{column}"

    @property
    def rows(self) -> pa.Table:
        """The table as the last change left it."""
        names = [column.name for column in self.definition.columns]
        return self._rows.drop_columns([ID]).rename_columns(names)

    def twin(self) -> Changing:
        """The same relation, to be changed by itself."""
        other = copy(self)
        other.changes, other._digests = list(self.changes), list(self._digests)
        other._used = set(self._used)
        return other

    def digests(self, count: int) -> list[str]:
        """A short text for each of the first changes, by which another one would be noticed."""
        for change in self.changes[len(self._digests) : count]:
            names = [column.name for column in self.definition.columns]
            if ID not in names:  # as checkpoints have always noted them
                names.append(ID)
                rows = change.inserted.rename_columns(names).to_pylist()
            else:
                rows = change.inserted.to_pylist()
            facts = change.instant, sorted(change.deleted), rows
            self._digests.append(hashlib.sha256(repr(facts).encode()).hexdigest()[:16])
        return self._digests[:count]

    def load(self, rows: Any, instant: int = MIN_TIME) -> None:
        """Insert rows, as ``plan.rows`` takes them."""
        kinds = {column.name: column.type for column in self.definition.columns}
        table = as_table(self.definition.name, rows, kinds)
        kept = table.rename_columns(self._schema().names).cast(self._schema())
        self._apply(instant, kept, frozenset())

    def carry_out(self, statement: Insert | Update | Delete, clock: int) -> None:
        """Carry out an INSERT, UPDATE or DELETE; without AT it takes effect at the clock."""
        instant = clock if statement.instant is None else statement.instant
        if self.changes and instant < self.changes[-1].instant:
            raise BadInput(
                f"a change of {self.definition.name} at {instant_text(instant)} comes after one "
                f"at {instant_text(self.changes[-1].instant)}",
                "give changes in the order in which they take effect",
            )
        if isinstance(statement, Insert):
            self._apply(instant, self._constants(statement), frozenset())
            return
        rows = self._rows
        hit = np.ones(rows.num_rows, dtype=bool)
        if statement.condition is not None and rows.num_rows:
            hit = satisfying(statement.condition, rows)
        touched = frozenset(numbers(rows, ID)[hit].tolist())
        if isinstance(statement, Delete):
            self._apply(instant, self._schema().empty_table(), touched)
            return
        changed = chosen(rows, hit)
        assigned = {self._own(name): value for name, value in statement.assignments}
        arrays = [
            values_of(assigned[column.name], changed, column.type) if column.name in assigned
            else changed.column(column.name)
            for column in self._schema()
        ]  # fmt: skip
        self._apply(instant, pa.table(arrays, schema=self._schema()), touched, update=True)

    def _constants(self, statement: Insert) -> pa.Table:
        columns = [
            pa.array([_constant(row[number], column.type) for row in statement.rows], column.type)
            for number, column in enumerate(self._schema())
        ]
        return pa.table(columns, schema=self._schema())

    def _apply(
        self, instant: int, inserted: pa.Table, deleted: frozenset[int], update: bool = False
    ) -> None:
        kept = self._rows
        if deleted:
            kept = chosen(kept, ~np.isin(numbers(kept, ID), list(deleted)))
        self._check_keys(kept, inserted, update)
        ids = np.arange(self._next, self._next + inserted.num_rows)
        inserted = with_numbers(inserted, **{ID: ids})
        self._next += inserted.num_rows
        self._rows = concatenated([kept, inserted])
        self.changes.append(Change(instant, inserted, deleted))

    def _check_keys(self, kept: pa.Table, inserted: pa.Table, update: bool) -> None:
        names = [self._own(name) for name in self.definition.key]
        if not names or not inserted.num_rows:
            return
        new = _tuples(inserted, names)
        twice = set(_tuples(kept, names)) & set(new)
        if twice or len(set(new)) < len(new):
            example = next(iter(twice or new))
            raise BadInput(
                f"the key {example} occurs twice in {self.definition.name}",
                "delete the row first, or use another key",
            )
        if not self.definition.retroactive and not update:
            again = self._used & set(new)
            if again:
                raise BadInput(
                    f"the key {next(iter(again))} of the NRR {self.definition.name} was deleted",
                    "a deleted key is never used again: earlier results still mean the old row",
                )
            self._used |= set(new)

    def between(
        self, source: RelationInput, interval: Interval, seen: Sequence[int]
    ) -> tuple[Delta, tuple[int, ...]]:
        """The changes a query has not seen that take effect before the clock.

        ``seen`` are the instants at which those it has seen took effect for it; with the new ones
        they are given back. A row that comes and goes among the new ones is born with its exact
        lifetime.
        """
        effective: list[tuple[int, Change]] = []
        for change in self.changes[len(seen) :]:
            if change.instant >= interval.clock:
                break
            effective.append((max(change.instant, interval.began), change))
        ended = {row: instant for instant, change in effective for row in change.deleted}
        born = self._lives(effective)
        fresh = {row for _, change in effective for row in numbers(change.inserted, ID).tolist()}
        old = {row: instant for row, instant in ended.items() if row not in fresh}
        cut = self._ended(old, seen)
        nothing = Delta.empty(self._schema())
        delta = Delta(
            concatenated([nothing.born, *(t.select(nothing.born.schema.names) for t in born)]),
            cut.select(nothing.cut.schema.names),
        )
        return delta.map(partial(self._under_alias, source)), (
            *seen,
            *(instant for instant, _ in effective),
        )

    def versions(self, instants: Sequence[int]) -> pa.Table:
        """The rows that the first changes inserted, with their lifetimes; ``instants`` says when
        each of these changes took effect."""
        effective = list(zip(instants, self.changes, strict=False))
        nothing = Delta.empty(self._schema()).born
        lives = concatenated(
            [nothing, *(t.select(nothing.schema.names) for t in self._lives(effective))]
        )
        return lives.drop_columns([ID])

    def _lives(self, effective: Sequence[tuple[int, Change]]) -> list[pa.Table]:
        """The rows of changes that took effect at these instants, from their insertion on."""
        ends = {row: instant for instant, change in effective for row in change.deleted}
        lives = []
        for instant, change in effective:
            ids = numbers(change.inserted, ID)
            exp = np.array([ends.get(row, NEVER) for row in ids.tolist()], dtype=np.int64)
            rows = with_numbers(change.inserted, **{TS: np.full(len(ids), instant), EXP: exp})
            lives.append(chosen(rows, exp > instant))
        return lives

    def _under_alias(self, source: RelationInput, rows: pa.Table) -> pa.Table:
        carried = [name for name in rows.schema.names if name in (*LIFE, END)]
        table = rows.select([*(self._own(name) for name in source.columns), *carried])
        return table.rename_columns([*(f"{source.alias}.{n}" for n in source.columns), *carried])

    def _ended(self, ended: dict[int, int], seen: Sequence[int]) -> pa.Table:
        """Rows born in earlier steps, as they were announced."""
        rows = [with_numbers(self._rows.slice(0, 0), **{TS: _none(), EXP: _none(), END: _none()})]
        for change, began in zip(self.changes, seen if ended else (), strict=False):
            ids = numbers(change.inserted, ID)
            hit = np.isin(ids, list(ended))
            if hit.any():
                ends = np.array([ended[row] for row in ids[hit].tolist()], dtype=np.int64)
                size = int(hit.sum())
                rows.append(
                    with_numbers(
                        chosen(change.inserted, hit),
                        **{TS: np.full(size, began), EXP: np.full(size, NEVER), END: ends},
                    )
                )
        return concatenated([rows[0], *(t.select(rows[0].schema.names) for t in rows[1:])])


def _none() -> Any:
    return np.empty(0, np.int64)


def _tuples(rows: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def _constant(expression: Any, kind: pa.DataType) -> Any:
    value = evaluate(expression, lambda column: pa.nulls(1, kind))
    scalar = value if isinstance(value, pa.Scalar) else value[0]
    return scalar.cast(kind).as_py()
