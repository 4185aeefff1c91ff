"""Whether the panes of served queries fit into memory (spec/periodic 8: groups times panes).

Idea: a ring takes as many panes as its longest query reads, each as large as those that the
checkpoint holds are in the mean; queries are let in by the order of their registration, and the one
with which the limit is passed is refused, before anything of it is read.
Invariant: what is expected of those let in is within the limit. Cost: a look at each segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mayfly.display import size
from mayfly.errors import InvalidSetting
from mayfly.lifetime import format_micros
from mayfly.serving.kept_streams import KeptStream
from mayfly.serving.periodic.closed_panes import ClosedPanes
from mayfly.serving.periodic.served_load import VALUE
from mayfly.serving.periodic.served_window import PaneGrid
from mayfly.serving.periodic.stored_query import StoredQuery
from mayfly.serving.periodic.stored_rings import ROWS, ring_name

DEFAULT_LIMIT = 1 << 30
AGAIN = 0.8
"""Of the limit: below this, what was refused is let in again."""
Ring = tuple[PaneGrid, str]


@dataclass
class RingMemory:
    """``limit`` and ``expected`` are bytes of all rings of a server."""

    limit: int = DEFAULT_LIMIT
    refused: dict[str, str] = field(default_factory=dict)
    """Queries, and why they are not served."""
    rows_refused: dict[PaneGrid, str] = field(default_factory=dict)
    """Where rows of a stream are not held for one-time queries, and why."""
    expected: dict[Ring, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise InvalidSetting(f"{self.limit} bytes for panes", "give at least one")

    @property
    def total(self) -> int:
        return sum(self.expected.values())

    def choose(
        self,
        queries: Mapping[str, StoredQuery],
        panes: ClosedPanes,
        kept: Mapping[str, KeptStream],
    ) -> dict[str, StoredQuery]:
        """Those of the queries that fit, and what is expected of them."""
        before, self.refused, self.expected = self.refused, {}, {}
        fitting: dict[str, StoredQuery] = {}
        mean: dict[str, float] = {}
        for name, query in queries.items():
            grid, state = query.grid, query.synopsis
            if query.serve.scan.of_rows:
                added = self._add(grid, ROWS, _bytes_of_rows(kept.get(query.stream)))
            else:
                if state not in mean:
                    mean[state] = panes.bytes_per_pane(state, grid)
                added = self._add(grid, ring_name(query), round(mean[state] * query.panes_held))
            if self.total <= self.limit * (AGAIN if name in before else 1):
                fitting[name] = query
            else:
                self.refused[name] = self._refusal(query, added)
                self._take_back(grid, ROWS if query.serve.scan.of_rows else ring_name(query), added)
        self._choose_rows(fitting, kept)
        return fitting

    def _choose_rows(
        self, fitting: Mapping[str, StoredQuery], kept: Mapping[str, KeptStream]
    ) -> None:
        before, self.rows_refused = self.rows_refused, {}
        for grid in dict.fromkeys(query.grid for query in fitting.values()):
            if grid.stream not in kept or (grid, ROWS) in self.expected:
                continue
            added = self._add(grid, ROWS, _bytes_of_rows(kept[grid.stream]))
            if self.total > self.limit * (AGAIN if grid in before else 1):
                self._take_back(grid, ROWS, added)
                self.rows_refused[grid] = (
                    f"rows of {grid.stream} would take about {size(added)} of {size(self.limit)}: "
                    "one-time queries read them from the checkpoint; --served-memory allows more"
                )

    def _add(self, grid: PaneGrid, name: str, whole: int) -> int:
        """What a ring grows by if it is to take so many bytes."""
        present = self.expected.get((grid, name), 0)
        self.expected[grid, name] = max(whole, present)
        return max(0, whole - present)

    def _take_back(self, grid: PaneGrid, name: str, added: int) -> None:
        self.expected[grid, name] -= added
        if not self.expected[grid, name]:
            del self.expected[grid, name]

    def _refusal(self, query: StoredQuery, added: int) -> str:
        what = f"rows over {format_micros(query.length)}"
        if not query.serve.scan.of_rows:
            what = f"{query.panes_held:,} panes of {format_micros(query.pane)}"
        return (
            f"its {what} would take about {size(added)} beside {size(self.total - added)}, and all "
            f"may take {size(self.limit)}: allow more by --served-memory, or use a shorter window, "
            "a longer SLIDE, fewer groups"
        )


def _bytes_of_rows(kept: KeptStream | None) -> int:
    """Of the rows of a stream in memory, about: as many values as are logged."""
    if kept is None:
        return 0
    return kept.view.logged_rows * VALUE * (len(kept.definition.columns) + 1)
