"""Key codes: 64-bit stand-ins for keys, equal for equal keys, and the bucket they fall into.

Both are stored with states: docs/formats/placement.md says what they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import LimitExceeded
from mayfly.kernels.caching import CACHED
from mayfly.kernels.rows import whole
from mayfly.kernels.sorting import Int64s
from mayfly.kernels.xxhash64 import SEED, Hashes, folded, hashed_number
from mayfly.plan.types import DataType, arrow_type

EXACT_KEYS = ("boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp")
"""Types of which a single key is its own code."""
NULL_CODE = np.int64(-6_148_914_691_236_517_205)
"""What stands for NULL."""
_READ = numba.types.Array(numba.int64, 1, "C", readonly=True)
_ROWS = numba.types.Array(numba.int64, 1, "C")


def key_codes(columns: Sequence[pa.ChunkedArray], types: Sequence[DataType]) -> pa.Array:
    """The code of each row: the key itself where it fits, a hash otherwise; NULL for NULL keys."""
    keys = [
        whole(column if column.type == kind else pc.cast(column, kind, safe=False))
        for column, kind in zip(columns, map(arrow_type, types), strict=True)
    ]
    if len(keys) == 1 and (exact := _exact(keys[0])) is not None:
        return exact
    null = np.logical_or.reduce([pc.is_null(key).to_numpy(zero_copy_only=False) for key in keys])
    return pa.array(group_codes(keys, len(keys[0])), pa.int64(), mask=null)


def group_codes(columns: Sequence[pa.Array], rows: int) -> Int64s:
    """The code of each row where NULLs are equal: for places, groups, DISTINCT and EXCEPT ALL.

    A single whole number, date, time or boolean is its own code; rows without columns are all
    equal. Where no column is NULL it is that of ``key_codes``. Hashes of different values may
    meet, in theory: see ``check_codes``.
    """
    if not columns or not rows:
        return np.zeros(rows, np.int64)
    if len(columns) == 1:
        if (exact := _exact(columns[0])) is not None:
            filled = pc.fill_null(exact, int(NULL_CODE)) if exact.null_count else exact
            codes: Int64s = filled.to_numpy(zero_copy_only=False)
            return np.ascontiguousarray(codes)
        if columns[0].null_count:
            missing = pc.is_null(columns[0]).to_numpy(zero_copy_only=False)
            return np.where(missing, NULL_CODE, _hashes(columns, rows))
    return _hashes(columns, rows)


def _hashes(columns: Sequence[pa.Array], rows: int) -> Int64s:
    hashes = np.full(rows, SEED, np.uint64)
    for column in columns:
        hashes = _folded(column, hashes)
    return hashes.view(np.int64)


def _folded(column: pa.Array, hashes: Hashes) -> Hashes:
    """One more column; values that are equal in another width of their type hash alike.

    An array is its length and its elements, a structure whether it is there and its fields: Spark
    leaves out what is NULL or empty, so that different values would meet.
    """
    if pa.types.is_struct(column.type):
        hashes = folded(column.is_valid().cast(pa.int64()), hashes)
        for field in column.flatten():
            hashes = _folded(field, hashes)
        return hashes
    if pa.types.is_nested(column.type):
        return _folded_lists(column, hashes)
    exact = _exact(column)
    if exact is not None:
        column = exact
    elif pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
    return folded(column, hashes, null=int(NULL_CODE))


def _folded_lists(column: pa.Array, hashes: Hashes) -> Hashes:
    if pa.types.is_map(column.type):
        fields = [("key", column.type.key_type), ("value", column.type.item_type)]
        column = column.cast(pa.list_(pa.struct(fields)))
    lengths = pc.list_value_length(column)
    hashes = folded(lengths.cast(pa.int64()), hashes, null=int(NULL_CODE))
    sizes = lengths.fill_null(0).to_numpy(zero_copy_only=False)
    starts = column.offsets.to_numpy()[:-1].astype(np.int64)
    for at in range(sizes.max(initial=0)):
        longer = np.flatnonzero(sizes > at)
        elements = column.values.take(pa.array(starts[longer] + at))
        hashes[longer] = _folded(elements, hashes[longer])
    return hashes


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


def buckets(codes: Int64s, count: int) -> Int64s:
    """The bucket of each code: pmod(xxhash64(code), count), so that regular keys spread."""
    return _buckets(np.ascontiguousarray(codes), count)


@numba.njit(_ROWS(_READ, numba.int64), cache=CACHED, nogil=True)
def _buckets(codes: Int64s, count: int) -> Int64s:
    found = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        found[i] = np.int64(hashed_number(np.uint64(codes[i]), np.uint64(SEED))) % count
    return found
