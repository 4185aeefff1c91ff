"""Counts by rank, played event by event: what holistic aggregates of groups keep during a step.

Idea: the arguments of the touched groups, those of rows alive before the step and those that come,
are ranked within their group by one sort; each group has a stretch of flat arrays. Its counts are
laid out once, then its events are played in order, and every version is asked at its last event:
positions by a Fenwick tree, distinct values by a counter, the most frequent by a tournament.
Invariant: a version's answer depends on nothing but the rows alive at it.
Cost: O(log distinct) per event and position, O(1) per event for distinct values (thesis 2.2.2,
report 5; docs/windows.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import stable_order
from mayfly.windows.domain import Int64s, has_ranks, keys_in_order, of_ranks
from mayfly.windows.nodes import jit

MEDIAN, QUANTILE, SMALLEST, LARGEST, BETWEEN = 0, 1, 2, 3, 4
Keys = Callable[[pa.Array], Int64s]
"""Whole numbers in the order of values."""
Counts = tuple[Any, ...]
"""Distinct values (whole numbers in an array of NumPy's, or values in one of Arrow's) and how often
each is there."""


@dataclass(frozen=True)
class Script:
    """The events of groups: how much of what, where each version ends, whose it is."""

    sign: Int64s
    last: Int64s
    group: Int64s


@dataclass(frozen=True)
class Ranked:
    """Values ranked within their groups, with the counts before the first event."""

    keys: Int64s
    """The distinct values as numbers in their order, by group."""
    samples: pa.Array | None
    """The distinct values themselves, where the numbers do not tell them."""
    kind: pa.DataType
    starts: Int64s
    """Where the values of each group begin, and the end."""
    counts: Int64s
    ids: Int64s
    """The place of each event's value, −1 for NULL."""

    @staticmethod
    def of(
        before: pa.Array, owner: Int64s, values: pa.Array, group: Int64s, size: int,
        summaries: Mapping[int, Counts] | None = None, keys: Keys = keys_in_order,
        often: Int64s | None = None,
    ) -> Ranked:  # fmt: skip
        """From the values alive before a step (of groups ``owner``, each ``often``, or once) and
        those of its events; ``summaries`` of some groups are as ``after`` gave them, ``keys`` say
        how values compare."""
        if not summaries or has_ranks(values.type):
            ranked = Ranked._of(before, owner, often, values, group, size, keys)
            return ranked.with_groups(summaries or {})
        parts = [before, *(distinct for distinct, _ in summaries.values())]
        sizes = [len(distinct) for distinct, _ in summaries.values()]
        counted = np.ones(len(before), np.int64) if often is None else often
        all_counts = [counted, *(counts for _, counts in summaries.values())]
        owners = np.append(
            owner, np.repeat(np.fromiter(summaries, np.int64, len(summaries)), sizes)
        )
        whole = pa.concat_arrays(parts), owners, np.concatenate(all_counts)
        return Ranked._of(*whole, values, group, size, keys)

    @staticmethod
    def _of(
        before: pa.Array, owner: Int64s, often: Int64s | None, values: pa.Array, group: Int64s,
        size: int, keys_of: Keys,
    ) -> Ranked:  # fmt: skip
        both, groups = pa.concat_arrays([before, values]), np.concatenate([owner, group])
        present = None
        if both.null_count:
            present = np.flatnonzero(pc.is_valid(both).to_numpy(zero_copy_only=False))
            groups = groups[present]
        keys = keys_of(both if present is None else both.take(pa.array(present)))
        places, first = _ranks_within(groups, keys, size)
        starts, distinct = np.searchsorted(groups[first], np.arange(size + 1)), keys[first]
        if present is not None:
            first, dense = present[first], places
            places = np.full(len(both), -1, np.int64)
            places[present] = dense
        held = places[: len(before)]
        weights = None if often is None else often[held >= 0]
        counts = np.bincount(held[held >= 0], weights, minlength=len(first)).astype(np.int64)
        plain = None if has_ranks(both.type) else both.take(pa.array(first))
        return Ranked(distinct, plain, both.type, starts, counts, places[len(before) :])

    @property
    def values(self) -> pa.Array:
        return self.at(np.arange(len(self.keys)))

    def at(self, places: Int64s) -> pa.Array:
        """The values at these places, NULL at −1."""
        missing = places < 0
        if self.samples is not None:
            return self.samples.take(pa.array(places, mask=missing))
        filled = np.where(missing, 0, places) if missing.any() else places
        keys = self.keys[filled] if len(self.keys) else np.zeros(len(places), np.int64)
        return of_ranks(keys, missing, self.kind)

    @property
    def bytes_each(self) -> int:
        """What a value takes."""
        if self.samples is None:
            return 8
        return int(self.samples.nbytes) // max(1, len(self.samples))

    def with_groups(self, summaries: Mapping[int, Counts]) -> Ranked:
        """With the values (their numbers and counts) that some groups had before, too."""
        if not summaries:
            return self
        keys, counts, moved = list[Int64s](), list[Int64s](), np.arange(len(self.keys))
        sizes, done, added = np.diff(self.starts), 0, 0
        for group in sorted(summaries):
            begin, end = self.starts[group], self.starts[group + 1]
            (old, often), fresh = summaries[group], self.keys[begin:end]
            places = np.searchsorted(old, fresh)
            new = np.append(old, 0)[places] != fresh
            new |= places == len(old)
            moved[done:begin] += added
            moved[begin:end] = begin + added + places + np.cumsum(new) - new
            keys += [self.keys[done:begin], np.insert(old, places[new], fresh[new])]
            counts += [self.counts[done:begin], np.insert(often, places[new], 0)]
            sizes[group], done, added = len(keys[-1]), end, added + len(keys[-1]) - len(fresh)
        moved[done:] += added
        keys, counts = [*keys, self.keys[done:]], [*counts, self.counts[done:]]
        ids = np.where(self.ids < 0, -1, np.append(moved, -1)[self.ids])
        starts = np.append(0, np.cumsum(sizes))
        return Ranked(np.concatenate(keys), None, self.kind, starts, np.concatenate(counts), ids)

    def after(self, sign: Int64s, groups: Int64s) -> dict[int, Counts]:
        """The values of some groups behind the last event (as numbers, where these tell them) and
        their counts."""
        present, counts = self.ids >= 0, self.counts.copy()
        np.add.at(counts, self.ids[present], sign[present])
        left: dict[int, Counts] = {}
        for group in groups.tolist():
            start = self.starts[group]
            alive = start + np.flatnonzero(counts[start : self.starts[group + 1]] > 0)
            keys = self.keys[alive] if self.samples is None else self.at(alive)
            left[group] = keys, counts[alive]
        return left

    def positions(self, script: Script, what: int, share: float = 0.0) -> tuple[Int64s, Int64s]:
        """The two places that make up each version's answer, −1 where it has no rows."""
        low, high = np.empty((2, len(script.last)), np.int64)
        _play_positions(
            self.counts, self.starts, self.ids, script.sign, script.last, script.group,
            what, share, low, high,
        )  # fmt: skip
        return low, high

    def distinct(self, script: Script) -> Int64s:
        """How many values each version has."""
        answers = np.empty(len(script.last), np.int64)
        _play_distinct(
            self.counts.copy(), self.starts, self.ids, script.sign, script.last, script.group,
            answers,
        )  # fmt: skip
        return answers

    def crossings(self, sign: Int64s) -> Int64s:
        """What each event does to the set of values: +1 where a value comes that was not there,
        −1 where the last of equal ones goes."""
        moves = np.zeros(len(sign), np.int64)
        _play_crossings(self.counts.copy(), self.ids, sign, moves)
        return moves

    def rows(self, script: Script) -> Int64s:
        """How many values each version has, equal ones counted."""
        moved = np.append(0, np.cumsum(script.sign * (self.ids >= 0)))
        held = np.add.reduceat(np.append(self.counts, 0), self.starts[:-1])
        held[self.starts[:-1] == self.starts[1:]] = 0
        first = np.searchsorted(script.group, np.arange(len(held)))
        begun = np.append(0, script.last + 1)[first]
        rows: Int64s = moved[script.last + 1] + (held - moved[begun])[script.group]
        return rows

    def listed(self, script: Script, size: int, *, repeated: bool = False) -> Int64s:
        """The places of the values of each version, ``size`` in all; ``repeated`` as often as they
        are there."""
        places = np.empty(size, np.int64)
        _play_listed(
            self.counts.copy(), self.starts, self.ids, script.sign, script.last, script.group,
            repeated, places,
        )  # fmt: skip
        return places

    def top(self, script: Script, k: int) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """The k most frequent values: the list of each version, and of each list how many values,
        at which places, how often. Versions that follow each other may have one list."""
        size = len(script.last)
        which, filled = np.empty((2, size), np.int64)
        widest = int(min(k, np.diff(self.starts).max(initial=0)))
        # Memory that no list is written to is never touched.
        places, often = np.empty((2, size, max(1, widest)), np.int64)
        lists = _play_top(
            self.counts, self.starts, self.ids, script.sign, script.last, script.group,
            which, filled, places, often,
        )  # fmt: skip
        filled, places, often = filled[:lists], places[:lists], often[:lists]
        listed = np.arange(places.shape[1]) < filled[:, None]
        return which, filled, places[listed], often[listed]


def _ranks_within(groups: Int64s, keys: Int64s, size: int) -> tuple[Int64s, Int64s]:
    """The place of each key by (group, key), equal ones once; a row of each place.

    Where the keys lie close together a table is smaller than the rows, and no sort is needed.
    """
    low = int(keys.min(initial=2**63 - 1))
    span = int(keys.max(initial=-(2**63))) - low + 1
    if 0 < size * span <= 4 * len(keys):
        return _tabled(groups, keys, low, span, size)
    order = stable_order(groups, keys)
    keys, groups = keys[order], groups[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (groups[1:] != groups[:-1]) | (keys[1:] != keys[:-1])
    places = np.empty(len(order), np.int64)
    places[order] = np.cumsum(fresh) - 1
    return places, order[fresh]


@compiled(plain=True)
def _tabled(groups: Int64s, keys: Int64s, low: int, span: int, size: int) -> tuple[Int64s, Int64s]:
    table = np.full(size * span, -1)
    distinct = 0
    for i in range(len(keys)):
        cell = groups[i] * span + keys[i] - low
        if table[cell] < 0:
            table[cell] = i
            distinct += 1
    first, place = np.empty(distinct, np.int64), 0
    for cell in range(len(table)):
        if table[cell] >= 0:
            first[place] = table[cell]
            table[cell] = place
            place += 1
    places = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        places[i] = table[groups[i] * span + keys[i] - low]
    return places, first


# ── plays ─────────────────────────────────────────────────────────────────────────────────


@compiled(plain=True)
def _play_positions(
    counts: Int64s, starts: Int64s, ids: Int64s, sign: Int64s, last: Int64s, group: Int64s,
    what: int, share: float, low: Int64s, high: Int64s,
) -> None:  # fmt: skip
    sums = np.empty(0, np.int64)
    event, current, start, size, rows, top = 0, -1, 0, 0, 0, 1
    for version in range(len(last)):
        if group[version] != current:
            current = group[version]
            start, size = starts[current], starts[current + 1] - starts[current]
            if size >= len(sums):
                sums = np.empty(size + 1, np.int64)
            rows, top = 0, 1
            while 2 * top <= size:
                top *= 2
            sums[: size + 1] = 0
            for i in range(size):
                count = counts[start + i]
                rows += count
                sums[i + 1] += count
                parent = i + 1 + ((i + 1) & -(i + 1))
                if parent <= size:
                    sums[parent] += sums[i + 1]
        while event <= last[version]:
            if ids[event] >= 0 and sign[event] != 0:
                rows += sign[event]
                node = ids[event] - start + 1
                while node <= size:
                    sums[node] += sign[event]
                    node += node & -node
            event += 1
        if rows == 0:
            low[version] = high[version] = -1
            continue
        first, second = _asked(what, share, rows)
        low[version] = start + _select(sums, size, top, first)
        high[version] = (
            low[version] if first == second else start + _select(sums, size, top, second)
        )


@compiled(plain=True)
def _asked(what: int, share: float, rows: int) -> tuple[int, int]:
    """The positions, from 1, that an aggregate asks for."""
    if what == MEDIAN:
        return (rows + 1) // 2, rows // 2 + 1
    if what == QUANTILE:
        position = max(1, int(np.ceil(share * rows - 1e-9)))
        return position, position
    if what == BETWEEN:
        place = share * (rows - 1)
        return int(np.floor(place)) + 1, int(np.ceil(place)) + 1
    return (1, 1) if what == SMALLEST else (rows, rows)


@compiled(plain=True)
def _select(sums: Int64s, size: int, top: int, position: int) -> int:
    node, step = 0, top
    while step:
        if node + step <= size and sums[node + step] < position:
            node += step
            position -= sums[node]
        step >>= 1
    return node


@compiled(plain=True)
def _play_distinct(
    counts: Int64s, starts: Int64s, ids: Int64s, sign: Int64s, last: Int64s, group: Int64s,
    answers: Int64s,
) -> None:  # fmt: skip
    event, current, distinct = 0, -1, 0
    for version in range(len(last)):
        if group[version] != current:
            current, distinct = group[version], 0
            for i in range(starts[current], starts[current + 1]):
                distinct += int(counts[i] > 0)
        while event <= last[version]:
            place = ids[event]
            if place >= 0:
                before = counts[place]
                counts[place] = before + sign[event]
                distinct += int(before + sign[event] > 0) - int(before > 0)
            event += 1
        answers[version] = distinct


@jit
def _play_crossings(counts: Int64s, ids: Int64s, sign: Int64s, moves: Int64s) -> None:
    for event in range(len(ids)):
        place = ids[event]
        if place >= 0:
            before = counts[place]
            counts[place] = before + sign[event]
            moves[event] = (before + sign[event] > 0) - (before > 0)


@jit
def _play_listed(
    counts: Int64s, starts: Int64s, ids: Int64s, sign: Int64s, last: Int64s, group: Int64s,
    repeated: bool, places: Int64s,
) -> None:  # fmt: skip
    event, size = 0, 0
    for version in range(len(last)):
        while event <= last[version]:
            if ids[event] >= 0:
                counts[ids[event]] += sign[event]
            event += 1
        for place in range(starts[group[version]], starts[group[version] + 1]):
            for _ in range(counts[place] if repeated else min(1, counts[place])):
                places[size] = place
                size += 1


@jit
def _play_top(
    counts: Int64s, starts: Int64s, ids: Int64s, sign: Int64s, last: Int64s, group: Int64s,
    which: Int64s, filled: Int64s, places: np.ndarray, often: np.ndarray,
) -> int:  # fmt: skip
    """Which list each version has; how many lists there are."""
    k, lists = places.shape[1], 0
    best = np.zeros(2, np.int64)
    frontier = np.empty(64 * k + 64, np.int64)
    event, current, start, size, leaves, changed = 0, -1, 0, 0, 1, True
    for version in range(len(last)):
        if group[version] != current:
            current, changed = group[version], True
            start, size = starts[current], starts[current + 1] - starts[current]
            leaves = 1
            while leaves < size:
                leaves *= 2
            if len(best) < 2 * leaves:
                best = np.zeros(2 * leaves, np.int64)
            best[: 2 * leaves] = 0
            for i in range(size):
                best[leaves + i] = counts[start + i]
            for node in range(leaves - 1, 0, -1):
                best[node] = max(best[2 * node], best[2 * node + 1])
        while event <= last[version]:
            if ids[event] >= 0 and sign[event] != 0:
                place = ids[event] - start
                count = _change(best, leaves + place, sign[event])
                # What was not listed and still cannot be leaves the answer as it was.
                if not changed and not _outside(
                    filled[lists - 1], places[lists - 1], often[lists - 1],
                    start + place, max(count, count - sign[event]),
                ):  # fmt: skip
                    changed = True
            event += 1
        if changed:
            filled[lists] = _list_best(best, leaves, start, places[lists], often[lists], frontier)
            lists, changed = lists + 1, False
        which[version] = lists - 1
    return lists


@jit
def _change(best: Int64s, leaf: int, sign: int) -> int:
    """Change the count of a leaf and what is best above it; the count."""
    best[leaf] += sign
    node = leaf >> 1
    while node:
        largest = max(best[2 * node], best[2 * node + 1])
        if best[node] == largest:
            break
        best[node] = largest
        node >>= 1
    return int(best[leaf])


@jit
def _outside(filled: int, places: Int64s, often: Int64s, place: int, count: int) -> bool:
    """Whether a value with this count, before or after, ranks behind a full list."""
    if filled < len(places):
        return False
    worst = often[filled - 1]
    return bool(count < worst or (count == worst and place > places[filled - 1]))


@jit
def _list_best(
    best: Int64s, leaves: int, start: int, places: Int64s, often: Int64s, frontier: Int64s
) -> int:
    """Count descending, then rank: go down to the best leaf, keeping what was passed by."""
    waiting, listed = 1, 0
    frontier[0] = 1
    while waiting and listed < len(places):
        chosen = 0
        for i in range(1, waiting):
            here, there = best[frontier[i]], best[frontier[chosen]]
            if here > there or (
                here == there and _first(frontier[i], leaves) < _first(frontier[chosen], leaves)
            ):
                chosen = i
        node = frontier[chosen]
        if best[node] <= 0:
            break
        waiting -= 1
        frontier[chosen] = frontier[waiting]
        while node < leaves:
            left = 2 * node
            if best[left] == best[node]:
                node, passed = left, left + 1
            else:
                node, passed = left + 1, left
            if best[passed] > 0:
                frontier[waiting] = passed
                waiting += 1
        places[listed], often[listed] = start + node - leaves, best[node]
        listed += 1
    return listed


@jit
def _first(node: int, leaves: int) -> int:
    while node < leaves:
        node *= 2
    return node
