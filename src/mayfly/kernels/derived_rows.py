"""A derived stream: the rows that enter an answer, leave it or are in it, as tuples of their own.

Idea: what Istream, Dstream or Rstream would send (outputs.py) goes on instead: each row is a tuple
whose time is the instant it is sent at, and which never expires. Windows and queries stand on it
as on any stream. Invariant: the tuples depend on the answers at the instants alone, never on how
steps were cut; they come in the order (ts, values), by the clock of the query, so none is late.
Cost: that of the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import group_codes
from mayfly.kernels.delta import ID, LIFE, SEEN, Delta, concatenated, mixed_ids, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.kernels.operator import Alone, Holding, Key, StateKey, plain_key
from mayfly.kernels.outputs import Sending, Sent, seen
from mayfly.kernels.refreshes import listed, repeated
from mayfly.kernels.room import touch
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.expressions import Expression
from mayfly.plan.logical_operators import OutputKind
from mayfly.plan.spread import Spread
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class DerivedState:
    """What the operator keeps of the answer, and when the answer had its first row."""

    answer: KeptRows
    path: pa.Table | None = None
    last: pa.Table | None = None
    first: int | None = None
    next_refresh: int | None = None
    """Of Rstream with SLIDE: when it sends the answer again."""

    @property
    def rows(self) -> int:
        return self.answer.rows + (self.path.num_rows if self.path is not None else 0)

    @property
    def bytes(self) -> int:
        return self.answer.bytes + (self.path.nbytes if self.path is not None else 0)


@dataclass(frozen=True)
class DerivedRows(Alone):
    """The tuples of a derived stream; ``keys`` are the columns of the answer."""

    name: str
    sent: Sent
    keys: tuple[Expression, ...]
    dual: bool = False

    def state(self) -> DerivedState:
        return DerivedState(KeptRows(self.sent.shape))

    def state_key(self) -> StateKey:
        return StateKey(
            "DerivedRows",
            (
                ("kind", self.sent.kind.value),
                ("columns", self.sent.columns),
                ("shape", self.sent.shape),
                ("slide", self.sent.slide),
                ("restore", self.sent.restore),
                ("dual", self.dual),
            ),
        )

    @property
    def title(self) -> str:
        return "Derived stream"

    @property
    def detail(self) -> str:
        return f"{self.sent.kind.value}{'-restore' if self.sent.restore else ''}"

    @property
    def reason(self) -> str:
        if self.keyed:
            return "equal rows that come and go at one instant meet"
        return "the whole answer is sent at once"

    def holdings(self) -> tuple[Holding, ...]:
        return self.sent.holdings()

    @property
    def keyed(self) -> bool:
        return self.sent.kind is not OutputKind.RSTREAM and not self.sent.restore

    def key_of(self, side: int = 0) -> Key:
        return plain_key(self.keys, [key.type for key in self.keys])

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return Spread.by(self.own_key()) if kept[0] is None else kept[0]

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return self._codes(rows) if self.keyed else None

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self.sent.stored_codes(part, rows) if part == "answer" else None

    def _codes(self, rows: pa.Table) -> Int64s:
        columns = [whole(rows.column(name)) for name in self.sent.columns.names]
        return group_codes(columns, rows.num_rows)

    def step(
        self, state: DerivedState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[DerivedState, Delta]:
        delta = seen(inputs[0])
        first = state.first
        began = numbers(delta.born, TS)
        if first is None and (began > MIN_TIME).any():
            first = int(began[began > MIN_TIME].min())
        before = Sending(state.answer, state.path, state.last)
        after, rows = self.sent.step(before, delta, interval, first)
        touch(rows.num_rows)
        kept = DerivedState(
            after.answer, after.path, after.last, first, self._next_refresh(first, interval)
        )
        return kept, Delta(self._tuples(rows, interval), self._nothing.cut)

    def _next_refresh(self, first: int | None, interval: Interval) -> int | None:
        slide = self.sent.slide
        if slide is None or not slide.period or first is None:
            return None
        return slide.at_or_after(max(first, interval.clock))

    @property
    def _nothing(self) -> Delta:
        return Delta.empty(self.sent.columns, dual=self.dual)

    def _tuples(self, rows: pa.Table, interval: Interval) -> pa.Table:
        """What is sent, each time as a tuple that stays."""
        nothing = self._nothing.born
        if not rows.num_rows:
            return nothing
        if self.sent.is_periodic and self.sent.slide is not None:
            refreshes = self.sent._refreshes(int(numbers(rows, TS).min()), interval)
            listed(refreshes, self.name)
            parts = repeated(rows, self.sent.slide, interval.began, interval.clock)
            rows = concatenated([rows.slice(0, 0), *parts])
        size, ts, code = rows.num_rows, numbers(rows, TS), self._codes(rows)
        order = stable_order(code, ts)
        same = np.zeros(size, bool)
        same[1:] = (code[order[1:]] == code[order[:-1]]) & (ts[order[1:]] == ts[order[:-1]])
        starts = np.maximum.accumulate(np.where(same, 0, np.arange(size)))
        copy = np.empty(size, np.int64)
        copy[order] = np.arange(size) - starts
        life = {EXP: np.full(size, NEVER), ID: mixed_ids(mixed_ids(code, ts), copy)}
        if self.dual:
            life[SEEN] = np.full(size, NEVER)
        names = [*self.sent.columns.names, *LIFE, *((SEEN,) if self.dual else ())]
        return with_numbers(rows, **life).select(names)
