"""Variances that depend on nothing but the rows: from exact sums of values and of squares.

Idea: (n·Σx² − (Σx)²) / (n(n − 1)), of a whole population / n², cancels badly in floating point and
not at all in whole numbers.
Σx and Σx² are fixed-point numbers wide enough for every double and its square (exact_sums.py);
rows come and go event by event, and the numerator is made and rounded once per version.
Cost: eight digits per event; an answer squares the digits in use (two to four for values of
similar size).
"""

from __future__ import annotations

import math

import numpy as np

from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.exact_sums import (
    DIGITS,
    LOWEST,
    MASK,
    SUM_WIDTH,
    Carried,
    Floats,
    Matrix,
    add,
    carry_digits,
    clear,
    leading_bits,
    load,
    magnitude,
    parts,
    save,
    start_digits,
)

_SQUARES = 140
"""Digits for squares, from 2 ** −2148 on."""
SPREAD_WIDTH = SUM_WIDTH + _SQUARES + 7
_CARRY_AFTER = 1 << 29
_LOW = np.uint64(MASK)
_HALF = np.uint64(32)


def play_variances(
    before: Floats, starts: Int64s, values: Floats, amounts: Int64s, last: Int64s, group: Int64s,
    carried: Carried, root: bool, spare: int,
) -> Floats:  # fmt: skip
    """The variance of each version, or its square root: of a sample where one row is to ``spare``,
    of all there is with 0; NaN without rows beside these.

    The arguments are those of ``play_sums``.
    """
    answers = np.empty(len(last), np.float64)
    _play(
        before, starts, values, amounts, last, group, carried.first, carried.slot,
        carried.last, carried.keep, root, spare, answers,
    )  # fmt: skip
    return answers


@compiled(plain=True)
def _play(
    before: Floats, starts: Int64s, values: Floats, amounts: Int64s, last: Int64s, group: Int64s,
    residues: Matrix, slot: Int64s, kept: Matrix, keep: Int64s, root: bool, spare: int,
    answers: Floats,
) -> None:  # fmt: skip
    sums, span, odd = start_digits(DIGITS)
    squares, reach, unused = start_digits(_SQUARES)
    event, current, rows = 0, -1, 0
    for version in range(len(last)):
        if group[version] != current:
            current, rows = group[version], 0
            clear(sums, span, odd)
            clear(squares, reach, unused)
            if slot[current] >= 0:
                row = residues[slot[current]]
                load(row, sums, span, odd)
                load(row[SUM_WIDTH:], squares, reach, unused)
                rows = row[-1]
            for held in range(starts[current], starts[current + 1]):
                add(sums, odd, span, before[held], 1)
                _add_square(squares, reach, before[held], 1)
                rows += 1
        while event <= last[version]:
            if amounts[event] != 0:
                add(sums, odd, span, values[event], amounts[event])
                _add_square(squares, reach, values[event], amounts[event])
                rows += amounts[event]
            event += 1
        if rows <= spare or odd.any():
            answers[version] = np.nan
        else:
            answers[version] = _spread(sums, span, squares, reach, rows, root, spare)
        ends = version + 1 == len(last) or group[version + 1] != current
        if ends and keep[current] >= 0:
            row = kept[keep[current]]
            save(row, sums, span, odd)
            save(row[SUM_WIDTH:], squares, reach, unused)
            row[-1] = rows


@compiled(plain=True)
def _add_square(digits: Int64s, span: Int64s, value: float, sign: int) -> None:
    if not np.isfinite(value) or value == 0.0:
        return
    mantissa, place = parts(value)
    low, high = np.uint64(mantissa & MASK), np.uint64(mantissa >> 32)
    first, middle, last = low * low, np.uint64(2) * low * high, high * high
    second = (first >> _HALF) + (middle & _LOW)
    third = (second >> _HALF) + (middle >> _HALF) + (last & _LOW)
    fourth = (third >> _HALF) + (last >> _HALF)
    digit, shift = (2 * place) >> 5, np.uint64((2 * place) & 31)
    for i in range(4):
        limb = (first if i == 0 else second if i == 1 else third if i == 2 else fourth) & _LOW
        moved = limb << shift
        digits[digit + i] += sign * np.int64(moved & _LOW)
        digits[digit + i + 1] += sign * np.int64(moved >> _HALF)
    span[0] = min(span[0], digit)
    span[1] = max(span[1], digit + 4)
    span[2] += 1
    if span[2] >= _CARRY_AFTER:
        carry_digits(digits, span)


@compiled(plain=True)
def _spread(
    sums: Int64s, span: Int64s, squares: Int64s, reach: Int64s, rows: int, root: bool, spare: int
) -> float:
    """The quotient, of which the numerator is exact and rounded once."""
    if reach[0] > reach[1]:
        return 0.0
    total, least, _ = magnitude(sums, span)
    squared, lowest, _ = magnitude(squares, reach)
    base = min(2 * least, lowest) if len(total) else lowest
    size = max(2 * (least + len(total)), lowest + len(squared) + 2) - base + 1
    numerator = np.zeros(size, np.uint64)
    _multiply(numerator, squared, lowest - base, rows)
    if len(total):
        _subtract_square(numerator, total, 2 * least - base)
    carried = numerator.astype(np.int64)
    top = len(carried) - 1
    while top >= 0 and carried[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    mantissa, exponent = leading_bits(carried, top)
    exponent += base * 32 - 2 * LOWEST
    quotient = float(mantissa) / (float(rows) * float(rows - spare))
    if not root:
        return float(np.ldexp(quotient, exponent))
    # An even exponent is halved without loss: the root fits where the variance does not.
    odd = exponent & 1
    scaled = math.sqrt(quotient * (2.0 if odd else 1.0))
    return float(np.ldexp(scaled, (exponent - odd) >> 1))


@compiled(plain=True)
def _multiply(product: np.ndarray, digits: Int64s, place: int, factor: int) -> None:
    carry = np.uint64(0)
    for i in range(len(digits)):
        carry += np.uint64(digits[i]) * np.uint64(factor)
        product[place + i] = carry & _LOW
        carry >>= _HALF
    index = place + len(digits)
    while carry:
        product[index] = carry & _LOW
        carry >>= _HALF
        index += 1


@compiled(plain=True)
def _subtract_square(numerator: np.ndarray, digits: Int64s, place: int) -> None:
    size = len(digits)
    square = np.zeros(2 * size, np.uint64)
    for i in range(size):
        carry = np.uint64(0)
        for j in range(size):
            carry += square[i + j] + np.uint64(digits[i]) * np.uint64(digits[j])
            square[i + j] = carry & _LOW
            carry >>= _HALF
        square[i + size] = carry
    borrow = np.uint64(0)
    for i in range(place, len(numerator)):
        taken = borrow + (square[i - place] if i - place < 2 * size else np.uint64(0))
        here = numerator[i]
        borrow = np.uint64(1) if here < taken else np.uint64(0)
        numerator[i] = (here + (borrow << _HALF)) - taken
