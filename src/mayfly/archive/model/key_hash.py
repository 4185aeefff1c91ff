"""Which part of a run a key lies in.

Runs are written by Spark, part by part, with ``pmod(xxhash64(keys), parts)``; a probe must find
the same part without asking Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.errors import InvalidSetting
from mayfly.kernels.functions.xxhash64 import xxhash64
from mayfly.plan.types import DataType, arrow_type


def parts_of(keys: Sequence[pa.Array], parts: int) -> Int64s:
    """The part that holds the rows of each key; keys with a NULL are in part 0."""
    rows = len(keys[0])
    missing = np.zeros(rows, bool)
    for column in keys:
        if column.null_count:
            missing |= column.is_null().to_numpy(zero_copy_only=False)
    return np.where(missing, 0, xxhash64(keys, rows) % parts)


def key_parts(keys: Sequence[Sequence[Any]], types: Sequence[DataType], parts: int) -> list[int]:
    """The part that holds the rows of each key, for keys given as Python values."""
    if parts == 1 or not keys:
        return [0] * len(keys)
    columns = zip(*keys, strict=True)
    arrays = [_column(values, kind) for values, kind in zip(columns, types, strict=True)]
    numbers: list[int] = parts_of(arrays, parts).tolist()
    return numbers


def _column(values: Sequence[Any], kind: DataType) -> pa.Array:
    if kind.fields:
        raise InvalidSetting(
            f"a column of type {kind} cannot be a search key", "use an atomic type"
        )
    return pa.array(values, arrow_type(kind))
