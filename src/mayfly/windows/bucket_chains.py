"""Chained buckets: the report's L-, H- and UH-INDEX, and the AGGR and HASH basic windows.

Idea: ``head[bucket]`` begins a chain over ``following[node]``. L is one ascending chain, H has
``v mod buckets`` of them, UH puts new values in front and never sorts. A probe reads nodes up to
the first key that is not smaller, or to the end (report 5.3).
Cost: at most 1 + the smaller values of the bucket per probe; purging O(nodes).
"""

from __future__ import annotations

import numpy as np

from mayfly.windows.domain import Int64s
from mayfly.windows.index import ValueIndex
from mayfly.windows.nodes import MOST, VISITS, Int32s, Nodes, allocate, jit


class Chains(ValueIndex):
    """One or more chains of nodes."""

    def __init__(self, buckets: int = 1, *, ascending: bool = True) -> None:
        self.head = np.full(buckets, -1, np.int32)
        self.ascending = ascending
        super().__init__(Nodes())
        self.following = np.full(self.nodes.capacity, -1, np.int32)

    def _probe(self, keys: Int64s, start: int, nodes: Int32s) -> int:
        node = self.nodes
        return int(
            _probe(
                keys, start, nodes, self.head, self.following, self.ascending, node.key, node.free,
                node.tally,
            )
        )  # fmt: skip

    def find(self, key: np.int64) -> int:
        return int(_find(key, self.head, self.following, self.nodes.key))

    def ascend(self) -> Int32s:
        listed = self.in_order()
        if self.ascending and len(self.head) == 1:
            return listed
        return listed[np.argsort(self.nodes.key[listed], kind="stable")]

    def in_order(self) -> Int32s:
        """All nodes, chain by chain."""
        listed = np.empty(self.nodes.size, np.int32)
        _list(self.head, self.following, listed)
        return listed

    def remove(self, nodes: Int32s) -> None:
        gone = np.zeros(self.nodes.capacity, bool)
        gone[nodes] = True
        _unchain(self.head, self.following, gone)

    def rebuild(self) -> None:
        listed = self.in_order()
        self.head[:] = -1
        _chain(listed, self.nodes.key, self.head, self.following, self.ascending)

    def _grow(self) -> None:
        super()._grow()
        larger = np.full(self.nodes.capacity, -1, np.int32)
        larger[: len(self.following)] = self.following
        self.following = larger


@jit
def _probe(
    keys: Int64s,
    start: int,
    nodes: Int32s,
    head: Int32s,
    following: Int32s,
    ascending: bool,
    key: Int64s,
    free: Int32s,
    tally: Int64s,
) -> int:
    """Find or create the node of each key; where it stopped for want of room."""
    for i in range(start, len(keys)):
        sought, visits = keys[i], 0
        bucket = sought % len(head)
        before, node, match = -1, head[bucket], -1
        while node >= 0:
            visits += 1
            if key[node] == sought:
                match = node
                break
            if ascending and key[node] > sought:
                break
            before, node = node, following[node]
        if match < 0:
            match = allocate(tally, free, len(key))
            if match < 0:
                return i
            key[match] = sought
            if ascending and before >= 0:
                following[match] = following[before]
                following[before] = match
            else:
                following[match] = head[bucket]
                head[bucket] = match
        nodes[i] = match
        tally[VISITS] += visits
        tally[MOST] = max(tally[MOST], visits)
    return len(keys)


@jit
def _find(sought: np.int64, head: Int32s, following: Int32s, key: Int64s) -> int:
    node = head[sought % len(head)]
    while node >= 0 and key[node] != sought:
        node = following[node]
    return int(node)


@jit
def _list(head: Int32s, following: Int32s, listed: Int32s) -> None:
    size = 0
    for bucket in range(len(head)):
        node = head[bucket]
        while node >= 0:
            listed[size] = node
            size += 1
            node = following[node]


@jit
def _unchain(head: Int32s, following: Int32s, gone: np.ndarray) -> None:
    for bucket in range(len(head)):
        before, node = -1, head[bucket]
        while node >= 0:
            after = following[node]
            if not gone[node]:
                before = node
            elif before < 0:
                head[bucket] = after
            else:
                following[before] = after
            node = after


@jit
def _chain(listed: Int32s, key: Int64s, head: Int32s, following: Int32s, ascending: bool) -> None:
    for node in listed:
        bucket = key[node] % len(head)
        before, after = -1, head[bucket]
        while after >= 0 and (not ascending or key[after] < key[node]):
            before, after = after, following[after]
        following[node] = after
        if before < 0:
            head[bucket] = node
        else:
            following[before] = node
