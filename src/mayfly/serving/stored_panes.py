"""The panes that periodic queries keep of a stream in a checkpoint, for one-time queries.

Idea: panes are cut at the edges of the windows that read them (kernels/pane_store.py), so rows
between two of these edges are whole panes for any query. Invariant: an edge is used only as far
back as some window still needs it; before that panes are merged across it. Cost: the runs of panes
of all buckets, once for each question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from mayfly.checkpoint.operator_state import Stored, load_state
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.kernels.pane_edges import Family, families_of, period_of, reach_of
from mayfly.kernels.pane_store import PaneStore
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.optimizer.optimize import optimize
from mayfly.physical.pane_limits import obstacle
from mayfly.physical.pane_plan import PanePlan
from mayfly.physical.program import Task
from mayfly.physical.shared_program import ClockGroup, canonical, digest, fingerprint
from mayfly.physical.slides import rows_because, slid_window
from mayfly.plan.logical_operators import GroupAggregate, Output
from mayfly.plan.pane_functions import ROWS
from mayfly.plan.strategy import Strategy
from mayfly.plan.window_kinds import Range
from mayfly.serving.tables import View
from mayfly.storage.commit import reading_version
from mayfly.storage.segment import TS

MOST_EDGES = 10_000
"""Edges that are tried, from the latest back, until one fits."""


@dataclass(frozen=True)
class PaneReader:
    """A query that reads panes, and since when it knows all of them."""

    query: str
    window: Range
    numbers: tuple[str, ...]
    """The columns that it uses."""
    known_since: int

    @property
    def sees_all(self) -> bool:
        """Whether every row is in some window: those in none need not be kept."""
        return self.window.duration >= period_of(self.window)


@dataclass(frozen=True)
class StoredPanes:
    """The panes of a stream by one grouping, and who reads them."""

    store: PaneStore
    view: View
    """One of the queries, for what they have in common."""
    readers: tuple[PaneReader, ...]
    clock: int
    """Instants before it are closed."""
    first: int | None
    """The time of the first row of the stream; None if there was none."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the queries."""
        return tuple(reader.query for reader in self.readers)

    @cached_property
    def longest(self) -> int:
        return max(reader.window.duration for reader in self.readers)

    @cached_property
    def _since(self) -> Mapping[object, int]:
        """Since when there are a number, or the edges of a family."""
        since: dict[object, int] = {}
        for reader in self.readers:
            own = max(reader.known_since, self.clock - reach_of(reader.window))
            shown = (ROWS,) if reader.sees_all else ()
            for part in (*shown, *reader.numbers, *families_of(reader.window)):
                since[part] = min(since.get(part, NEVER), own)
        return since

    @cached_property
    def _families(self) -> tuple[Family, ...]:
        return tuple(part for part in self._since if isinstance(part, tuple))

    def is_cut(self, instant: int) -> bool:
        """Whether no pane reaches across an instant."""
        before = self.first is None or (instant < self.first and self._has_all_since(self.first))
        return any(
            (instant - phase) % period == 0 and (before or self._since[period, phase] <= instant)
            for period, phase in self._families
        )

    def _has_all_since(self, first: int) -> bool:
        """Whether no window has yet left the first rows behind."""
        return self._since.get(ROWS, NEVER) < first

    def known_since(self, names: Iterable[str]) -> int:
        """Since when all rows are in these numbers."""
        return max(self._since.get(part, NEVER) for part in (ROWS, *names))

    def edge(self, duration: int, latest: int) -> int | None:
        """The last instant up to ``latest`` at which a window of this length is whole panes."""
        if self.first is None or duration > self.longest or ROWS not in self._since:
            return None
        instants = (self._edges(family, latest) for family in self._families)
        fitting = (
            next((t for t in listed if self.is_cut(t) and self.is_cut(t - duration)), None)
            for listed in instants
        )
        return max((instant for instant in fitting if instant is not None), default=None)

    def _edges(self, family: Family, latest: int) -> Iterator[int]:
        period, phase = family
        last = min(latest, self.clock - 1)
        start = last - (last - phase) % period
        floor = max(self._since[family], self.first or MIN_TIME)
        for number in range(MOST_EDGES):
            instant = start - number * period
            if instant < floor:
                return
            yield instant

    def between(self, low: int, high: int) -> pa.Table:
        """The panes with low < ts <= high, of all buckets."""
        manifest, directory = self.view.manifest, self.view.directory
        stored, parts = manifest.properties["state"], [self.nothing]
        with reading_version(directory, manifest.version):
            for bucket in range(manifest.properties["buckets"]):
                state = stored.get(f"task/{state_name(self.store)}/{bucket}")
                if state is None:
                    continue
                blank = self.store.state()
                loaded = load_state(blank, Stored.from_json(state), manifest.segments, directory)
                for run in loaded.panes:
                    rows = run.load()
                    ts = numbers(rows, TS)
                    rows = chosen(rows, (ts > low) & (ts <= high))
                    parts.append(fitted(rows, self.nothing.schema))
        return pa.concat_tables(parts)

    @cached_property
    def nothing(self) -> pa.Table:
        return pa.schema([*self.store.columns, (TS, pa.int64())]).empty_table()


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """With NULL for numbers that came into use later."""
    arrays = [
        rows.column(field.name)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def stored_panes(views: Collection[View], stream: str) -> list[StoredPanes]:
    """Those of a stream that the checkpoint of some views has."""
    stores: dict[str, StoredPanes] = {}
    for view in views:
        if view.streams != (stream,) or _is_covered(view):
            continue
        for plan in _pane_plans(view):
            name, reader = state_name(plan.store), _reader(view, plan)
            before = stores.get(name)
            if before is not None:
                united = before.store.united(plan.store)
                readers = (*before.readers, reader)
                stores[name] = replace(before, store=united, readers=readers)
            elif f"task/{name}/0" in view.manifest.properties["state"]:
                first = view.manifest.properties["first"].get(stream)
                stores[name] = StoredPanes(plan.store, view, (reader,), view.clock, first)
    return list(stores.values())


def _is_covered(view: View) -> bool:
    """Whether a query reads the panes of others, of whose predicates it is made."""
    registered: Mapping[str, Any] = view.manifest.properties["queries"][view.name]
    return bool(registered.get("cover"))


def view_plan(view: View) -> Output | None:
    """The plan that a view was compiled from; None if it keeps rows."""
    strategy = Strategy.named(view.strategy)
    optimized = optimize(view.plan, strategy=strategy).plan
    assert isinstance(optimized, Output)
    plan = canonical(optimized)
    return None if rows_because(plan, strategy, panes=True) else plan


def _pane_plans(view: View) -> Iterator[PanePlan]:
    plan = view_plan(view)
    if plan is None:
        return
    for node in plan.walk():
        window = slid_window(node) if isinstance(node, GroupAggregate) else None
        if not isinstance(node, GroupAggregate) or window is None:
            continue
        if not obstacle(node, window, exact_sums=plan.exact_sums):
            yield PanePlan.of(node, window)


def _reader(view: View, plan: PanePlan) -> PaneReader:
    registered: Mapping[str, Any] = view.manifest.properties["queries"][view.name]
    since, whole = MIN_TIME, registered.get("whole_from")
    if registered.get("since") is not None and whole is not None:
        since = NEVER if whole >= NEVER else whole - reach_of(plan.window) + 1
    columns = tuple(f".{number.column.name}" for number in plan.store.contents)
    return PaneReader(view.name, plan.window, columns, since)


def state_name(store: PaneStore) -> str:
    """What the state of panes is called in a checkpoint."""
    task = Task(store, (), store.columns, False)
    return digest(ClockGroup((store.stream,)).name, "", fingerprint(task))


def window_words(panes: StoredPanes) -> str:
    """Which windows are answered, in words."""
    windows = (reader.window for reader in panes.readers)
    return ", ".join(sorted({window.cql() for window in windows}))
