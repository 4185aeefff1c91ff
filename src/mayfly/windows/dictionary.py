"""Open addressing from key to node: the H-INDEX that queries use.

Idea: a power-of-two table probed linearly from a multiplicative hash, at most half full; the
table holds the keys, so that a probe that hits touches one cache line. Where a node leaves, those
behind it move up: no tombstones.
Cost: O(1) expected per probe, at most ``M`` cells in the worst case.
"""

from __future__ import annotations

import numpy as np

from mayfly.windows.domain import Int64s
from mayfly.windows.index import ValueIndex
from mayfly.windows.nodes import MOST, VISITS, Int32s, Nodes, allocate, jit

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Dictionary(ValueIndex):
    """The product's H-INDEX."""

    def __init__(self) -> None:
        super().__init__(Nodes())
        self._fill()

    def _probe(self, keys: Int64s, start: int, nodes: Int32s) -> int:
        node = self.nodes
        return int(_probe(keys, start, nodes, self._cells, node.key, node.free, node.tally))

    def find(self, key: np.int64) -> int:
        return int(_find(key, self._cells))

    def ascend(self) -> Int32s:
        nodes = np.flatnonzero(self.nodes.living()).astype(np.int32)
        return nodes[np.argsort(self.nodes.key[nodes])]

    def remove(self, nodes: Int32s) -> None:
        _leave(self.nodes.key[nodes], self._cells)

    def rebuild(self) -> None:
        self._fill()

    def _grow(self) -> None:
        super()._grow()
        self._fill()

    def _fill(self) -> None:
        self._cells = np.full((2 * self.nodes.capacity, 2), -1, np.int64)
        nodes = np.flatnonzero(self.nodes.living()).astype(np.int32)
        _enter(self.nodes.key[nodes], nodes, self._cells)


# A cell is (key, node), node −1 where it is empty: side by side, so that a probe meets one line.


@jit
def _place(key: np.int64, size: int) -> np.uint64:
    """Unsigned, as whatever may be negative is looked at twice when it is an index."""
    mixed = np.uint64(key) * _SPREAD
    return (mixed >> np.uint64(32)) & np.uint64(size - 1)


@jit
def _next(slot: np.uint64, size: int) -> np.uint64:
    return (slot + np.uint64(1)) & np.uint64(size - 1)


@jit
def _probe(
    keys: Int64s,
    start: int,
    nodes: Int32s,
    cells: np.ndarray,
    key: Int64s,
    free: Int32s,
    tally: Int64s,
) -> int:
    """Find or create the node of each key; where it stopped for want of room."""
    size, visits, most = len(cells), 0, tally[MOST]
    for i in range(start, len(keys)):
        sought = keys[i]
        slot = _place(sought, size)
        seen = 1
        while cells[slot, 0] != sought and cells[slot, 1] >= 0:
            slot = _next(slot, size)
            seen += 1
        if cells[slot, 1] < 0:
            fresh = allocate(tally, free, len(key))
            if fresh < 0:
                tally[VISITS] += visits
                tally[MOST] = most
                return i
            key[fresh] = sought
            cells[slot, 0], cells[slot, 1] = sought, fresh
        nodes[i] = cells[slot, 1]
        visits += seen
        most = max(most, seen)
    tally[VISITS] += visits
    tally[MOST] = most
    return len(keys)


@jit
def _find(sought: np.int64, cells: np.ndarray) -> int:
    slot = _place(sought, len(cells))
    while cells[slot, 1] >= 0 and cells[slot, 0] != sought:
        slot = _next(slot, len(cells))
    return int(cells[slot, 1])


@jit
def _enter(keys: Int64s, nodes: Int32s, cells: np.ndarray) -> None:
    for i in range(len(keys)):
        slot = _place(keys[i], len(cells))
        while cells[slot, 1] >= 0:
            slot = _next(slot, len(cells))
        cells[slot, 0], cells[slot, 1] = keys[i], nodes[i]


@jit
def _leave(keys: Int64s, cells: np.ndarray) -> None:
    """Take keys out; whatever a gap would hide from its probes moves into it."""
    size, mask = len(cells), np.uint64(len(cells) - 1)
    for key in keys:
        gap = _place(key, size)
        while cells[gap, 0] != key:
            gap = _next(gap, size)
        slot = _next(gap, size)
        while cells[slot, 1] >= 0:
            away = (slot - _place(cells[slot, 0], size)) & mask
            if away >= ((slot - gap) & mask):
                cells[gap, 0], cells[gap, 1] = cells[slot, 0], cells[slot, 1]
                gap = slot
            slot = _next(slot, size)
        cells[gap, 0], cells[gap, 1] = -1, -1
