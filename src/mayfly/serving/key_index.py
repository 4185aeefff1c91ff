"""Rows of a key in the log of a view: decoded segments, and the order of their keys.

Idea: a log is written as results come, since to keep it by key would take whole logs into memory. A
reader that asks a segment for keys a second time sorts their codes, and bisects from then on.
Invariant: a file never changes and its name is never used again, so nothing kept can be stale; it
is compared with its checksum before it is decoded. Cost: the first two questions about some columns
go through all rows of a segment; each further one takes a bisection a segment, and its own rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.codes import group_codes, unsigned_zeros
from mayfly.storage import Directory, Segment, open_segment, segment_batches

KEPT_BYTES = 1 << 28
"""Of decoded segments and orders of keys, in a reader; those that were used last stay."""
LARGEST_SHARE = 8
"""A file larger than this part of it is searched piece by piece, and nothing of it kept."""


@dataclass(frozen=True)
class KeyValues:
    """Columns, as they are called in files, and the values that are looked for in each."""

    values: Mapping[str, pa.Array]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    @cached_property
    def codes(self) -> Int64s:
        """Of every combination of the values."""
        combinations = list(product(*(range(len(array)) for array in self.values.values())))
        taken = zip(*combinations, strict=True)
        columns = [
            array.take(pa.array(numbers, pa.int64()))
            for array, numbers in zip(self.values.values(), taken, strict=True)
        ]
        return np.unique(group_codes(columns, len(combinations)))

    def select(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that have such values; NULL is a value, too."""
        for name, array in self.values.items():
            among = unsigned_zeros(array)
            rows = rows.filter(pc.is_in(unsigned_zeros(rows.column(name)), value_set=among))
        return rows


@dataclass(frozen=True)
class KeyOrder:
    """The codes of a segment's rows in order, and where each row is."""

    codes: Int64s
    positions: Int64s

    @staticmethod
    def of(rows: pa.RecordBatch, names: tuple[str, ...]) -> KeyOrder:
        codes = group_codes([rows.column(name) for name in names], rows.num_rows)
        positions = np.argsort(codes, kind="stable")
        return KeyOrder(codes[positions], positions)

    @property
    def bytes(self) -> int:
        return self.codes.nbytes + self.positions.nbytes

    def find(self, codes: Int64s) -> Int64s:
        """The rows with these codes."""
        lows, highs = self.codes.searchsorted(codes), self.codes.searchsorted(codes, "right")
        if len(codes) == 1:
            return self.positions[lows[0] : highs[0]]
        return np.concatenate(
            [self.positions[low:high] for low, high in zip(lows, highs, strict=True)]
        )


@dataclass
class DecodedSegment:
    """The rows of a segment in memory."""

    rows: pa.RecordBatch
    orders: dict[tuple[str, ...], KeyOrder | None] = field(default_factory=dict)
    """By columns; None while they were asked for only once."""
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = self.rows.nbytes

    def select(self, keys: KeyValues) -> tuple[pa.RecordBatch, int]:
        """The rows of keys, and how many were looked at."""
        if keys.names not in self.orders:
            self.orders[keys.names] = None
            return keys.select(self.rows), self.rows.num_rows
        order = self.orders[keys.names]
        if order is None:
            order = self.orders[keys.names] = KeyOrder.of(self.rows, keys.names)
            self.bytes += order.bytes
        positions = order.find(keys.codes)
        if not len(positions):
            return self.rows.slice(0, 0), 0
        return keys.select(self.rows.take(pa.array(positions))), len(positions)


@dataclass
class KeyIndex:
    """What a reader has decoded of logs; several threads may ask it."""

    limit: int = KEPT_BYTES
    rows_read: int = 0
    """Looked at so far, for keys."""
    _kept: OrderedDict[str, DecodedSegment] = field(default_factory=OrderedDict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def select(
        self, directory: Directory, segment: Segment, keys: KeyValues
    ) -> Iterator[pa.RecordBatch]:
        """The rows of keys in a segment."""
        if segment.bytes > self.limit // LARGEST_SHARE:
            for batch in segment_batches(directory, segment, again=False):
                self.rows_read += batch.num_rows
                yield keys.select(batch)
            return
        decoded = self._decoded(directory, segment)
        before = decoded.bytes
        rows, count = decoded.select(keys)
        self.rows_read += count
        if decoded.bytes != before:
            self._forget_oldest()
        if rows.num_rows:
            yield rows

    def retain(self, paths: Collection[str]) -> None:
        """Forget the segments that are not among these: their files may be gone."""
        with self._lock:
            for path in [path for path in self._kept if path not in paths]:
                del self._kept[path]

    def _decoded(self, directory: Directory, segment: Segment) -> DecodedSegment:
        with self._lock:
            if decoded := self._kept.get(segment.path):
                self._kept.move_to_end(segment.path)
                return decoded
        (rows,) = open_segment(directory, segment).combine_chunks().to_batches()
        decoded = DecodedSegment(rows)
        with self._lock:
            self._kept[segment.path] = decoded
        self._forget_oldest()
        return decoded

    def _forget_oldest(self) -> None:
        with self._lock:
            size = sum(decoded.bytes for decoded in self._kept.values())
            while size > self.limit and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                size -= oldest.bytes


def key_values(
    values: Mapping[str, tuple[Any, ...]], kinds: Mapping[str, pa.DataType]
) -> KeyValues:
    """Values as the columns of files have them."""
    return KeyValues({name: pa.array(listed, kinds[name]) for name, listed in values.items()})
