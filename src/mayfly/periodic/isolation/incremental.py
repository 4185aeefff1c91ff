"""Incremental scans: from the last answer of a query, what came is added and what left subtracted.

Reads 2·min(n, j) sub-windows instead of j after n updates; only where the content can be subtracted
and the ring still holds what left, else the window is read. Pinned, so never aborted (7.2.2).
"""

from __future__ import annotations

from mayfly.periodic.isolation.isolation_policy import Panes, Scan
from mayfly.periodic.isolation.pinned_snapshot import PinnedSnapshot


class Incremental(PinnedSnapshot):
    name = "incremental"
    joint = False
    incremental = True

    def begin(self, scan: Scan, ring: Panes) -> None:
        scan.aim = ring.top
        window = set(ring.window(scan.longest))
        scan.plan = sorted(window)
        if scan.base is not None:
            versions, total = set(scan.base[0]), scan.base[1]
            changed = window ^ versions
            held = all(version >= ring.oldest for version in changed)
            if held and len(changed) < len(window):
                scan.plan, scan.read, scan.total = sorted(changed), versions, total
                scan.pinned = {version: ring.read(version) for version in changed}
                return
        scan.base = None
        scan.pinned = {version: ring.read(version) for version in window}

    def choose(self, scan: Scan, ring: Panes) -> int:
        return scan.plan.pop()

    def answered(self, scan: Scan, ring: Panes) -> list[str]:
        return [] if scan.plan else list(scan.panes)
