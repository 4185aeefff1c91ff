"""Which values a row that comes or goes may change: the versions of partitions in a step.

Idea: at an instant at which something happens to a partition, only rows are computed anew whose
frames can hold what came or went, over just so many neighbours as these frames reach.
Invariant: a row that is not listed at an instant has the value that it had before.
Cost: per event one pass over the positions of its partition, and the rows listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.frame_layout import FURTHEST, Distances, Floats
from mayfly.kernels.lifetime_rows import Bools
from mayfly.plan.over_frames import NUMBERINGS, FrameCall, FrameUnit

FAR = -1
"""Of a reach: as far as there are rows."""


@dataclass(frozen=True)
class FrameSpan:
    """How far the frames of some calls reach back and ahead, in rows and in the key of ORDER BY;
    FAR is everything."""

    back_rows: int = 0
    ahead_rows: int = 0
    back_key: float = 0
    ahead_key: float = 0

    @staticmethod
    def of(calls: Iterable[FrameCall]) -> FrameSpan:
        span = FrameSpan()
        for call in calls:
            span = span.wider(_span(call))
        return span

    def wider(self, other: FrameSpan) -> FrameSpan:
        def most(mine: float, theirs: float) -> float:
            return FAR if FAR in (mine, theirs) else max(mine, theirs)

        return FrameSpan(
            int(most(self.back_rows, other.back_rows)),
            int(most(self.ahead_rows, other.ahead_rows)),
            most(self.back_key, other.back_key),
            most(self.ahead_key, other.ahead_key),
        )


def _span(call: FrameCall) -> FrameSpan:
    if call.function in NUMBERINGS:
        return FrameSpan(back_rows=FAR)
    if call.function == "lag":
        return FrameSpan(back_rows=_rows(call.offset))
    if call.function == "lead":
        return FrameSpan(ahead_rows=_rows(call.offset))
    start, end = call.frame.start, call.frame.end
    back = FAR if start is None else max(0, -start)
    ahead = FAR if end is None else max(0, end)
    if call.frame.unit is FrameUnit.ROWS or FAR in (back, ahead):
        ranged = call.frame.unit is FrameUnit.RANGE
        rows = FrameSpan(
            FAR if back == FAR else 0 if ranged else _rows(back),
            FAR if ahead == FAR else 0 if ranged else _rows(ahead),
        )
        if not ranged:
            return rows
        return rows.wider(FrameSpan(0, 0, max(back, 0), max(ahead, 0)))
    return FrameSpan(0, 0, back, ahead)


def _rows(number: float) -> int:
    return int(min(number, FURTHEST))


@dataclass(frozen=True)
class FrameVersions:
    """Rows to look at, version by version, each a partition at an instant.

    ``place`` are positions of rows in order; those that ``counts`` marks are to be computed.
    """

    place: Int64s
    version: Int64s
    counts: Bools
    instant: Int64s
    """Of each version."""

    @staticmethod
    def of(
        starts: Int64s,
        ts: Int64s,
        exp: Int64s,
        peer: Int64s,
        distances: Distances | None,
        span: FrameSpan,
        began: int,
        clock: int,
    ) -> FrameVersions:
        """Of partitions (``starts``: where each begins, and the end) of rows in order."""
        key: Floats | Int64s = np.zeros(len(ts), np.int64)
        apart = np.zeros(len(ts), np.bool_)
        if distances is not None:
            key, apart = distances.key, distances.apart
        whole = key.dtype == np.int64
        reach = [
            min(int(far), FURTHEST) if whole else float(far)
            for far in (span.back_key, span.ahead_key)
        ]
        listed = _versions(
            starts, ts, exp, peer, key, apart, span.back_rows, span.ahead_rows, reach[0],
            reach[1], began, clock,
        )  # fmt: skip
        return FrameVersions(*listed)


@compiled(plain=True)
def _at_least(
    key: Int64s | Floats, alive: Int64s, low: int, high: int, sought: float, beyond: bool
) -> int:
    """Where the first of the living rows is whose key is not below, or above, what is sought."""
    while low < high:
        middle = (low + high) // 2
        value = key[alive[middle]]
        if value < sought or (beyond and value == sought):
            low = middle + 1
        else:
            high = middle
    return low


@compiled(plain=True)
def _grown(array: Int64s, size: int) -> Int64s:
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * len(array)), np.int64)
    larger[: len(array)] = array
    return larger


@compiled(plain=True)
def _with_key(alive: Int64s, total: int, apart: Bools) -> tuple[int, int]:
    """Between which places the living rows stand that have a key."""
    first, last = 0, total
    while first < last and apart[alive[first]]:
        first += 1
    while first < last and apart[alive[last - 1]]:
        last -= 1
    return first, last


@compiled(plain=True)
def _concerned(
    row: int, alive: Int64s, total: int, peer: Int64s, key: Int64s | Floats, apart: Bools,
    back_rows: int, ahead_rows: int, back_key: float, ahead_key: float,
) -> tuple[int, int]:  # fmt: skip
    """The places of living rows whose frames may hold a row that came or went."""
    spot, end = 0, total
    while spot < end:
        middle = (spot + end) // 2
        if alive[middle] < row:
            spot = middle + 1
        else:
            end = middle
    start = 0 if ahead_rows < 0 else max(0, spot - ahead_rows)
    stop = total if back_rows < 0 else min(total, spot + back_rows + 1)
    if back_key > 0 or ahead_key > 0:
        if apart[row]:
            start, stop = 0, total
        else:
            first, last = _with_key(alive, total, apart)
            start = min(start, _at_least(key, alive, first, last, key[row] - ahead_key, False))
            stop = max(stop, _at_least(key, alive, first, last, key[row] + back_key, True))
    start, stop = min(start, spot), max(stop, spot)
    while start > 0 and peer[alive[start - 1]] == peer[row]:
        start -= 1
    while stop < total and peer[alive[stop]] == peer[row]:
        stop += 1
    return start, stop


@compiled(plain=True)
def _reached(
    low: int, high: int, alive: Int64s, total: int, peer: Int64s, key: Int64s | Floats,
    apart: Bools, back_rows: int, ahead_rows: int, back_key: float, ahead_key: float,
) -> tuple[int, int]:  # fmt: skip
    """The places of living rows that the frames of those from ``low`` to ``high`` may hold."""
    start = 0 if back_rows < 0 else max(0, low - back_rows)
    stop = total if ahead_rows < 0 else min(total, high + ahead_rows)
    if back_key > 0 or ahead_key > 0:
        first, last = _with_key(alive, total, apart)
        lowest, highest = alive[low], alive[high - 1]
        start = 0 if apart[lowest] else start
        stop = total if apart[highest] else stop
        start = min(start, _at_least(key, alive, first, last, key[lowest] - back_key, False))
        stop = max(stop, _at_least(key, alive, first, last, key[highest] + ahead_key, True))
    while start > 0 and peer[alive[start - 1]] == peer[alive[start]]:
        start -= 1
    while stop < total and peer[alive[stop]] == peer[alive[stop - 1]]:
        stop += 1
    return start, stop


@compiled(plain=True)
def _moments(ts: Int64s, exp: Int64s, began: int, clock: int) -> Int64s:
    """The instants of a step at which rows come or go."""
    moments, count = np.empty(2 * len(ts), np.int64), 0
    for row in range(len(ts)):
        if ts[row] >= began:
            moments[count] = ts[row]
            count += 1
        if exp[row] < clock:
            moments[count] = exp[row]
            count += 1
    return np.unique(moments[:count])


@compiled(plain=True)
def _versions(
    starts: Int64s, ts: Int64s, exp: Int64s, peer: Int64s, key: Int64s | Floats, apart: Bools,
    back_rows: int, ahead_rows: int, back_key: float, ahead_key: float, began: int, clock: int,
) -> tuple[Int64s, Int64s, Bools, Int64s]:  # fmt: skip
    place, version, marks = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    instants, size, versions = np.empty(64, np.int64), 0, 0
    for partition in range(len(starts) - 1):
        first, last = starts[partition], starts[partition + 1]
        alive = np.empty(last - first, np.int64)
        lows, highs = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
        for moment in _moments(ts[first:last], exp[first:last], began, clock):
            total = ranges = 0
            for row in range(first, last):
                if ts[row] <= moment and exp[row] > moment:
                    alive[total] = row
                    total += 1
            for row in range(first, last):
                if ts[row] != moment and exp[row] != moment:
                    continue
                low, high = _concerned(
                    row, alive, total, peer, key, apart, back_rows, ahead_rows, back_key, ahead_key
                )
                # Rows come in order, so a range meets the one before it or stands behind it.
                if low < high and ranges and low <= highs[ranges - 1]:
                    lows[ranges - 1] = min(lows[ranges - 1], low)
                    highs[ranges - 1] = max(highs[ranges - 1], high)
                elif low < high:
                    lows[ranges], highs[ranges] = low, high
                    ranges += 1
            for number in range(ranges):
                low, high = lows[number], highs[number]
                start, stop = _reached(
                    low, high, alive, total, peer, key, apart, back_rows, ahead_rows, back_key,
                    ahead_key,
                )  # fmt: skip
                more = size + stop - start
                place, version = _grown(place, more), _grown(version, more)
                marks, instants = _grown(marks, more), _grown(instants, versions + 1)
                for spot in range(start, stop):
                    place[size], version[size] = alive[spot], versions
                    marks[size] = 1 if low <= spot < high else 0
                    size += 1
                instants[versions] = moment
                versions += 1
    return place[:size], version[:size], marks[:size] == 1, instants[:versions]
