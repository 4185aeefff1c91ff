"""Keys of which no further row comes, as PUNCTUATION (k) WHEN (…) says of a stream.

Idea: rows wait until their instant is closed. Then all earlier ones are there, and the first row
for which the condition holds tells the instant of its key: rows of that key after it are late.
Invariant: which rows are late depends on the rows alone, not on how they are cut into batches; rows
of the closing instant itself are in time. A closed key stays closed.
Cost: a step looks up the keys of its rows; 40 bytes and the key are kept of each closed one. States
are looked through for closed keys when they have doubled: O(1) for each row that they took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import check_codes, group_codes, unsigned_zeros
from mayfly.kernels.delta import ID, Delta, concatenated, taken, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, Bools, RowRun, chosen, numbers, whole
from mayfly.kernels.operator import Alone, Holding, Moving, Operator, StateKey
from mayfly.kernels.stateless import Nothing, satisfying
from mayfly.kernels.upkeep import falling_due, waiting
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.catalog import StreamDefinition
from mayfly.plan.expressions import Expression
from mayfly.plan.plan_text import expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class ClosedKeys:
    """Rows whose instant is not closed, closed keys, and how many rows were late.

    ``looked`` is how many rows there were in the states that forget closed keys when these were
    last looked through.
    """

    early: tuple[RowRun, ...] = ()
    kept: KeptRows = field(default_factory=lambda: KeptRows(Shape()))
    late: int = 0
    looked: int = 0

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.early) + self.kept.rows

    @property
    def bytes(self) -> int:
        return sum(run.bytes for run in self.early) + self.kept.bytes


@dataclass(frozen=True, slots=True)
class CloseKeys(Alone):
    """The rows of a stream in time for their key, with all their columns."""

    name: str
    stream: str
    columns: pa.Schema
    keys: tuple[str, ...]
    condition: Expression

    @staticmethod
    def of(stream: StreamDefinition) -> CloseKeys:
        """What the PUNCTUATION of a stream asks for."""
        assert stream.punctuation is not None
        own, punctuation = stream.name, stream.punctuation
        columns = pa.schema([(f"{own}.{c.name}", arrow_type(c.type)) for c in stream.columns])
        keys = tuple(f"{own}.{key}" for key in punctuation.keys)
        return CloseKeys(f"closed keys of {own}", own, columns, keys, punctuation.condition)

    def state(self) -> ClosedKeys:
        return ClosedKeys()

    def state_key(self) -> StateKey:
        parts = (
            ("stream", self.stream),
            ("columns", self.columns),
            ("keys", self.keys),
            ("condition", self.condition),
        )
        return StateKey("CloseKeys", parts)

    @property
    def title(self) -> str:
        return "Closed keys"

    @property
    def detail(self) -> str:
        keys = ", ".join(key.removeprefix(f"{self.stream}.") for key in self.keys)
        return f"{keys} WHEN {expression_text(self.condition)}"

    @property
    def reason(self) -> str:
        return "a row that closes a key meets those of that key"

    def holdings(self) -> tuple[Holding, ...]:
        early = "later instants may close first"
        notes = "a note stays of each closed key"
        return (
            Holding("early", Structure.FIFO, "rows that wait", reason=early),
            Holding("kept", Structure.APPEND, "closed keys", None, self.key_words(), notes),
        )

    @property
    def moving(self) -> Moving:
        return Moving.KEYED

    @property
    def keyed(self) -> bool:
        return True

    def key_of(self, side: int = 0) -> tuple[str, ...]:
        return self.keys

    def spread_by(self, rows: pa.Table, side: int) -> Int64s:
        return _codes([whole(rows.column(name)) for name in self.keys], rows.num_rows)

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return Spread.by(self.keys)

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self.spread_by(rows, 0) if part == "kept" else None

    def no_input(self) -> pa.Table:
        return pa.schema([*self.columns, (TS, pa.int64())]).empty_table()

    # ── steps ─────────────────────────────────────────────────────────────────────────────

    def step(
        self, state: ClosedKeys, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[ClosedKeys, Delta]:
        after, rows, _ = self.admit(state, inputs[0].born, interval)
        return after, Delta(rows, rows.slice(0, 0))

    def admit(
        self, state: ClosedKeys, rows: pa.Table | None, interval: Interval
    ) -> tuple[ClosedKeys, pa.Table, pa.Table]:
        """The rows of the instants that are closed now, without those of closed keys, which come
        last; rows of earlier instants pass, as they are counted elsewhere."""
        rows = self.no_input() if rows is None else rows
        ts = numbers(rows, TS)
        early = chosen(rows, ts >= interval.clock)
        early = with_numbers(early, **{EXP: np.full(early.num_rows, NEVER)})
        woken = falling_due(state.early, interval.began, interval.clock)
        inside = (ts >= interval.began) & (ts < interval.clock)
        names = rows.schema.names
        due = concatenated([chosen(rows, inside), *(table.select(names) for table in woken)])
        after = replace(state, early=waiting(state.early, early, interval.clock))
        late = due.slice(0, 0)
        if due.num_rows:
            after, ends = self._closing(after, due)
            in_time = numbers(due, TS) <= ends
            due, late = chosen(due, in_time), chosen(due, ~in_time)
            after = replace(after, late=state.late + late.num_rows)
        passed = concatenated([chosen(rows, ts < interval.began), due]).combine_chunks()
        return after, passed, late

    def late(self, state: ClosedKeys) -> int:
        return state.late

    def late_rows(self, state: ClosedKeys, inputs: Sequence[Delta], interval: Interval) -> pa.Table:
        return self.admit(state, inputs[0].born, interval)[2]

    def has(self, state: ClosedKeys, columns: Sequence[pa.Array], count: int) -> Bools:
        """Which rows have a key that is closed."""
        codes = _codes(columns, count)
        stored = rows_with(state.kept.of_codes(np.unique(codes)), self._no_keys)
        self._check(codes, columns, stored)
        return np.isin(codes, numbers(stored, CODE))

    def _closing(self, state: ClosedKeys, due: pa.Table) -> tuple[ClosedKeys, Int64s]:
        """With the keys that these rows close; of each row, the instant at which its key ends."""
        columns = [whole(due.column(name)) for name in self.keys]
        codes, ts = _codes(columns, due.num_rows), numbers(due, TS)
        keys, first, group = np.unique(codes, return_index=True, return_inverse=True)
        stored = rows_with(state.kept.of_codes(keys), self._no_keys)
        self._check(codes, columns, stored)
        ends = np.full(len(keys), NEVER)
        saying = satisfying(self.condition, due)
        np.minimum.at(ends, group[saying], ts[saying])
        places = np.searchsorted(keys, numbers(stored, CODE))
        fresh = ends < NEVER
        fresh[places] = False
        ends[places] = numbers(stored, TS)
        if not fresh.any():
            return state, ends[group]
        new = taken(due.select(list(self.keys)), first[fresh]).combine_chunks()
        times = {TS: ends[fresh], EXP: np.full(new.num_rows, NEVER)}
        new = with_numbers(new, **times, **{ID: keys[fresh], CODE: keys[fresh]})
        return replace(state, kept=state.kept.after(new, MIN_TIME)), ends[group]

    def _check(self, codes: Int64s, columns: Sequence[pa.Array], stored: pa.Table) -> None:
        """Refuse different keys that share a hash."""
        both = np.concatenate([codes, numbers(stored, CODE)])
        order = stable_order(both)
        pairs = zip(columns, self.keys, strict=True)
        merged = [
            pa.concat_arrays([column, whole(stored.column(name)).cast(column.type)])
            for column, name in pairs
        ]
        check_codes(both[order], [column.take(pa.array(order)) for column in merged])

    @property
    def _no_keys(self) -> pa.Table:
        rows = self.no_input().select(list(self.keys))
        return with_numbers(rows, **dict.fromkeys((TS, EXP, ID, CODE), np.empty(0, np.int64)))


@dataclass(frozen=True, slots=True)
class ReadOpen(Operator):
    """What a window takes of the rows in time for their key: some columns, under an alias, behind
    what is done to rows on their way to it (``path``)."""

    name: str
    stream: str
    alias: str
    names: tuple[str, ...]
    path: tuple[Operator, ...] = ()

    def state(self) -> Nothing:
        return Nothing()

    def state_key(self) -> StateKey:
        path = tuple(operator.state_key() for operator in self.path)
        names = (("stream", self.stream), ("alias", self.alias), ("names", self.names))
        return StateKey("ReadOpen", (*names, ("path", path)))

    @property
    def title(self) -> str:
        return "Rows in time"

    @property
    def detail(self) -> str:
        parts = (f"{operator.title} {operator.detail}".strip() for operator in self.path)
        return ", then ".join([f"of {self.stream} ({', '.join(self.names)})", *parts])

    @property
    def moving(self) -> Moving:
        return Moving.NEAR

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        spread = (kept[0] or Spread()).renamed(
            (f"{self.stream}.{name}", f"{self.alias}.{name}") for name in self.names
        )
        for operator in self.path:
            spread = operator.spread_after([spread])
        return spread

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        rows = self.read(inputs[0].born, interval)
        return state, Delta(rows, rows.slice(0, 0))

    def read(self, rows: pa.Table, interval: Interval) -> pa.Table:
        columns = [rows.column(f"{self.stream}.{name}") for name in self.names]
        names = [*(f"{self.alias}.{name}" for name in self.names), TS]
        rows = pa.table([*columns, rows.column(TS)], names=names)
        if self.path:
            # Rows that are late may not enter a pane that would still take them.
            rows = chosen(rows, numbers(rows, TS) >= interval.began)
        for operator in self.path:
            rows = operator.prepared(rows)
        return rows


def _codes(columns: Sequence[pa.Array], count: int) -> Int64s:
    return group_codes([unsigned_zeros(column) for column in columns], count)
