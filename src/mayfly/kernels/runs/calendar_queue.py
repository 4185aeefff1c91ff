"""Calendar queue: rows grouped by expiration, for lifetimes that differ (pattern WK).

Idea: the future up to the longest lifetime is cut into equal ranges ("days"), counted from the
epoch; a row goes to the range its exp lies in, whenever it arrives. Invariant: a group dies as a
whole at the end of its range. Cost: an insertion finds its group by one division, and a dead group
is dropped unread. Thesis, section 3.5.2 and Figure 3.6; the circular array there is an endless row
of groups here, so a number is never used again for other rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mayfly.errors import InvalidSetting
from mayfly.lifetime import NEVER


@dataclass(frozen=True, slots=True)
class CalendarQueue:
    """Groups by expiration; a row lives at most ``lifetime`` µs, cut into ``partitions`` ranges.

    >>> queue = CalendarQueue(lifetime=50, partitions=5)
    >>> queue.groups(np.array([51, 60, 61, 110])).tolist(), queue.dies_at(10)
    ([5, 5, 6, 10], 110)
    """

    lifetime: int
    partitions: int

    def __post_init__(self) -> None:
        if not 0 < self.lifetime < NEVER:
            raise InvalidSetting(
                f"a queue over the lifetime {self.lifetime} µs has no ranges",
                "give the longest lifetime of its rows; rows that never expire need no queue",
            )
        if self.partitions < 1:
            raise InvalidSetting(
                f"{self.partitions} partitions cannot hold anything", "use 1 or more"
            )

    @property
    def width(self) -> int:
        """Microseconds that one group covers."""
        return -(-self.lifetime // self.partitions)

    def groups(self, exp: np.ndarray) -> np.ndarray:
        """The group of each row, by its expiration: g covers (g·width, (g+1)·width]."""
        return (exp - 1) // np.int64(self.width)

    def dies_at(self, group: int) -> int:
        """The instant from which no row of the group is alive."""
        return (group + 1) * self.width

    def first_alive(self, instant: int) -> int:
        """The oldest group that may hold a row alive at ``instant``; those before it are dead."""
        return instant // self.width
