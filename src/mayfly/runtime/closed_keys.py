"""Keys of which no further row comes, as PUNCTUATION (k) WHEN (…) says of a stream.

Idea: rows wait until their instant is closed. Then all earlier ones are there, and the first row
for which the condition holds tells the instant of its key: rows of that key after it are late.
Invariant: which rows are late depends on the rows alone, not on how they are cut into batches; rows
of the closing instant itself are in time. A closed key stays closed.
Cost: a step looks up the keys of its rows; 40 bytes and the key are kept of each closed one. States
are looked through for closed keys when they have doubled: O(1) for each row that they took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import check_codes, group_codes, unsigned_zeros
from mayfly.kernels.delta import ID, concatenated, taken, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, Bools, RowRun, chosen, numbers, whole
from mayfly.kernels.stateless import satisfying
from mayfly.kernels.upkeep import falling_due, waiting
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.physical.closing_keys import Forgetful
from mayfly.plan.catalog import StreamDefinition
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class ClosedKeys:
    """Of one stream: rows whose instant is not closed, closed keys, and how many rows were late."""

    definition: StreamDefinition
    early: tuple[RowRun, ...] = ()
    kept: KeptRows = field(default_factory=lambda: KeptRows(Shape()))
    late: int = 0

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.early) + self.kept.rows

    @property
    def bytes(self) -> int:
        return sum(run.bytes for run in self.early) + self.kept.bytes

    def admit(self, rows: pa.Table | None, interval: Interval) -> tuple[ClosedKeys, pa.Table]:
        """The rows of the instants that are closed now, without those of closed keys; rows of
        earlier instants pass, as they are counted elsewhere."""
        rows = self._nothing if rows is None else rows
        ts = numbers(rows, TS)
        early = chosen(rows, ts >= interval.clock)
        early = with_numbers(early, **{EXP: np.full(early.num_rows, NEVER)})
        woken = falling_due(self.early, interval.began, interval.clock)
        inside = (ts >= interval.began) & (ts < interval.clock)
        names = rows.schema.names
        due = concatenated([chosen(rows, inside), *(table.select(names) for table in woken)])
        after = replace(self, early=waiting(self.early, early, interval.clock))
        if due.num_rows:
            after, ends = after._closing(due)
            in_time = numbers(due, TS) <= ends
            after = replace(after, late=self.late + int((~in_time).sum()))
            due = chosen(due, in_time)
        return after, concatenated([chosen(rows, ts < interval.began), due]).combine_chunks()

    def has(self, columns: Sequence[pa.Array], count: int) -> Bools:
        """Which rows have a key that is closed."""
        codes = _codes(columns, count)
        stored = rows_with(self.kept.of_codes(np.unique(codes)), self._no_keys)
        self._check(codes, columns, stored)
        return np.isin(codes, numbers(stored, CODE))

    def _closing(self, due: pa.Table) -> tuple[ClosedKeys, Int64s]:
        """With the keys that these rows close; of each row, the instant at which its key ends."""
        punctuation = self.definition.punctuation
        assert punctuation is not None
        columns = [whole(due.column(name)) for name in self._keys]
        codes, ts = _codes(columns, due.num_rows), numbers(due, TS)
        keys, first, group = np.unique(codes, return_index=True, return_inverse=True)
        stored = rows_with(self.kept.of_codes(keys), self._no_keys)
        self._check(codes, columns, stored)
        ends = np.full(len(keys), NEVER)
        saying = satisfying(punctuation.condition, due)
        np.minimum.at(ends, group[saying], ts[saying])
        places = np.searchsorted(keys, numbers(stored, CODE))
        fresh = ends < NEVER
        fresh[places] = False
        ends[places] = numbers(stored, TS)
        if not fresh.any():
            return self, ends[group]
        new = taken(due.select(list(self._keys)), first[fresh]).combine_chunks()
        times = {TS: ends[fresh], EXP: np.full(new.num_rows, NEVER)}
        new = with_numbers(new, **times, **{ID: keys[fresh], CODE: keys[fresh]})
        return replace(self, kept=self.kept.after(new, MIN_TIME)), ends[group]

    def _check(self, codes: Int64s, columns: Sequence[pa.Array], stored: pa.Table) -> None:
        """Refuse different keys that share a hash."""
        both = np.concatenate([codes, numbers(stored, CODE)])
        order = stable_order(both)
        pairs = zip(columns, self._keys, strict=True)
        merged = [
            pa.concat_arrays([column, whole(stored.column(name)).cast(column.type)])
            for column, name in pairs
        ]
        check_codes(both[order], [column.take(pa.array(order)) for column in merged])

    @property
    def _keys(self) -> tuple[str, ...]:
        assert self.definition.punctuation is not None
        return tuple(f"{self.definition.name}.{key}" for key in self.definition.punctuation.keys)

    @property
    def _nothing(self) -> pa.Table:
        columns = self.definition.columns
        fields = [(f"{self.definition.name}.{c.name}", arrow_type(c.type)) for c in columns]
        return pa.schema([*fields, (TS, pa.int64())]).empty_table()

    @property
    def _no_keys(self) -> pa.Table:
        rows = self._nothing.select(list(self._keys))
        return with_numbers(rows, **dict.fromkeys((TS, EXP, ID, CODE), np.empty(0, np.int64)))


def _codes(columns: Sequence[pa.Array], count: int) -> Int64s:
    return group_codes([unsigned_zeros(column) for column in columns], count)


def admit_all(
    closed: Mapping[str, ClosedKeys], batch: Mapping[str, pa.Table], interval: Interval
) -> tuple[dict[str, ClosedKeys], dict[str, pa.Table]]:
    """Each stream with punctuations by its closed keys; the others as they come."""
    after, admitted = dict(closed), dict(batch)
    for name, keys in closed.items():
        after[name], admitted[name] = keys.admit(batch.get(name), interval)
    return after, admitted


def forget(
    forgetful: Forgetful, states: Sequence[Any], closed: Mapping[str, ClosedKeys]
) -> list[Any]:
    """The states of a task's buckets without rows of keys that all its streams have closed."""

    def left(table: pa.Table) -> pa.Table:
        gone = np.ones(table.num_rows, bool)
        for closing in forgetful.closings:
            columns = [whole(table.column(name)) for name in closing.columns]
            gone &= closed[closing.stream].has(columns, table.num_rows)
        return chosen(table, ~gone).combine_chunks()

    def without(kept: KeptRows) -> KeptRows:
        tables = ((run, left(run.load())) for run in kept.runs)
        runs = [
            run  # what was laid out for it stays of use
            if table.num_rows == run.rows
            else RowRun.of(table, level=run.level, cell=run.cell)
            for run, table in tables
            if table.num_rows
        ]
        return replace(kept, runs=tuple(runs))

    return [
        replace(state, **{part: without(getattr(state, part)) for part in forgetful.parts})
        for state in states
    ]
