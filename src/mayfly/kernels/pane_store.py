"""Panes of a stream that several queries read: one state, whatever their windows and functions.

Idea: a basic interval synopsis (thesis 2.3.4), a row per group and pane, in runs sorted by time.
Queries with the same stream, WHERE and GROUP BY read it, each by its own window (pane_groups.py);
panes are cut at the edges in use, and what is older than a query's window no longer at its edges.
Invariants: rows of a pane are on one side of every edge that a reader still needs; a row is kept
until the longest window has left it. A state is known by what is grouped, not by who reads it.
Cost: a row is written O(log batches) times; a reader finds its rows by binary search in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.display import counted
from mayfly.kernels.codes import group_codes
from mayfly.kernels.delta import Delta, concatenated, taken, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import RowRun, chosen, gathered, numbers, whole
from mayfly.kernels.operator import Alone, Holding, Key, Moving, Operator, StateKey
from mayfly.kernels.pane_edges import edges, next_edges, period_of, reach_of
from mayfly.kernels.pane_partials import GROUP, PaneNumber, PanePartials, later
from mayfly.kernels.pane_stretches import Scan
from mayfly.kernels.stateless import SelectRows
from mayfly.kernels.upkeep import by_time
from mayfly.lifetime import MIN_TIME, NEVER, format_micros
from mayfly.plan.expressions import Expression, conjunction
from mayfly.plan.plan_text import expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.window_kinds import Range, Unbounded
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class PaneState:
    """The panes of a bucket, in runs sorted by time; of a join, by the pane that came first."""

    panes: tuple[RowRun, ...] = ()

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.panes)

    @property
    def bytes(self) -> int:
        return sum(run.bytes for run in self.panes)


@dataclass(frozen=True, slots=True)
class PaneRows(Delta):
    """What readers see of the panes: all that are kept, also those that leave in this step."""

    tables: tuple[pa.Table, ...] = ()
    """Sorted by time, each."""
    windows: dict[object, tuple[pa.Table, pa.Table]] = field(default_factory=dict, compare=False)
    """What readers with equal windows have taken (CS1)."""
    scans: list[Scan] = field(default_factory=list, compare=False)
    """What readers have scanned, for others that read the same (CS7)."""

    def between(self, low: int, high: int) -> pa.Table:
        """The rows with low < ts <= high."""
        return concatenated([self.born, *self._slices(low, high)])

    def _slices(self, low: int, high: int) -> list[pa.Table]:
        if high <= low:
            return []
        slices = []
        for table in self.tables:
            first, last = np.searchsorted(numbers(table, TS), [low, high], side="right")
            if last > first:
                slices.append(table.slice(first, last - first))
        return slices

    def count_between(self, low: int, high: int) -> int:
        """How many rows have low < ts <= high."""
        return sum(part.num_rows for part in self._slices(low, high))

    def of_groups(self, codes: Int64s, low: int, high: int) -> pa.Table:
        """The rows of some groups with low < ts <= high."""
        parts = self._slices(low, high)
        chosen_parts = [chosen(part, np.isin(numbers(part, GROUP), codes)) for part in parts]
        return concatenated([self.born, *chosen_parts])

    def firsts_after(self, instants: Int64s) -> Int64s:
        """The time of the first row behind each instant; NEVER where there is none."""
        firsts = np.full(len(instants), NEVER, np.int64)
        for table in self.tables:
            times = np.append(numbers(table, TS), NEVER)
            firsts = np.minimum(firsts, times[np.searchsorted(times, instants, side="right")])
        return firsts

    def first_after(self, instant: int) -> int | None:
        """The time of the first row behind an instant."""
        times = (numbers(table, TS) for table in self.tables)
        following = (ts[np.searchsorted(ts, instant, side="right") :][:1] for ts in times)
        return min((int(ts[0]) for ts in following if len(ts)), default=None)


@dataclass(frozen=True)
class PaneStore(Alone):
    """The panes of some windows over a stream, by group: what several queries read.

    ``conditions`` say which rows count, ``keys`` tell groups apart and ``values`` rows of one pane;
    ``alone`` is the query that has them for itself, if they are not to be shared.
    """

    name: str
    stream: str
    conditions: tuple[Expression, ...]
    keys: tuple[Expression, ...]
    values: tuple[Expression, ...]
    contents: tuple[PaneNumber, ...]
    windows: tuple[Range, ...]
    key_columns: pa.Schema
    """Of keys and values."""
    alone: str = ""

    def state_key(self) -> StateKey:
        return StateKey(
            "PaneStore",
            (
                ("stream", self.stream),
                ("conditions", self.conditions),
                ("keys", self.keys),
                ("values", self.values),
                ("key_columns", self.key_columns),
                ("alone", self.alone),
            ),
        )

    @property
    def is_standing(self) -> bool:
        return True

    def united(self, other: Any) -> PaneStore:
        """With the windows and contents of another store of the same panes."""
        contents = {number.column.name: number for number in (*self.contents, *other.contents)}
        windows = dict.fromkeys((*self.windows, *other.windows))
        return replace(self, contents=tuple(contents.values()), windows=tuple(windows))

    # ── what it is ────────────────────────────────────────────────────────────────────────

    @property
    def title(self) -> str:
        return "Window"

    @property
    def detail(self) -> str:
        return ", ".join(window.cql() for window in self.windows)

    @property
    def reason(self) -> str:
        return "a group lies in one bucket" if self.keys else "one value over all rows"

    def holdings(self) -> tuple[Holding, ...]:
        holds = f"synopsis of {' and '.join(map(pane_words, self.windows))}"
        why = (
            "basic interval synopsis: a row per group and pane, dropped with the pane; "
            "no row of the stream is kept"
        )
        return (Holding("panes", Structure.FIFO, holds, 0, self.key_words(), why),)

    @property
    def opens(self) -> Unbounded:
        return Unbounded()

    @property
    def quiet(self) -> bool:
        return True

    @cached_property
    def columns(self) -> pa.Schema:
        """Keys, values and contents."""
        return self.partials.columns

    @cached_property
    def partials(self) -> PanePartials:
        """What makes panes of rows."""
        contents = PaneNumber.schema(self.contents)
        columns = pa.schema([*self.key_columns, *contents])
        return PanePartials(self.name, self.windows, self.keys, self.values, self.contents, columns)

    @property
    def intake(self) -> tuple[Operator, ...]:
        where = conjunction(self.conditions) if self.conditions else None
        selected = () if where is None else (SelectRows(self.name, where),)
        return (*selected, self.partials)

    def no_input(self) -> pa.Table:
        return pa.schema([*self.columns, (TS, pa.int64())]).empty_table()

    # ── where rows have to be ─────────────────────────────────────────────────────────────

    @property
    def moving(self) -> Moving:
        return Moving.KEYED

    @property
    def keyed(self) -> bool:
        return bool(self.keys)

    def key_of(self, side: int = 0) -> Key:
        return tuple(self.key_columns.names[: len(self.keys)])

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return tuple(map(expression_text, self.keys))

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return Spread.by(self.key_of())

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return self._codes(rows) if self.keys else None

    def _codes(self, rows: pa.Table) -> Int64s:
        names = self.key_columns.names[: len(self.keys)]
        return group_codes([whole(rows.column(name)) for name in names], rows.num_rows)

    # ── steps ─────────────────────────────────────────────────────────────────────────────

    def state(self) -> PaneState:
        return PaneState()

    def step(
        self, state: PaneState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[PaneState, PaneRows]:
        """What came is added, open panes too: readers look only at refreshes that are closed."""
        fresh = self.stored(inputs[0].born)
        runs = tuple(map(self._fitting, state.panes))
        shown = self._shown([*(run.load() for run in runs), fresh])
        after = by_time(runs, fresh, interval.clock - 1, self._keep, self._merging(interval.clock))
        return PaneState(after), shown

    def standing(self, state: PaneState) -> PaneRows:
        return self._shown([self._fitting(run).load() for run in state.panes])

    def together(self, deltas: Sequence[Delta]) -> PaneRows:
        parts = [delta for delta in deltas if isinstance(delta, PaneRows)]
        return self._shown([table for part in parts for table in part.tables])

    def _shown(self, tables: Sequence[pa.Table]) -> PaneRows:
        nothing = self.nothing_stored
        return PaneRows(nothing, nothing, tuple(table for table in tables if table.num_rows))

    @property
    def nothing_stored(self) -> pa.Table:
        """No row, as rows are kept."""
        return self._schema.empty_table()

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([*self.columns, *((name, pa.int64()) for name in (GROUP, TS, EXP))])

    @cached_property
    def _keep(self) -> int:
        """How long a row is kept: the longest window decides."""
        return max(map(reach_of, self.windows))

    def stored(self, rows: pa.Table) -> pa.Table:
        """New rows as they are kept."""
        ends = later(numbers(rows, TS), self._keep)
        rows = with_numbers(rows, **{GROUP: self._codes(rows), EXP: ends})
        return gathered([rows.select(self._schema.names)], TS)

    def _fitting(self, run: RowRun) -> RowRun:
        """With the contents and lifetimes that the readers of now ask for: queries come and go."""
        table = run.load()
        schema = self._schema
        lasting = run.exp.low - run.ts.low == self._keep
        if lasting and table.schema.names == schema.names:
            return run
        arrays = [
            table.column(name) if name in table.schema.names else pa.nulls(table.num_rows, kind)
            for name, kind in zip(schema.names, schema.types, strict=True)
        ]
        fitted = pa.table(arrays, schema=schema)
        ends = later(numbers(fitted, TS), self._keep)
        return RowRun.of(with_numbers(fitted, **{EXP: ends}), level=run.level)

    def _merging(self, clock: int) -> _Merging:
        return _Merging(self.partials.again, self.windows, clock)


@dataclass(frozen=True)
class _Merging:
    """Parts of panes made one, where no window that still reads them has an edge between."""

    again: PanePartials
    windows: tuple[Range, ...]
    clock: int

    def __call__(self, rows: pa.Table) -> pa.Table:
        if rows.num_rows < 2:
            return rows
        ts = numbers(rows, TS)
        merged = self.again.merged(rows, self._ends(ts))
        order = np.argsort(numbers(merged, TS), kind="stable")
        return taken(merged.select(rows.schema.names), order).combine_chunks()

    def _ends(self, ts: Int64s) -> Int64s:
        """Where the pane of each row ends, at the edges of the windows that it is still in."""
        ends = np.empty(len(ts), np.int64)
        by_reach = sorted(self.windows, key=reach_of, reverse=True)
        reaches = [reach_of(window) for window in by_reach]
        start = 0
        for count in range(1, len(by_reach) + 1):
            # Rows older than the next window, if there is one, are in the first ``count`` only.
            stop, border = len(ts), NEVER
            if count < len(by_reach):
                border = max(self.clock - reaches[count], MIN_TIME)
                stop = int(np.searchsorted(ts, border, "right"))
            if stop > start:
                # Their next edge may be that of younger rows, which that window still needs.
                following = next_edges(ts[start:stop], edges(by_reach[:count]))
                ends[start:stop] = np.minimum(following, border)
                start = stop
        return ends


def pane_words(window: Range) -> str:
    """How many panes a window has, and how long they are."""
    period = period_of(window)
    count, rest = divmod(window.duration, period)
    if not rest:
        return f"{counted(count, 'pane')} of {format_micros(period)}"
    parts = sorted((rest, period - rest))
    words = " and ".join(format_micros(part) for part in dict.fromkeys(parts))
    return f"{2 * count + 1} panes of {words}"
