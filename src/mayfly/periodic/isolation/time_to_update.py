"""TTU: the sub-window that is replaced last is read first (thesis Algorithm 8, Theorem 7.4).

Idea: the youngest unread version is the one that leaves the window last. Invariant: what a query
has read stays in its window, or it aborts. Cost: n_k reads whatever updates come; never an abort by
one concurrent update, and only where no other order could avoid it.
"""

from __future__ import annotations

from mayfly.periodic.isolation.isolation_policy import LatestPolicy, Panes, Scan


class TimeToUpdate(LatestPolicy):
    name = "ttu"

    def choose(self, scan: Scan, ring: Panes) -> int:
        window = ring.window(scan.longest)
        return next(version for version in reversed(window) if version not in scan.read)
