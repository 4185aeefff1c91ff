"""Sums of floating-point numbers that depend on nothing but the rows: exact, rounded once.

Idea: a fixed-point number wide enough for every double (67 digits of 32 bits, Kulisch). Adding and
subtracting are exact in any order, so rows may come and go event by event; only a version's answer
is rounded, half to even. Infinities and NaNs are counted beside it.
Invariant: digits stay below 2⁶² by carrying before 2²⁹ additions. Cost: three digits per event; an
answer reads the digits that have been in use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import Int64s

Floats = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.int64]
DIGITS = 70
SUM_WIDTH = DIGITS + 6
LOWEST = 1074
"""The smallest double is 2 ** −1074."""
MASK = 0xFFFFFFFF
_CARRY_AFTER = 1 << 29


@dataclass(frozen=True)
class Carried:
    """Sums that go from step to step: a row of numbers for each group that has one.

    ``slot`` is where the row of a group is at first, ``keep`` where its last one goes, −1 if there
    is none; rows are as wide as ``width`` says.
    """

    first: Matrix
    slot: Int64s
    last: Matrix
    keep: Int64s

    @staticmethod
    def of(groups: int, residues: Mapping[int, Int64s], kept: Int64s, width: int) -> Carried:
        """With the ``residues`` of some groups, to be left for those that are ``kept``."""
        slot, keep = np.full((2, groups), -1, np.int64)
        slot[list(residues)] = np.arange(len(residues))
        keep[kept] = np.arange(len(kept))
        first = np.zeros((len(residues), width), np.int64)
        for row, sums in enumerate(residues.values()):
            first[row] = sums
        return Carried(first, slot, np.zeros((len(kept), width), np.int64), keep)


def play_sums(
    before: Floats,
    starts: Int64s,
    values: Floats,
    amounts: Int64s,
    last: Int64s,
    group: Int64s,
    carried: Carried,
) -> Floats:
    """The sum of each version; ``before`` are the values alive at first, of a group from its start.

    ``amounts`` is +1 for a value that comes, −1 for one that goes, 0 for none.
    """
    sums = np.empty(len(last), np.float64)
    _play(
        before, starts, values, amounts, last, group, carried.first, carried.slot,
        carried.last, carried.keep, sums,
    )  # fmt: skip
    return sums


@compiled(plain=True)
def load(row: Int64s, digits: Int64s, span: Int64s, odd: Int64s) -> None:
    """Go on with a sum as ``save`` left it."""
    digits[:] = row[: len(digits)]
    span[:] = row[len(digits) : len(digits) + 3]
    odd[:] = row[len(digits) + 3 : len(digits) + 6]


@compiled(plain=True)
def save(row: Int64s, digits: Int64s, span: Int64s, odd: Int64s) -> None:
    row[: len(digits)] = digits
    row[len(digits) : len(digits) + 3] = span
    row[len(digits) + 3 : len(digits) + 6] = odd


@compiled(plain=True)
def _play(
    before: Floats, starts: Int64s, values: Floats, amounts: Int64s, last: Int64s, group: Int64s,
    residues: Matrix, slot: Int64s, kept: Matrix, keep: Int64s, sums: Floats,
) -> None:  # fmt: skip
    digits, span, odd = start_digits(DIGITS)
    event, current = 0, -1
    for version in range(len(last)):
        if group[version] != current:
            current = group[version]
            clear(digits, span, odd)
            if slot[current] >= 0:
                load(residues[slot[current]], digits, span, odd)
            for held in range(starts[current], starts[current + 1]):
                add(digits, odd, span, before[held], 1)
        while event <= last[version]:
            if amounts[event] != 0:
                add(digits, odd, span, values[event], amounts[event])
            event += 1
        sums[version] = _rounded(digits, odd, span)
        ends = version + 1 == len(last) or group[version + 1] != current
        if ends and keep[current] >= 0:
            save(kept[keep[current]], digits, span, odd)


@compiled(plain=True)
def start_digits(size: int) -> tuple[Int64s, Int64s, Int64s]:
    """A sum of nothing: its digits, their span (see ``add``), and counts of what is no number."""
    return np.zeros(size, np.int64), np.array([size, 0, 0], np.int64), np.zeros(3, np.int64)


@compiled(plain=True)
def clear(digits: Int64s, span: Int64s, odd: Int64s) -> None:
    digits[:] = 0
    odd[:] = 0
    span[0], span[1], span[2] = len(digits), 0, 0


@compiled(plain=True)
def parts(value: float) -> tuple[int, int]:
    """The mantissa of a number without its sign, and the place of its lowest bit."""
    fraction, exponent = math.frexp(abs(value))
    mantissa = np.int64(fraction * 9007199254740992.0)
    place = exponent - 53 + LOWEST
    if place < 0:  # subnormal: the lowest bits of the mantissa are 0
        return int(mantissa >> -place), 0
    return int(mantissa), place


@compiled(plain=True)
def add(digits: Int64s, odd: Int64s, span: Int64s, value: float, sign: int) -> None:
    """Add or subtract one value; ``span`` is the first and last digit in use, and additions."""
    if not np.isfinite(value):
        odd[2 if np.isnan(value) else (0 if value > 0 else 1)] += sign
        return
    if value == 0.0:
        return
    mantissa, place = parts(value)
    if value < 0:
        sign = -sign
    digit, shift = place >> 5, place & 31
    low = (mantissa & MASK) << shift
    high = (mantissa >> 32) << shift
    digits[digit] += sign * (low & MASK)
    digits[digit + 1] += sign * ((low >> 32) + (high & MASK))
    digits[digit + 2] += sign * (high >> 32)
    span[0] = min(span[0], digit)
    span[1] = max(span[1], digit + 2)
    span[2] += 1
    if span[2] >= _CARRY_AFTER:
        carry_digits(digits, span)


@compiled(plain=True)
def carry_digits(digits: Int64s, span: Int64s) -> None:
    """Digits from 0 to 2 ** 32 − 1, the highest one with the sign."""
    last = min(span[1] + 2, len(digits) - 1)
    for i in range(span[0], last):
        digits[i + 1] += digits[i] >> 32
        digits[i] &= MASK
    span[1], span[2] = last, 0


@compiled(plain=True)
def _rounded(digits: Int64s, odd: Int64s, span: Int64s) -> float:
    if odd[2] > 0 or (odd[0] > 0 and odd[1] > 0):
        return np.nan
    if odd[0] > 0:
        return np.inf
    if odd[1] > 0:
        return -np.inf
    carried, first, negative = magnitude(digits, span)
    if not len(carried):
        return 0.0
    mantissa, exponent = leading_bits(carried, len(carried) - 1)
    value: float = np.ldexp(float(mantissa), exponent + first * 32 - LOWEST)
    return -value if negative else value


@compiled(plain=True)
def magnitude(digits: Int64s, span: Int64s) -> tuple[Int64s, int, bool]:
    """Digits from 0 to 2 ** 32 − 1 without leading ones that are 0, the place of the first, and
    whether they are below zero."""
    first, last = span[0], min(span[1] + 2, len(digits) - 1)
    if first > last:
        return np.empty(0, np.int64), 0, False
    carried = np.empty(last - first + 1, np.int64)
    carry = np.int64(0)
    for i in range(first, last + 1):
        total = digits[i] + carry
        carry = total >> 32
        carried[i - first] = total & MASK
    negative = carry < 0
    if negative:
        carry = np.int64(1)
        for i in range(len(carried)):
            total = (carried[i] ^ MASK) + carry
            carry = total >> 32
            carried[i] = total & MASK
    top = len(carried) - 1
    while top >= 0 and carried[top] == 0:
        top -= 1
    return carried[: top + 1], first, bool(negative)


@compiled(plain=True)
def leading_bits(carried: Int64s, top: int) -> tuple[int, int]:
    """The nearest number of 53 bits, half to even, and its exponent, of digits whose highest is
    ``top``."""
    bits = 0
    while carried[top] >> bits:
        bits += 1
    # The 64 bits from the highest one down, and whether anything lies below them.
    second = carried[top - 1] if top > 0 else 0
    third = carried[top - 2] if top > 1 else 0
    high = np.uint64(carried[top]) << np.uint64(32) | np.uint64(second)
    window = high << np.uint64(32 - bits) | np.uint64(third >> bits)
    below = third & ((1 << bits) - 1) != 0
    for i in range(top - 2):
        below |= carried[i] != 0
    mantissa = np.int64(window >> np.uint64(11))
    rest = np.int64(window & np.uint64(2047))
    if rest > 1024 or (rest == 1024 and (below or mantissa & 1)):
        mantissa += 1
    return int(mantissa), top * 32 + bits - 53


# ── partial sums, to be merged ────────────────────────────────────────────────────────────


def sum_values(values: Floats, group: Int64s, groups: int) -> Matrix:
    """The sum of the values of each group, as a row of ``SUM_WIDTH`` numbers."""
    sums = np.empty((groups, SUM_WIDTH), np.int64)
    _sum_values(np.ascontiguousarray(values), np.ascontiguousarray(group), sums)
    return sums


def merge_sums(rows: Matrix, group: Int64s, groups: int) -> Matrix:
    """One row for each group from those of its parts."""
    sums = np.empty((groups, SUM_WIDTH), np.int64)
    _merge_sums(np.ascontiguousarray(rows), np.ascontiguousarray(group), sums)
    return sums


def round_sums(rows: Matrix) -> Floats:
    """The nearest number to each sum."""
    sums = np.empty(len(rows), np.float64)
    _round_sums(np.ascontiguousarray(rows), sums)
    return sums


@compiled(plain=True)
def _begin_sums(sums: Matrix) -> None:
    digits, span, odd = start_digits(DIGITS)
    for row in range(len(sums)):
        save(sums[row], digits, span, odd)


@compiled(plain=True)
def _sum_values(values: Floats, group: Int64s, sums: Matrix) -> None:
    _begin_sums(sums)
    for i in range(len(values)):
        row = sums[group[i]]
        add(row[:DIGITS], row[DIGITS + 3 :], row[DIGITS : DIGITS + 3], values[i], 1)
    for i in range(len(sums)):
        carry_digits(sums[i, :DIGITS], sums[i, DIGITS : DIGITS + 3])


@compiled(plain=True)
def _merge_sums(rows: Matrix, group: Int64s, sums: Matrix) -> None:
    # Rows are carried: their digits are below 2 ** 32, so 2 ** 29 of them may be added up.
    _begin_sums(sums)
    for i in range(len(rows)):
        row, part = sums[group[i]], rows[i]
        row[DIGITS] = min(row[DIGITS], part[DIGITS])
        row[DIGITS + 1] = max(row[DIGITS + 1], part[DIGITS + 1])
        for digit in range(part[DIGITS], part[DIGITS + 1] + 1):
            row[digit] += part[digit]
        for kind in range(DIGITS + 3, SUM_WIDTH):
            row[kind] += part[kind]
    for i in range(len(sums)):
        carry_digits(sums[i, :DIGITS], sums[i, DIGITS : DIGITS + 3])


@compiled(plain=True)
def _round_sums(rows: Matrix, sums: Floats) -> None:
    for i in range(len(rows)):
        row = rows[i]
        sums[i] = _rounded(row[:DIGITS], row[DIGITS + 3 :], row[DIGITS : DIGITS + 3])
