"""What every set-valued index offers: value → count, for one window or several that share it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from mayfly.windows.domain import Int64s
from mayfly.windows.nodes import MOST, VISITS, Int32s, Nodes


class ValueIndex(ABC):
    """Nodes and a structure over them that finds a node by its key."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def probe(self, keys: Int64s) -> Int32s:
        """The node of each key; a key that is new gets one with count 0."""
        nodes, done = np.empty(len(keys), np.int32), 0
        while (done := self._probe(keys, done, nodes)) < len(keys):
            self._grow()
        return nodes

    @abstractmethod
    def _probe(self, keys: Int64s, start: int, nodes: Int32s) -> int:
        """Find or create the nodes of keys from ``start`` on; where it stopped for want of room."""

    def _grow(self) -> None:
        """Room for twice as many nodes."""
        self.nodes.grow()

    @abstractmethod
    def find(self, key: np.int64) -> int:
        """The node of a key, −1 if it has none; counts no visit."""

    @abstractmethod
    def ascend(self) -> Int32s:
        """All nodes, ascending by key."""

    @abstractmethod
    def remove(self, nodes: Int32s) -> None:
        """Take nodes out of the structure."""

    @abstractmethod
    def rebuild(self) -> None:
        """Make the structure anew after the keys of its nodes have changed."""

    def change(self, side: int, nodes: Int32s, amounts: Int64s | None, sign: int) -> None:
        self.nodes.change(side, nodes, amounts, sign)

    def purge(self) -> Int32s:
        """Remove the nodes that nothing counts or names; which they were."""
        nodes = self.nodes.removable()
        if len(nodes):
            self.remove(nodes)
            self.nodes.release(nodes)
        return nodes

    def recode(self, old: Int64s, new: Int64s) -> None:
        """Keys have been replaced by others in the same order."""
        used = self.nodes.living()
        keys = self.nodes.key[used]
        places = np.minimum(np.searchsorted(old, keys), len(old) - 1)
        self.nodes.key[used] = np.where(old[places] == keys, new[places], keys)
        self.rebuild()

    def select(self, side: int, position: int) -> int:
        """The node of the row at a position in the order of values, counted from 1."""
        nodes = self.ascend()
        below = np.cumsum(self.nodes.counts[side][nodes])
        return int(nodes[np.searchsorted(below, position)])

    @property
    def visits(self) -> int:
        return int(self.nodes.tally[VISITS])

    @property
    def most_visits(self) -> int:
        """The most nodes that one probe has read."""
        return int(self.nodes.tally[MOST])
