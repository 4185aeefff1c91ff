"""How a basic window stores its tuples: LIST, AGGR, HASH (report section 3.2; GROUP: groups.py).

LIST keeps every tuple in stream order. AGGR keeps (value, count) in one ascending list, HASH in
several by ``v mod buckets``; both probe the window's index only for the first tuple of a value,
which pays where values repeat within a basic window.
Cost per tuple: LIST 1; AGGR and HASH the smaller values of the (bucket's) list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mayfly.windows.bucket_chains import Chains
from mayfly.windows.domain import Int64s
from mayfly.windows.index import ValueIndex
from mayfly.windows.nodes import Int32s

Members = npt.NDArray[np.signedinteger[Any]]
"""Node numbers (int32) or keys (int64)."""


@dataclass(frozen=True)
class BasicWindow:
    """The tuples of one slot, each once (LIST) or with a count (AGGR, HASH).

    ``members`` are nodes of the window's index or, where it has none, keys.
    """

    members: Members
    amounts: Int64s | None = None

    @property
    def rows(self) -> int:
        return len(self.members) if self.amounts is None else int(self.amounts.sum())

    @property
    def nodes(self) -> Int32s:
        return self.members.astype(np.int32, copy=False)

    @property
    def weights(self) -> Int64s:
        return np.ones(len(self.members), np.int64) if self.amounts is None else self.amounts


EMPTY = BasicWindow(np.empty(0, np.int32))


class ListBuffer:
    """The filling basic window as a list of tuples."""

    visits = 0

    def __init__(self) -> None:
        self._members: list[Members] = []

    def append(self, keys: Int64s, index: ValueIndex | None) -> Members:
        """Take tuples in; what now names them: nodes, or keys without an index."""
        members = keys if index is None else index.probe(keys)
        self._members.append(members)
        return members

    def take(self) -> BasicWindow:
        """What has been gathered; the buffer is empty then."""
        if not self._members:
            return EMPTY
        members, self._members = np.concatenate(self._members), []
        return BasicWindow(members)

    def recode(self, old: Int64s, new: Int64s) -> None:
        self._members = recoded_keys(self._members, old, new)


class CountedBuffer:
    """The filling basic window as ascending lists of (value, count): AGGR and HASH."""

    def __init__(self, buckets: int = 1) -> None:
        self._buckets, self.visits = buckets, 0
        self._start()

    def _start(self) -> None:
        self._chains = Chains(self._buckets)
        self._chains.nodes.add_side()
        self._members: list[Members] = []
        self._stored_nodes = 0

    def append(self, keys: Int64s, index: ValueIndex | None) -> Members:
        """Take tuples in; what names the values that are new in this basic window."""
        before, nodes = self._chains.visits, self._chains.nodes
        self._chains.change(0, self._chains.probe(keys), None, 1)
        self.visits += self._chains.visits - before
        fresh = nodes.key[self._stored_nodes : nodes.size].copy()
        self._stored_nodes = nodes.size
        members = fresh if index is None else index.probe(fresh)
        self._members.append(members)
        return members

    def take(self) -> BasicWindow:
        """What has been gathered, ascending by key; the buffer is empty then."""
        if not self._stored_nodes:
            return EMPTY
        nodes = self._chains.nodes
        order = np.argsort(nodes.key[: nodes.size])
        members = np.concatenate(self._members)[order]
        amounts = nodes.counts[0][: nodes.size][order]
        self._start()
        return BasicWindow(members, amounts)

    def recode(self, old: Int64s, new: Int64s) -> None:
        self._chains.recode(old, new)
        self._members = recoded_keys(self._members, old, new)


def recoded(keys: Members, old: Int64s, new: Int64s) -> Int64s:
    """Keys after a relabelling; those that have no label (NULL) stay."""
    places = np.minimum(np.searchsorted(old, keys), len(old) - 1)
    return np.where(old[places] == keys, new[places], keys)


def recoded_keys(parts: list[Members], old: Int64s, new: Int64s) -> list[Members]:
    """Parts that hold keys after a relabelling; nodes keep their numbers."""
    return [recoded(part, old, new) if part.dtype == np.int64 else part for part in parts]
