"""A sliding window in memory: a circular array of basic windows, with an index over their values.

Idea (report section 3): tuples fill a buffer outside the array; when it is full, the window
slides: the oldest basic window expires, the buffer is attached in its slot, zero counts are purged
if due, queries run if due. Whole basic windows enter and leave, no tuple is looked at to see
whether it is dead.
Invariant: what is in the buffer is invisible to every answer, whatever the index did already.
Cost: storage + probe + 2 counts per tuple (docs/windows.md has the table).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.keywords import known_settings
from mayfly.lifetime import Duration, duration
from mayfly.windows.basic import PacedWindow, at_least_one
from mayfly.windows.chains import Chains
from mayfly.windows.counted import CountedTree
from mayfly.windows.dictionary import Dictionary
from mayfly.windows.domain import NULL_KEY, Domain, Int64s
from mayfly.windows.groups import GroupIndex, Groups, RangeCount, RangeIntersection, ValueRange
from mayfly.windows.index import ValueIndex
from mayfly.windows.nodes import Int32s
from mayfly.windows.pace import Rows, Span
from mayfly.windows.rings import RINGS, Ring
from mayfly.windows.storage import BasicWindow, CountedBuffer, ListBuffer, recoded
from mayfly.windows.tree import Tree

STORAGES = ("LIST", "AGGR", "HASH", "GROUP")
INDEXES = ("T", "H", "AVL", "L", "UH", "G")


@dataclass(frozen=True)
class Visits:
    """Nodes read since the window began: in basic windows, by probes, to attach and to expire."""

    storage: int
    probe: int
    most: int
    attach: int
    expire: int


class SlidingWindow(PacedWindow):
    """The last ``slots`` basic windows of a stream of values, ready for questions about values.

    >>> window = SlidingWindow(by=Rows(4), slots=2)
    >>> window.append([12, 14, 16, 17, 15, 4, 19, 17, 16])
    >>> window.distinct(), window.median(), window.top(1)
    (7, 15.5, [(17, 2)])
    """

    @known_settings()
    def __init__(
        self,
        by: Rows | Span,
        slots: int,
        *,
        storage: str = "LIST",
        index: str | None = "T",
        ring: str | None = None,
        groups: Sequence[Any] | None = None,
        buckets: int | None = None,
        basic_buckets: int = 5,
        purge_every: int | None = None,
        attribute: str = "value",
        time: str = "ts",
        share: SlidingWindow | None = None,
    ) -> None:
        super().__init__(by, slots, attribute, time)
        self.storage, self.index_kind, self.ring_kind = storage, index, ring
        self.purge_every = max(1, slots // 5) if purge_every is None else purge_every
        self._check(groups, buckets, share)
        self._domain: Domain = share._domain if share else Domain()
        self._groups = Groups(groups, self._domain) if groups is not None else None
        self._group_index = GroupIndex(self._groups) if self._groups and index == "G" else None
        self._index: ValueIndex | None = share._index if share else _make_index(index, buckets)
        self._side = self._index.nodes.add_side() if self._index else 0
        self._shared = share is not None
        if share:
            share._shared = True
        self._buffer = _make_buffer(storage, basic_buckets)
        self._ring: Ring | None = RINGS[ring]() if ring else None
        self._slot: list[BasicWindow | Int64s | None] = [None] * slots
        self._tables: list[pa.Table | None] = [None] * slots
        self._filling: list[pa.Table] = []
        self._rows_attached = 0
        self._touched = [0, 0]
        self._domain.on_relabel(self._relabel)

    # ── answers ───────────────────────────────────────────────────────────────────────────

    @property
    def rows(self) -> int:
        """The tuples in the window."""
        return self._rows_attached

    @property
    def visits(self) -> Visits:
        index = self._group_index or self._index
        probe = 0 if index is None else index.visits
        most = 0 if self._index is None else self._index.most_visits
        return Visits(self._buffer.visits, probe, most, *self._touched)

    @property
    def ring(self) -> Ring:
        if self._ring is None:
            raise InvalidSetting(
                "this window has no index from values to rows", 'give ring="numbered"'
            )
        return self._ring

    def histogram(self) -> list[tuple[Any, int]] | list[RangeCount]:
        """How often each value occurs, ascending, NULL first; by groups, counts of ranges."""
        if self._group_index is not None or self.storage == "GROUP":
            return self._by_groups().histogram()
        keys, counts = self._counted()
        return list(zip(self._domain.decode(keys).to_pylist(), counts.tolist(), strict=True))

    def distinct(self) -> int | tuple[int, int]:
        """How many values there are, NULL not counted; by groups, the least and the most."""
        if self._group_index is not None or self.storage == "GROUP":
            return self._by_groups().distinct()
        if self._index is None:
            keys, _ = self._counted()
            return len(keys) - int(len(keys) > 0 and keys[0] == NULL_KEY)
        return self._index.nodes.distinct[self._side] - (self._null_rows() > 0)

    def quantile(self, q: float) -> Any:
        """The smallest value with a share ``q`` of the rows up to it; by groups, a range."""
        if not 0 <= q <= 1:
            raise InvalidSetting(f"the quantile {q} does not exist", "give a number from 0 to 1")
        rows = self._present_rows()
        return self._at_position(max(1, math.ceil(q * rows - 1e-9))) if rows else None

    def median(self) -> float | None:
        """The mean of the two values in the middle."""
        rows = self._present_rows()
        if not rows:
            return None
        low, high = self._at_position((rows + 1) // 2), self._at_position(rows // 2 + 1)
        if isinstance(low, ValueRange):
            raise InvalidSetting(
                "counts of groups have no median", "ask quantile(0.5), which answers by a range"
            )
        return float(low) if low == high else float(low + (high - low) / 2)

    def min(self) -> Any:
        return self._at_position(1) if self._present_rows() else None

    def max(self) -> Any:
        rows = self._present_rows()
        return self._at_position(rows) if rows else None

    def top(self, k: int) -> list[tuple[Any, int]]:
        """The k most frequent values: count descending, then value."""
        keys, counts = self._exact("top")
        present = keys != NULL_KEY
        keys, counts = keys[present], counts[present]
        order = np.lexsort((keys, -counts))[: at_least_one(k, "k")]
        values = self._domain.decode(keys[order]).to_pylist()
        return list(zip(values, counts[order].tolist(), strict=True))

    def intersection(self, other: SlidingWindow) -> list[Any] | RangeIntersection:
        """The values in both windows, ascending; by groups, ranges that may hold some."""
        if self._group_index is not None or self.storage == "GROUP":
            return self._by_groups().intersection(other._by_groups())
        if self._index is not None and self._index is other._index:
            nodes = self._index.ascend()
            counts = self._index.nodes.counts
            common = (counts[self._side][nodes] > 0) & (counts[other._side][nodes] > 0)
            keys = self._index.nodes.key[nodes[common]]
            return list(self._domain.decode(keys).to_pylist())
        theirs_too = {value for value, _ in other.histogram()}  # type: ignore[misc]
        return [value for value, _ in self.histogram() if value in theirs_too]  # type: ignore[misc]

    def difference(self, other: SlidingWindow) -> list[Any]:
        """The values that occur in this window and not in the other, ascending."""
        self._exact("difference")
        common = set(self.intersection(other))  # type: ignore[arg-type]
        return [value for value, _ in self.histogram() if value not in common]  # type: ignore[misc]

    def lookup(self, value: object) -> pa.Table:
        """The rows with a value, in stream order."""
        return self._rows_of(self._numbers_of(value))

    def sorted_by(self) -> pa.Table:
        """All rows, ascending by value, then in stream order."""
        assert self._index is not None
        nodes = self._index.ascend()
        numbers = [self.ring.lookup(node) for node in nodes.tolist()]
        return self._rows_of(np.concatenate(numbers) if numbers else np.empty(0, np.int64))

    # ── slides ────────────────────────────────────────────────────────────────────────────

    def _take_in(self, rows: pa.Table) -> None:
        """Rows of the basic window that is filling."""
        keys = self._domain.encode(rows.column(self.attribute))
        if self._groups is not None and self.storage == "GROUP":
            self._buffer.append(keys, None)
            return
        members = self._buffer.append(keys, self._index)
        if self._index is not None and self._shared:
            np.add.at(self._index.nodes.held, members, 1)
        if self._ring is not None:
            assert self._index is not None
            self._ring.arrive(members.astype(np.int32), self._index.nodes.capacity)
            self._filling.append(rows)

    def _replace_oldest(self) -> None:
        """Expire, attach, purge: in this order."""
        at = self._slides % self.slots
        old, new = self._slot[at], self._buffer.take()
        if self._groups is not None and self.storage == "GROUP":
            self._slide_groups(at, new)
        else:
            self._slide_values(at, old if isinstance(old, BasicWindow) else None, new)
        slides = self._slides + 1
        if self._index is not None and self.purge_every and slides % self.purge_every == 0:
            self._purge()

    def _is_empty(self) -> bool:
        return self._rows_attached == 0

    def _clear(self) -> None:
        self._slot, self._tables = [None] * self.slots, [None] * self.slots

    def _slide_values(self, at: int, old: BasicWindow | None, new: BasicWindow) -> None:
        if self._index is not None:
            if old is not None:
                self._index.change(self._side, _nodes(old), old.amounts, -1)
                self._touched[1] += len(old.members)
            self._index.change(self._side, _nodes(new), new.amounts, 1)
            self._touched[0] += len(new.members)
            if self._shared:
                np.subtract.at(self._index.nodes.held, new.members, 1)
        if self._group_index is not None and self._groups is not None:
            gone = None if old is None else self._groups.counts(old.members.astype(np.int64))
            self._group_index.slide(self._groups.counts(new.members.astype(np.int64)), gone)
        self._rows_attached += new.rows - (0 if old is None else old.rows)
        self._slot[at] = new
        if self._ring is not None:
            self._ring.slide(at)
            self._tables[at] = pa.concat_tables(self._filling) if self._filling else None
            self._filling = []

    def _slide_groups(self, at: int, new: BasicWindow) -> None:
        assert self._groups is not None
        counts = self._groups.counts(new.members.astype(np.int64))
        old = self._slot[at]
        assert not isinstance(old, BasicWindow)
        if self._group_index is not None:
            self._group_index.slide(counts, old)
        self._rows_attached += int(counts.sum()) - (0 if old is None else int(old.sum()))
        self._slot[at] = counts

    def _purge(self) -> None:
        assert self._index is not None
        keys_before = self._index.nodes.key
        nodes = self._index.purge()
        if len(nodes):
            self._domain.forget(keys_before[nodes])
            if self._ring is not None:
                self._ring.forget(nodes)

    def _relabel(self, old: Int64s, new: Int64s) -> None:
        if self._index is not None and (self._side == 0):
            self._index.recode(old, new)
        self._buffer.recode(old, new)
        if self._index is None:
            self._slot = [
                BasicWindow(recoded(slot.members.astype(np.int64), old, new), slot.amounts)
                if isinstance(slot, BasicWindow)
                else slot
                for slot in self._slot
            ]

    # ── reading ───────────────────────────────────────────────────────────────────────────

    def _counted(self) -> tuple[Int64s, Int64s]:
        """Keys with a count, ascending, and their counts."""
        if self._index is not None:
            nodes = self._index.ascend()
            counts = self._index.nodes.counts[self._side][nodes]
            filled = counts > 0
            return self._index.nodes.key[nodes[filled]], counts[filled]
        parts = [slot for slot in self._slot if isinstance(slot, BasicWindow)]
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        members = np.concatenate([part.members for part in parts]).astype(np.int64)
        weights = np.concatenate(
            [
                np.ones(len(part.members), np.int64) if part.amounts is None else part.amounts
                for part in parts
            ]
        )
        order = np.argsort(members, kind="stable")
        members, weights = members[order], weights[order]
        starts = np.flatnonzero(np.append(True, members[1:] != members[:-1])[: len(members)])
        return members[starts], np.add.reduceat(weights, starts) if len(starts) else weights

    def _exact(self, question: str) -> tuple[Int64s, Int64s]:
        if self._group_index is not None or self.storage == "GROUP":
            raise InvalidSetting(
                f"{question} needs values, and this window counts groups",
                'use storage="LIST" with index="T" or "H"',
            )
        return self._counted()

    def _by_groups(self) -> GroupIndex:
        if self._group_index is not None:
            return self._group_index
        if self._groups is None:
            raise InvalidSetting(
                "this window counts values, the other one groups", "give both the same groups"
            )
        merged = GroupIndex(self._groups)
        for slot in self._slot:
            if isinstance(slot, np.ndarray):
                merged.slide(slot, None)
        return merged

    def _null_rows(self) -> int:
        if self._index is None:
            keys, counts = self._counted()
            return int(counts[0]) if len(keys) and keys[0] == NULL_KEY else 0
        node = self._index.find(NULL_KEY)
        return 0 if node < 0 else int(self._index.nodes.counts[self._side][node])

    def _present_rows(self) -> int:
        """Rows that are not NULL."""
        if self._group_index is not None or self.storage == "GROUP":
            return int(self._by_groups().counts.sum())
        return self._rows_attached - self._null_rows()

    def _at_position(self, position: int) -> Any:
        """The value at a position in the order of values, NULLs not counted."""
        if self._group_index is not None or self.storage == "GROUP":
            return self._by_groups().select(position)
        if self._index is not None:
            node = self._index.select(self._side, position + self._null_rows())
            return self._domain.decode(self._index.nodes.key[[node]])[0].as_py()
        keys, counts = self._counted()
        below = np.cumsum(np.where(keys == NULL_KEY, 0, counts))
        return self._domain.decode(keys[[np.searchsorted(below, position)]])[0].as_py()

    def _numbers_of(self, value: object) -> Int64s:
        ring = self.ring
        assert self._index is not None
        key = self._domain.key_of(value)
        node = -1 if key is None else self._index.find(key)
        return np.empty(0, np.int64) if node < 0 else ring.lookup(node)

    def _rows_of(self, numbers: Int64s) -> pa.Table:
        """The rows with these stream numbers, in this order."""
        first = self._slides % self.slots
        order = [(first + i) % self.slots for i in range(self.slots)]
        tables = [t for at in order if (t := self._tables[at]) is not None]
        if not tables:
            return pa.table({self.attribute: self._domain.decode(numbers[:0])})
        window = pa.concat_tables(tables)
        begin = self._arrived() - window.num_rows
        return window.take(pa.array(numbers - begin))

    def _arrived(self) -> int:
        """The number of the first tuple behind the window."""
        return self.ring._arrived - self._filled

    def _check(
        self, groups: Sequence[Any] | None, buckets: int | None, share: SlidingWindow | None
    ) -> None:
        if self.storage not in STORAGES:
            raise InvalidSetting(
                f"there is no storage {self.storage!r}", f"use one of {', '.join(STORAGES)}"
            )
        if self.index_kind is not None and self.index_kind not in INDEXES:
            raise InvalidSetting(
                f"there is no index {self.index_kind!r}", f"use one of {', '.join(INDEXES)}"
            )
        if self.ring_kind is not None and self.ring_kind not in RINGS:
            raise InvalidSetting(
                f"there is no ring {self.ring_kind!r}", f"use one of {', '.join(RINGS)}"
            )
        if self.ring_kind is not None and (
            self.storage != "LIST" or self.index_kind in (None, "G")
        ):
            raise InvalidSetting(
                "a ring needs whole tuples and a value index",
                'use storage="LIST" and one of the indexes T, H, AVL, L, UH',
            )
        if (self.index_kind == "G" or self.storage == "GROUP") != (groups is not None):
            raise InvalidSetting(
                "groups belong to storage GROUP or index G, and to nothing else",
                'give groups=[…] together with index="G"',
            )
        if self.storage == "GROUP" and self.index_kind not in (None, "G"):
            raise InvalidSetting(
                f"GROUP basic windows hold no values for index {self.index_kind}",
                'use index="G" or index=None',
            )
        if self.index_kind == "G" and self.storage not in ("GROUP", "LIST"):
            raise InvalidSetting(
                f"index G over {self.storage} basic windows", "use storage GROUP or LIST"
            )
        if share is not None and (share._index is None or share.index_kind != self.index_kind):
            raise InvalidSetting(
                "windows share an index of one kind", "give both the same index, not G"
            )


@known_settings(lambda: SlidingWindow.__init__)
def over_range(d: Duration, slide: Duration, **settings: Any) -> SlidingWindow:
    """``[RANGE d SLIDE s]``: basic windows of gcd(d, s)."""
    whole, step = duration(d), duration(slide)
    basic = math.gcd(whole, step)
    return SlidingWindow(by=Span(timedelta(microseconds=basic)), slots=whole // basic, **settings)


def _nodes(basic: BasicWindow) -> Int32s:
    return basic.members.astype(np.int32, copy=False)


def _make_index(kind: str | None, buckets: int | None) -> ValueIndex | None:
    match kind:
        case None | "G":
            return None
        case "T":
            return CountedTree()
        case "AVL":
            return Tree()
        case "L":
            return Chains()
        case "UH":
            return Chains(buckets or 100, ascending=False)
        case _:
            return Dictionary() if buckets is None else Chains(buckets)


def _make_buffer(storage: str, buckets: int) -> ListBuffer | CountedBuffer:
    match storage:
        case "AGGR":
            return CountedBuffer()
        case "HASH":
            return CountedBuffer(buckets)
        case _:
            return ListBuffer()
