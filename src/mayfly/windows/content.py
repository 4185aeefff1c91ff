"""What a window holds, and what it answers about that: values here, groups in groups.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from mayfly.errors import InvalidSetting
from mayfly.windows.domain import NULL_KEY, Domain, Int64s, family
from mayfly.windows.index import ValueIndex
from mayfly.windows.storage import BasicWindow, CountedBuffer, ListBuffer, Members, recoded


@dataclass(frozen=True)
class Visits:
    """Nodes read since the window began: in basic windows, by probes, to attach and to expire."""

    storage: int = 0
    probe: int = 0
    most: int = 0
    attach: int = 0
    expire: int = 0


class WindowContent(ABC):
    """The attached basic windows and the buffer of a window."""

    rows = 0
    """The attached tuples."""

    @abstractmethod
    def append(self, keys: Int64s) -> Members:
        """Take tuples into the buffer; the nodes or keys that stand for them."""

    @abstractmethod
    def slide(self, slot: int) -> None:
        """Expire the tuples of a slot, then attach the buffer in their place."""

    @abstractmethod
    def purge(self) -> Members:
        """Forget values that nothing counts or holds; the nodes that were removed."""

    @abstractmethod
    def clear(self) -> None:
        """Make every slot that of an empty basic window."""

    @property
    @abstractmethod
    def visits(self) -> Visits: ...

    @property
    @abstractmethod
    def present(self) -> int:
        """The attached tuples that are not NULL."""

    @abstractmethod
    def histogram(self) -> list[Any]: ...

    @abstractmethod
    def distinct(self) -> Any: ...

    @abstractmethod
    def select(self, position: int) -> Any:
        """What stands at a position, from 1, in the order of values; NULLs not counted."""

    @abstractmethod
    def counts(self, question: str) -> tuple[Int64s, Int64s]:
        """Keys with a count, ascending, and their counts; refuses a question about values."""

    @abstractmethod
    def intersection(self, other: WindowContent) -> Any: ...


class ValueContent(WindowContent):
    """Values: basic windows of nodes of an index or, without one, of keys."""

    def __init__(
        self,
        domain: Domain,
        buffer: ListBuffer | CountedBuffer,
        index: ValueIndex | None,
        slots: int,
    ) -> None:
        self.domain, self.index, self.shared = domain, index, False
        self.side = index.nodes.add_side() if index else 0
        self._buffer = buffer
        self._slots: list[BasicWindow | None] = [None] * slots
        self._attached = self._expired = 0
        domain.on_relabel(self._relabel)

    def append(self, keys: Int64s) -> Members:
        members = self._buffer.append(keys, self.index)
        if self.index is not None and self.shared:
            np.add.at(self.index.nodes.held, members, 1)
        return members

    def slide(self, slot: int) -> None:
        old, new = self._slots[slot], self._buffer.take()
        if self.index is not None:
            if old is not None:
                self.index.change(self.side, old.nodes, old.amounts, -1)
                self._expired += len(old.members)
            self.index.change(self.side, new.nodes, new.amounts, 1)
            self._attached += len(new.members)
            if self.shared:
                np.subtract.at(self.index.nodes.held, new.members, 1)
        self.rows += new.rows - (0 if old is None else old.rows)
        self._slots[slot] = new

    def purge(self) -> Members:
        if self.index is None:
            self.domain.keep(self._members())
            return np.empty(0, np.int32)
        keys = self.index.nodes.key
        nodes = self.index.purge()
        if len(nodes):
            self.domain.forget(keys[nodes])
        return nodes

    def clear(self) -> None:
        self._slots = [None] * len(self._slots)

    @property
    def visits(self) -> Visits:
        index = self.index
        probe, most = (0, 0) if index is None else (index.visits, index.most_visits)
        return Visits(self._buffer.visits, probe, most, self._attached, self._expired)

    @property
    def present(self) -> int:
        return self.rows - self._nulls()

    def histogram(self) -> list[tuple[Any, int]]:
        keys, counts = self.counts("histogram")
        return list(zip(self.domain.decode(keys).to_pylist(), counts.tolist(), strict=True))

    def distinct(self) -> int:
        if self.index is None:
            keys, _ = self.counts("distinct")
            return len(keys) - int(len(keys) > 0 and keys[0] == NULL_KEY)
        return self.index.nodes.distinct[self.side] - (self._nulls() > 0)

    def select(self, position: int) -> Any:
        if self.index is not None:
            node = self.index.select(self.side, position + self._nulls())
            keys = self.index.nodes.key[[node]]
        else:
            keys, counts = self.counts("select")
            below = np.cumsum(np.where(keys == NULL_KEY, 0, counts))
            keys = keys[[np.searchsorted(below, position)]]
        return self.domain.decode(keys)[0].as_py()

    def counts(self, question: str) -> tuple[Int64s, Int64s]:
        if self.index is not None:
            nodes = self.index.ascend()
            counts = self.index.nodes.counts[self.side][nodes]
            filled = counts > 0
            return self.index.nodes.key[nodes[filled]], counts[filled]
        members, weights = self._members(), self._weights()
        order = np.argsort(members, kind="stable")
        members, weights = members[order], weights[order]
        starts = np.flatnonzero(np.append(True, members[1:] != members[:-1])[: len(members)])
        return members[starts], np.add.reduceat(weights, starts) if len(starts) else weights

    def intersection(self, other: WindowContent) -> list[Any]:
        """The values of both, ascending."""
        if not isinstance(other, ValueContent):
            raise _of_two_kinds()
        if self.index is not None and self.index is other.index:
            nodes, counts = self.index.ascend(), self.index.nodes.counts
            common = nodes[(counts[self.side][nodes] > 0) & (counts[other.side][nodes] > 0)]
            return list(self.domain.decode(self.index.nodes.key[common]).to_pylist())
        self._check_comparable(other)
        keys, _ = self.counts("intersection")
        theirs, _ = other.counts("intersection")
        if self.domain.labelled or other.domain.labelled:
            values = set(other.domain.decode(theirs).to_pylist())
            return [value for value in self.domain.decode(keys).to_pylist() if value in values]
        return list(self.domain.decode(keys[np.isin(keys, theirs)]).to_pylist())

    def _check_comparable(self, other: ValueContent) -> None:
        own_type, another = self.domain.type, other.domain.type
        if own_type is None or another is None or own_type == another:
            return
        ranked = self.domain.labelled == other.domain.labelled
        if (
            not ranked
            or family(own_type) != family(another)
            or _ranks_of(own_type) != _ranks_of(another)
        ):
            raise InvalidSetting(
                f"a window of {own_type} and one of {another} have no values in common",
                "give both windows columns of one type",
            )

    def _members(self) -> Int64s:
        parts = [slot.members for slot in self._slots if slot is not None]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _weights(self) -> Int64s:
        parts = [slot.weights for slot in self._slots if slot is not None]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _nulls(self) -> int:
        if self.index is None:
            keys, counts = self.counts("nulls")
            return int(counts[0]) if len(keys) and keys[0] == NULL_KEY else 0
        node = self.index.find(NULL_KEY)
        return 0 if node < 0 else int(self.index.nodes.counts[self.side][node])

    def _relabel(self, old: Int64s, new: Int64s) -> None:
        self._buffer.recode(old, new)
        if self.index is not None:
            if self.side == 0:
                self.index.recode(old, new)
            return
        self._slots = [
            None if slot is None else BasicWindow(recoded(slot.members, old, new), slot.amounts)
            for slot in self._slots
        ]


def _ranks_of(kind: Any) -> str:
    """Types with equal ranks for equal values."""
    text = str(kind)
    return "whole" if "int" in text else "float" if text in ("float", "double") else text


def _of_two_kinds() -> InvalidSetting:
    return InvalidSetting(
        "one window counts values, the other one groups", "give both the same groups, or none"
    )
