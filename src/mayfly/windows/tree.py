"""A self-balancing search tree (AVL) in arrays: the report's T-INDEX with exact visits.

Idea: ``left``, ``right``, ``height`` per node; a probe compares keys down one path, a new node is
linked at its end and the path is balanced on the way back.
Invariant: the heights of two siblings differ by at most 1, so a probe of M nodes reads at most
1.4405·log2(M + 2) − 0.3277 of them. Purged nodes go one by one in ascending order; one with two
children takes its successor's place.
"""

from __future__ import annotations

import numpy as np

from mayfly.windows.domain import Int64s
from mayfly.windows.index import ValueIndex
from mayfly.windows.nodes import MOST, VISITS, Int32s, Nodes, allocate, jit

_DEPTH = 64


class Tree(ValueIndex):
    """The T-INDEX as the report measures it."""

    def __init__(self) -> None:
        super().__init__(Nodes())
        self.links = np.full((3, self.nodes.capacity), -1, np.int32)
        self.root = np.full(1, -1, np.int32)

    def _probe(self, keys: Int64s, start: int, nodes: Int32s) -> int:
        node = self.nodes
        return int(
            _probe(keys, start, nodes, self.root, self.links, node.key, node.free, node.tally)
        )

    def find(self, key: np.int64) -> int:
        return int(_find(key, self.root[0], self.links, self.nodes.key))

    def ascend(self) -> Int32s:
        listed = np.empty(self.nodes.size, np.int32)
        _ascend(self.root[0], self.links, listed)
        return listed

    def remove(self, nodes: Int32s) -> None:
        for node in nodes[np.argsort(self.nodes.key[nodes])].tolist():
            _remove(node, self.root, self.links, self.nodes.key)

    def rebuild(self) -> None:
        """Do nothing: keys change, their order does not."""

    def _grow(self) -> None:
        super()._grow()
        larger = np.full((3, self.nodes.capacity), -1, np.int32)
        larger[:, : self.links.shape[1]] = self.links
        self.links = larger


# links: row 0 left, row 1 right, row 2 height.


@jit
def _height(links: np.ndarray, node: int) -> int:
    return 0 if node < 0 else int(links[2, node])


@jit
def _measure(links: np.ndarray, node: int) -> None:
    links[2, node] = 1 + max(_height(links, links[0, node]), _height(links, links[1, node]))


@jit
def _rotate(links: np.ndarray, node: int, down: int) -> int:
    """Let the child on the other side of ``down`` rise; the new top."""
    up = 1 - down
    top = links[up, node]
    links[up, node] = links[down, top]
    links[down, top] = node
    _measure(links, node)
    _measure(links, top)
    return int(top)


@jit
def _balance(links: np.ndarray, root: Int32s, path: Int32s, depth: int) -> None:
    for i in range(depth - 1, -1, -1):
        node = path[i]
        top = node
        tilt = _height(links, links[0, node]) - _height(links, links[1, node])
        if tilt > 1 or tilt < -1:
            heavy = 0 if tilt > 1 else 1
            child = links[heavy, node]
            if _height(links, links[heavy, child]) < _height(links, links[1 - heavy, child]):
                links[heavy, node] = _rotate(links, child, heavy)
            top = _rotate(links, node, 1 - heavy)
        _measure(links, top)
        if i == 0:
            root[0] = top
        else:
            parent = path[i - 1]
            links[0 if links[0, parent] == node else 1, parent] = top


@jit
def _probe(
    keys: Int64s,
    start: int,
    nodes: Int32s,
    root: Int32s,
    links: np.ndarray,
    key: Int64s,
    free: Int32s,
    tally: Int64s,
) -> int:
    """Find or create the node of each key; where it stopped for want of room."""
    path = np.empty(_DEPTH, np.int32)
    for i in range(start, len(keys)):
        sought, depth, node = keys[i], 0, root[0]
        while node >= 0 and key[node] != sought:
            path[depth] = node
            depth += 1
            node = links[0, node] if sought < key[node] else links[1, node]
        visits = depth + (node >= 0)
        if node < 0:
            node = allocate(tally, free, len(key))
            if node < 0:
                return i
            key[node] = sought
            links[0, node], links[1, node], links[2, node] = -1, -1, 1
            if depth == 0:
                root[0] = node
            else:
                parent = path[depth - 1]
                links[0 if sought < key[parent] else 1, parent] = node
            _balance(links, root, path, depth)
        nodes[i] = node
        tally[VISITS] += visits
        tally[MOST] = max(tally[MOST], visits)
    return len(keys)


@jit
def _find(sought: np.int64, root: int, links: np.ndarray, key: Int64s) -> int:
    node = root
    while node >= 0 and key[node] != sought:
        node = links[0, node] if sought < key[node] else links[1, node]
    return int(node)


@jit
def _ascend(root: int, links: np.ndarray, listed: Int32s) -> None:
    stack = np.empty(_DEPTH, np.int32)
    depth, size, node = 0, 0, root
    while depth or node >= 0:
        while node >= 0:
            stack[depth] = node
            depth += 1
            node = links[0, node]
        depth -= 1
        node = stack[depth]
        listed[size] = node
        size += 1
        node = links[1, node]


@jit
def _remove(node: int, root: Int32s, links: np.ndarray, key: Int64s) -> None:
    path = np.empty(_DEPTH, np.int32)
    depth, cursor, sought = 0, root[0], key[node]
    while cursor != node:
        path[depth] = cursor
        depth += 1
        cursor = links[0, cursor] if sought < key[cursor] else links[1, cursor]
    if links[0, node] >= 0 and links[1, node] >= 0:
        place = depth
        depth += 1
        heir = links[1, node]
        while links[0, heir] >= 0:
            path[depth] = heir
            depth += 1
            heir = links[0, heir]
        child = links[1, heir]
        if depth == place + 1:
            links[1, node] = child
        else:
            links[0, path[depth - 1]] = child
        # The heir takes the node's place, so that its number stays the same.
        links[0, heir], links[1, heir] = links[0, node], links[1, node]
        links[2, heir] = links[2, node]
        path[place] = heir
        _replace(root, links, path, place, node, heir)
    else:
        child = links[0, node] if links[0, node] >= 0 else links[1, node]
        _replace(root, links, path, depth, node, child)
    _balance(links, root, path, depth)


@jit
def _replace(root: Int32s, links: np.ndarray, path: Int32s, depth: int, node: int, by: int) -> None:
    if depth == 0:
        root[0] = by
    else:
        parent = path[depth - 1]
        links[0 if links[0, parent] == node else 1, parent] = by
