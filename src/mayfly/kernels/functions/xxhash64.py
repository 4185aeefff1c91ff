"""xxhash64 as Spark computes it: the hash by which keys find their bucket, part and code.

Idea: columns are folded from left to right; the hash of a value, over the bytes Spark takes of its
type, is the seed of the next one, 42 the first seed. Whole numbers up to INT, booleans and dates
are 4 bytes, BIGINT, times, intervals, DOUBLE and decimals up to 18 digits 8, longer decimals the
shortest two's complement; 0.0 stands for -0.0, and there is one NaN. A NULL leaves the seed as it
is, unless ``null`` stands for it. Cost: O(bytes), compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays.compilation import READ, compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.functions.operands import numbers_of

SEED = 42
Hashes = npt.NDArray[np.uint64]
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_LOW = np.uint64(0xFFFFFFFF)
_HASHES = "Array(uint64, 1, 'C')"
_WORD = "uint64(uint64, uint64)"
_SEEDS = "Array(uint64, 1, 'C', readonly=True)"
_BYTES = "Array(uint8, 1, 'C', readonly=True)"
_SHORTS = "Array(int32, 1, 'C', readonly=True)"


def xxhash64(columns: Sequence[pa.Array], rows: int, null: int | None = None) -> Int64s:
    """The hash of each row; ``null`` is hashed as a BIGINT in place of a NULL."""
    seeds = np.full(rows, SEED, np.uint64)
    for column in columns:
        seeds = folded(column, seeds, null)
    return seeds.view(np.int64)


def folded(column: pa.Array, seeds: Hashes, null: int | None = None) -> Hashes:
    """One more column, hashed with the hashes of those before it."""
    if column.null_count == len(column):
        return seeds if null is None else hashed_numbers(np.full(len(seeds), null), seeds)
    hashes = _hashed(column, seeds)
    if not column.null_count:
        return hashes
    otherwise = seeds if null is None else hashed_numbers(np.full(len(seeds), null), seeds)
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), hashes, otherwise)


def _hashed(column: pa.Array, seeds: Hashes) -> Hashes:
    kind = column.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        column = column.cast(pa.binary())
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return hashed_texts(*_text_of(column), seeds)
    if pa.types.is_decimal(kind):
        words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
        words = words[column.offset : column.offset + len(column)]
        low, high = (np.ascontiguousarray(words[:, half]) for half in (0, 1))
        return hashed_numbers(low, seeds) if kind.precision <= 18 else _wide(low, high, seeds)
    values = numbers_of(column)
    if values.dtype.kind == "f":
        values = values + values.dtype.type(0)
        values[np.isnan(values)] = np.nan
        values = values.view(f"i{values.dtype.itemsize}")
    if values.dtype.itemsize <= 4:
        return hashed_shorts(np.ascontiguousarray(values.astype(np.int32, copy=False)), seeds)
    return hashed_numbers(np.ascontiguousarray(values), seeds)


def _text_of(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The bytes of all values, and where each begins."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(b"" if data is None else data, np.uint8), bounds


@compiled("uint64(uint64, int64)", inline="always", plain=True)
def _turn(value: np.uint64, bits: int) -> np.uint64:
    return value << np.uint64(bits) | value >> np.uint64(64 - bits)


@compiled("uint64(uint64)", plain=True)
def _avalanche(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))


@compiled(_WORD, plain=True)
def _round(state: np.uint64, word: np.uint64) -> np.uint64:
    return _turn(state + word * _P2, 31) * _P1


@compiled(_WORD, plain=True)
def _eight_more(state: np.uint64, word: np.uint64) -> np.uint64:
    return _turn(state ^ _round(np.uint64(0), word), 27) * _P1 + _P4


@compiled(_WORD, plain=True)
def _four_more(state: np.uint64, word: np.uint64) -> np.uint64:
    return _turn(state ^ word * _P1, 23) * _P2 + _P3


@compiled(f"uint64({_BYTES}, int64, int64)", plain=True)
def _word(data: npt.NDArray[np.uint8], offset: int, size: int) -> np.uint64:
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[offset + i]) << np.uint64(8 * i)
    return word


@compiled(f"uint64({_BYTES}, int64, int64, uint64)", plain=True)
def _of_bytes(data: npt.NDArray[np.uint8], start: int, end: int, seed: np.uint64) -> np.uint64:
    size = np.uint64(end - start)
    state = seed + _P5
    if end - start >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while start + 32 <= end:
            a, b = _round(a, _word(data, start, 8)), _round(b, _word(data, start + 8, 8))
            c, d = _round(c, _word(data, start + 16, 8)), _round(d, _word(data, start + 24, 8))
            start += 32
        state = _turn(a, 1) + _turn(b, 7) + _turn(c, 12) + _turn(d, 18)
        for lane in (a, b, c, d):
            state = (state ^ _round(np.uint64(0), lane)) * _P1 + _P4
    state += size
    while start + 8 <= end:
        state = _eight_more(state, _word(data, start, 8))
        start += 8
    if start + 4 <= end:
        state = _four_more(state, _word(data, start, 4))
        start += 4
    while start < end:
        state = _turn(state ^ np.uint64(data[start]) * _P5, 11) * _P1
        start += 1
    return _avalanche(state)


@compiled(_WORD, plain=True)
def hashed_number(value: np.uint64, seed: np.uint64) -> np.uint64:
    """Of eight bytes."""
    return _avalanche(_eight_more(seed + _P5 + np.uint64(8), value))


@compiled(f"{_HASHES}({READ}, {_SEEDS})", plain=True)
def hashed_numbers(values: Int64s, seeds: Hashes) -> Hashes:
    """Eight bytes each."""
    hashes = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        hashes[i] = hashed_number(np.uint64(values[i]), seeds[i])
    return hashes


@compiled(f"{_HASHES}({_SHORTS}, {_SEEDS})", plain=True)
def hashed_shorts(values: npt.NDArray[np.int32], seeds: Hashes) -> Hashes:
    """Four bytes each."""
    hashes = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        word = np.uint64(values[i]) & _LOW
        hashes[i] = _avalanche(_four_more(seeds[i] + _P5 + np.uint64(4), word))
    return hashes


@compiled(f"{_HASHES}({_BYTES}, {_SHORTS}, {_SEEDS})", plain=True)
def hashed_texts(
    data: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int32], seeds: Hashes
) -> Hashes:
    """The bytes between each two bounds."""
    hashes = np.empty(len(seeds), np.uint64)
    for i in range(len(seeds)):
        hashes[i] = _of_bytes(data, bounds[i], bounds[i + 1], seeds[i])
    return hashes


@compiled(f"{_HASHES}({READ}, {READ}, {_SEEDS})", plain=True)
def _wide(low: Int64s, high: Int64s, seeds: Hashes) -> Hashes:
    """Java's BigInteger.toByteArray: big-endian, without bytes that only repeat the sign."""
    hashes = np.empty(len(seeds), np.uint64)
    data = np.empty(16, np.uint8)
    for i in range(len(seeds)):
        for k in range(8):
            data[7 - k] = np.uint8(high[i] >> (8 * k) & 0xFF)
            data[15 - k] = np.uint8(low[i] >> (8 * k) & 0xFF)
        sign, start = np.uint8(0xFF if high[i] < 0 else 0), 0
        while start < 15 and data[start] == sign and (data[start + 1] ^ sign) < 0x80:
            start += 1
        hashes[i] = _of_bytes(data, start, 16, seeds[i])
    return hashes
