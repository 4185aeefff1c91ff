"""Snapshot: the window as of the start, pinned: references to sub-windows that never change.

Nothing is copied and no query aborts; the answer is as old as the scan takes.
"""

from __future__ import annotations

from mayfly.periodic.isolation.isolation_policy import IsolationPolicy, Panes, Scan
from mayfly.periodic.isolation.level import IsolationLevel


class PinnedSnapshot(IsolationPolicy):
    name = "snapshot"
    level = IsolationLevel.WINDOW

    def begin(self, scan: Scan, ring: Panes) -> None:
        scan.aim = ring.top
        scan.pinned = ring.pinned(ring.window(scan.longest))

    def choose(self, scan: Scan, ring: Panes) -> int:
        return max(version for version in scan.pinned if version not in scan.read)

    def slide(self, scan: Scan, ring: Panes, version: int) -> list[str]:
        return []

    def answered(self, scan: Scan, ring: Panes) -> list[str]:
        reachable = len(scan.pinned)
        return [q for q, panes in scan.panes.items() if len(scan.read) == min(panes, reachable)]
