"""Key codes in-process: 64-bit stand-ins for join keys, and the bucket they fall into.

The Spark runner computes codes and buckets in Spark SQL; both only promise that equal keys get
equal codes, so the two runners need not agree on the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pandas.util import hash_array

from mayfly.kernels.sorting import Int64s
from mayfly.plan.types import DataType, arrow_type


def key_codes(columns: Sequence[pa.ChunkedArray], types: Sequence[DataType]) -> pa.Array:
    """The code of each row: the key itself where it fits, a hash otherwise; NULL for NULL keys."""
    keys = [
        pc.cast(column, arrow_type(kind), safe=False).combine_chunks()
        for column, kind in zip(columns, types, strict=True)
    ]
    if len(keys) == 1 and (exact := _exact(keys[0])) is not None:
        return exact
    codes = np.zeros(len(keys[0]), dtype=np.uint64)
    for key in keys:
        codes = codes * np.uint64(0x9E3779B97F4A7C15) + _hashes(key)
    null = np.logical_or.reduce([pc.is_null(key).to_numpy(zero_copy_only=False) for key in keys])
    return pa.array(codes.view(np.int64), pa.int64(), mask=null)


def _exact(key: pa.Array) -> pa.Array | None:
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


def _hashed(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    hashes: npt.NDArray[np.uint64] = hash_array(values)
    return hashes


def buckets(codes: Int64s, count: int) -> Int64s:
    """The bucket of each code; mixed first, so that regular keys spread."""
    mixed = codes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(32)) % np.uint64(count)).astype(np.int64)
