"""Panes of rows: one state for windows over the n latest rows, for any n (n-of-N).

Idea: the rows of a stream are numbered in its order as they are admitted, before any is left out,
and numbers take the place of time: [ROWS n SLIDE m ROWS] shows the rows (u − n, u] at every
multiple u of m. A row per group and pane is kept (pane_store.py), cut at the edges u and u − n of
all windows, and dropped when the longest window has left it. What comes and goes at a number does
so at the instant of the row that has it. Invariant: answers are those of the rows.
Cost: a sort per step of what came and of what is kept: groups times panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.display import counted
from mayfly.kernels.delta import Delta, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import RowRun, chosen, gathered, numbers
from mayfly.kernels.operator import Holding, Key, Lying, Moving, Operator, StateKey
from mayfly.kernels.pane_edges import period_of
from mayfly.kernels.pane_groups import Extent, PaneGroups
from mayfly.kernels.pane_partials import GROUP
from mayfly.kernels.pane_readers import PaneReaders, ReaderState
from mayfly.kernels.pane_store import PaneRows, PaneStore
from mayfly.kernels.stateless import SelectRows
from mayfly.kernels.window_assignment import WindowRows, WindowState
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.expressions import conjunction
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.window_kinds import Range, RowsWindow, Slide, Window
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class RowPaneState(WindowState):
    """Rows that wait for their instant; ``held`` are the panes, by the number of their last row,
    and ``count`` is how many rows there were."""

    count: int = 0

    def begun_beside(self) -> RowPaneState:
        """That of other panes of the stream, which begin now and number rows as these do."""
        waiting = (RowRun.of(run.load(), level=run.level) for run in self.waiting)
        return replace(self, held=None, waiting=tuple(waiting))


@dataclass(frozen=True, slots=True)
class RowPanes(PaneRows):
    """Panes by number, and the numbers and instants of the rows that this step has admitted."""

    span: Interval = field(default_factory=Interval)
    instants: Int64s | None = None

    def when(self, places: Int64s, began: int) -> Int64s:
        """The instants of numbers: what was before is so when the step begins."""
        assert self.instants is not None
        instants = np.concatenate([[began], self.instants, [NEVER]])
        chosen_instants: Int64s = instants[
            np.clip(places - self.span.began + 1, 0, len(instants) - 1)
        ]
        return chosen_instants


@dataclass(frozen=True)
class RowPaneStore(PaneStore):
    """The panes of some windows over the latest rows of a stream.

    ``admission`` puts the rows of the stream in order; ``windows`` count rows in the place of µs.
    """

    admission: WindowRows | None = None

    @property
    def admitting(self) -> WindowRows:
        assert self.admission is not None
        return self.admission

    def state_key(self) -> StateKey:
        order = ("admission", self.admitting.state_key())
        return StateKey("RowPaneStore", (*super().state_key().parts, order))

    # ── what it is ────────────────────────────────────────────────────────────────────────

    @property
    def detail(self) -> str:
        return ", ".join(rows_window(window).cql() for window in self.windows)

    @property
    def reason(self) -> str:
        return self.admitting.reason

    def holdings(self) -> tuple[Holding, ...]:
        holds = f"synopsis of {' and '.join(map(_pane_words, self.windows))}"
        why = (
            "n-of-N: a row per group and pane of rows, dropped with the pane; "
            "no row of the stream is kept"
        )
        return (Holding("held", Structure.FIFO, holds, 0, self.key_words(), why),)

    @property
    def opens(self) -> Window:  # type: ignore[override]
        return self.admitting.window

    @property
    def quiet(self) -> bool:
        return False

    @property
    def numbers_rows(self) -> bool:
        return True

    @property
    def intake(self) -> tuple[Operator, ...]:
        return ()

    def no_input(self) -> pa.Table:
        return self.admitting.no_input()

    # ── where rows have to be ─────────────────────────────────────────────────────────────

    @property
    def moving(self) -> Moving:
        return Moving.COUNTED

    @property
    def keyed(self) -> bool:
        return False

    def key_of(self, side: int = 0) -> Key:
        return ()

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return Spread()

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return None

    @property
    def lying(self) -> Lying:
        return Lying.AS_ARRIVED

    def without_admitted(self, state: RowPaneState, clock: int) -> RowPaneState:
        rest = self.admitting.without_admitted(state, clock)
        assert isinstance(rest, RowPaneState)
        return rest

    def late(self, state: RowPaneState) -> int:
        return state.late

    # ── steps ─────────────────────────────────────────────────────────────────────────────

    def state(self) -> RowPaneState:  # type: ignore[override]
        return RowPaneState()

    def standing(self, state: RowPaneState) -> RowPanes:  # type: ignore[override]
        held = self._held(state)
        return self._panes([held], state.count, np.empty(0, np.int64))

    def step(  # type: ignore[override]
        self, state: RowPaneState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[RowPaneState, RowPanes]:
        """Rows of instants that are closed now are numbered, and those that count go to panes."""
        admitted, rows = self.admitting.admit(state, inputs[0].born, interval)
        assert isinstance(admitted, RowPaneState)
        instants, held = numbers(rows, TS), self._held(state)
        places = np.arange(state.count, state.count + len(instants)) + 1
        fresh = self._fresh(with_numbers(rows, **{TS: places}))
        panes = self._panes([held, fresh], state.count, instants)
        last = state.count + len(instants)
        if len(instants):
            both = gathered([held, fresh], TS)
            held = self._merging(last + 1)(chosen(both, numbers(both, TS) + self._keep > last))
        return replace(admitted, held=held.combine_chunks(), count=last), panes

    def _fresh(self, rows: pa.Table) -> pa.Table:
        where = conjunction(self.conditions)
        if where is not None:
            rows = SelectRows(self.name, where).prepared(rows)
        merged = self.partials.prepared(rows)
        merged = with_numbers(merged, **{GROUP: self._codes(merged)})
        return gathered([merged.select(self._schema.names)], TS)

    def _held(self, state: RowPaneState) -> pa.Table:
        """With the numbers that the readers of now ask for."""
        none = self.nothing_stored
        if state.held is None:
            return none
        table = state.held
        arrays = [
            table.column(name) if name in table.schema.names else pa.nulls(table.num_rows, kind)
            for name, kind in zip(none.schema.names, none.schema.types, strict=True)
        ]
        return pa.table(arrays, schema=none.schema)

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([*self.columns, (GROUP, pa.int64()), (TS, pa.int64())])

    def _panes(self, tables: Sequence[pa.Table], count: int, instants: Int64s) -> RowPanes:
        nothing = self.nothing_stored
        span = Interval(count + 1, count + 1 + len(instants))
        some = tuple(table for table in tables if table.num_rows)
        return RowPanes(nothing, nothing, some, span=span, instants=instants)


@dataclass(frozen=True)
class RowPaneGroups(PaneGroups):
    """One result per group, from the panes of the latest rows."""

    def state_key(self) -> StateKey:
        return StateKey("RowPaneGroups", super().state_key().parts)

    @property
    def reads(self) -> tuple[Range, ...]:
        return ()  # its window does not look back by time

    @property
    def reads_rows(self) -> RowsWindow | None:
        return rows_window(self._range)

    @property
    def answers_alone(self) -> bool:
        return False

    def joint(self) -> PaneReaders | None:
        return None

    def _extent(self, state: ReaderState, inputs: Sequence[Delta], interval: Interval) -> Extent:
        """Who has not begun is shown what the last refresh before these rows shows, too."""
        span = replace(_panes(inputs).span, knows_from=interval.knows_from)
        return RowExtent.over(Extent.of(self._range, span, begun=state.begun), interval.began)

    def _changes(self, extent: Extent, inputs: Sequence[Delta]) -> tuple[pa.Table, pa.Table]:
        fresh, due = super()._changes(extent, inputs)
        fresh = self._timed(fresh, extent, inputs)
        due = self._timed(due, extent, inputs)
        return chosen(fresh, numbers(fresh, TS) < numbers(fresh, EXP)), due

    def _before(self, extent: Extent, inputs: Sequence[Delta]) -> pa.Table:
        return self._timed(super()._before(extent, inputs), extent, inputs)

    def _next_change(self, extent: Extent, inputs: Sequence[Delta]) -> int | None:
        return None

    def _timed(self, rows: pa.Table, extent: Extent, inputs: Sequence[Delta]) -> pa.Table:
        """Under instants in the place of numbers."""
        assert isinstance(extent, RowExtent)
        panes = _panes(inputs)
        times = {name: panes.when(numbers(rows, name), extent.instant) for name in (TS, EXP)}
        return with_numbers(rows, **times)


@dataclass(frozen=True)
class RowExtent(Extent):
    """The numbers of a step as a window sees them, and the ``instant`` at which it begins."""

    instant: int = MIN_TIME

    @staticmethod
    def over(extent: Extent, instant: int) -> RowExtent:
        return RowExtent(extent.window, extent.interval, extent.last, instant)


def rows_window(window: Range) -> RowsWindow:
    """What a window over numbers is over rows."""
    return RowsWindow(count=window.duration, slide=Slide(rows=period_of(window)))


def numbered_window(window: RowsWindow) -> Range:
    """What a window over rows is over their numbers."""
    assert window.slide is not None
    return Range(duration=window.count, slide=Slide(period=window.slide.rows))


def _pane_words(window: Range) -> str:
    """How many panes a window has, and how many rows these."""
    period = period_of(window)
    count, rest = divmod(window.duration, period)
    if not rest:
        return f"{counted(count, 'pane')} of {counted(period, 'row')}"
    first, second = sorted((rest, period - rest))
    lengths = f"{first} and {second}" if first < second else f"{first}"
    return f"{2 * count + 1} panes of {lengths} rows"


def _panes(inputs: Sequence[Delta]) -> RowPanes:
    (panes,) = inputs
    assert isinstance(panes, RowPanes)
    return panes
