"""FIFO queue: rows grouped by insertion, for rows that all live equally long (pattern WKS).

Idea: rows expire in the order they came, so the oldest group is always the next to die.
Invariant: a group is complete before the next one starts, and its rows die in its order too.
Cost: an update appends to one group and removes from the oldest one (two when a boundary of
groups falls between); a dead group is dropped unread. Thesis, section 3.5.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mayfly.state.ranges import TimeRanges
from mayfly.storage.layout import Cell, Touched


@dataclass(frozen=True, slots=True)
class FifoQueue(TimeRanges):
    """Groups by insertion; every row lives exactly ``lifetime`` µs.

    >>> queue = FifoQueue(lifetime=50, partitions=5)
    >>> queue.groups(np.array([1, 10, 11, 50])).tolist(), queue.dies_at(0)
    ([0, 0, 1, 4], 60)
    """

    @property
    def lifetimes(self) -> range:
        """Updates from insertion to removal: two values unless intervals divide the lifetime."""
        return range(max(1, self.lifetime // self.interval), self.span + 1)

    def group_of(self, cell: Cell) -> int:
        return self.group_at(cell.inserted)

    def touched(self, update: int) -> Touched:
        leaving = {self.group_at(update - length) for length in self.lifetimes}
        oldest = update - self.span
        complete = oldest % self.updates_per_group == 0
        return Touched(
            inserts=frozenset({self.group_at(update)}),
            removes=frozenset(leaving),
            drops=frozenset({self.group_at(oldest)} if complete else ()),
        )

    def groups(self, ts: np.ndarray) -> np.ndarray:
        """The group of each row, by its generation time."""
        return self.ranges_of(ts)

    def dies_at(self, group: int) -> int:
        """The instant from which no row of the group is alive."""
        return (group + 1) * self.width + self.lifetime

    def first_alive(self, at: int) -> int:
        """The oldest group that may hold a row alive at ``at``; those before it are dead."""
        return (at - self.lifetime) // self.width
