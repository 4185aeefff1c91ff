"""The nodes of a value index: a key and, for each window that uses the index, a count.

Idea: a node is a number into arrays; buffers and basic windows hold node numbers (*domain
storage*), so attaching and expiring never search. A node whose counts are 0 stays until a purge,
and a node that a buffer still names is never purged (``held``), since its count is 0, too.
Invariant: no count is below zero. Cost: O(1) per tuple to attach or expire.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mayfly.arrays.compilation import compiled
from mayfly.errors import ProtocolError
from mayfly.windows.domain import Int64s

Int32s = npt.NDArray[np.int32]
N = TypeVar("N", bound=np.generic)
USED, FREE, VISITS, MOST = 0, 1, 2, 3
"""Places in a tally: nodes ever used, nodes on the free list, visits, most visits of a probe."""

jit = compiled()


class Nodes:
    """Keys, counts and free numbers; the structures over them are the indexes."""

    def __init__(self, capacity: int = 64) -> None:
        self.tally = np.zeros(4, np.int64)
        self.key = np.zeros(capacity, np.int64)
        self.free = np.zeros(capacity, np.int32)
        self.counts: list[Int64s] = []
        self.held = np.zeros(capacity, np.int32)
        self.distinct: list[int] = []
        self.rows: list[int] = []

    @property
    def capacity(self) -> int:
        return len(self.key)

    @property
    def size(self) -> int:
        """The nodes in use, those with a count of 0 included."""
        return int(self.tally[USED] - self.tally[FREE])

    def add_side(self) -> int:
        """Counts for one more window; its number."""
        self.counts.append(np.zeros(self.capacity, np.int64))
        self.distinct.append(0)
        self.rows.append(0)
        return len(self.counts) - 1

    def grow(self) -> None:
        """Room for twice as many nodes."""
        self.key = _doubled(self.key)
        self.free = _doubled(self.free)
        self.held = _doubled(self.held)
        self.counts = [_doubled(count) for count in self.counts]

    def living(self) -> npt.NDArray[np.bool_]:
        """Which node numbers are in use."""
        used = np.zeros(self.capacity, bool)
        used[: self.tally[USED]] = True
        used[self.free[: self.tally[FREE]]] = False
        return used

    def removable(self) -> Int32s:
        """Nodes that no window counts and no buffer names."""
        zero = self.living() & (self.held == 0)
        for count in self.counts:
            zero &= count == 0
        return np.flatnonzero(zero).astype(np.int32)

    def release(self, nodes: Int32s) -> None:
        """Put nodes on the free list."""
        free = int(self.tally[FREE])
        self.free[free : free + len(nodes)] = nodes
        self.tally[FREE] = free + len(nodes)

    def change(self, side: int, nodes: Int32s, amounts: Int64s | None, sign: int) -> None:
        """Attach (+1) or expire (−1) tuples; with amounts, that many tuples of each node."""
        counts = self.counts[side]
        if amounts is None:
            crossed, rows = _change_each(counts, nodes, sign), len(nodes)
        else:
            crossed, rows = _change_many(counts, nodes, amounts, sign), int(amounts.sum())
        if crossed < -len(nodes):
            raise ProtocolError("a count of a value index fell below zero", "report this")
        self.distinct[side] += crossed
        self.rows[side] += sign * rows


def _doubled(array: npt.NDArray[N]) -> npt.NDArray[N]:
    larger = np.zeros(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger


@jit
def _change_each(counts: Int64s, nodes: Int32s, sign: int) -> int:
    """How many more nodes have a count; far below zero if one fell below zero."""
    crossed = 0
    for i in range(len(nodes)):
        node = nodes[i]
        before = counts[node]
        after = before + sign
        counts[node] = after
        crossed += (after > 0) - (before > 0)
        if after < 0:
            return -(2**62)
    return crossed


@jit
def _change_many(counts: Int64s, nodes: Int32s, amounts: Int64s, sign: int) -> int:
    crossed = 0
    for i in range(len(nodes)):
        node = nodes[i]
        before = counts[node]
        after = before + sign * amounts[i]
        counts[node] = after
        crossed += (after > 0) - (before > 0)
        if after < 0:
            return -(2**62)
    return crossed


@jit
def allocate(tally: Int64s, free: Int32s, capacity: int) -> int:
    """A free node number, or −1 if there is none."""
    if tally[FREE]:
        tally[FREE] -= 1
        return int(free[tally[FREE]])
    if tally[USED] == capacity:
        return -1
    tally[USED] += 1
    return int(tally[USED] - 1)
