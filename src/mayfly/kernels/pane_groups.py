"""GROUP BY over panes: the members of a group are partial values that other queries read, too.

Idea: of the panes that a store keeps (pane_store.py), those with ts in (T − d, T] are the window at
a refresh T. Totals go on from one to the next by what comes and goes (incremental synopsis scan);
extremes and distinct values are played over the panes that a group has. Only results are a state.
Invariant: the answer is that of the rows. Cost: as in group_by.py, by panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.aggregate_steps import Aggregator
from mayfly.kernels.delta import ID, Delta, taken, with_numbers
from mayfly.kernels.group_by import GroupRows, GroupState
from mayfly.kernels.group_events import Events
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import CODE, RowRun, chosen, numbers, whole
from mayfly.kernels.operator import Copy, Forgetting, Holding, Moving, StateKey, Working
from mayfly.kernels.pane_aggregates import is_uncounted, pane_aggregator
from mayfly.kernels.pane_edges import period_of
from mayfly.kernels.pane_partials import GROUP, leaving
from mayfly.kernels.pane_readers import PaneReaders, ReaderState
from mayfly.kernels.pane_store import PaneRows
from mayfly.kernels.refreshes import rounded
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.expressions import Column, Expression, Literal
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.plan_text import aggregate_text
from mayfly.plan.types import BIGINT
from mayfly.plan.window_kinds import Cumulative, Range
from mayfly.storage.segment import EXP, TS

_HEAD = "_head"
"""Whether a row counts as a member, last of what is kept."""
_COUNTS = "panes that come and go together"
"""What ``_count`` of a stored group is a number of."""


@dataclass(frozen=True)
class PaneGroups(GroupRows):
    """One result per group, from the panes in a window.

    ``calls`` read columns of panes, ``weights`` are the counts beside them, and ``asked`` the
    calls of the query.
    """

    window: Range | None = None
    weights: tuple[Column | None, ...] = ()
    asked: tuple[AggregateCall, ...] = field(default=(), compare=False)
    finds_once: bool = field(default=True, compare=False)
    """Whether panes are looked for once for all queries with equal windows (CS1)."""
    scans_once: bool = field(default=True, compare=False)
    """Whether it may be answered in one pass with other windows (CS2)."""
    forwards: bool = field(default=True, compare=False)
    """Whether it may be given what a window of its length and a shorter period shows (CS8)."""
    saves_prefixes: bool = field(default=True, compare=False)
    """Whether extremes over panes of others are put together of what these have scanned (CS7)."""

    def __post_init__(self) -> None:
        made = (
            pane_aggregator(call, self._weight_of(number)) for number, call in enumerate(self.calls)
        )
        object.__setattr__(self, "_aggregators", tuple(made))

    def _weight_of(self, number: int) -> str | None:
        """The column that says for how many values the argument of a call stands."""
        if self.weights[number] is not None:
            return _weight(number)
        return _present(number) if number in self._uncounted else None

    @property
    def _uncounted(self) -> tuple[int, ...]:
        """The calls whose sums are NULL where no row has one, and come without a count."""
        return tuple(
            number
            for number, (call, weight) in enumerate(zip(self.calls, self.weights, strict=True))
            if weight is None and is_uncounted(call)
        )

    def forgets(self) -> tuple[Forgetting, ...]:
        return ()

    def state_key(self) -> StateKey:
        # What a group counts is stored: a state that counts something else has another name.
        own = (("weights", self.weights), ("window", self.window), ("counts", _COUNTS))
        return StateKey("PaneGroups", (*super().state_key().parts, *own))

    @property
    def detail(self) -> str:
        return aggregate_text(self.keys, self.asked, self.having)

    def holdings(self) -> tuple[Holding, ...]:
        return super().holdings()[1:]

    def workings(self) -> tuple[Working, ...]:
        return tuple(
            Working(aggregate_text((), [call], None), made.way.structure, made.way.why)
            for call, made in zip(self.asked, self._aggregators, strict=True)
        )

    def copy(self, side: int) -> Copy | None:
        return None

    @property
    def moving(self) -> Moving:
        return Moving.NEAR

    @property
    def reads(self) -> tuple[Range, ...]:
        return () if self.window is None else (self.window,)

    @property
    def answers_alone(self) -> bool:
        return True

    @property
    def is_covered(self) -> bool:
        """Whether panes of several predicates are combined (SS4)."""
        return False

    @property
    def is_combined(self) -> bool:
        """Whether it has extremes that are put together of what others have scanned (CS7)."""
        return False

    @property
    def apart_because(self) -> str:
        """Why it is not answered in one pass with other windows, nothing if it may be."""
        if not self.scans_once:
            return "the rule is switched off"
        if isinstance(self.window, Cumulative):
            return "all of a span goes at once"
        if self.dual or not self.calls:
            return "it has no aggregate"
        return ""

    def joint(self) -> PaneReaders | None:
        if self.apart_because:
            return None
        keys = tuple(key for key in self.keys if isinstance(key, Column))
        joined = PaneReaders.of(self.name, keys, self.calls, self.weights, self.columns.types)
        return replace(joined, forwards=self.forwards)

    @property
    def aggregators(self) -> tuple[Aggregator, ...]:
        """What computes each call."""
        return self._aggregators

    @property
    def numbers_read(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stored_name(column) for column in self._read.values()))

    @property
    def prunes(self) -> bool:
        return False

    # ── steps ─────────────────────────────────────────────────────────────────────────────

    def state(self) -> ReaderState:  # type: ignore[override]
        return ReaderState(KeptRows(replace(self.shape, structure=self._results, longest=None)))

    def step(  # type: ignore[override]
        self, state: ReaderState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[ReaderState, Delta]:
        extent = self._extent(state, inputs, interval)
        fresh, due = self._changes(extent, inputs)
        state = replace(state, next_refresh=self._next_change(extent, inputs))
        if not fresh.num_rows and not due.num_rows and (state.begun or not self.is_global):
            return state, self._output.nothing
        events = self.members.events(fresh, [due], interval)
        if self.is_global and not state.begun and not interval.is_empty:
            # Before the first row there is a result too: COUNT 0, the others NULL.
            events = events.with_versions(pa.table({CODE: [0]}), np.array([MIN_TIME]))
        if not len(events.code):
            return state, self._output.nothing
        reading = self._reading(extent, inputs, events)
        members = KeptRows(self.shape)
        if reading._lays_out:
            before = self._before(extent, inputs)
            members = KeptRows(self.shape, (RowRun.of(before),) if before.num_rows else ())
        whole = GroupState(members, state.groups, state.begun)
        groups, delta, _ = reading._replaced(whole, events, interval, {})
        return replace(state, groups=groups, begun=True), delta

    def _reading(self, extent: Extent, inputs: Sequence[Delta], events: Events) -> PaneGroups:
        """What reads the fewest values for these events."""
        return self

    @property
    def _lays_out(self) -> bool:
        """Whether it needs what the last refresh shows."""
        return any(made.way.play for made in self._aggregators)

    def _extent(self, state: ReaderState, inputs: Sequence[Delta], interval: Interval) -> Extent:
        return Extent.of(self._range, interval, begun=state.begun)

    def _changes(self, extent: Extent, inputs: Sequence[Delta]) -> tuple[pa.Table, pa.Table]:
        """The panes that come and those that go."""
        panes = _panes(inputs)
        changes = extent.shared_changes(panes) if self.finds_once else extent.changes(panes)
        fresh, due = map(self._kept, changes)
        return fresh, due

    def _before(self, extent: Extent, inputs: Sequence[Delta]) -> pa.Table:
        """The panes that the last refresh shows."""
        return self._kept(extent.before(_panes(inputs)))

    def _next_change(self, extent: Extent, inputs: Sequence[Delta]) -> int | None:
        return extent.next_change(_panes(inputs))

    @property
    def _range(self) -> Range:
        assert self.window is not None
        return self.window

    def _kept(self, rows: pa.Table) -> pa.Table:
        """What groups need of panes."""
        if not rows.num_rows:
            return self.members.none
        names = dict(zip(self.own_key(), self.keys, strict=True))
        columns = {**names, **self._read}
        arrays = {name: rows.column(stored_name(column)) for name, column in columns.items()}
        times = {TS: numbers(rows, TS), EXP: numbers(rows, EXP), ID: numbers(rows, TS)}
        table = pa.table({**arrays, **{TS: times[TS]}})
        codes = numbers(rows, GROUP)
        # Panes that come together may not go together: by their end too, they stand in a queue.
        order = stable_order(codes, times[TS], times[EXP])
        parts = [part[order] for part in (codes, times[TS], times[EXP])]
        table = taken(with_numbers(table, **times, **{CODE: codes}), order).combine_chunks()
        return with_numbers(table, **self._counted(rows, parts, order)).select(
            self.members.none.schema.names
        )

    def _counted(self, rows: pa.Table, parts: Sequence[Int64s], order: Int64s) -> dict[str, Int64s]:
        """What is counted of rows in their order; ``parts`` are code, beginning and end of each."""
        heads = self._members_at(rows, parts, order)
        counted = {_HEAD: heads}
        for number in self._uncounted:
            column = self._read[f"_argument{number}"]
            values = whole(rows.column(stored_name(column))).take(pa.array(order))
            valid = pc.is_valid(values)
            places = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
            counted[_present(number)] = np.zeros(len(order), np.int64)
            counted[_present(number)][places] = heads_of([part[places] for part in parts])
        return counted

    def _members_at(self, rows: pa.Table, parts: Sequence[Int64s], order: Int64s) -> Int64s:
        """For how many members each row stands, in their order: those that come and go together
        are one, as a store makes one of them some time."""
        return heads_of(parts)

    def presence(self, events: Events) -> Int64s:
        """How many members come or go."""
        heads: Int64s = pc.fill_null(events.values(_HEAD), 0).to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(heads)

    @property
    def _read(self) -> dict[str, Expression]:
        """What is kept of members that is kept of panes, too."""
        return {name: part for name, part in self._arguments if isinstance(part, Column)}

    @cached_property
    def _arguments(self) -> tuple[tuple[str, Expression], ...]:
        weights = (
            (_weight(n), weight) for n, weight in enumerate(self.weights) if weight is not None
        )
        present = ((_present(number), Literal(1, BIGINT)) for number in self._uncounted)
        return (*super()._arguments, *weights, *present, (_HEAD, Literal(1, BIGINT)))


def _panes(inputs: Sequence[Delta]) -> PaneRows:
    (panes,) = inputs
    assert isinstance(panes, PaneRows)
    return panes


@dataclass(frozen=True)
class Extent:
    """The instants of a step as a window sees them: ``last`` is the refresh before them, if rows
    up to there have come already."""

    window: Range
    interval: Interval
    last: int

    @staticmethod
    def of(window: Range, interval: Interval, *, begun: bool) -> Extent:
        assert window.slide is not None
        last, began = MIN_TIME, interval.began
        if begun and began > MIN_TIME + period_of(window):
            last = window.slide.at_or_before(began - 1)
        return Extent(window, interval, last)

    def shared_changes(self, panes: PaneRows) -> tuple[pa.Table, pa.Table]:
        """What changes for all queries with this window."""
        if self not in panes.windows:
            panes.windows[self] = self.changes(panes)
        return panes.windows[self]

    def changes(self, panes: PaneRows) -> tuple[pa.Table, pa.Table]:
        """The panes that come in these instants, and those that were there before and go: with
        the refreshes that first show and no longer show them."""
        began, clock = self.interval.began, self.interval.clock
        duration = self.window.duration
        fresh = self._lived(panes.between(self.floor(self.last), clock - 1))
        fresh = chosen(fresh, (numbers(fresh, TS) < clock) & (numbers(fresh, EXP) >= began))
        low = self.floor(max(self.last - duration, MIN_TIME))
        # What goes together may be younger than the window is long.
        age = 0 if isinstance(self.window, Cumulative) else duration
        due = self._lived(panes.between(low, min(clock - 1 - age, self.last)))
        ends = numbers(due, EXP)
        return fresh, chosen(due, (ends >= began) & (ends < clock))

    def before(self, panes: PaneRows) -> pa.Table:
        """The panes that the last refresh before these instants shows."""
        return self._lived(panes.between(*self.shown_before))

    @property
    def shown_before(self) -> tuple[int, int]:
        """Behind which instant, and up to which, their rows lie."""
        return self.floor(max(self.last - self.window.duration, MIN_TIME)), self.last

    def floor(self, instant: int) -> int:
        """Rows up to here are not looked at: before some instant they are not all known."""
        return max(instant, self.interval.knows_from - 1)

    def _lived(self, rows: pa.Table) -> pa.Table:
        """With the lifetimes that the window gives; without what no refresh shows."""
        ts, slide = numbers(rows, TS), self.window.slide
        start, end = rounded(ts, slide), rounded(leaving(ts, self.window), slide)
        return chosen(with_numbers(rows, **{TS: start, EXP: end}), start < end)

    def next_change(self, panes: PaneRows) -> int | None:
        """The first refresh after these instants at which a pane comes or goes."""
        slide, clock, instants = self.window.slide, self.interval.clock, []
        if slide is None or clock <= MIN_TIME + self.window.duration or clock >= NEVER:
            return None
        if isinstance(self.window, Cumulative):
            return slide.at_or_after(clock) if panes.tables else None
        for wait in (0, self.window.duration):
            # Rows up to here have come, or gone, at the last refresh that is closed.
            first = panes.first_after(slide.at_or_before(clock - 1) - wait)
            if first is not None and first < NEVER - wait - period_of(self.window):
                instants.append(slide.at_or_after(first + wait))
        return min(instants, default=None)


def stored_name(column: Expression) -> str:
    """What a column of panes is called where they are kept."""
    assert isinstance(column, Column)
    return f".{column.name}"


def heads_of(parts: Sequence[Int64s]) -> Int64s:
    """1 for the first of rows that are equal in all parts, which are sorted, 0 for the others."""
    heads = np.zeros(len(parts[0]), np.int64)
    heads[:1] = 1
    for part in parts:
        heads[1:] |= part[1:] != part[:-1]
    return heads


def _weight(number: int) -> str:
    return f"_weight{number}"


def _present(number: int) -> str:
    return f"_present{number}"
