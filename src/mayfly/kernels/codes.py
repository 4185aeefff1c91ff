"""Key codes: 64-bit stand-ins for keys, equal for equal keys, and the bucket they fall into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pandas.util import hash_array

from mayfly.errors import LimitExceeded
from mayfly.kernels.rows import whole
from mayfly.kernels.sorting import Int64s
from mayfly.plan.types import DataType, arrow_type

EXACT_KEYS = ("boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp")
"""Types of which a single key is its own code."""
NULL_CODE = np.int64(-6_148_914_691_236_517_205)


def key_codes(columns: Sequence[pa.ChunkedArray], types: Sequence[DataType]) -> pa.Array:
    """The code of each row: the key itself where it fits, a hash otherwise; NULL for NULL keys."""
    keys = [
        whole(column if column.type == kind else pc.cast(column, kind, safe=False))
        for column, kind in zip(columns, map(arrow_type, types), strict=True)
    ]
    if len(keys) == 1 and (exact := _exact(keys[0])) is not None:
        return exact
    null = np.logical_or.reduce([pc.is_null(key).to_numpy(zero_copy_only=False) for key in keys])
    return pa.array(place_codes(keys, len(keys[0])), pa.int64(), mask=null)


def place_codes(columns: Sequence[pa.Array], rows: int) -> Int64s:
    """The code by which rows are spread over buckets, NULLs included.

    Where no column is NULL it is that of ``key_codes``, of a single column that of ``group_codes``:
    whoever asks for the place of a key gets the same answer.
    """
    if len(columns) == 1:
        return group_codes(columns, rows)
    mixed = np.zeros(rows, dtype=np.uint64)
    for column in columns:
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + _hashes_with_nulls(column)
    return mixed.view(np.int64)


def group_codes(columns: Sequence[pa.Array], rows: int) -> Int64s:
    """The code of each row where NULLs are equal: for groups, DISTINCT and EXCEPT ALL.

    A single whole number, date, time or boolean is its own code; rows without columns are all
    equal. Hashes of different values may meet, in theory: see ``check_codes``.
    """
    if not columns or not rows:
        return np.zeros(rows, np.int64)
    if len(columns) == 1 and (exact := _exact(columns[0])) is not None:
        known = pc.fill_null(exact, int(NULL_CODE)) if exact.null_count else exact
        codes: Int64s = known.to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(codes)
    mixed = np.zeros(rows, dtype=np.uint64)
    for column in columns:
        stirred = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        mixed = stirred + _hashes_with_nulls(column)
    return mixed.view(np.int64)


def unsigned_zeros(column: pa.Array) -> pa.Array:
    """The column with 0.0 for -0.0, so that equal keys look equal too, as in Spark."""
    if pa.types.is_floating(column.type):
        return pc.add(column, pa.scalar(0.0, column.type))
    return column


def are_exact(columns: Sequence[pa.DataType]) -> bool:
    """Whether codes of such columns tell all values apart."""
    return len(columns) == 1 and (
        pa.types.is_integer(columns[0])
        or pa.types.is_boolean(columns[0])
        or pa.types.is_date32(columns[0])
        or pa.types.is_timestamp(columns[0])
        or pa.types.is_duration(columns[0])
    )


def check_codes(codes: Int64s, columns: Sequence[pa.Array]) -> None:
    """Refuse rows (sorted by code) whose codes are equal though their values are not."""
    if are_exact([column.type for column in columns]):
        return
    same = codes[1:] == codes[:-1]
    for column in columns:
        if not same.any():
            return
        if not (same <= adjacent_equal(column)).all():
            raise LimitExceeded(
                "two different values share a 64-bit hash",
                "add a column that tells them apart, or change one of the values",
            )


def adjacent_equal(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether each value equals the one before it; NULL equals NULL, NaN equals NaN."""
    places = np.arange(max(0, len(column) - 1))
    return _equal_at(column, places, places + 1)


def _equal_at(column: pa.Array, left: Int64s, right: Int64s) -> npt.NDArray[np.bool_]:
    """Whether the values at one list of places equal those at another."""
    if pa.types.is_list(column.type):
        return _equal_lists(column, left, right)
    before, after = column.take(pa.array(left)), column.take(pa.array(right))
    nulls = pc.and_(pc.is_null(before), pc.is_null(after)).to_numpy(zero_copy_only=False)
    if pa.types.is_struct(column.type):
        same = ~(pc.is_null(before).to_numpy(zero_copy_only=False) ^
                 pc.is_null(after).to_numpy(zero_copy_only=False))  # fmt: skip
        for field in column.flatten():
            same &= _equal_at(field, left, right)
        return np.asarray(nulls | same, bool)
    if pa.types.is_nested(column.type):
        pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
        return np.array([one == other for one, other in pairs], dtype=bool)
    equal = pc.equal(before, after)
    if pa.types.is_floating(column.type):
        equal = pc.or_kleene(equal, pc.and_(pc.is_nan(before), pc.is_nan(after)))
    same = pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
    return np.asarray(nulls | same, bool)


def _equal_lists(column: pa.Array, left: Int64s, right: Int64s) -> npt.NDArray[np.bool_]:
    """Lists are equal if they are as long and equal element by element."""
    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    starts = column.offsets.to_numpy()[:-1].astype(np.int64)
    equal = lengths[left] == lengths[right]
    pairs = np.flatnonzero(equal & (lengths[left] > 0))
    sizes = lengths[left][pairs].astype(np.int64)
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    same = _equal_at(
        column.values,
        np.repeat(starts[left][pairs], sizes) + within,
        np.repeat(starts[right][pairs], sizes) + within,
    )
    np.logical_and.at(equal, np.repeat(pairs, sizes), same)
    return np.asarray(equal, bool)


def _exact(key: pa.Array) -> pa.Array | None:
    if key.type == pa.int64():
        return key
    if pa.types.is_integer(key.type) or pa.types.is_boolean(key.type):
        return pc.cast(key, pa.int64())
    if pa.types.is_date32(key.type):
        return pc.cast(pc.cast(key, pa.int32()), pa.int64())
    if pa.types.is_timestamp(key.type) or pa.types.is_duration(key.type):
        return pc.cast(key, pa.int64())
    return None


def _hashes(key: pa.Array) -> npt.NDArray[np.uint64]:
    if pa.types.is_floating(key.type):
        values = key.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        values[np.isnan(values)] = np.nan
        return _hashed(values)
    exact = _exact(key)
    if exact is not None:
        return _hashed(pc.fill_null(exact, 0).to_numpy(zero_copy_only=False))
    distinct = pc.unique(key).to_pylist()
    hashes = _hashed(np.array([str(value) for value in distinct], dtype=object))
    which = pc.index_in(key, value_set=pa.array(distinct, key.type))
    spread: npt.NDArray[np.uint64] = hashes[which.to_numpy(zero_copy_only=False)]
    return spread


def _hashes_with_nulls(key: pa.Array) -> npt.NDArray[np.uint64]:
    if not key.null_count:
        return _hashes(key)
    missing = pc.is_null(key).to_numpy(zero_copy_only=False)
    return np.where(missing, NULL_CODE.view(np.uint64), _hashes(key))


def _hashed(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    hashes: npt.NDArray[np.uint64] = hash_array(values)
    return hashes


def buckets(codes: Int64s, count: int) -> Int64s:
    """The bucket of each code; mixed first, so that regular keys spread."""
    mixed = codes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(32)) % np.uint64(count)).astype(np.int64)
