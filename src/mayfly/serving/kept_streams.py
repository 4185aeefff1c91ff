"""Streams whose last rows a view keeps whole, so that one-time queries may put windows on them.

A view ``SELECT * FROM s [RANGE d]``, which ``KEEP d`` stands for, holds every row of the last d at
any instant that it shows. So it answers whichever window over s is no longer than d, as the rows of
s would, by a scan of them (spec/periodic 9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from mayfly.lifetime import format_micros
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.window_kinds import Now, Range, Window
from mayfly.serving.tables import View
from mayfly.serving.whole_rows import whole_rows


@dataclass(frozen=True)
class KeptStream:
    """A stream, and the view that keeps its rows."""

    definition: StreamDefinition
    view: View
    duration: int

    kind = "view"

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def streams(self) -> tuple[str, ...]:
        return self.view.streams

    def latest(self) -> int:
        return self.view.latest()

    def rows_at(self, instant: int) -> pa.Table:
        """Those of the last ``duration``."""
        names = [column.name for column in self.definition.columns]
        return self.view.rows(instant, names, {})

    def missing(self, instant: int) -> Iterator[str]:
        return self.view.missing(instant)

    def access(self) -> str:
        return f"scan of the rows that {self.view.name} keeps ({format_micros(self.duration)})"

    def obstacle(self, window: Window) -> tuple[str, str] | None:
        """Why a window cannot be answered from them, and what to write."""
        length = format_micros(self.duration)
        if window.slide is not None or window.internal:
            return f"a one-time query is answered at one instant, not by {window.cql()}", (
                f"write {self.name} [RANGE {length}] or shorter"
            )
        if isinstance(window, Now) or (
            isinstance(window, Range) and window.duration <= self.duration
        ):
            return None
        return f"{self.view.name} keeps the rows of {self.name} for {length}, not {window.cql()}", (
            f"write {self.name} [RANGE {length}] or shorter, or keep more: KEEP on the stream"
        )


def kept_streams(views: Iterable[View], catalog: Catalog) -> dict[str, KeptStream]:
    """By name, each with the view that keeps its rows longest."""
    streams: dict[str, KeptStream] = {}
    for view in views:
        scan = whole_rows(view.plan)
        definition = None if scan is None else catalog.lookup(scan.stream)
        if scan is None or not isinstance(definition, StreamDefinition):
            continue
        names = {column.name for column in view.columns}
        if any(column.name not in names for column in definition.columns):
            continue
        assert isinstance(scan.window, Range)
        before = streams.get(definition.name)
        if before is None or before.duration < scan.window.duration:
            streams[definition.name] = KeptStream(definition, view, scan.window.duration)
    return streams
