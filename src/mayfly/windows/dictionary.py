"""Open addressing from key to node: the H-INDEX that queries use.

Idea: a power-of-two table probed linearly from a multiplicative hash, at most half full; the
table holds the keys, so that a probe that hits touches one cache line. Nodes leave only by a
purge, which makes the table anew: no tombstones.
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
        self._resize(2 * self.nodes.capacity)

    def probe(self, keys: Int64s) -> Int32s:
        found, done, nodes = np.empty(len(keys), np.int32), 0, self.nodes
        while True:
            done = _probe(
                keys, done, found, self._table, self._node, nodes.key, nodes.free, nodes.tally
            )
            if done == len(keys):
                return found
            self._grow()

    def find(self, key: np.int64) -> int:
        return int(_find(key, self._table, self._node))

    def ascend(self) -> Int32s:
        nodes = np.flatnonzero(self.nodes.living()).astype(np.int32)
        return nodes[np.argsort(self.nodes.key[nodes])]

    def remove(self, nodes: Int32s) -> None:
        kept = self.nodes.living()
        kept[nodes] = False
        self._fill(kept)

    def rebuild(self) -> None:
        self._fill(self.nodes.living())

    def _grow(self) -> None:
        self.nodes.grow()
        self._resize(2 * self.nodes.capacity)
        self._fill(self.nodes.living())

    def _resize(self, size: int) -> None:
        self._table = np.zeros(size, np.int64)
        self._node = np.full(size, -1, np.int32)

    def _fill(self, used: np.ndarray) -> None:
        self._node[:] = -1
        nodes = np.flatnonzero(used).astype(np.int32)
        _enter(self.nodes.key[nodes], nodes, self._table, self._node)


@jit
def _place(key: np.int64, size: int) -> np.int64:
    mixed = np.uint64(key) * _SPREAD
    return np.int64((mixed >> np.uint64(32)) & np.uint64(size - 1))


@jit
def _probe(
    keys: Int64s,
    start: int,
    found: Int32s,
    table: Int64s,
    node: Int32s,
    key: Int64s,
    free: Int32s,
    tally: Int64s,
) -> int:
    """Find or create the node of each key; where it stopped for want of room."""
    size, visits, most = len(table), 0, tally[MOST]
    for i in range(start, len(keys)):
        sought = keys[i]
        at = _place(sought, size)
        seen = 1
        while node[at] >= 0 and table[at] != sought:
            at = (at + 1) & (size - 1)
            seen += 1
        if node[at] < 0:
            fresh = allocate(tally, free, len(key))
            if fresh < 0:
                tally[VISITS] += visits
                tally[MOST] = most
                return i
            key[fresh] = sought
            table[at], node[at] = sought, fresh
        found[i] = node[at]
        visits += seen
        most = max(most, seen)
    tally[VISITS] += visits
    tally[MOST] = most
    return len(keys)


@jit
def _find(sought: np.int64, table: Int64s, node: Int32s) -> int:
    at = _place(sought, len(table))
    while node[at] >= 0 and table[at] != sought:
        at = (at + 1) & (len(table) - 1)
    return int(node[at])


@jit
def _enter(keys: Int64s, nodes: Int32s, table: Int64s, node: Int32s) -> None:
    for i in range(len(keys)):
        at = _place(keys[i], len(table))
        while node[at] >= 0:
            at = (at + 1) & (len(table) - 1)
        table[at], node[at] = keys[i], nodes[i]
