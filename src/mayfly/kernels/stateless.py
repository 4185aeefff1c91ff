"""Operators without state: selection, projection, merge union. They keep every lifetime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import (
    ID,
    OWNER,
    SEEN,
    Delta,
    column_name,
    mixed_ids,
    payload_names,
    united,
    with_numbers,
)
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import Bools, numbers, whole
from mayfly.kernels.operator import Moving, Operator, StateKey, same_kind
from mayfly.plan.expressions import Column, Expression, same_number
from mayfly.plan.plan_text import expression_text
from mayfly.plan.spread import Spread


@dataclass(frozen=True, slots=True)
class Nothing:
    """The state of an operator that needs none."""

    rows: int = 0
    bytes: int = 0


def column_of(table: pa.Table, column: Column) -> pa.Array:
    """A plan's column in a table."""
    return whole(table.column(column_name(column)))


def values_of(expression: Expression, table: pa.Table, kind: pa.DataType) -> pa.Array:
    """An expression's value for every row, in the given type."""
    if not table.num_rows:
        return pa.array([], kind)
    # Here: a plan is made without the functions of the language.
    from mayfly.kernels.expression import evaluate

    value = evaluate(expression, partial(column_of, table))
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value.cast(kind), table.num_rows)
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    return value if value.type == kind else value.cast(kind)


def satisfying(condition: Expression, table: pa.Table) -> Bools:
    """Where a condition is TRUE."""
    from mayfly.kernels.expression import holds

    marks = holds(condition, partial(column_of, table), table.num_rows)
    mask: Bools = np.asarray(marks.to_numpy(zero_copy_only=False), dtype=bool)
    return mask


class Passing(Operator):
    """Rows of the inputs as they are, or with other columns: no state, no key."""

    __slots__ = ()

    @property
    def passes(self) -> bool:
        return True

    @property
    def moving(self) -> Moving:
        return Moving.NEAR

    def state(self) -> Nothing:
        return Nothing()


@dataclass(frozen=True, slots=True)
class SelectRows(Passing):
    """The rows for which the predicate is TRUE."""

    name: str
    predicate: Expression

    def state_key(self) -> StateKey:
        return StateKey(
            "SelectRows",
            (("predicate", self.predicate),),
        )

    @property
    def title(self) -> str:
        return "Select"

    @property
    def detail(self) -> str:
        return expression_text(self.predicate)

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return kept[0] or Spread()

    @property
    def selects(self) -> Expression:
        return self.predicate

    def chosen(self, rows: pa.Table) -> Bools:
        return self.marks(rows)

    def prepared(self, rows: pa.Table) -> pa.Table:
        return Delta(rows, rows.slice(0, 0)).where(self.marks).born

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        return state, inputs[0].where(self.marks)

    def needs(self, names: frozenset[str]) -> frozenset[str] | None:
        return names | frozenset(map(column_name, self.predicate.columns()))

    def marks(self, rows: pa.Table) -> Bools:
        return satisfying(self.predicate, rows)


@dataclass(frozen=True, slots=True)
class ProjectRows(Passing):
    """Computed columns in place of the others."""

    name: str
    outputs: tuple[Expression, ...]
    columns: pa.Schema

    def state_key(self) -> StateKey:
        return StateKey(
            "ProjectRows",
            (
                ("outputs", self.outputs),
                ("columns", self.columns),
            ),
        )

    @property
    def title(self) -> str:
        return "Project"

    @property
    def detail(self) -> str:
        shown = zip(self.outputs, self.columns.names, strict=True)
        return ", ".join(_named(output, name) for output, name in shown)

    def computes(self) -> tuple[tuple[str, Expression], ...] | None:
        return tuple(zip(self.columns.names, self.outputs, strict=True))

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        shown = zip(map(same_number, self.outputs), self.columns.names, strict=True)
        return (kept[0] or Spread()).renamed(
            (column_name(output), name) for output, name in shown if isinstance(output, Column)
        )

    def prepared(self, rows: pa.Table) -> pa.Table:
        return self.projected(rows)

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        delta = inputs[0]
        if not delta.rows:
            return state, Delta.empty(self.columns, dual=SEEN in delta.born.schema.names)
        return state, delta.map(self.projected)

    def needs(self, names: frozenset[str]) -> frozenset[str] | None:
        return frozenset(
            column_name(column) for output in self.outputs for column in output.columns()
        )

    def projected(self, rows: pa.Table) -> pa.Table:
        carried = [name for name in rows.schema.names if name not in set(payload_names(rows))]
        arrays = [
            values_of(output, rows, field.type)
            for output, field in zip(self.outputs, self.columns, strict=True)
        ]
        fields = [*self.columns, *(rows.schema.field(name) for name in carried)]
        return pa.table(
            [*arrays, *(rows.column(name) for name in carried)], schema=pa.schema(fields)
        )


@dataclass(frozen=True, slots=True)
class MergeUnion(Passing):
    """The rows of all inputs, columns matched by position."""

    name: str
    columns: pa.Schema
    dual: bool = False
    owned: bool = False

    def state_key(self) -> StateKey:
        return StateKey(
            "MergeUnion",
            (
                ("columns", self.columns),
                ("dual", self.dual),
                ("owned", self.owned),
            ),
        )

    @property
    def title(self) -> str:
        return "UNION ALL"

    @property
    def sign(self) -> str:
        return " ∪ "

    @property
    def reason(self) -> str:
        return "streams go to where the other rows of the union are"

    @property
    def moving(self) -> Moving:
        return Moving.MERGED

    def spread_of(self, inputs: Sequence[tuple[pa.Schema, Spread]]) -> Spread:
        """How rows are spread if those of the inputs stay where they are."""
        common_spread: Spread | None = None
        for columns, spread in inputs:
            mine = spread.renamed(
                (old.name, new.name)
                for old, new in zip(columns, self.columns, strict=True)
                if same_kind(old.type, new.type)
            )
            common_spread = mine if common_spread is None else common_spread.common(mine)
        return common_spread or Spread()

    def passed(self, ids: Int64s, side: int) -> Int64s:
        return mixed_ids(ids, np.full(len(ids), side, np.int64))

    def prepared(self, rows: pa.Table) -> pa.Table:
        return self.under_own_names(rows)

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        owner = [(OWNER, pa.int64())] if self.owned else []
        nothing = Delta.empty(pa.schema([*self.columns, *owner]), dual=self.dual)
        parts = [
            part.map(self.under_own_names).map(partial(salted, salt=np.int64(salt)))
            for salt, part in enumerate(inputs)
        ]
        return state, united(parts, nothing)

    def under_own_names(self, rows: pa.Table) -> pa.Table:
        own = set(payload_names(rows))
        carried = [name for name in rows.schema.names if name not in own]
        arrays = [rows.column(name) for name in rows.schema.names if name in own]
        fields = [*self.columns, *(rows.schema.field(name) for name in carried)]
        arrays = [a.cast(f.type) for a, f in zip(arrays, self.columns, strict=True)]
        return pa.table(
            [*arrays, *(rows.column(name) for name in carried)], schema=pa.schema(fields)
        )


def _named(output: Expression, name: str) -> str:
    text, relation, own = expression_text(output), *name.split(".", 1)
    short = text == name or (not relation and isinstance(output, Column) and output.name == own)
    return text if short else f"{text} AS {name.removeprefix('.')}"


def salted(rows: pa.Table, salt: np.int64) -> pa.Table:
    """With identities that are the input's, told apart by ``salt``."""
    ids = numbers(rows, ID)
    return with_numbers(rows, **{ID: mixed_ids(ids, np.full(len(ids), salt, np.int64))})
