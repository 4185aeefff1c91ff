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
from datetime import timedelta
from fractions import Fraction
from typing import Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from mayfly.display import counted
from mayfly.errors import BadInput, InvalidSetting
from mayfly.keywords import known_settings
from mayfly.lifetime import Duration, duration
from mayfly.windows.basic import PacedWindow, Take, at_least_one
from mayfly.windows.bucket_chains import Chains
from mayfly.windows.combinations import check_settings
from mayfly.windows.content import ValueContent, Visits, WindowContent
from mayfly.windows.counted_order import CountedTree
from mayfly.windows.dictionary import Dictionary
from mayfly.windows.domain import NULL_KEY, Domain, Int64s, family
from mayfly.windows.groups import (
    GroupContent,
    RangeCount,
    RangeIntersection,
    ValueGroups,
    ValueRange,
)
from mayfly.windows.index import ValueIndex
from mayfly.windows.pace import Rows, Span
from mayfly.windows.rings import RINGS, Ring
from mayfly.windows.storage import CountedBuffer, ListBuffer
from mayfly.windows.tree import Tree


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
        check_settings(storage, index, ring, groups is not None, buckets)
        self.storage, self.index_kind, self.ring_kind = storage, index, ring
        self.purge_every = (
            max(1, self.slots // 5)
            if purge_every is None
            else at_least_one(purge_every, "purge_every", least=0)
        )
        buckets = None if buckets is None else at_least_one(buckets, "buckets")
        other = None if share is None else _sharing(share, index, buckets)
        self._domain = Domain() if other is None else other.domain
        self._content: WindowContent
        if groups is not None:
            self._content = GroupContent(
                self._domain,
                ValueGroups(groups, self._domain),
                listed=storage == "LIST",
                indexed=index == "G",
                slots=self.slots,
            )
        else:
            buffer = _make_buffer(storage, at_least_one(basic_buckets, "basic_buckets"))
            tree = _make_index(index, buckets) if other is None else other.index
            self._content = ValueContent(self._domain, buffer, tree, self.slots)
            if other is not None:
                self._content.shared = other.shared = True
        self._ring: Ring | None = RINGS[ring]() if ring else None
        self._tables: list[pa.Table | None] = [None] * self.slots
        self._filling: list[pa.Table] = []
        self._kept: pa.Schema | None = None

    def __repr__(self) -> str:
        return (
            f"SlidingWindow({self.by}, slots={self.slots}, storage={self.storage!r}, "
            f"index={self.index_kind!r}): {counted(self.rows, 'row')}"
        )

    # ── answers ───────────────────────────────────────────────────────────────────────────

    @property
    def rows(self) -> int:
        """The tuples in the window."""
        return self._content.rows

    @property
    def visits(self) -> Visits:
        return self._content.visits

    @property
    def ring(self) -> Ring:
        if self._ring is None:
            raise InvalidSetting(
                "this window has no index from values to rows", 'give ring="numbered"'
            )
        return self._ring

    def histogram(self) -> list[tuple[Any, int]] | list[RangeCount]:
        """How often each value occurs, ascending, NULL first; by groups, counts of ranges."""
        return self._content.histogram()

    def distinct(self) -> int | tuple[int, int]:
        """How many values there are, NULL not counted; by groups, the least and the most."""
        answer: int | tuple[int, int] = self._content.distinct()
        return answer

    def quantile(self, q: float) -> Any:
        """The smallest value with a share ``q`` of the rows up to it; by groups, a range."""
        number = isinstance(q, float | int | np.floating) and not isinstance(q, bool)
        if not number or not 0 <= q <= 1:
            raise InvalidSetting(f"the quantile {q!r} does not exist", "give a number from 0 to 1")
        rows = self._content.present
        return self._content.select(max(1, math.ceil(q * rows - 1e-9))) if rows else None

    def median(self) -> float | None:
        """The mean of the two values in the middle."""
        rows = self._content.present
        if not rows:
            return None
        low, high = (self._content.select(rank) for rank in ((rows + 1) // 2, rows // 2 + 1))
        if isinstance(low, ValueRange) or family(self._domain.type) not in ("number", "bool"):
            raise InvalidSetting(
                "counts of groups have no median"
                if isinstance(low, ValueRange)
                else f"values of type {self._domain.type} have no mean, and so no median",
                "ask quantile(0.5), which answers by one of them",
            )
        if isinstance(low, float):
            return low if low == high else 0.5 * low + 0.5 * high
        return float((Fraction(low) + Fraction(high)) / 2)

    def min(self) -> Any:
        return self._content.select(1) if self._content.present else None

    def max(self) -> Any:
        rows = self._content.present
        return self._content.select(rows) if rows else None

    def top(self, k: int) -> list[tuple[Any, int]]:
        """The k most frequent values: count descending, then value."""
        keys, counts = self._content.counts("top")
        present = keys != NULL_KEY
        keys, counts = keys[present], counts[present]
        order = np.lexsort((keys, -counts))[: at_least_one(k, "k")]
        values = self._domain.decode(keys[order]).to_pylist()
        return list(zip(values, counts[order].tolist(), strict=True))

    def intersection(self, other: SlidingWindow) -> list[Any] | RangeIntersection:
        """The values in both windows, ascending; by groups, ranges that may hold some."""
        answer: list[Any] | RangeIntersection = self._content.intersection(_content_of(other))
        return answer

    def difference(self, other: SlidingWindow) -> list[Any]:
        """The values that occur in this window and not in the other, ascending."""
        keys, _ = self._content.counts("difference")
        common = self._domain.encode(
            pa.array(self._content.intersection(_content_of(other)), self._domain.type)
        )
        return list(self._domain.decode(keys[~np.isin(keys, common)]).to_pylist())

    def lookup(self, value: object) -> pa.Table:
        """The rows with a value, in stream order."""
        ring, index = self.ring, self._index
        try:
            key = self._domain.key_of(value)
        except BadInput:
            raise BadInput(
                f"{value!r} cannot be looked up in a window of {self._domain.type}",
                "look up a value of that type",
            ) from None
        node = -1 if key is None else index.find(key)
        return self._rows_of(np.empty(0, np.int64) if node < 0 else ring.lookup(node))

    def sorted_by(self) -> pa.Table:
        """All rows, ascending by value, then in stream order."""
        ring = self.ring
        numbers = [ring.lookup(node) for node in self._index.ascend().tolist()]
        return self._rows_of(np.concatenate([np.empty(0, np.int64), *numbers]))

    # ── slides ────────────────────────────────────────────────────────────────────────────

    def _admit(self, rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index(self.attribute)
        rows = rows.set_column(place, self.attribute, self._domain.admit(rows[self.attribute]))
        if self._ring is None:
            timed = [self.time] if self.time in rows.schema.names else []
            return rows.select([self.attribute, *timed])
        return self._as_kept(rows)

    def _as_kept(self, rows: pa.Table) -> pa.Table:
        """A ring gives whole rows back, so that all of them have the columns of the first."""
        names = sorted(rows.schema.names)
        if self._kept is None:
            self._kept = rows.schema
        elif names != sorted(self._kept.names):
            raise BadInput(
                f"a batch with the columns {', '.join(names)} came after one with "
                f"{', '.join(sorted(self._kept.names))}",
                "keep the same columns per window",
            )
        rows = rows.select(self._kept.names)
        place = self._kept.get_field_index(self.attribute)
        # The type of values may have become wider since.
        kept = self._kept.set(place, rows.schema.field(place))
        try:
            return rows.cast(kept)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadInput(
                f"the columns of a batch have other types than those before: {error}",
                "keep one type per column",
            ) from None

    def _open(self, rows: pa.Table) -> Take:
        column = rows.column(self.attribute)
        # Labels may be spread anew or forgotten at any slide; other keys stay what they are.
        keys = None if self._domain.labelled else self._domain.encode(column)

        def take(start: int, end: int) -> None:
            if keys is None:
                self._take_in(self._domain.encode(column.slice(start, end - start)))
            else:
                self._take_in(keys[start:end])
            if self._ring is not None:
                self._filling.append(rows.slice(start, end - start))

        return take

    def _take_in(self, keys: Int64s) -> None:
        """Tuples of the basic window that is filling."""
        members = self._content.append(keys)
        if self._ring is not None:
            self._ring.arrive(members.astype(np.int32, copy=False), self._index.nodes.capacity)

    def _replace_oldest(self) -> None:
        """Expire, attach, purge: in this order."""
        slot = self._slides % self.slots
        self._content.slide(slot)
        if self._ring is not None:
            self._ring.slide(slot)
            self._tables[slot] = pa.concat_tables(self._filling) if self._filling else None
            self._filling = []
        if self.purge_every and (self._slides + 1) % self.purge_every == 0:
            nodes = self._content.purge()
            if self._ring is not None and len(nodes):
                self._ring.forget(nodes.astype(np.int32, copy=False))

    def _is_empty(self) -> bool:
        return self.rows == 0

    def _clear(self) -> None:
        self._content.clear()
        self._tables = [None] * self.slots

    # ── rows ──────────────────────────────────────────────────────────────────────────────

    @property
    def _index(self) -> ValueIndex:
        """The index of a window with a ring, which always has one."""
        assert isinstance(self._content, ValueContent)
        assert self._content.index is not None
        return self._content.index

    def _rows_of(self, numbers: Int64s) -> pa.Table:
        """The rows with these stream numbers, in this order."""
        first = self._slides % self.slots
        order = [(first + i) % self.slots for i in range(self.slots)]
        tables = [t for slot in order if (t := self._tables[slot]) is not None]
        if not tables:
            return pa.table({self.attribute: self._domain.decode(numbers[:0])})
        window = pa.concat_tables(tables, promote_options="permissive")
        begin = self.ring._arrived - self._filled - window.num_rows
        return window.take(pa.array(numbers - begin))


class WindowIndexes(TypedDict, total=False):
    """How a window keeps its values; ``SlidingWindow`` explains it."""

    storage: str
    index: str | None
    ring: str | None
    groups: Sequence[Any] | None
    buckets: int | None
    basic_buckets: int
    purge_every: int | None


class RangeOptions(WindowIndexes, total=False):
    """All that a ``SlidingWindow`` may be given by name."""

    attribute: str
    time: str
    share: SlidingWindow | None


@known_settings(RangeOptions)
def over_range(d: Duration, slide: Duration, **settings: Unpack[RangeOptions]) -> SlidingWindow:
    """``[RANGE d SLIDE s]``: basic windows of gcd(d, s); a refresh attaches s/gcd of them."""
    whole, step = duration(d), duration(slide)
    if not step or not whole:
        raise InvalidSetting(
            f"a window of {d!r} that slides by {slide!r}", 'give both like "10 min" and "1 min"'
        )
    basic = math.gcd(whole, step)
    span = Span(timedelta(microseconds=basic))
    window = SlidingWindow(by=span, slots=whole // basic, **settings)
    window._step = step // basic
    return window


def _content_of(window: object) -> WindowContent:
    if not isinstance(window, SlidingWindow):
        raise InvalidSetting(f"{window!r} is not a window", "give another SlidingWindow")
    return window._content


def _sharing(share: object, index: str | None, buckets: int | None) -> ValueContent:
    """The content of a window whose index is to be shared."""
    if (
        not isinstance(share, SlidingWindow)
        or not isinstance(share._content, ValueContent)
        or share._content.index is None
        or share.index_kind != index
        or buckets is not None
    ):
        raise InvalidSetting(
            "windows share an index of one kind",
            "give share= a window with the same index, not G; buckets= are those of its index",
        )
    return share._content


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
