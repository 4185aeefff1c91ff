"""LWS: sub-windows in a fixed order; updates at once, queries in their way abort (Algorithm 7).

A version that leaves the window unread gives its place in the order to the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mayfly.periodic.isolation.isolation_policy import LatestPolicy, Panes, Scan


class LatestWindow(LatestPolicy):
    """``order`` puts the versions of a window, oldest first, in the order of reading."""

    name = "lws"
    joint = False

    def __init__(self, order: Callable[[Sequence[int]], Sequence[int]] = tuple) -> None:
        self.order = order

    def begin(self, scan: Scan, ring: Panes) -> None:
        super().begin(scan, ring)
        scan.plan = list(self.order(ring.window(scan.longest)))

    def choose(self, scan: Scan, ring: Panes) -> int:
        return next(version for version in scan.plan if version not in scan.read)

    def slide(self, scan: Scan, ring: Panes, version: int) -> list[str]:
        expired = version - scan.longest
        if expired in scan.plan:
            scan.plan[scan.plan.index(expired)] = version
        else:
            scan.plan.append(version)
        return super().slide(scan, ring, version)
