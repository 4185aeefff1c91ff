"""The stable order of 64-bit integers, and what sorted ones make easy.

Idea: least-significant-digit radix sort. Only the bits in which the values differ are looked at,
and values already in order cost one look. Where a value's bits and its position fit one word they
travel together, otherwise side by side. Cost: O(rows · digits), at most eleven bits a digit: two
passes for 10,000 keys, six for hashes. (Runs that are sorted already are merged by NumPy's stable
sort, which finds sorted stretches.)
"""

from __future__ import annotations

from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mayfly.arrays.compilation import READ, WRITE, compiled

Int64s: TypeAlias = npt.NDArray[np.int64]

_KEYS = "Array(uint64, 1, 'C')"
_DIGIT = 11


def stable_order(*columns: Int64s) -> Int64s:
    """Positions sorted by the first column, then the second, …; equal rows keep their order."""
    order: Int64s = np.arange(len(columns[0]))
    for values in reversed(columns):
        order = _reordered(values, order)
    return order


def distinct_of(*columns: Int64s) -> Int64s:
    """The values of all columns (each sorted), sorted and once."""
    filled = [column for column in columns if len(column)]
    if not filled:
        return np.empty(0, np.int64)
    united: Int64s = reduce(_united, filled[1:], _united(filled[0], filled[0][:0]))
    return united


@compiled("int64(uint64)", plain=True)
def _bits(span: np.uint64) -> int:
    bits = 0
    while bits < 64 and span >> np.uint64(bits):
        bits += 1
    return bits


@compiled(f"void({WRITE})", plain=True)
def _begin(places: Int64s) -> None:
    """Counts into first positions."""
    offset = 0
    for i in range(len(places)):
        count = places[i]
        places[i] = offset
        offset += count


@compiled(f"{_KEYS}({_KEYS}, int64, int64)", plain=True)
def _together(keys: npt.NDArray[np.uint64], skipped: int, bits: int) -> npt.NDArray[np.uint64]:
    """Keys that carry their position in the bits that are skipped."""
    passes = (bits + _DIGIT - 1) // _DIGIT
    digit = (bits + passes - 1) // passes
    mask = np.uint64((1 << digit) - 1)
    moved, places = np.empty(len(keys), np.uint64), np.empty(1 << digit, np.int64)
    for number in range(passes):
        shift = np.uint64(skipped + number * digit)
        places[:] = 0
        for i in range(len(keys)):
            places[keys[i] >> shift & mask] += 1
        _begin(places)
        for i in range(len(keys)):
            place = keys[i] >> shift & mask
            moved[places[place]] = keys[i]
            places[place] += 1
        keys, moved = moved, keys
    return keys


@compiled(f"{WRITE}({_KEYS}, {WRITE}, int64)", plain=True)
def _side_by_side(keys: npt.NDArray[np.uint64], order: Int64s, bits: int) -> Int64s:
    passes = (bits + _DIGIT - 1) // _DIGIT
    digit = (bits + passes - 1) // passes
    mask = np.uint64((1 << digit) - 1)
    next_keys, next_order = np.empty(len(keys), np.uint64), np.empty(len(keys), np.int64)
    places = np.empty(1 << digit, np.int64)
    for number in range(passes):
        shift = np.uint64(number * digit)
        places[:] = 0
        for i in range(len(keys)):
            places[keys[i] >> shift & mask] += 1
        _begin(places)
        for i in range(len(keys)):
            place = keys[i] >> shift & mask
            next_keys[places[place]] = keys[i]
            next_order[places[place]] = order[i]
            places[place] += 1
        keys, next_keys = next_keys, keys
        order, next_order = next_order, order
    return order


@compiled(f"{WRITE}({READ}, {WRITE})", plain=True)
def _reordered(values: Int64s, order: Int64s) -> Int64s:
    rows = len(order)
    low = high = values[order[0]] if rows else 0
    sorted_already, last = True, low
    for i in range(rows):
        value = values[order[i]]
        sorted_already &= value >= last
        last = value
        low, high = min(low, value), max(high, value)
    if sorted_already:
        return order
    base = np.uint64(low)
    value_bits, place_bits = _bits(np.uint64(high) - base), _bits(np.uint64(rows))
    keys = np.empty(rows, np.uint64)
    if value_bits + place_bits > 64:
        for i in range(rows):
            keys[i] = np.uint64(values[order[i]]) - base
        return _side_by_side(keys, order, value_bits)
    shift = np.uint64(place_bits)
    for i in range(rows):
        keys[i] = (np.uint64(values[order[i]]) - base) << shift | np.uint64(order[i])
    keys = _together(keys, place_bits, value_bits)
    position = (np.uint64(1) << shift) - np.uint64(1)
    for i in range(rows):
        order[i] = np.int64(keys[i] & position)
    return order


@compiled(f"{WRITE}({READ}, {READ})", plain=True)
def _united(left: Int64s, other: Int64s) -> Int64s:
    union = np.empty(len(left) + len(other), np.int64)
    size = i = j = 0
    while i < len(left) or j < len(other):
        if j == len(other) or (i < len(left) and left[i] <= other[j]):
            value = left[i]
            i += 1
        else:
            value = other[j]
            j += 1
        if size == 0 or union[size - 1] != value:
            union[size] = value
            size += 1
    return union[:size]


@compiled(f"{WRITE}({READ}, {READ})", plain=True)
def common_of(left: Int64s, other: Int64s) -> Int64s:
    """The values (sorted, each once) that are also among others (sorted)."""
    overlap = np.empty(len(left), np.int64)
    size = j = 0
    for i in range(len(left)):
        while j < len(other) and other[j] < left[i]:
            j += 1
        if j < len(other) and other[j] == left[i]:
            overlap[size] = left[i]
            size += 1
    return overlap[:size]


@compiled(f"{WRITE}({READ}, {READ})", plain=True)
def places_in(values: Int64s, asked: Int64s) -> Int64s:
    """Where each asked value (sorted) is among the values (sorted, each once); all are there."""
    places = np.empty(len(asked), np.int64)
    position = 0
    for i in range(len(asked)):
        while values[position] < asked[i]:
            position += 1
        places[i] = position
    return places
