"""Calendar queue: rows grouped by expiration, for lifetimes that differ (pattern WK).

Idea: the future up to the longest lifetime is cut into equal ranges ("days"); a row goes to the
range its exp lies in, whenever it arrives. Invariant: a group dies as a whole at the end of its
range. Cost: an insertion finds its group by one division; an update inserts into at most
``partitions`` + 1 groups and removes from one, which is dropped unread at its end.
Thesis, section 3.5.2 and Figure 3.6; the circular array there is an endless row of groups here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mayfly.state.ranges import TimeRanges
from mayfly.storage.layout import Cell, Touched


@dataclass(frozen=True, slots=True)
class CalendarQueue(TimeRanges):
    """Groups by expiration; a row lives at most ``lifetime`` µs.

    >>> queue = CalendarQueue(lifetime=50, partitions=5)
    >>> queue.groups(np.array([51, 60, 61, 110])).tolist(), queue.dies_at(10)
    ([5, 5, 6, 10], 110)
    """

    @property
    def lifetimes(self) -> range:
        return range(1, self.span + 1)

    def group_of(self, cell: Cell) -> int:
        return self.group_at(cell.removed)

    def touched(self, update: int) -> Touched:
        reachable = range(self.group_at(update + 1), self.group_at(update + self.span) + 1)
        leaving = frozenset({self.group_at(update)})
        ended = update % self.updates_per_group == 0
        return Touched(
            inserts=frozenset(reachable), removes=leaving, drops=leaving if ended else frozenset()
        )

    def groups(self, exp: np.ndarray) -> np.ndarray:
        """The group of each row, by its expiration time."""
        return self.ranges_of(exp)

    def dies_at(self, group: int) -> int:
        """The instant from which no row of the group is alive."""
        return (group + 1) * self.width

    def first_alive(self, at: int) -> int:
        """The oldest group that may hold a row alive at ``at``; those before it are dead."""
        return at // self.width
