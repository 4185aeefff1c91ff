"""A counted, balanced order of values: the T-INDEX that queries use.

Idea: the dictionary finds a value's node; only a *new* value enters the order, which is a B+-tree
of two levels: ascending blocks of at most 512 nodes, and their smallest keys side by side. Blocks
and groups of 64 blocks know how many rows they hold, so a position is found without walking.
Invariant: blocks are in key order, none is empty but the first, ``rows`` are sums of counts.
Cost: O(1) per known value, O(log M + 512) per new one; select reads at most M/2¹³ + 64 + 512 sums.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mayfly.windows.dictionary import Dictionary
from mayfly.windows.domain import Int64s
from mayfly.windows.nodes import FREE, USED, Int32s, jit

BLOCK = 512
_GROUP = 6
"""Blocks are counted in groups of 2 ** 6."""


class CountedTree(Dictionary):
    """The product's T-INDEX: ordered, with rows counted per block and side."""

    def __init__(self) -> None:
        super().__init__()
        self._reset(4)

    def probe(self, keys: Int64s) -> Int32s:
        before = self.nodes.tally[USED], self.nodes.tally[FREE]
        nodes = super().probe(keys)
        if before != (self.nodes.tally[USED], self.nodes.tally[FREE]):
            self._enter_new(nodes)
        return nodes

    def change(self, side: int, nodes: Int32s, amounts: Int64s | None, sign: int) -> None:
        super().change(side, nodes, amounts, sign)
        while len(self._rows) <= side:
            self._rows.append(np.zeros(len(self._size), np.int64))
            self._groups.append(np.zeros((len(self._size) >> _GROUP) + 1, np.int64))
        _count(
            nodes,
            _ONES if amounts is None else amounts,
            sign,
            self._block,
            self._place,
            self._rows[side],
            self._groups[side],
        )

    def ascend(self) -> Int32s:
        listed = np.empty(self.nodes.size, np.int32)
        _list(self._order, self._blocks, self._members, self._size, listed)
        return listed

    def select(self, side: int, position: int) -> int:
        node = _select(
            position,
            self._order,
            self._blocks,
            self._members,
            self._size,
            self._rows[side],
            self._groups[side],
            self.nodes.counts[side],
        )
        return int(node)

    def remove(self, nodes: Int32s) -> None:
        super().remove(nodes)
        gone = np.zeros(self.nodes.capacity, bool)
        gone[nodes] = True
        kept = self.ascend()
        self._lay_out(kept[~gone[kept]])

    def rebuild(self) -> None:
        super().rebuild()
        self._low[: self._blocks] = self.nodes.key[self._members[self._order[: self._blocks], 0]]

    # ── the order ─────────────────────────────────────────────────────────────────────────

    def _reset(self, blocks: int) -> None:
        self._blocks = 1
        self._order = np.zeros(blocks, np.int32)
        self._low = np.zeros(blocks, np.int64)
        self._members = np.zeros((blocks, BLOCK), np.int32)
        self._size = np.zeros(blocks, np.int32)
        self._place = np.zeros(blocks, np.int32)
        self._block = np.full(self.nodes.capacity, -1, np.int32)
        self._rows: list[Int64s] = [np.zeros(blocks, np.int64) for _ in self.nodes.counts]
        groups = (blocks >> _GROUP) + 1
        self._groups: list[Int64s] = [np.zeros(groups, np.int64) for _ in self.nodes.counts]

    def _lay_out(self, nodes: Int32s) -> None:
        """Blocks made anew, three quarters full, from all nodes in order."""
        fill = BLOCK * 3 // 4
        blocks = max(1, -(-len(nodes) // fill))
        self._reset(2 * blocks)
        self._blocks = blocks
        self._order[:blocks] = np.arange(blocks)
        self._place[:blocks] = np.arange(blocks)
        for block in range(blocks):
            members = nodes[block * fill : (block + 1) * fill]
            self._members[block, : len(members)] = members
            self._size[block] = len(members)
            self._block[members] = block
        if len(nodes):
            self._low[:blocks] = self.nodes.key[nodes[::fill]]
        self._sum_up()

    def _enter_new(self, nodes: Int32s) -> None:
        if len(self._block) < self.nodes.capacity:
            larger = np.full(self.nodes.capacity, -1, np.int32)
            larger[: len(self._block)] = self._block
            self._block = larger
        fresh = np.unique(nodes[self._block[nodes] < 0])
        fresh = fresh[np.argsort(self.nodes.key[fresh])]
        if 4 * len(fresh) > self.nodes.size:
            kept = self.ascend() if len(fresh) < self.nodes.size else fresh[:0]
            kept = kept[: self.nodes.size - len(fresh)]
            both = np.concatenate([kept, fresh]).astype(np.int32)
            self._lay_out(both[np.argsort(self.nodes.key[both], kind="stable")])
            return
        done, split = 0, False
        while done < len(fresh):
            done, self._blocks, divided = _insert(
                fresh,
                done,
                self.nodes.key,
                self._order,
                self._low,
                self._blocks,
                self._members,
                self._size,
                self._block,
            )
            split |= divided
            if done < len(fresh):
                self._widen()
        if split:
            self._place[self._order[: self._blocks]] = np.arange(self._blocks)
            self._sum_up()

    def _widen(self) -> None:
        """Room for twice as many blocks."""
        blocks = 2 * len(self._size)
        self._order = np.resize(self._order, blocks)
        self._low = np.resize(self._low, blocks)
        self._size = np.append(self._size, np.zeros_like(self._size))
        self._place = np.resize(self._place, blocks)
        self._members = np.concatenate([self._members, np.zeros_like(self._members)])

    def _sum_up(self) -> None:
        """Count the rows of blocks and groups, from the counts of the nodes."""
        blocks = len(self._size)
        for side, counts in enumerate(self.nodes.counts):
            rows = np.zeros(blocks, np.int64)
            placed = np.flatnonzero(self._block >= 0)
            np.add.at(rows, self._block[placed], counts[placed])
            groups = np.zeros((blocks >> _GROUP) + 1, np.int64)
            np.add.at(
                groups,
                self._place[self._order[: self._blocks]] >> _GROUP,
                rows[self._order[: self._blocks]],
            )
            if side < len(self._rows):
                self._rows[side], self._groups[side] = rows, groups
            else:
                self._rows.append(rows)
                self._groups.append(groups)


_ONES: npt.NDArray[np.int64] = np.ones(0, np.int64)


@jit
def _count(
    nodes: Int32s,
    amounts: Int64s,
    sign: int,
    block: Int32s,
    place: Int32s,
    rows: Int64s,
    groups: Int64s,
) -> None:
    each = len(amounts) == 0
    for i in range(len(nodes)):
        amount = sign if each else sign * amounts[i]
        number = block[nodes[i]]
        rows[number] += amount
        groups[place[number] >> _GROUP] += amount


@jit
def _list(order: Int32s, blocks: int, members: np.ndarray, size: Int32s, listed: Int32s) -> None:
    position = 0
    for i in range(blocks):
        block = order[i]
        for j in range(size[block]):
            if position == len(listed):
                return
            listed[position] = members[block, j]
            position += 1


@jit
def _select(
    position: int,
    order: Int32s,
    blocks: int,
    members: np.ndarray,
    size: Int32s,
    rows: Int64s,
    groups: Int64s,
    counts: Int64s,
) -> int:
    left, group = position, 0
    while left > groups[group]:
        left -= groups[group]
        group += 1
    index = group << _GROUP
    while left > rows[order[index]]:
        left -= rows[order[index]]
        index += 1
    block, j = order[index], 0
    while left > counts[members[block, j]]:
        left -= counts[members[block, j]]
        j += 1
    return int(members[block, j])


@jit
def _insert(
    fresh: Int32s,
    start: int,
    key: Int64s,
    order: Int32s,
    low: Int64s,
    blocks: int,
    members: np.ndarray,
    size: Int32s,
    block_of: Int32s,
) -> tuple[int, int, bool]:
    """Enter nodes; where it stopped for want of room, how many blocks, whether one was split."""
    split = False
    for i in range(start, len(fresh)):
        node = fresh[i]
        sought = key[node]
        index = max(0, np.searchsorted(low[:blocks], sought, side="right") - 1)
        block = order[index]
        if size[block] == BLOCK:
            if blocks == len(size):
                return i, blocks, split
            split = True
            _split(index, order, low, blocks, members, size, block_of, key)
            blocks += 1
            if sought >= low[index + 1]:
                index += 1
                block = order[index]
        left, right = 0, size[block]
        while left < right:
            middle = (left + right) // 2
            if key[members[block, middle]] < sought:
                left = middle + 1
            else:
                right = middle
        for j in range(size[block], left, -1):
            members[block, j] = members[block, j - 1]
        members[block, left] = node
        size[block] += 1
        block_of[node] = block
        low[index] = key[members[block, 0]]
    return len(fresh), blocks, split


@jit
def _split(
    index: int,
    order: Int32s,
    low: Int64s,
    blocks: int,
    members: np.ndarray,
    size: Int32s,
    block_of: Int32s,
    key: Int64s,
) -> None:
    """Make the upper half of a block the block behind it."""
    block, new, half = order[index], blocks, BLOCK // 2
    for j in range(half, BLOCK):
        node = members[block, j]
        members[new, j - half] = node
        block_of[node] = new
    size[block], size[new] = half, BLOCK - half
    for j in range(blocks, index + 1, -1):
        order[j], low[j] = order[j - 1], low[j - 1]
    order[index + 1], low[index + 1] = new, key[members[new, 0]]
