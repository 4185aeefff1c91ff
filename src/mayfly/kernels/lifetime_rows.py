"""Rows inside kernels: Arrow tables with a code, a lifetime and payload columns.

``_code`` is a 64-bit stand-in for the join key: the key itself where it fits (integers, dates,
times, booleans), otherwise a hash, so that equal keys always have equal codes. It is NULL where
a key column is NULL. Kept runs are sorted by (code, ts), waiting ones by ts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays.compilation import READ, compiled
from mayfly.arrays.order import Int64s, stable_order
from mayfly.storage.bounds import Bounds
from mayfly.storage.segment import EXP, TS, Segment

CODE = "_code"
READER = "_reader"
"""The column that says to which window a result belongs."""
Bools: TypeAlias = npt.NDArray[np.bool_]


def numbers(table: pa.Table, column: str) -> Int64s:
    """An int64 column without NULLs as a NumPy array, without copying where possible."""
    chunked = table.column(column)
    if chunked.num_chunks == 1:
        values: Int64s = chunked.chunk(0).to_numpy(zero_copy_only=True)
        return values
    parts = [chunk.to_numpy(zero_copy_only=True) for chunk in chunked.chunks]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without copying if it is one."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RowRun:
    """An immutable run of rows: in memory, or a stored segment opened when first needed."""

    load: Callable[[], pa.Table]
    rows: int
    ts: Bounds
    exp: Bounds
    level: int = 0
    cell: int | None = None
    segment: Segment | None = None

    @staticmethod
    def of(table: pa.Table, *, level: int = 0, cell: int | None = None) -> RowRun:
        return RowRun(
            load=lambda: table,
            rows=table.num_rows,
            ts=Bounds(*_extent(numbers(table, TS))),
            exp=Bounds(*_extent(numbers(table, EXP))),
            level=level,
            cell=cell,
        )

    @property
    def bytes(self) -> int:
        return int(self.load().nbytes) if self.segment is None else self.segment.bytes

    def keys(self) -> tuple[Int64s, Int64s, Int64s]:
        table = self.load()
        return numbers(table, CODE), numbers(table, TS), numbers(table, EXP)


@compiled(f"UniTuple(int64, 2)({READ})", plain=True)
def _extent(values: Int64s) -> tuple[int, int]:
    """The smallest and the largest; there is a value."""
    low = high = values[0]
    for value in values:
        low, high = min(low, value), max(high, value)
    return low, high


def clustered(table: pa.Table) -> pa.Table:
    """The rows sorted by (code, ts), in one chunk."""
    return _taken(table, stable_order(numbers(table, CODE), numbers(table, TS)))


def gathered(tables: Iterable[pa.Table], column: str) -> pa.Table:
    """The rows of all tables sorted by an int64 column, in one chunk; equal ones keep their order.

    Clustered tables of instants that follow each other, gathered by code, are clustered again.
    """
    table = pa.concat_tables(tables)
    # NumPy's stable sort finds sorted stretches and merges them.
    return _taken(table, np.argsort(numbers(table, column), kind="stable"))


def _taken(table: pa.Table, order: Int64s) -> pa.Table:
    table = table.combine_chunks()
    return table.take(pa.array(order)).combine_chunks() if len(order) else table


def chosen(rows: pa.Table, mask: Bools) -> pa.Table:
    """The rows where the mask holds; without copying if that is all or none of them."""
    count = np.count_nonzero(mask)
    if count in (0, rows.num_rows):
        return rows.slice(0, count)
    # Taking positions is faster than filtering by bits.
    return rows.take(pa.array(np.flatnonzero(mask)))
