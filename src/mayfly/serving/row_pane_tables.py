"""Groupings over the latest rows of a stream in one-time queries, from panes of rows (n-of-N).

Before: GroupAggregate src: SUM(bytes) over link1 [ROWS 500], whose rows are not kept.
After: a table of the groups, made of the panes that ``CREATE QUERY latest AS SELECT src, SUM(bytes)
FROM link1 [ROWS 1000 SLIDE 100 ROWS] GROUP BY src`` keeps, for any n up to 1,000.
Idea: as in pane_tables.py, with numbers of rows in the place of time. The last row is always the
end of a pane; where n rows before it none begins, the answer is that of the last n rows that are
whole panes, and says how many came since. With SLIDE m ROWS the window ends at a multiple of m.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from mayfly.checkpoint.operator_state import Stored, load_state
from mayfly.display import counted
from mayfly.errors import InvalidSetting
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.kernels.row_panes import RowPaneStore, numbered_window, rows_window
from mayfly.lifetime import MIN_TIME, NEVER, instant_text
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.physical.pane_limits import row_obstacle
from mayfly.physical.pane_plan import PanePlan
from mayfly.physical.pane_tasks import row_pane_store
from mayfly.physical.slides import slid_rows
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.logical_operators import GroupAggregate, Node, Project, Select, StreamScan
from mayfly.plan.window_kinds import Range, RowsWindow, Slide
from mayfly.runtime.table_sources import Keys
from mayfly.serving.pane_tables import PaneTable
from mayfly.serving.stored_panes import PaneReader, StoredPanes, fitted, state_name, view_plan
from mayfly.serving.tables import View, rows_left_out
from mayfly.storage.commit import reading_version
from mayfly.storage.segment import TS


@dataclass(frozen=True)
class StoredRowPanes(StoredPanes):
    """The panes of rows of a stream by one grouping; ``clock`` is the number of the next row."""

    closed: int = MIN_TIME
    """Instants before it are closed."""

    def end(self, window: RowsWindow) -> int | None:
        """The last row at which a window ends that is whole panes."""
        length, last = window.count, self.clock - 1
        if window.slide is not None:
            last -= last % (window.slide.rows or 1)
            ends = last == self.clock - 1 or self.is_cut(last)
            return last if ends and self._begins(last - length) else None
        if self._begins(last - length):
            return last
        return self.edge(length, last)

    def _begins(self, before: int) -> bool:
        """Whether a pane begins behind a row from which on all are kept."""
        if before <= 0 < self.known_since(()):
            return False
        reaches = before >= self.clock - 1 - self.longest
        return (before <= 0 or self.is_cut(before)) and (before <= 0 or reaches)

    def between(self, low: int, high: int) -> pa.Table:
        manifest, directory = self.view.manifest, self.view.directory
        stored = manifest.properties["state"][f"task/{state_name(self.store)}/0"]
        with reading_version(directory, manifest.version):
            blank = self.store.state()
            loaded = load_state(blank, Stored.from_json(stored), manifest.segments, directory)
            held = self.nothing if loaded.held is None else loaded.held
            places = numbers(held, TS)
            return fitted(chosen(held, (places > low) & (places <= high)), self.nothing.schema)

    @property
    def words(self) -> str:
        """Which windows are answered."""
        windows = {rows_window(reader.window).cql() for reader in self.readers}
        return ", ".join(sorted(windows))


def stored_row_panes(
    views: Collection[View], stream: str, catalog: Catalog
) -> list[StoredRowPanes]:
    """Those of a stream that the checkpoint of some views has."""
    stores: dict[str, StoredRowPanes] = {}
    for view in views:
        definition = catalog.lookup(stream)
        if view.streams != (stream,) or not isinstance(definition, StreamDefinition):
            continue
        for store, window in _stores_of(view, definition):
            name, states = state_name(store), view.manifest.properties["state"]
            columns = tuple(f".{number.column.name}" for number in store.contents)
            registered = view.manifest.properties["queries"][view.name]
            since = MIN_TIME if registered.get("since") is None else NEVER
            reader = PaneReader(view.name, window, columns, since)
            before = stores.get(name)
            if before is not None:
                readers = (*before.readers, reader)
                stores[name] = replace(before, store=before.store.united(store), readers=readers)
            elif f"task/{name}/0" in states:
                rows = states[f"task/{name}/0"]["numbers"]["count"]
                first = 1 if rows else None
                stores[name] = StoredRowPanes(store, view, (reader,), rows + 1, first, view.clock)
    return list(stores.values())


def _stores_of(view: View, definition: StreamDefinition) -> Iterator[tuple[RowPaneStore, Range]]:
    plan = view_plan(view)
    for node in () if plan is None else plan.walk():
        window = slid_rows(node) if isinstance(node, GroupAggregate) else None
        if window is None or not isinstance(node, GroupAggregate):
            continue
        if not row_obstacle(node, window, SHARING, exact_sums=plan is not None and plan.exact_sums):
            over = numbered_window(window)
            made = PanePlan.of(node, over, sketches=False)
            yield row_pane_store(made.store, definition), over


def rows_asked(node: GroupAggregate) -> tuple[str, RowsWindow] | None:
    """The stream and the window of a grouping over the latest rows of one stream."""
    below: Node = node.child
    while isinstance(below, Select | Project):
        below = below.child
    if not isinstance(below, StreamScan) or not isinstance(below.window, RowsWindow):
        return None
    slide = below.window.slide
    if below.window.internal or (slide is not None and not slide.rows):
        return None
    return below.stream, below.window


def in_numbers(window: RowsWindow) -> Range:
    """A window over the numbers of rows; each row is in it once."""
    return Range(duration=window.count, slide=Slide(period=window.count))


@dataclass(frozen=True)
class RowPaneTable(PaneTable):
    """The groups of a one-time query over the latest rows."""

    rows_window: RowsWindow | None = None
    end: int = 0
    """The number of the last row of its window."""

    @property
    def stored(self) -> StoredRowPanes:
        assert isinstance(self.panes, StoredRowPanes)
        return self.panes

    def latest(self) -> int:
        return self.stored.closed - 1

    def edge(self, instant: int) -> int | None:
        """Only as of the last instant that is closed it is known which rows are the latest."""
        return self.latest() if instant >= self.latest() else None

    def access(self, keys: Keys) -> str:
        queries = ", ".join(self.panes.names)
        return f"panes of rows that {queries} keeps ({self.stored.words})"

    def missing(self, instant: int) -> Iterator[str]:
        assert self.rows_window is not None
        stream, last = self.asked.store.stream, self.stored.clock - 1
        if self.rows_window.slide is None and self.end < last:
            rows = counted(last - self.end, "latest row")
            verb = "is" if last - self.end == 1 else "are"
            yield (
                f"the {rows} of {stream} {verb} not in it: no pane begins "
                f"{self.rows_window.count:,} rows before, so it ends at row {self.end:,}"
            )
        needed, since = self.end - self.duration, self.panes.known_since(self._numbers)
        if since > max(needed, 0) + 1:
            yield f"the panes of {stream} have all rows since row {since:,} only"
        yield from rows_left_out(self.panes.view.manifest, self.streams)

    def rows(self, instant: int, columns: Sequence[str], keys: Keys) -> pa.Table:
        if self.edge(instant) != instant:
            raise InvalidSetting(
                f"which rows of {self.asked.store.stream} were the latest at "
                f"{instant_text(instant)} is not kept",
                f"leave as_of out, or ask as of {instant_text(self.latest())}; keep the rows of "
                "the stream (KEEP) to ask at any instant",
            )
        return self.at_edge(self.end, columns)

    @property
    def sharing(self) -> frozenset[str]:
        return SHARING - {"sketches"}
