"""Values of join results by when they come and leave: BIJ, also for windows of different lengths.

Idea (thesis 2.3.4, 8.3.2; spec/periodic 3): a result leaves with the first of its members. Results
of one group whose members lie in the same panes become one row of partial values, with the pane of
each member. Once all readers have shown a result, only the pane that leaves first matters, and of
the other one how far it is behind, up to the largest difference g of two windows of a reader: so
b(1 + 2g) rows are left for b panes, b where windows are equal. Of three inputs and more the oldest
and the youngest member are kept, and windows are equal.
Invariants: a row lives as each of its results does, in every reader's windows; no result is kept.
Cost: a sort per step; a row is written O(log batches) times; a reader looks at all that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.codes import group_codes
from mayfly.kernels.delta import ID, Delta, column_name, concatenated, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import chosen, gathered, numbers, whole
from mayfly.kernels.operator import Alone, Holding, Key, Moving, Operator, StateKey
from mayfly.kernels.pane_edges import edges, next_edges, period_of
from mayfly.kernels.pane_partials import GROUP, PaneNumber, PanePartials, later, partials_text
from mayfly.kernels.pane_store import PaneRows, PaneState, pane_words
from mayfly.kernels.refreshes import rounded
from mayfly.kernels.stateless import Nothing
from mayfly.kernels.upkeep import by_time
from mayfly.lifetime import NEVER, format_micros
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.plan_text import expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.types import BIGINT
from mayfly.plan.window_kinds import Range, Slide
from mayfly.storage.segment import EXP, TS

SIDES = (Column("", "pane 1", BIGINT), Column("", "pane 2", BIGINT))
"""Where the panes of the members end: of both inputs, or of the oldest and the youngest one."""
Panes = tuple[Int64s, Int64s]


def panes_of(rows: pa.Table) -> Panes:
    first, second = (numbers(rows, column_name(side)) for side in SIDES)
    return first, second


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """The windows of a query over the inputs of a join: one slide, perhaps two lengths."""

    first: Range
    second: Range

    @property
    def slide(self) -> Slide:
        assert self.first.slide is not None
        return self.first.slide

    @property
    def both(self) -> tuple[Range, Range]:
        return self.first, self.second

    @property
    def reach(self) -> int:
        """How long a member may be needed: until the refresh that no longer shows it."""
        longest = max(window.duration for window in self.both)
        return min(longest + period_of(self.first), NEVER)

    def lives(self, panes: Panes) -> Panes:
        """The refresh that first shows a result, and the first that no longer does."""
        ends = [
            rounded(later(ts, window.duration), self.slide)
            for ts, window in zip(panes, self.both, strict=True)
        ]
        return rounded(np.maximum(*panes), self.slide), np.minimum(*ends)

    def words(self) -> str:
        if self.first == self.second:
            return self.first.cql()
        return " and ".join(window.cql() for window in self.both)


def leads(windows: Sequence[JoinWindows]) -> tuple[int, int]:
    """By how much the first window is the longer one, at most, and by how much the second."""
    differences = [w.first.duration - w.second.duration for w in windows]
    return max(0, *differences), max(0, *(-d for d in differences))


@dataclass(frozen=True, slots=True)
class PairPartials(Operator):
    """Results of a join merged by group and panes, on their way to what keeps these.

    ``times`` are the members' times, ``keys`` tell groups apart and ``values`` results of the same
    panes; ``columns`` are keys, values, panes and what ``contents`` make.
    """

    name: str
    windows: tuple[JoinWindows, ...]
    times: tuple[Column, ...]
    keys: tuple[Expression, ...]
    values: tuple[Expression, ...]
    contents: tuple[PaneNumber, ...]
    columns: pa.Schema

    def state(self) -> Nothing:
        return Nothing()

    def state_key(self) -> StateKey:
        return StateKey(
            "PairPartials",
            (
                ("windows", tuple(pair.both for pair in self.windows)),
                ("times", self.times),
                ("keys", self.keys),
                ("values", self.values),
                ("contents", self.contents),
                ("columns", self.columns),
            ),
        )

    @property
    def title(self) -> str:
        return "Panes"

    @property
    def detail(self) -> str:
        return partials_text(self.contents, self.values, self.keys, "expiration")

    @property
    def moving(self) -> Moving:
        return Moving.NEAR

    def needs(self, names: frozenset[str]) -> frozenset[str] | None:
        arguments = (n.argument for n in self.contents if n.argument is not None)
        used = (*self.times, *self.keys, *self.values, *arguments)
        return frozenset(column_name(column) for part in used for column in part.columns())

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        plain = [
            (column_name(key), name)
            for key, name in zip(self.keys, self.columns.names, strict=False)
            if isinstance(key, Column)
        ]
        return (kept[0] or Spread()).renamed(plain)

    @property
    def merging(self) -> PanePartials:
        """What makes one row of those with equal groups, values and panes."""
        return PanePartials(
            self.name, (), self.keys, (*self.values, *SIDES), self.contents, self.columns
        )

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        return state, self.merged(inputs[0].born)

    def merged(self, rows: pa.Table) -> Delta:
        """The partial values of some results."""
        nothing = Delta.empty(self.columns)
        times = self._times(rows)
        shown = np.logical_or.reduce([np.less(*pair.lives(times)) for pair in self.windows])
        if not shown.all():
            rows = chosen(rows, shown)
            times = (times[0][shown], times[1][shown])
        if not rows.num_rows:
            return nothing
        cut = [
            next_edges(ts, edges(pair.both[side] for pair in self.windows))
            for side, ts in enumerate(times)
        ]
        placed = with_numbers(rows, **dict(zip(map(column_name, SIDES), cut, strict=True)))
        merged = self.merging.merged(placed, np.maximum(*cut))
        merged = with_numbers(merged, **{ID: numbers(merged, TS)})
        return Delta(merged.select(nothing.born.schema.names), nothing.cut)

    def _times(self, rows: pa.Table) -> Panes:
        """When the members came that decide when a result leaves."""
        times = [
            numbers(pa.table({"": rows.column(column_name(c)).cast(pa.int64())}), "")
            for c in self.times
        ]
        if len(times) == 2:
            return times[0], times[1]
        return reduce(np.minimum, times), reduce(np.maximum, times)


@dataclass(frozen=True, slots=True)
class JoinPaneRows(PaneRows):
    """What readers see: all values that are kept, also those that leave in this step."""

    def scanned(self, once: bool) -> tuple[pa.Table, Panes]:
        """All rows with their panes; ``once`` for all readers of a step (CS5)."""
        if once and "" in self.windows:
            rows, _ = self.windows[""]
        else:
            rows = concatenated([self.born, *self.tables]).combine_chunks()
        if once:
            self.windows[""] = rows, rows
        return rows, panes_of(rows)


@dataclass(frozen=True)
class JoinPaneStore(Alone):
    """Values of join results by group and panes: what several queries over a join read."""

    name: str
    partials: PairPartials

    def state_key(self) -> StateKey:
        # What it keeps is told by what it is made of: that is its input.
        return StateKey("JoinPaneStore", (("columns", self.partials.columns),))

    @property
    def windows(self) -> tuple[JoinWindows, ...]:
        return self.partials.windows

    # ── what it is ────────────────────────────────────────────────────────────────────────

    @property
    def title(self) -> str:
        return "Window"

    @property
    def detail(self) -> str:
        return ", ".join(pair.words() for pair in self.windows)

    @property
    def reason(self) -> str:
        return "a group lies in one bucket" if self.partials.keys else "one value over all rows"

    def holdings(self) -> tuple[Holding, ...]:
        first, second = leads(self.windows)
        spread = "" if not first and not second else (
            f", generalized for windows that differ by up to {format_micros(max(first, second))}"
        )  # fmt: skip
        lengths = dict.fromkeys(pane_words(w) for pair in self.windows for w in pair.both)
        why = (
            "BIJ: a row per group and expiration, dropped with it; no result of the join is kept; "
            "what can be subtracted goes on from the last answer by what came and what left, so RJ "
            "would read no less"
        )
        holds = f"join synopsis of {' and '.join(lengths)}{spread}"
        return (Holding("panes", Structure.FIFO, holds, 0, self.key_words(), why),)

    @property
    def quiet(self) -> bool:
        return True

    # ── where rows have to be ─────────────────────────────────────────────────────────────

    @property
    def keyed(self) -> bool:
        return bool(self.partials.keys)

    def key_of(self, side: int = 0) -> Key:
        return tuple(self.partials.columns.names[: len(self.partials.keys)])

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return tuple(map(expression_text, self.partials.keys))

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return kept[0] or Spread.by(self.key_of())

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return self._codes(rows) if self.keyed else None

    def _codes(self, rows: pa.Table) -> Int64s:
        names = [name for name in self.key_of() if name]
        return group_codes([whole(rows.column(name)) for name in names], rows.num_rows)

    # ── steps ─────────────────────────────────────────────────────────────────────────────

    def state(self) -> PaneState:
        return PaneState()

    def step(
        self, state: PaneState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[PaneState, JoinPaneRows]:
        """Readers see what came before panes are merged of which they have seen the beginning."""
        fresh = self._stored(inputs[0].born)
        shown = self._shown([*(run.load() for run in state.panes), fresh])
        merging = _Settling(self.partials, self.windows, interval.clock)
        after = by_time(state.panes, merging(fresh), interval.clock, self._keep, merging)
        return PaneState(after), shown

    def standing(self, state: PaneState) -> JoinPaneRows:
        return self._shown([run.load() for run in state.panes])

    def together(self, deltas: Sequence[Delta]) -> JoinPaneRows:
        parts = [delta for delta in deltas if isinstance(delta, PaneRows)]
        return self._shown([table for part in parts for table in part.tables])

    def _shown(self, tables: Sequence[pa.Table]) -> JoinPaneRows:
        nothing = self._schema.empty_table()
        return JoinPaneRows(nothing, nothing, tuple(table for table in tables if table.num_rows))

    @cached_property
    def _schema(self) -> pa.Schema:
        own = ((name, pa.int64()) for name in (GROUP, TS, EXP))
        return pa.schema([*self.partials.columns, *own])

    @cached_property
    def _keep(self) -> int:
        return max(pair.reach for pair in self.windows)

    def _stored(self, rows: pa.Table) -> pa.Table:
        """New rows as they are kept: until the last reader has seen them leave, at an instant
        that a step may begin with."""
        panes = panes_of(rows)
        ends = np.maximum.reduce([pair.lives(panes)[1] for pair in self.windows])
        own = {GROUP: self._codes(rows), TS: np.minimum(*panes), EXP: later(ends, 1)}
        rows = with_numbers(rows, **own)
        return gathered([rows.select(self._schema.names)], TS)


@dataclass(frozen=True)
class _Settling:
    """Rows made one that come and go together from now on."""

    partials: PairPartials
    windows: tuple[JoinWindows, ...]
    clock: int

    def __call__(self, rows: pa.Table) -> pa.Table:
        if rows.num_rows < 2:
            return rows
        panes = panes_of(rows)
        starts = [pair.lives(panes)[0] for pair in self.windows]
        settled = np.maximum.reduce(starts) < self.clock
        # What is younger by more than windows differ leaves with the older member anyhow.
        first, second = panes
        lead, other = leads(self.windows)
        first, second = (
            np.where(settled, np.minimum(first, later(second, other)), first),
            np.where(settled, np.minimum(second, later(first, lead)), second),
        )
        clipped = with_numbers(
            rows, **dict(zip(map(column_name, SIDES), (first, second), strict=True))
        )
        merged = self.partials.merging.again.merged(clipped, np.maximum(first, second))
        order = np.argsort(numbers(merged, TS), kind="stable")
        return merged.select(rows.schema.names).take(pa.array(order)).combine_chunks()
