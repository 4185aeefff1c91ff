"""Attribute-valued indexes: the tuples of each value as a chain ("ring") through the window.

Idea (report section 6): the node of a value points to one end of its chain; the tuple at the
other end points back to the node (``~node``). The five kinds differ in what a slide must touch:
*plain* and *AUX* link old → young, *BW*, *DB* and *numbered* young → old. DB leaves the youngest
expired tuple at the end of its chain under a dirty bit; *numbered* (ours) numbers tuples in stream
order, so that a link below the window's first number has expired and expiring touches nothing.
Invariant: a lookup gives exactly the attached tuples of its value, in stream order.
Cost: walks and writes per slide as in the table of docs/windows.md; ``walk`` and ``writes`` count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from mayfly.windows import ring_steps as steps
from mayfly.windows.domain import Int64s
from mayfly.windows.nodes import Int32s
from mayfly.windows.ring_steps import CUT, WALK, WRITES


class Ring(ABC):
    """Chains over cells; a cell holds a tuple's number in the stream, its node and its link."""

    def __init__(self) -> None:
        self.tally = np.zeros(2, np.int64)
        self.link = np.full(64, CUT)
        self.node = np.zeros(64, np.int32)
        self.number = np.zeros(64, np.int64)
        self._free = np.empty(64, np.int64)
        self._freed = 0
        self._used = 0
        self._pending: list[Int64s] = []
        self._slots: dict[int, Int64s] = {}
        self._arrived = 0

    # ── what windows call ─────────────────────────────────────────────────────────────────

    def arrive(self, nodes: Int32s, capacity: int) -> None:
        """Tuples of the given nodes come into the buffer; nodes are below ``capacity``."""
        self._fit_nodes(capacity)
        cells = self._take(len(nodes))
        self.node[cells] = nodes
        self.number[cells] = np.arange(self._arrived, self._arrived + len(nodes))
        self._arrived += len(nodes)
        self._pending.append(cells)
        self._link_new(cells)

    def slide(self, slot: int) -> None:
        """Expire the tuples of a slot, then attach the buffer in their place."""
        old = self._slots.pop(slot, np.empty(0, np.int64))
        self._release(self._expire(old))
        new = np.concatenate(self._pending) if self._pending else np.empty(0, np.int64)
        self._slots[slot], self._pending = new, []
        self._attach(new)

    def lookup(self, node: int) -> Int64s:
        """The numbers of a value's attached tuples in stream order."""
        cells = self._walk(node)
        return self.number[cells]

    def forget(self, nodes: Int32s) -> None:  # noqa: B027 (most kinds have nothing to forget)
        """These nodes are purged: nothing of theirs is attached or pending."""

    @property
    def walk(self) -> int:
        """Tuples reached over links."""
        return int(self.tally[WALK])

    @property
    def writes(self) -> int:
        """Links, pointers of nodes and bits written."""
        return int(self.tally[WRITES])

    @property
    def cells(self) -> int:
        """Cells that hold a tuple, stale ones included."""
        return self._used - self._freed

    # ── what the kinds do ─────────────────────────────────────────────────────────────────

    @abstractmethod
    def _fit_nodes(self, capacity: int) -> None: ...

    @abstractmethod
    def _link_new(self, cells: Int64s) -> None: ...

    @abstractmethod
    def _expire(self, old: Int64s) -> Int64s:
        """Take a basic window out of the chains; the cells that are free now."""

    @abstractmethod
    def _attach(self, new: Int64s) -> None: ...

    @abstractmethod
    def _walk(self, node: int) -> Int64s: ...

    def _take(self, count: int) -> Int64s:
        reused = min(count, self._freed)
        self._freed -= reused
        fresh = np.arange(self._used, self._used + count - reused)
        self._used += len(fresh)
        while self._used > len(self.link):
            self.link = np.append(self.link, np.full(len(self.link), CUT))
            self.node = np.append(self.node, np.zeros_like(self.node))
            self.number = np.append(self.number, np.zeros_like(self.number))
        return np.append(self._free[self._freed : self._freed + reused][::-1], fresh)

    def _release(self, cells: Int64s) -> None:
        end = self._freed + len(cells)
        if end > len(self._free):
            self._free = np.append(self._free, np.empty(end, np.int64))
        self._free[self._freed : end] = cells
        self._freed = end


class _Local:
    """The buffer index: per value of the buffer its oldest and youngest pending tuple."""

    def __init__(self) -> None:
        self.oldest = np.full(64, -1, np.int64)
        self.youngest = np.full(64, -1, np.int64)

    def fit(self, capacity: int) -> None:
        self.oldest, self.youngest = (
            _fitted(self.oldest, capacity),
            _fitted(self.youngest, capacity),
        )


def _fitted(array: Int64s, capacity: int, empty: int = -1) -> Int64s:
    if capacity <= len(array):
        return array
    return np.append(array, np.full(capacity - len(array), empty, array.dtype))


class PlainRing(Ring):
    """Links old → young; pending tuples hang in the chain behind its last active one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = np.full(64, -1, np.int64)
        self.end = np.full(64, -1, np.int64)

    def _fit_nodes(self, capacity: int) -> None:
        self.first, self.end = _fitted(self.first, capacity), _fitted(self.end, capacity)

    def _link_new(self, cells: Int64s) -> None:
        steps.arrive_plain(cells, self.node, self.first, self.link, self.tally)

    def _expire(self, old: Int64s) -> Int64s:
        steps.expire_plain(old, self.node, self.first, self.end, self.link, self.tally)
        return old

    def _attach(self, new: Int64s) -> None:
        steps.attach_plain(new, self.node, self.first, self.end, self.link, self.tally)

    def _walk(self, node: int) -> Int64s:
        if self.first[node] < 0 or self.end[node] < 0:
            return np.empty(0, np.int64)
        return steps.forward(self.first[node], self.end[node], self.link, self.tally)


class AuxRing(PlainRing):
    """Links old → young; pending tuples hang on the buffer index and enter when attached."""

    def __init__(self) -> None:
        super().__init__()
        self._local = _Local()

    def _fit_nodes(self, capacity: int) -> None:
        super()._fit_nodes(capacity)
        self._local.fit(capacity)

    def _link_new(self, cells: Int64s) -> None:
        steps.arrive_aux(
            cells, self.node, self._local.oldest, self._local.youngest, self.link, self.tally
        )

    def _expire(self, old: Int64s) -> Int64s:
        steps.expire_aux(old, self.node, self.first, self.end, self.link, self.tally)
        return old

    def _attach(self, new: Int64s) -> None:
        steps.attach_aux(
            new,
            self.node,
            self.first,
            self.end,
            self._local.oldest,
            self._local.youngest,
            self.link,
            self.tally,
        )


class BackwardRing(Ring):
    """Links young → old; the node points to the youngest active tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.newest = np.full(64, -1, np.int64)
        self._local = _Local()

    def _fit_nodes(self, capacity: int) -> None:
        self.newest = _fitted(self.newest, capacity)
        self._local.fit(capacity)

    def _link_new(self, cells: Int64s) -> None:
        steps.arrive_backward(
            cells, self.node, self._local.oldest, self._local.youngest, self.link, self.tally
        )

    def _expire(self, old: Int64s) -> Int64s:
        steps.expire_backward(old, self.node, self.newest, self.link, self.tally)
        return old

    def _attach(self, new: Int64s) -> None:
        steps.attach_backward(
            new,
            self.node,
            self.newest,
            self._local.oldest,
            self._local.youngest,
            self.link,
            self.tally,
        )

    def _walk(self, node: int) -> Int64s:
        return steps.backward(self.newest[node], self.link, self.tally)[::-1]


class DirtyRing(BackwardRing):
    """As backward, but the youngest expired tuple of a chain stays at its end, under a bit."""

    def __init__(self) -> None:
        super().__init__()
        self.stale = np.full(64, -1, np.int64)
        self.dirty = np.zeros(64, np.int64)
        self._stamp = np.full(64, -1, np.int64)
        self._slides = 0

    def _fit_nodes(self, capacity: int) -> None:
        super()._fit_nodes(capacity)
        self.stale, self._stamp = _fitted(self.stale, capacity), _fitted(self._stamp, capacity)
        self.dirty = _fitted(self.dirty, capacity, 0)

    def _expire(self, old: Int64s) -> Int64s:
        self._slides += 1
        freed = np.empty(len(old), np.int64)
        count = steps.dirty_expire(
            old,
            self.node,
            self.stale,
            self.dirty,
            self._stamp,
            self._slides,
            self.link,
            self.tally,
            freed,
        )
        return freed[:count]

    def _walk(self, node: int) -> Int64s:
        cells = super()._walk(node)
        return cells[1:] if self.dirty[node] else cells

    def forget(self, nodes: Int32s) -> None:
        stale = self.stale[nodes]
        self._release(stale[stale >= 0])
        self.newest[nodes], self.stale[nodes], self._stamp[nodes] = -1, -1, -1
        self.dirty[nodes] = 0


class NumberedRing(Ring):
    """Links young → old by stream number; what lies below ``low`` has expired."""

    def __init__(self) -> None:
        super().__init__()
        self.newest = np.full(64, -1, np.int64)
        self.low = 0
        self._local = _Local()

    def _fit_nodes(self, capacity: int) -> None:
        self.newest = _fitted(self.newest, capacity)
        self._local.fit(capacity)

    def _take(self, count: int) -> Int64s:
        """Cells are stream numbers modulo a power of two that has room for all that is kept."""
        high = self._arrived + count
        size = len(self.link)
        while high - self.low > size:
            size *= 2
        if size != len(self.link):
            kept = np.arange(self.low, self._arrived)
            old, new = kept % len(self.link), kept % size
            for name in ("link", "node", "number"):
                array = getattr(self, name)
                larger = np.zeros(size, array.dtype)
                larger[new] = array[old]
                setattr(self, name, larger)
        return np.arange(self._arrived, high)

    def arrive(self, nodes: Int32s, capacity: int) -> None:
        self._fit_nodes(capacity)
        numbers = self._take(len(nodes))
        self.node[numbers % len(self.link)] = nodes
        self._arrived += len(nodes)
        self._pending.append(numbers)
        self._link_new(numbers)

    def _link_new(self, cells: Int64s) -> None:
        steps.arrive_numbered(
            cells, self.node, self._local.oldest, self._local.youngest, self.link, self.tally
        )

    def _expire(self, old: Int64s) -> Int64s:
        self.low += len(old)
        return old[:0]

    def _attach(self, new: Int64s) -> None:
        steps.attach_numbered(
            new,
            self.node,
            self.newest,
            self._local.oldest,
            self._local.youngest,
            self.link,
            self.tally,
        )

    def _walk(self, node: int) -> Int64s:
        return steps.numbered(self.newest[node], self.low, self.link, self.tally)[::-1]

    def lookup(self, node: int) -> Int64s:
        return self._walk(node)

    def forget(self, nodes: Int32s) -> None:
        self.newest[nodes] = -1

    @property
    def cells(self) -> int:
        return self._arrived - self.low


RINGS: dict[str, Callable[[], Ring]] = {
    "plain": PlainRing,
    "AUX": AuxRing,
    "BW": BackwardRing,
    "DB": DirtyRing,
    "numbered": NumberedRing,
}
