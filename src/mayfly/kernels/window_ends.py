"""Finished windows: what is alive at the last instant of each, then given once and for all.

Idea: periodic windows ``[start, end)`` are looked at by the refreshes ``end - 1 µs`` of a window
with SLIDE, so a row that is alive at several is in several windows, and is copied only here. Below
may be rows of a stream, or groups of panes: then one row per group and window is all there is.
Invariant: what comes out at a refresh is what the input holds there, whatever steps were cut; a
window without rows gives none. Cost: O(rows that are alive) per refresh, nothing between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import ID, LIFE, Delta, concatenated, mixed_ids, taken, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.lifetime_rows import CODE, chosen, clustered, numbers
from mayfly.kernels.operator import Alone, Holding, Lying, Moving, Operator, StateKey
from mayfly.kernels.room import require_room
from mayfly.kernels.stateless import Nothing
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.finished_windows import PeriodicWindows
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.storage.segment import EXP, TS


def with_bounds(rows: pa.Table, columns: pa.Schema, start: Int64s, end: Int64s) -> pa.Table:
    """Rows with the last two of their columns: where their window starts and ends."""
    *own, first, second = columns
    arrays = [*(rows.column(part.name) for part in own)]
    arrays += [pa.array(start).cast(first.type), pa.array(end).cast(second.type)]
    lives = [rows.column(name) for name in LIFE]
    return pa.table([*arrays, *lives], names=[*columns.names, *LIFE])


@dataclass(frozen=True, slots=True)
class WindowEndState:
    """The rows that are alive at the next refresh, under their identity."""

    alive: KeptRows = field(default_factory=lambda: KeptRows(Shape(Structure.HASH)))
    next_refresh: int | None = None

    @property
    def rows(self) -> int:
        return self.alive.rows

    @property
    def bytes(self) -> int:
        return self.alive.bytes


@dataclass(frozen=True, slots=True)
class WindowEnds(Alone):
    """The rows of each window at its last instant; ``columns`` end with its start and its end."""

    name: str
    windows: PeriodicWindows
    columns: pa.Schema
    copies_rows: bool = field(default=False, compare=False)
    """Whether these are rows of a stream, and not groups of them."""

    def state(self) -> WindowEndState:
        return WindowEndState()

    def state_key(self) -> StateKey:
        return StateKey("WindowEnds", (("windows", self.windows), ("columns", self.columns)))

    @property
    def title(self) -> str:
        return "Windows"

    @property
    def detail(self) -> str:
        return self.windows.cql()

    def holdings(self) -> tuple[Holding, ...]:
        reason = "a group has one row in each window"
        if self.copies_rows:
            reason = (
                "a row is copied into each of its windows: what is above is not a grouping, or "
                "reads their bounds beside other columns"
            )
        return (Holding("alive", Structure.HASH, "what open windows show", 0, (), reason),)

    @property
    def moving(self) -> Moving:
        return Moving.NEAR

    @property
    def lying(self) -> Lying:
        return Lying.BESIDE_INPUT

    @property
    def lies_by_columns(self) -> bool:
        return True

    def place(self, spread: Spread | None) -> tuple[str, ...]:
        return () if spread is None else spread.within(self.columns.names)

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return kept[0] or Spread()

    def step(
        self, state: WindowEndState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[WindowEndState, Delta]:
        born, cut = inputs[0].born, inputs[0].cut
        if not inputs[0].rows and not state.alive.runs:
            return state, Delta.empty(self.columns)
        alive = state.alive.cut(self._coded(cut)) if cut.num_rows else state.alive
        nothing = Delta.empty(self.columns)
        result = nothing.born
        if not interval.is_empty and self._next(interval.began) < interval.clock:
            tables = [*(run.load() for run in alive.runs), born]
            result = concatenated([result, *(self._copies(rows, interval) for rows in tables)])
        lasting = chosen(born, numbers(born, EXP) > self._next(interval.clock))
        if alive.runs or lasting.num_rows:
            alive = alive.after(self._coded(lasting), interval.clock - 1)
        following = self._next(interval.clock) if alive.runs else None
        return replace(state, alive=alive, next_refresh=following), Delta(result, nothing.cut)

    def _coded(self, rows: pa.Table) -> pa.Table:
        coded = with_numbers(rows, **{CODE: numbers(rows, ID)})
        return clustered(coded) if rows.num_rows else coded

    def _next(self, instant: int) -> int:
        """The next refresh, or the instant itself."""
        near = MIN_TIME + self.windows.period < instant < NEVER - self.windows.period
        return self.windows.slide.at_or_after(instant) if near else instant

    def _copies(self, rows: pa.Table, interval: Interval) -> pa.Table:
        """The rows once for each refresh of these instants at which they are alive."""
        period, slide = self.windows.period, self.windows.slide
        since = np.maximum(numbers(rows, TS), interval.began)
        until = np.minimum(numbers(rows, EXP), interval.clock)
        first = since + (slide.origin - since) % period
        times = np.maximum(-((first - until) // period), 0)
        total = int(times.sum())
        require_room(
            total * (rows.nbytes // max(1, rows.num_rows) + 1),
            f"{self.windows.cql()}: {total:,} rows of finished windows",
            "use longer windows, smaller batches, or a larger max_state_bytes",
        )
        places = np.repeat(np.arange(len(times)), times)
        number = np.arange(total) - np.repeat(np.cumsum(times) - times, times)
        last = first[places] + number * period
        copies = taken(rows, places)
        ids = mixed_ids(numbers(copies, ID), last)
        copies = with_numbers(copies, **{TS: last, EXP: last + 1, ID: ids})
        return with_bounds(copies, self.columns, self._starts(last), last + 1)

    def _starts(self, last: Int64s) -> Int64s:
        """Where the windows start whose last instants these are."""
        windows = self.windows
        if not windows.cumulative:
            return last + 1 - windows.size
        return last - (last - windows.offset) % windows.size


@dataclass(frozen=True, slots=True)
class FinishedRows(Operator):
    """The answer of each finished window, kept for ever: what ends with the window is not told."""

    name: str
    columns: pa.Schema

    def state(self) -> Nothing:
        return Nothing()

    def state_key(self) -> StateKey:
        return StateKey("FinishedRows", (("columns", self.columns),))

    @property
    def title(self) -> str:
        return "Finished windows"

    @property
    def moving(self) -> Moving:
        return Moving.NEAR

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return kept[0] or Spread()

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        born = inputs[0].born
        lasting = with_numbers(born, **{EXP: np.full(born.num_rows, NEVER)})
        return state, Delta(lasting, inputs[0].cut.slice(0, 0))
