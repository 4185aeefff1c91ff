"""Key codes: 64-bit stand-ins for keys, equal for equal keys, and the bucket they fall into.

Both are stored with states: docs/formats/placement.md says what they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s
from mayfly.errors import LimitExceeded
from mayfly.kernels.functions.xxhash64 import SEED, Hashes, folded, hashed_number
from mayfly.kernels.lifetime_rows import Bools, whole
from mayfly.plan.types import DataType, arrow_type

EXACT_KEYS = ("boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp")
"""Types of which a single key is its own code."""
NULL_CODE = np.int64(-6_148_914_691_236_517_205)
"""What stands for NULL."""


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
    for position in range(sizes.max(initial=0)):
        longer = np.flatnonzero(sizes > position)
        elements = column.values.take(pa.array(starts[longer] + position))
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
            raise shared_hash()


def check_pairs(columns: Sequence[pa.Array], others: Sequence[pa.Array]) -> None:
    """Refuse rows that have the codes of others, one of each, though their values are not equal."""
    if not all(_equal(left, right).all() for left, right in zip(columns, others, strict=True)):
        raise shared_hash()


def shared_hash() -> LimitExceeded:
    return LimitExceeded(
        "two different values share a 64-bit hash",
        "add a column that tells them apart, or change one of the values",
    )


def adjacent_equal(column: pa.Array) -> Bools:
    """Whether each value equals the one before it; NULL equals NULL, NaN equals NaN."""
    return _equal(column.slice(0, max(0, len(column) - 1)), column.slice(1))


def _equal(left: pa.Array, right: pa.Array) -> Bools:
    """Whether the values of one array equal those of another."""
    if pa.types.is_nested(left.type):
        return _equal_nested(left, right)
    equal = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        equal = pc.or_kleene(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    if not equal.null_count:
        return np.asarray(equal.to_numpy(zero_copy_only=False), bool)
    nulls = pc.and_(pc.is_null(left), pc.is_null(right))
    return np.asarray(pc.coalesce(equal, nulls).to_numpy(zero_copy_only=False), bool)


def _equal_nested(left: pa.Array, right: pa.Array) -> Bools:
    missing, absent = (pc.is_null(side).to_numpy(zero_copy_only=False) for side in (left, right))
    if pa.types.is_struct(left.type):
        same = missing == absent
        for mine, other in zip(left.flatten(), right.flatten(), strict=True):
            same &= _equal(mine, other)
        return np.asarray((missing & absent) | same, bool)
    if pa.types.is_list(left.type):
        return _equal_lists(left, right)
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return np.array([mine == other for mine, other in pairs], dtype=bool)


def _equal_lists(left: pa.Array, right: pa.Array) -> Bools:
    """Lists are equal if they are as long and equal element by element."""
    lengths, others = (
        pc.fill_null(pc.list_value_length(side), -1).to_numpy(zero_copy_only=False)
        for side in (left, right)
    )
    equal: Bools = lengths == others
    pairs = np.flatnonzero(equal & (lengths > 0))
    if not len(pairs):
        return equal
    sizes = lengths[pairs].astype(np.int64)
    ends = np.cumsum(sizes)
    within = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    elements = [
        side.values.take(pa.array(np.repeat(starts[pairs], sizes) + within))
        for side in (left, right)
        for starts in [side.offsets.to_numpy().astype(np.int64)]
    ]
    equal[pairs] = np.logical_and.reduceat(_equal(*elements), ends - sizes)
    return equal


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


@compiled(f"{WRITE}({READ}, int64)")
def _buckets(codes: Int64s, count: int) -> Int64s:
    bucket_numbers = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        bucket_numbers[i] = np.int64(hashed_number(np.uint64(codes[i]), np.uint64(SEED))) % count
    return bucket_numbers
