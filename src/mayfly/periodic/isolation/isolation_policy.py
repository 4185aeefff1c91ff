"""What every isolation policy decides: what a scan reads next, and what an update does to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from mayfly.periodic.isolation.level import IsolationLevel
from mayfly.periodic.isolation.pane_versions import PaneRing
from mayfly.periodic.isolation.scan import PaneScan

Scan = PaneScan[Any]
Panes = PaneRing[Any]


class IsolationPolicy(ABC):
    """One way to keep queries apart from updates of the window that they read."""

    name: ClassVar[str]
    level: ClassVar[IsolationLevel]
    """What every query that commits is promised."""
    joint: ClassVar[bool] = True
    """Whether windows of different lengths can be read by one scan."""
    waits: ClassVar[bool] = False
    """Whether updates wait for queries."""
    undoes: ClassVar[bool] = False
    """Whether what left the window is subtracted, so that no query aborts."""
    incremental: ClassVar[bool] = False
    """Whether a scan goes on from the last answer of its query."""

    @abstractmethod
    def begin(self, scan: Scan, ring: Panes) -> None:
        """A scan comes."""

    @abstractmethod
    def choose(self, scan: Scan, ring: Panes) -> int:
        """The version that is read next."""

    @abstractmethod
    def slide(self, scan: Scan, ring: Panes, version: int) -> list[str]:
        """A version was written; the queries of the scan that can no longer be answered."""

    @abstractmethod
    def answered(self, scan: Scan, ring: Panes) -> list[str]:
        """The queries whose windows have been read."""

    def __repr__(self) -> str:
        return f"<isolation {self.name}>"


class LatestPolicy(IsolationPolicy):
    """Reads the window as of the commit: a query is aborted when a version that it has read leaves
    its window (thesis Algorithms 7 and 8, line of the abort)."""

    level = IsolationLevel.LATEST

    def begin(self, scan: Scan, ring: Panes) -> None:
        scan.aim = ring.top

    def slide(self, scan: Scan, ring: Panes, version: int) -> list[str]:
        scan.aim = version
        return [query for query, panes in scan.panes.items() if version - panes in scan.read]

    def answered(self, scan: Scan, ring: Panes) -> list[str]:
        return [q for q, panes in scan.panes.items() if len(scan.read) == len(ring.window(panes))]
