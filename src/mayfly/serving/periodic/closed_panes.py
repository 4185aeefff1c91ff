"""The panes that a committed version of a checkpoint holds for served queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.checkpoint.operator_state import Stored
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.runtime.clock import Clocks
from mayfly.serving.kept_streams import KeptStream
from mayfly.serving.periodic.served_window import PaneGrid
from mayfly.storage import Manifest
from mayfly.storage.commit import reading_version
from mayfly.storage.directory import Directory
from mayfly.storage.segment import TS, Segment, open_segment

PANES = "panes"
"""What the state of a pane store calls its runs."""


@dataclass(frozen=True)
class ClosedPanes:
    """What one version holds."""

    directory: Directory
    manifest: Manifest

    def clock(self, stream: str) -> int:
        """The instants before it are closed."""
        return Clocks.from_json(self.manifest.properties["clocks"]).of([stream]).query

    def first_row(self, stream: str) -> int | None:
        """When the first row of a stream came."""
        first: int | None = self.manifest.properties["first"].get(stream)
        return first

    def rows(self, state: str, after: int, until: int) -> pa.Table | None:
        """Partial rows with after < ts <= until, of all buckets; None if there are none."""
        tables = []
        with reading_version(self.directory, self.manifest.version):
            for segment in self._segments(state):
                if segment.ts.high > after and segment.ts.low <= until:
                    table = open_segment(self.directory, segment)
                    times = numbers(table, TS)
                    tables.append(chosen(table, (times > after) & (times <= until)))
        tables = [table for table in tables if table.num_rows]
        return pa.concat_tables(tables, promote_options="default") if tables else None

    def bytes_per_pane(self, state: str, grid: PaneGrid) -> float:
        """How large a pane is in the mean, of those that are kept."""
        segments = list(self._segments(state))
        if not segments:
            return 0.0
        first = min(segment.ts.low for segment in segments)
        last = max(segment.ts.high for segment in segments)
        panes = grid.pane_of(last) - grid.pane_of(first) + 1
        return sum(segment.bytes for segment in segments) / panes

    def _segments(self, state: str) -> Iterator[Segment]:
        start = f"task/{state}/"
        for name, entry in self.manifest.properties["state"].items():
            if name.startswith(start):
                for path in Stored.from_json(entry).runs.get(PANES, ()):
                    yield self.manifest.segments[path]


def kept_rows(kept: KeptStream, after: int, until: int) -> pa.Table | None:
    """Rows of a stream whose last ones are kept, with after < ts <= until."""
    view = kept.view
    names = [column.name for column in kept.definition.columns]
    rows = view.changes(after + 1, until + 1)
    if not rows.num_rows:
        return None
    times = rows.column(view.times.ts).cast(pa.int64())
    columns = [rows.column(name) for name in names]
    labels = [f"{kept.name}.{name}" for name in names]
    return pa.table([*columns, times], names=[*labels, TS]).combine_chunks()


def rows_by_pane(
    grid: PaneGrid, rows: pa.Table, first: int, last: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each of some panes, if it has some."""
    ends = -((grid.origin - numbers(rows, TS)) // grid.length)
    order = np.argsort(ends, kind="stable")
    ends, rows = ends[order], rows.take(pa.array(order)).combine_chunks()
    places = np.searchsorted(ends, np.arange(first, last + 2))
    for pane, low, high in zip(
        range(first, last + 1), places[:-1].tolist(), places[1:].tolist(), strict=True
    ):
        if high > low:
            yield pane, rows.slice(low, high - low)
