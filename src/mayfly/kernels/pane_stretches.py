"""Stretches of sorted panes: which rows of a group a window holds at a refresh.

Idea: in rows sorted by group and time, a window is a stretch whose ends only move on. Sums of it
are differences of running sums, with halves of numbers added apart. Extremes are those of blocks of
2, 4, 8, … rows, made once for all windows, or of the rows where stretches are few and short.
Cost: two binary searches for each group and window, then O(rows that come and go).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import shared_hash
from mayfly.kernels.delta import mixed_ids, taken
from mayfly.kernels.group_events import HALF, Wide
from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.kernels.operator import NO_IDS
from mayfly.kernels.pane_partials import GROUP
from mayfly.kernels.room import touch
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.storage.segment import TS
from mayfly.windows.domain import keys_in_order


@dataclass(frozen=True)
class SortedPanes:
    """Rows of panes by group and time."""

    codes: Int64s
    times: Int64s
    keys: pa.Table
    columns: dict[str, pa.Array]
    order: Int64s
    """Of the rows in ``keys`` and ``columns``."""
    summed: dict[str, tuple[Int64s, Int64s, Int64s]] = field(default_factory=dict)
    ranks: dict[tuple[str, bool], tuple[Int64s, Int64s]] = field(default_factory=dict)
    blocks: dict[tuple[str, bool], Int64s] = field(default_factory=dict)
    """By column, and whether of the largest: the place of the best row of every block."""

    @staticmethod
    def of(rows: pa.Table, names: Sequence[str], keys: Sequence[str]) -> SortedPanes:
        codes, times = numbers(rows, GROUP), numbers(rows, TS)
        order = stable_order(codes, times)
        columns = {name: whole(rows.column(name)) for name in names}
        return SortedPanes(codes[order], times[order], rows.select(list(keys)), columns, order)

    @property
    def codes_of_groups(self) -> Int64s:
        return self.codes[self.heads[:-1]] if len(self.codes) else NO_IDS

    @cached_property
    def heads(self) -> Int64s:
        """Where groups begin, and where the last one ends."""
        codes = self.codes
        if not len(codes):
            return np.zeros(1, np.int64)
        changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        return np.concatenate([[0], changes, [len(codes)]]).astype(np.int64)

    @cached_property
    def group_keys(self) -> pa.Table:
        return taken(self.keys, self.order[self.heads[:-1]])

    def values(self, name: str) -> pa.Array:
        return self.columns[name].take(pa.array(self.order))

    def running(self, name: str) -> tuple[Int64s, Int64s, Int64s]:
        """Sums up to each row of the lower 32 bits of numbers and of the rest, and how many are
        not NULL."""
        if name not in self.summed:
            values = self.values(name)
            there = np.ones(len(values), np.int64)
            if values.null_count:
                there = pc.is_valid(values).to_numpy(zero_copy_only=False).astype(np.int64)
                values = pc.fill_null(values, 0)
            amounts = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
            parts = (amounts & HALF, amounts >> 32, there)
            low, high, count = (np.append(0, np.cumsum(part)).astype(np.int64) for part in parts)
            self.summed[name] = low, high, count
        return self.summed[name]

    def ranked(self, name: str, *, largest: bool) -> tuple[Int64s, Int64s]:
        """Numbers in the order of the values of a column, the best one largest; which there are."""
        if (name, largest) not in self.ranks:
            values = self.values(name)
            ranks = np.ascontiguousarray(keys_in_order(values))
            there = pc.is_valid(values).to_numpy(zero_copy_only=False).astype(np.int64)
            self.ranks[name, largest] = (ranks if largest else ~ranks), there
        return self.ranks[name, largest]

    def best(self, name: str, low: Int64s, high: Int64s, *, largest: bool) -> Int64s:
        """The place of the best row from each of ``low`` to before ``high``; -1 where all are
        NULL. Few and short stretches are gone through; for others blocks are merged once."""
        ranks, there = self.ranked(name, largest=largest)
        rows = int((high - low).sum())
        if (name, largest) not in self.blocks:
            if rows <= len(ranks):
                touch(rows)
                return _best(ranks, there, low, high)
            touch(len(ranks))
            self.blocks[name, largest] = _blocks(ranks, there)
        places, read = _best_of_blocks(self.blocks[name, largest], ranks, low, high)
        touch(read)
        return places


@dataclass(frozen=True)
class Scan:
    """What a reader has read of panes: the rows of some groups, or all, with low < ts <= high."""

    rows: SortedPanes
    low: int
    high: int
    codes: Int64s | None = None

    def has(self, low: int, high: int, codes: Int64s) -> bool:
        """Whether all rows of these groups and instants are there."""
        inside = self.low <= low and high <= self.high
        return inside and (self.codes is None or bool(np.isin(codes, self.codes).all()))


@dataclass(frozen=True)
class Stretches:
    """What windows hold of groups at refreshes: rows ``low`` to ``high``."""

    rows: SortedPanes
    window: Int64s
    group: Int64s
    time: Int64s
    low: Int64s
    high: Int64s

    @staticmethod
    def none(rows: SortedPanes) -> Stretches:
        return Stretches(rows, NO_IDS, NO_IDS, NO_IDS, NO_IDS, NO_IDS)

    def at(self, places: Int64s) -> Stretches:
        parts = (self.window, self.group, self.time, self.low, self.high)
        return Stretches(self.rows, *(part[places] for part in parts))

    def opened(self, windows: Int64s) -> Stretches:
        """With the result before the first row, which there is where nothing is grouped."""
        none = np.zeros(len(windows), np.int64)
        parts = (
            (windows, self.window), (none, self.group), (none + MIN_TIME, self.time),
            (none, self.low), (none, self.high),
        )  # fmt: skip
        both = Stretches(self.rows, *(np.concatenate(pair) for pair in parts))
        return both.at(stable_order(both.window, both.time))

    def pairs(self, readers: Int64s) -> tuple[Stretches, Int64s, Int64s]:
        """Sorted by the code of window and group, and by time; these codes, and the place of each
        stretch among them. Those of a window and group lie together, by time."""
        groups = self.rows.codes_of_groups
        window, group = self.window, self.group
        changes = np.flatnonzero((window[1:] != window[:-1]) | (group[1:] != group[:-1])) + 1
        starts = np.append(0, changes)
        sizes = np.diff(np.append(starts, len(window)))
        own = groups[group[starts]] if len(groups) else np.zeros(len(starts), np.int64)
        codes = mixed_ids(own, readers[window[starts]])
        order = stable_order(codes)
        codes, starts, sizes = codes[order], starts[order], sizes[order]
        if (codes[1:] == codes[:-1]).any():
            raise shared_hash()
        before = np.cumsum(sizes) - sizes
        places = np.arange(len(window)) + np.repeat(starts - before, sizes)
        return self.at(places), codes, np.repeat(np.arange(len(codes)), sizes)

    @property
    def _spans(self) -> Int64s:
        """A number for each two ends."""
        return self.low * (len(self.rows.times) + 1) + self.high

    def sums(self, name: str) -> Wide:
        low, high, _ = self.rows.running(name)
        return Wide.of_halves(low[self.high] - low[self.low], high[self.high] - high[self.low])

    def present(self, name: str) -> Int64s:
        _, _, count = self.rows.running(name)
        difference: Int64s = count[self.high] - count[self.low]
        return difference

    def extremes(self, name: str, *, largest: bool, once: bool) -> pa.Array:
        """``once``: what several windows hold is looked at for all of them (CS8)."""
        if once:
            spans, places = np.unique(self._spans, return_index=True, return_inverse=True)[1:]
            return self.at(spans).extremes(name, largest=largest, once=False).take(pa.array(places))
        places = self.rows.best(name, self.low, self.high, largest=largest)
        return self.rows.values(name).take(pa.array(places, mask=places < 0))


def merged_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of time without what is in several of them."""
    apart: list[tuple[int, int]] = []
    for low, high in sorted(span for span in spans if span[0] < span[1]):
        if apart and low <= apart[-1][1]:
            apart[-1] = apart[-1][0], max(apart[-1][1], high)
        else:
            apart.append((low, high))
    return apart


@compiled("int64(int64, int64, int64)")
def _refresh(instant: int, period: int, origin: int) -> int:
    """The first refresh that is not before an instant."""
    if instant > NEVER - period:
        return NEVER
    return -((origin - instant) // period) * period + origin


@compiled(f"int64({READ}, int64, int64, int64)")
def first_behind(times: Int64s, low: int, high: int, instant: int) -> int:
    """The first row between two places that is later than an instant."""
    while low < high:
        middle = (low + high) // 2
        if times[middle] <= instant:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(f"{WRITE}({READ}, {READ}, {READ}, {READ}, {READ}, {READ}, {READ}, int64)")
def moves(
    heads: Int64s, times: Int64s, lengths: Int64s, periods: Int64s, origins: Int64s,
    last: Int64s, floors: Int64s, clock: int,
) -> Int64s:  # fmt: skip
    """Window, group, refresh and the rows in the window, where a row comes or goes before the
    clock: five columns, one behind the other. A window knows no row up to its floor."""
    room = 1024
    columns = np.empty((5, room), np.int64)
    count = 0
    for group in range(len(heads) - 1):
        head, stop = heads[group], heads[group + 1]
        for window in range(len(lengths)):
            start = (
                first_behind(times, head, stop, floors[window])
                if floors[window] > MIN_TIME
                else head
            )
            length, period, origin = lengths[window], periods[window], origins[window]
            high = first_behind(times, start, stop, last[window])
            left = last[window] - length if last[window] > MIN_TIME + length else MIN_TIME
            low = first_behind(times, start, stop, left)
            while True:
                comes, goes = NEVER, NEVER
                if high < stop:
                    comes = _refresh(times[high], period, origin)
                if low < stop and times[low] <= NEVER - length:
                    goes = _refresh(times[low] + length, period, origin)
                instant = min(comes, goes)
                if instant >= clock:
                    break
                while high < stop and times[high] <= instant:
                    high += 1
                while low < high and times[low] <= instant - length:
                    low += 1
                if count == room:
                    larger = np.empty((5, 2 * room), np.int64)
                    larger[:, :room] = columns
                    columns, room = larger, 2 * room
                columns[0, count], columns[1, count] = window, group
                columns[2, count], columns[3, count], columns[4, count] = instant, low, high
                count += 1
    flat = np.empty(5 * count, np.int64)
    for column in range(5):
        flat[column * count : (column + 1) * count] = columns[column, :count]
    return flat


@compiled(f"{WRITE}({READ}, {READ}, {READ}, {READ})")
def _best(ranks: Int64s, there: Int64s, low: Int64s, high: Int64s) -> Int64s:
    """The row with the largest rank in each stretch; -1 where all are NULL."""
    places = np.full(len(low), -1, np.int64)
    for i in range(len(low)):
        best = -1
        for row in range(low[i], high[i]):
            if there[row] and (best < 0 or ranks[row] > ranks[best]):
                best = row
        places[i] = best
    return places


@compiled(f"{WRITE}({READ}, {READ})")
def _blocks(ranks: Int64s, there: Int64s) -> Int64s:
    """The place of the best row of every row, of every two, of every four, …; -1 of none. Blocks
    of one size stand one behind the other, smaller ones first."""
    size, total = len(ranks), 0
    while size > 0:
        total += size
        size = size // 2
    best = np.empty(total, np.int64)
    for row in range(len(ranks)):
        best[row] = row if there[row] else -1
    begin, size = 0, len(ranks)
    while size > 1:
        behind = begin + size
        for block in range(size // 2):
            left, right = best[begin + 2 * block], best[begin + 2 * block + 1]
            if left < 0 or (right >= 0 and ranks[right] > ranks[left]):
                left = right
            best[behind + block] = left
        begin, size = behind, size // 2
    return best


@compiled()
def _best_of_blocks(blocks: Int64s, ranks: Int64s, low: Int64s, high: Int64s) -> tuple[Int64s, int]:
    """The best row of each stretch, and how many blocks were read for it."""
    places, read = np.full(len(low), -1, np.int64), 0
    for i in range(len(low)):
        left, right, best = low[i], high[i], -1
        begin, size = 0, len(ranks)
        while left < right:
            if left % 2 == 1:
                place = blocks[begin + left]
                if place >= 0 and (best < 0 or ranks[place] > ranks[best]):
                    best = place
                left, read = left + 1, read + 1
            if right % 2 == 1:
                place = blocks[begin + right - 1]
                if place >= 0 and (best < 0 or ranks[place] > ranks[best]):
                    best = place
                right, read = right - 1, read + 1
            left, right = left // 2, right // 2
            begin, size = begin + size, size // 2
        places[i] = best
    return places, read
