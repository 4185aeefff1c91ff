"""WS: the window as of the first read, oldest version first, before it is overwritten.

Idea: updates are at once and not reflected; a query aborts only where a version that it still needs
is overwritten (the thesis compares with it in 7.5 and does not describe it).
"""

from __future__ import annotations

from mayfly.periodic.isolation.isolation_policy import IsolationPolicy, Panes, Scan
from mayfly.periodic.isolation.level import IsolationLevel


class WindowSerial(IsolationPolicy):
    name = "ws"
    level = IsolationLevel.WINDOW
    joint = False

    def begin(self, scan: Scan, ring: Panes) -> None:
        scan.aim = ring.top
        scan.plan = list(ring.window(scan.longest))

    def choose(self, scan: Scan, ring: Panes) -> int:
        return next(version for version in scan.plan if version not in scan.read)

    def slide(self, scan: Scan, ring: Panes, version: int) -> list[str]:
        if not scan.read:
            self.begin(scan, ring)
            return []
        missing = [needed for needed in scan.plan if needed not in scan.read]
        return list(scan.panes) if any(needed < ring.oldest for needed in missing) else []

    def answered(self, scan: Scan, ring: Panes) -> list[str]:
        return list(scan.panes) if len(scan.read) == len(scan.plan) else []
