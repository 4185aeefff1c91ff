"""The order of rows under ORDER BY: exactly, and as one number per row that is stored with it.

Idea: a code is the beginning of a row written as bits, sort keys first, then the values; each part
is written so that bits compare as values do and none is the beginning of another. Small numbers and
short texts take few bits, so that codes tell most rows apart.
Invariants: a row that comes first never has the larger code; codes whose last bit is 0 hold the
whole row, so that equal ones are of equal rows. Cost: O(1) array operations a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.lifetime_rows import whole
from mayfly.kernels.stateless import values_of
from mayfly.plan.logical_operators import SortKey
from mayfly.plan.types import arrow_type
from mayfly.windows.domain import has_ranks, ranks

Words = npt.NDArray[np.uint64]
ROOM = 63
"""Bits of a code before the one that says whether something is missing."""
_LETTERS = 8
_SHORT = 15
"""Bits of a floating-point number that are written first: its exponent and some of its digits."""


@dataclass(frozen=True)
class OrderColumn:
    """A column by which rows are ordered."""

    values: pa.Array
    descending: bool = False
    nulls_first: bool = True


def order_parts(
    rows: pa.Table, keys: Sequence[SortKey], columns: Sequence[str]
) -> list[OrderColumn]:
    """The sort keys, then all columns whose values can be compared."""
    parts = [
        OrderColumn(
            values_of(key.expression, rows, arrow_type(key.expression.type)),
            key.descending,
            key.nulls_first,
        )
        for key in keys
    ]
    others = (whole(rows.column(name)) for name in columns)
    return parts + [OrderColumn(values) for values in others if not pa.types.is_nested(values.type)]


def exact_ranks(part: OrderColumn) -> list[Int64s]:
    """Integers that sort like the values; NaN is larger than any number."""
    values, null = part.values, pc.is_null(part.values).to_numpy(zero_copy_only=False)
    columns = [np.where(null, -1 if part.nulls_first else 1, 0)]
    sign = -1 if part.descending else 1
    if pa.types.is_floating(values.type):
        nan = pc.fill_null(pc.is_nan(values), False)
        columns.append(sign * nan.to_numpy(zero_copy_only=False).astype(np.int64))
        values = pc.if_else(nan, pa.scalar(0.0, values.type), values)
    dense = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    columns.append(np.where(null, 0, sign * dense.to_numpy().astype(np.int64)))
    return columns


# ── codes ─────────────────────────────────────────────────────────────────────────────────


def order_codes(parts: Sequence[OrderColumn], rows: int) -> Int64s:
    """A number per row that is not larger than that of a row which comes later."""
    line = _Line(rows)
    for part in parts:
        if not (line.room > 0).any():
            line.lost[:] = True
            break
        _write(line, part)
    lost = line.lost.astype(np.uint64)
    code = ((line.bits << np.uint64(1)) | lost) ^ np.uint64(1 << 63)
    return code.view(np.int64)


class _Line:
    """What is written so far of every row, and how many bits are left."""

    def __init__(self, rows: int) -> None:
        self.bits = np.zeros(rows, np.uint64)
        self.room = np.full(rows, ROOM, np.int64)
        self.lost = np.zeros(rows, bool)

    def write(self, word: Words, size: Int64s) -> None:
        """Write the last ``size`` bits of the words, as far as there is room."""
        missing = np.maximum(size - self.room, 0)
        size = size - missing
        word = word >> missing.astype(np.uint64)
        self.room -= size
        self.bits |= np.where(size > 0, word << self.room.astype(np.uint64), np.uint64(0))
        self.lost |= missing > 0

    def close(self, which: npt.NDArray[np.bool_]) -> None:
        """Note that of these rows not all was written, and nothing more can be."""
        self.lost |= which
        self.room[which] = 0


def _write(line: _Line, part: OrderColumn) -> None:
    values = part.values
    null = pc.is_null(values).to_numpy(zero_copy_only=False)
    line.write((null != part.nulls_first).astype(np.uint64), np.ones(len(null), np.int64))
    kind = values.type
    if pa.types.is_boolean(kind):
        filled = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
        _put(line, part, null, filled.astype(np.uint64), np.ones(len(null), np.int64))
    elif pa.types.is_floating(kind):
        _write_float(line, part, null, values)
    elif has_ranks(kind):
        _write_whole(line, part, null, ranks(values))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        _write_letters(line, part, null, values)
    else:
        if pa.types.is_decimal(kind):
            _write_float(line, part, null, values.cast(pa.float64()))
        line.close(~null)


def _put(
    line: _Line, part: OrderColumn, null: npt.NDArray[np.bool_], word: Words, size: Int64s
) -> None:
    """Bits of the values that are not NULL, turned if the largest comes first."""
    if part.descending:
        word = word ^ _ones(size)
    line.write(word, np.where(null, 0, size))


def _ones(size: Int64s) -> Words:
    every = np.uint64(2**64 - 1)
    return np.where(size > 0, every >> np.minimum(64 - size, 63).astype(np.uint64), np.uint64(0))


def _write_whole(line: _Line, part: OrderColumn, null: npt.NDArray[np.bool_], keys: Int64s) -> None:
    """Write the sign, how many bits the number has, and these without the first."""
    negative = keys < 0
    size = np.where(negative, ~keys, keys)
    high = np.frexp(size.astype(np.float64))[1].astype(np.int64)
    high = np.where((high > 0) & (size >> np.maximum(high - 1, 0) == 0), high - 1, high)
    turned = np.where(negative, np.uint64(2**64 - 1), np.uint64(0))
    length = high.astype(np.uint64) ^ (turned & np.uint64(63))
    head: Words = np.bitwise_or(np.where(negative, np.uint64(0), np.uint64(64)), length)
    _put(line, part, null, head, np.full(len(keys), 7))
    rest = np.maximum(high - 1, 0)
    _put(line, part, null, (size.view(np.uint64) ^ turned) & _ones(rest), rest)


def _write_float(
    line: _Line, part: OrderColumn, null: npt.NDArray[np.bool_], values: pa.Array
) -> None:
    """Write the sign, the first bits, whether others follow, and these."""
    floats = values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
    floats[np.isnan(floats)] = np.nan
    bits = floats.view(np.uint64)
    negative = (bits >> np.uint64(63)) == 1
    turned = np.where(negative, np.uint64(2**64 - 1), np.uint64(0))
    size = bits & np.uint64(2**63 - 1)
    low = np.uint64(63 - _SHORT)
    more = (size & ((np.uint64(1) << low) - np.uint64(1))) != 0
    head = ((size >> low) << np.uint64(1)) | more.astype(np.uint64)
    head = (head ^ turned) & np.uint64((2 << _SHORT) - 1)
    head |= np.where(negative, np.uint64(0), np.uint64(2 << _SHORT))
    _put(line, part, null, head, np.full(len(bits), _SHORT + 2))
    rest = np.where(more, 63 - _SHORT, 0)
    _put(line, part, null, (size ^ turned) & _ones(rest), rest)


def _write_letters(
    line: _Line, part: OrderColumn, null: npt.NDArray[np.bool_], values: pa.Array
) -> None:
    """Bytes, then 0. The bytes 0 and 1 are both written as 1, and nothing behind them."""
    stored = values.cast(pa.binary())
    offset = np.frombuffer(stored.buffers()[1], np.int32)[stored.offset :][: len(values) + 1]
    first, last = offset[:-1].astype(np.int64), offset[1:].astype(np.int64)
    buffer = stored.buffers()[2]
    data = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else _NO_BYTES
    gone = null.copy()
    eight = np.full(len(values), 8)
    for place in range(_LETTERS):
        position = first + place
        inside = position < last
        byte = np.where(inside, data[np.where(inside, position, 0)], 0).astype(np.uint64)
        special = inside & (byte <= 1)
        byte = np.where(special, np.uint64(1), byte)
        _put(line, part, gone, byte, eight)
        line.close(special & ~gone)
        gone |= ~inside | special
    line.close(~gone)


_NO_BYTES = np.zeros(1, np.uint8)
