"""hash (Murmur3, 32 bits) and xxhash64 as Spark computes them.

Columns are folded left to right: the hash of one is the seed of the next, 42 the first seed, and
NULL leaves the seed as it is. Murmur3 takes numbers as whole columns, text and wide decimals one
distinct pair of value and seed at a time; xxhash64 has a file of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.kernels.functions.numbers import EXACT
from mayfly.kernels.functions.operands import Numbers, Operand, broadcast, each, numbers_of
from mayfly.kernels.functions.xxhash64 import SEED, xxhash64
from mayfly.plan.types import DataType, arrow_type

# ── Murmur3: over Python integers or unsigned 64-bit columns alike ─────────────────────────

_LOW = 0xFFFFFFFF


def _mix(seed: Any, word: Any) -> Any:
    word = word * 0xCC9E2D51 & _LOW
    word = (word << 15 | word >> 17) * 0x1B873593 & _LOW
    seed = seed ^ word
    return ((seed << 13 | seed >> 19) & _LOW) * 5 + 0xE6546B64 & _LOW


def _finish(value: Any, length: int) -> Any:
    value = value ^ length
    value = (value ^ value >> 16) * 0x85EBCA6B & _LOW
    value = (value ^ value >> 13) * 0xC2B2AE35 & _LOW
    return value ^ value >> 16


def _murmur_int(value: Numbers, seed: Numbers) -> Any:
    return _finish(_mix(seed, value.astype(np.uint64) & _LOW), 4)


def _murmur_long(value: Numbers, seed: Numbers) -> Any:
    bits = value.astype(np.uint64)
    return _finish(_mix(_mix(seed, bits & _LOW), bits >> 32), 8)


def _murmur_bytes(data: bytes, seed: int) -> int:
    whole = len(data) // 4 * 4
    for word in struct.unpack(f"<{whole // 4}I", data[:whole]):
        seed = _mix(seed, word)
    # Spark mixes each byte of the tail on its own, with its sign.
    for byte in struct.unpack(f"{len(data) - whole}b", data[whole:]):
        seed = _mix(seed, byte & _LOW)
    return int(_finish(seed, len(data)))


# ── columns ───────────────────────────────────────────────────────────────────────────────


def _hash(columns: Sequence[pa.Array], rows: int) -> Numbers:
    seeds = np.full(rows, SEED, np.uint64)
    for column in columns:
        if not pa.types.is_null(column.type):
            validity = column.is_valid().to_numpy(zero_copy_only=False)
            seeds = np.where(validity, _murmur(column, seeds), seeds)
    return seeds.astype(np.int32)


def _murmur(column: pa.Array, seeds: Numbers) -> Numbers:
    data = _data_of(column.type)
    if data is not None:
        operands = (column, pa.array(seeds))
        hashed = each(lambda value, seed: _murmur_bytes(data(value), seed), operands, pa.uint64())
        return np.asarray(hashed.fill_null(0).to_numpy())
    numbers = _bits(column)
    with np.errstate(over="ignore"):
        return np.asarray(
            (_murmur_int if numbers.dtype.itemsize <= 4 else _murmur_long)(numbers, seeds)
        )


def _over_columns(
    function: Callable[[Sequence[pa.Array], int], Numbers],
) -> Callable[[Sequence[Operand], DataType], Operand]:
    def compute(values: Sequence[Operand], kind: DataType) -> Operand:
        lengths = [len(value) for value in values if isinstance(value, pa.Array)]
        rows = lengths[0] if lengths else 1
        hashes = function([broadcast(value, rows) for value in values], rows)
        array = pa.array(hashes, arrow_type(kind))
        return array if lengths else array[0]

    return compute


def _data_of(kind: pa.DataType) -> Callable[[Any], bytes] | None:
    """How values of this type become bytes; None for those hashed as numbers."""
    if pa.types.is_string(kind):
        return str.encode
    if pa.types.is_binary(kind):
        return bytes
    if pa.types.is_decimal(kind) and kind.precision > 18:
        return lambda value: _java_bytes(_unscaled(value, kind.scale))
    return None


def _unscaled(value: Decimal, scale: int) -> int:
    return int(EXACT.scaleb(value, scale))


def _java_bytes(number: int) -> bytes:
    """Java's BigInteger.toByteArray: the shortest two's complement."""
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _bits(column: pa.Array) -> Numbers:
    """Numbers as the integers that are hashed; -0.0 is 0.0, and there is one NaN."""
    if pa.types.is_decimal(column.type):
        scale = column.type.scale
        column = each(lambda value: _unscaled(value, scale), (column,), pa.int64())
    numbers = numbers_of(column)
    if numbers.dtype.kind == "f":
        numbers = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers + 0)
        return numbers.astype(numbers.dtype).view(f"i{numbers.dtype.itemsize}")
    return numbers.astype(np.int32) if numbers.dtype.itemsize < 4 else numbers


HASH_FUNCTIONS = {"hash": _over_columns(_hash), "xxhash64": _over_columns(xxhash64)}
