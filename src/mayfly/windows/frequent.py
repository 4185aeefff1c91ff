"""Frequent items over sub-windows (thesis ch. 6, Algorithm 6).

Idea: each sub-window is counted exactly while it fills and leaves behind its k largest counts and
δ_S, the k-th of them (0 if it has fewer than k values). Over the window, ``total`` sums listed
counts and δ the δ_S; an item is reported while total > δ. Also summed: ``covered``, the δ_S of the
sub-windows that list the item, so that total ≤ f ≤ total + δ − covered.
Invariant: nothing is reported that does not occur more than δ times; whatever occurs more than 2δ
times is reported. Cost: O(1) per row, O(d + k log kn) per slide; k·n pairs and as many counters.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.display import counted
from mayfly.errors import BadInput, InvalidSetting
from mayfly.windows.basic import PacedWindow, Take, at_least_one
from mayfly.windows.dictionary import Dictionary
from mayfly.windows.domain import NULL_KEY, Domain, Int64s, arrow_array
from mayfly.windows.pace import Rows, Span

SMALLEST_SKETCH, LARGEST_SKETCH = 3, 26
"""Binary logarithms of how many counters a sketch may have."""


@dataclass(frozen=True)
class FrequentItem:
    """A value and between how many and how many times it occurs in the window."""

    value: Any
    low: int
    high: int


@dataclass(frozen=True)
class FrequentItems:
    """An answer: items by (low descending, value); each occurs more than ``delta`` times.

    ``complete`` says whether every item beyond the threshold that was asked for is among them;
    ``partial`` that the window has not been filled yet.
    """

    items: tuple[FrequentItem, ...]
    delta: int
    rows: int
    partial: bool
    complete: bool

    def certain_order(self) -> tuple[bool, ...]:
        """For each item, whether it surely stands before all items behind it."""
        highest, certain = -1, []
        for item in reversed(self.items):
            certain.append(item.low > highest)
            highest = max(highest, item.high)
        return tuple(reversed(certain))


@dataclass(frozen=True)
class SubWindowSummary:
    """What a sub-window leaves behind: listed counts by key, what is missing of each, and δ_S."""

    counts: Mapping[int, int]
    delta: int
    error: int = 0
    rows: int = 0


class Frequent(PacedWindow):
    """The frequent values of the last ``slots`` sub-windows; NULL is not counted.

    >>> window = Frequent(k=2, slots=3, by=Rows(10))
    >>> window.append(list("xxxxxaaabc"))
    >>> window.items().items
    (FrequentItem(value='x', low=5, high=5),)
    """

    def __init__(
        self,
        k: int,
        slots: int,
        by: Rows | Span,
        *,
        attribute: str = "value",
        time: str = "ts",
    ) -> None:
        super().__init__(by, slots, attribute, time)
        self.k = at_least_one(k, "k")
        self._domain = Domain()
        self._domain.on_relabel(self._relabel)
        self._summaries: deque[SubWindowSummary] = deque()
        self._total: dict[int, int] = {}
        self._covered: dict[int, int] = {}
        self._errors: dict[int, int] = {}
        self._ordered: list[tuple[int, int]] = []
        self._delta = 0
        self._rows = 0
        self._start()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(k={self.k}, slots={self.slots}, {self.by}): "
            f"{counted(self._rows, 'row')}, δ {self._delta}"
        )

    @property
    def delta(self) -> int:
        """The error bound of the whole window."""
        return self._delta

    @property
    def stored(self) -> int:
        """Pairs and counters in memory."""
        return sum(len(summary.counts) for summary in self._summaries) + len(self._total)

    def items(self) -> FrequentItems:
        """What occurs more than δ times, as far as the counters show it: no false positive."""
        return self._answer(self._above(self._delta), complete=self._delta == 0)

    def over(self, threshold: int, *, false_negatives: bool = True) -> FrequentItems:
        """What occurs more than ``threshold`` times.

        Every item given surely does; with ``false_negatives=False`` every item that may is given,
        and ``complete`` says whether that is all of them.
        """
        number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
        if not number or threshold != threshold:
            raise InvalidSetting(f"the threshold {threshold!r}", "give a number of rows")
        if false_negatives:
            keys = self._above(threshold)
            missed = any(self._high(key) > threshold for key in self._total if key not in keys)
            return self._answer(keys, complete=threshold >= self._delta and not missed)
        keys = {key for key in self._total if self._high(key) > threshold}
        return self._answer(keys, complete=threshold >= self._delta)

    def top(self, k: int) -> FrequentItems:
        """The reported items with the k largest counters."""
        answer = self.items()
        items = answer.items[: at_least_one(k, "k")]
        return FrequentItems(items, answer.delta, answer.rows, answer.partial, answer.complete)

    def bounds(self, value: object) -> tuple[int, int]:
        """Between how many and how many times a value occurs."""
        try:
            key = self._domain.key_of(value)
        except BadInput:
            raise BadInput(
                f"{value!r} cannot be counted in a window of {self._domain.type}",
                "ask about a value of that type",
            ) from None
        if key is None or int(key) not in self._total:
            return 0, self._delta
        return self._total[int(key)], self._high(int(key))

    # ── slides ────────────────────────────────────────────────────────────────────────────

    def _start(self) -> None:
        self._counts = Dictionary()
        self._counts.nodes.add_side()

    def _admit(self, rows: pa.Table) -> pa.Table:
        names = [name for name in (self.attribute, self.time) if name in rows.schema.names]
        return rows.select(names).set_column(
            0, self.attribute, self._domain.admit(rows.column(self.attribute))
        )

    def _open(self, rows: pa.Table) -> Take:
        column = rows.column(self.attribute)
        return lambda start, end: self._take_in(arrow_array(column.slice(start, end - start)))

    def _take_in(self, values: pa.Array) -> None:
        keys = self._domain.encode(values)
        keys = keys[keys != NULL_KEY]
        self._counts.change(0, self._counts.probe(keys), None, 1)

    def _summary(self) -> SubWindowSummary:
        nodes = self._counts.nodes
        keys, counts = nodes.key[: nodes.size], nodes.counts[0][: nodes.size]
        order = np.lexsort((keys, -counts))[: self.k]
        listed = dict(zip(keys[order].tolist(), counts[order].tolist(), strict=True))
        delta = int(counts[order[-1]]) if len(order) == self.k else 0
        return SubWindowSummary(listed, delta, rows=int(counts.sum()))

    def _replace_oldest(self) -> None:
        summary = self._summary()
        self._start()
        self._summaries.append(summary)
        self._change(summary, 1)
        if len(self._summaries) > self.slots:
            self._change(self._summaries.popleft(), -1)
        self._domain.keep(np.fromiter(self._total, np.int64))

    def _change(self, summary: SubWindowSummary, sign: int) -> None:
        self._delta += sign * summary.delta
        self._rows += sign * summary.rows
        for key, count in summary.counts.items():
            before = self._total.get(key, 0)
            after = before + sign * count
            if before:
                del self._ordered[bisect_left(self._ordered, (-before, key))]
            if not after:
                del self._total[key], self._covered[key], self._errors[key]
                continue
            insort(self._ordered, (-after, key))
            self._total[key] = after
            self._covered[key] = self._covered.get(key, 0) + sign * summary.delta
            self._errors[key] = self._errors.get(key, 0) + sign * summary.error

    def _is_empty(self) -> bool:
        return self._rows == 0

    def _clear(self) -> None:
        self._summaries = deque([SubWindowSummary({}, 0)] * self.slots)

    def _relabel(self, old: Int64s, new: Int64s) -> None:
        self._counts.recode(old, new)  # empty where a sketch counts
        places = dict(zip(old.tolist(), new.tolist(), strict=True))
        self._summaries = deque(
            SubWindowSummary({places[k]: c for k, c in s.counts.items()}, s.delta, s.error, s.rows)
            for s in self._summaries
        )
        for name in ("_total", "_covered", "_errors"):
            setattr(self, name, {places[k]: v for k, v in getattr(self, name).items()})
        self._ordered = [(count, places[key]) for count, key in self._ordered]

    # ── reading ───────────────────────────────────────────────────────────────────────────

    def _above(self, threshold: int) -> set[int]:
        """Keys whose counters exceed a threshold: the front of the ordered counters."""
        return {key for _, key in self._ordered[: bisect_left(self._ordered, (-threshold,))]}

    def _high(self, key: int) -> int:
        return self._total[key] + self._delta - self._covered[key] + self._errors[key]

    def _answer(self, keys: set[int], *, complete: bool) -> FrequentItems:
        ordered = sorted(keys, key=lambda key: (-self._total[key], key))
        values = self._domain.decode(np.array(ordered, np.int64)).to_pylist()
        items = tuple(
            FrequentItem(value, self._total[key], self._high(key))
            for value, key in zip(values, ordered, strict=True)
        )
        return FrequentItems(items, self._delta, self._rows, self.partial, complete)


class ApproximateFrequent(Frequent):
    """Frequent items where a sub-window may hold more values than memory: sketches count them.

    A sub-window is counted by a frequent-items sketch of at most ¾ · 2^``size`` counters; its
    offset is what a count may lack, so δ_S and the upper bounds grow by it. Both guarantees hold.
    """

    def __init__(
        self,
        k: int,
        slots: int,
        by: Rows | Span,
        *,
        size: int = 10,
        attribute: str = "value",
        time: str = "ts",
    ) -> None:
        self.size = at_least_one(size, "size", least=SMALLEST_SKETCH)
        if self.size > LARGEST_SKETCH:
            raise InvalidSetting(
                f"size is {size}", f"give at most {LARGEST_SKETCH}, for 2^{LARGEST_SKETCH} counters"
            )
        super().__init__(k, slots, by, attribute=attribute, time=time)

    def _start(self) -> None:
        from datasketches import frequent_items_sketch

        super()._start()
        self._sketch = frequent_items_sketch(self.size)

    def _take_in(self, values: pa.Array) -> None:
        """The sketch counts keys; values with labels get theirs when they are listed."""
        if self._domain.labelled:
            for pair in pc.value_counts(values).to_pylist():
                if pair["values"] is not None:
                    self._sketch.update(pair["values"], pair["counts"])
            return
        keys = self._domain.encode(values)
        for key, count in zip(*np.unique(keys[keys != NULL_KEY], return_counts=True), strict=True):
            self._sketch.update(int(key), int(count))

    def _summary(self) -> SubWindowSummary:
        from datasketches import frequent_items_error_type

        sketch = self._sketch
        # Upper bounds beyond the offset are those of all counters that the sketch still holds; an
        # item it does not hold may have occurred up to ``offset`` times.
        held = sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)
        offset = int(sketch.get_upper_bound(_NEVER_SEEN))
        keys = [value for value, *_ in held]
        if self._domain.labelled:
            keys = self._domain.encode(pa.array(keys, self._domain.type)).tolist()
        ranked = sorted(zip((-low for _, _, low, _ in held), keys, strict=True))[: self.k]
        kth = -ranked[-1][0] if len(ranked) == self.k else 0
        listed = {key: -low for low, key in ranked}
        return SubWindowSummary(listed, offset + kth, offset, int(sketch.total_weight))


_NEVER_SEEN = "\0 no value of a window"
