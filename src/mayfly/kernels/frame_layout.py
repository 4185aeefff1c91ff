"""Rows in the order of OVER, partition by partition, and where the frame of each begins and ends.

Idea: sorted by partition and ORDER BY, a frame is a stretch of positions; ROWS counts them, RANGE
finds them by binary search in the key, both for all rows at once.
Invariant: from row to row of a partition neither end of a frame moves back, also around NULL and
NaN, which are peers of their own, at no distance from anything else.
Cost: O(rows · log rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.compilation import READ, compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.lifetime_rows import Bools
from mayfly.plan.logical_operators import SortKey
from mayfly.plan.over_frames import Frame, FrameUnit
from mayfly.windows.domain import keys_in_order

Floats = npt.NDArray[np.float64]
_WRITE = "int64[::1]"
FURTHEST = 2**62
"""Keys are moved by no more: sums stay within 64 bits where keys do."""


def sort_columns(values: pa.Array, descending: bool, nulls_first: bool) -> list[Int64s]:
    """Whole numbers that sort as the values do: whether they are NULL, then themselves."""
    keys = keys_in_order(values)
    keys = ~keys if descending else keys
    if not values.null_count:
        return [np.ascontiguousarray(keys)]
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    place = np.where(missing, -1 if nulls_first else 1, 0)
    return [place, np.where(missing, 0, keys)]


@dataclass(frozen=True)
class Distances:
    """The value of ORDER BY as a number by which a RANGE is measured, growing from row to row;
    ``apart`` are rows that have none."""

    key: Int64s | Floats
    apart: Bools

    @staticmethod
    def of(values: pa.Array, sort: SortKey) -> Distances:
        missing = pc.is_null(values).to_numpy(zero_copy_only=False)
        if pa.types.is_floating(values.type):
            floats = values.to_numpy(zero_copy_only=False).astype(np.float64)
            apart = missing | np.isnan(floats)
            floats = np.where(apart, 0.0, floats)
            return Distances(-floats if sort.descending else floats, apart)
        if pa.types.is_date32(values.type):
            values = values.cast(pa.int32())
        filled = pc.fill_null(values.cast(pa.int64()), 0) if values.null_count else values
        whole = np.array(filled.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
        # A DESC order measures from the other end; ~x is -x - 1, and that of no number overflows.
        return Distances(~whole if sort.descending else whole, missing)

    def taken(self, places: Int64s) -> Distances:
        return Distances(self.key[places], self.apart[places])

    def moved(self, places: Int64s, by: int | float) -> Int64s | Floats:
        """The keys of some rows with a distance added, as far as there are numbers."""
        if self.key.dtype == np.float64:
            floats: Floats = self.key[places] + np.float64(by)
            return floats
        shift = int(max(-FURTHEST, min(FURTHEST, by)))
        keys = self.key[places].astype(np.int64)
        low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        if shift < 0:
            return np.where(keys < low - shift, low, keys + shift)
        return np.where(keys > high - shift, high, keys + shift)


@dataclass(frozen=True)
class Layout:
    """Rows in order: to which partition each belongs, and which are peers.

    Both number from 0, and never fall; rows of another partition are no peers.
    """

    partition: Int64s
    peer: Int64s
    distances: Distances | None = None

    @cached_property
    def starts(self) -> Int64s:
        """Where the partition of each row begins."""
        return _firsts(self.partition)

    @cached_property
    def ends(self) -> Int64s:
        """Behind the last row of the partition of each."""
        return _lasts(self.partition)

    @cached_property
    def first_peers(self) -> Int64s:
        return _firsts(self.peer)

    @cached_property
    def behind_peers(self) -> Int64s:
        return _lasts(self.peer)

    def bounds(self, frame: Frame, targets: Int64s) -> tuple[Int64s, Int64s]:
        """Where the frames of some rows begin, and behind which row they end."""
        starts, ends = self.starts[targets], self.ends[targets]
        if frame.unit is FrameUnit.ROWS:
            low = starts if frame.start is None else targets + _count(frame.start)
            high = ends if frame.end is None else targets + _count(frame.end) + 1
        else:
            low = self._border(targets, frame.start, starts, True)
            high = self._border(targets, frame.end, ends, False)
        low = np.clip(low, starts, ends)
        return low, np.maximum(np.clip(high, starts, ends), low)

    def _border(
        self, targets: Int64s, bound: int | float | None, outermost: Int64s, first: bool
    ) -> Int64s:
        if bound is None:
            return outermost
        own = (self.first_peers if first else self.behind_peers)[targets]
        if bound == 0:
            return own
        assert self.distances is not None
        sought = self.distances.moved(targets, bound)
        apart = self.distances.apart
        return _border_places(
            self.distances.key, apart, *self._solid, targets, sought, own, not first
        )

    @cached_property
    def _solid(self) -> tuple[Int64s, Int64s]:
        assert self.distances is not None
        return _measured(self.partition, self.distances.apart)


def _count(bound: int | float) -> int:
    return int(max(-FURTHEST, min(FURTHEST, bound)))


def peers_of(partition: Int64s, columns: Sequence[Int64s]) -> Int64s:
    """The number of the group of peers of each row, in order."""
    changed = np.ones(len(partition), bool)
    changed[1:] = partition[1:] != partition[:-1]
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.cumsum(changed) - 1


@compiled(f"{_WRITE}({READ})", plain=True)
def _firsts(groups: Int64s) -> Int64s:
    first, places = 0, np.empty(len(groups), np.int64)
    for row in range(len(groups)):
        if row and groups[row] != groups[row - 1]:
            first = row
        places[row] = first
    return places


@compiled(f"{_WRITE}({READ})", plain=True)
def _lasts(groups: Int64s) -> Int64s:
    last, places = len(groups), np.empty(len(groups), np.int64)
    for row in range(len(groups) - 1, -1, -1):
        if row + 1 < len(groups) and groups[row] != groups[row + 1]:
            last = row + 1
        places[row] = last
    return places


@compiled(plain=True)
def _measured(partition: Int64s, apart: Bools) -> tuple[Int64s, Int64s]:
    """For each row where the rows of its partition that have a key begin and end; those that have
    none stand together, before or behind them."""
    low, high = np.empty(len(partition), np.int64), np.empty(len(partition), np.int64)
    first = 0
    for row in range(len(partition)):
        if row + 1 < len(partition) and partition[row + 1] == partition[row]:
            continue
        begin, end = first, row + 1
        while begin < end and apart[begin]:
            begin += 1
        while begin < end and apart[end - 1]:
            end -= 1
        low[first : row + 1], high[first : row + 1] = begin, end
        first = row + 1
    return low, high


@compiled(plain=True)
def _border_places(
    key: Int64s | Floats, apart: Bools, lows: Int64s, highs: Int64s, targets: Int64s,
    sought: Int64s | Floats, own: Int64s, beyond: bool,
) -> Int64s:  # fmt: skip
    """The first row of each partition whose key is not below what is sought, or above it; of rows
    without a key, their own peers."""
    places = own.copy()
    for i in range(len(targets)):
        if apart[targets[i]]:
            continue
        low, high = lows[targets[i]], highs[targets[i]]
        while low < high:
            middle = (low + high) // 2
            if key[middle] < sought[i] or (beyond and key[middle] == sought[i]):
                low = middle + 1
            else:
                high = middle
        places[i] = low
    return places
