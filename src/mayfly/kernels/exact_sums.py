"""Sums of floating-point numbers that depend on nothing but the rows: exact, rounded once.

Idea: a fixed-point number wide enough for every double (67 digits of 32 bits, Kulisch). Adding and
subtracting are exact in any order, so rows may come and go event by event; only a version's answer
is rounded, half to even. Infinities and NaNs are counted beside it.
Invariant: digits stay below 2⁶² by carrying before 2²⁹ additions. Cost: three digits per event; an
answer reads the digits that have been in use.
"""

from __future__ import annotations

import math

import numba
import numpy as np
import numpy.typing as npt

from mayfly.kernels.caching import CACHED
from mayfly.kernels.sorting import Int64s

Floats = npt.NDArray[np.float64]
_DIGITS = 70
_LOWEST = 1074
"""The smallest double is 2 ** −1074."""
_MASK = 0xFFFFFFFF
_CARRY_AFTER = 1 << 29


def play_sums(
    before: Floats, owner: Int64s, values: Floats, amounts: Int64s, last: Int64s, group: Int64s
) -> Floats:
    """The sum of each version; ``before`` are the values alive at first, by group ``owner``.

    ``amounts`` is +1 for a value that comes, −1 for one that goes, 0 for none.
    """
    order = np.argsort(owner, kind="stable")
    sums = np.empty(len(last), np.float64)
    _play(before[order], owner[order], values, amounts, last, group, sums)
    return sums


@numba.njit(cache=CACHED, nogil=True)
def _play(
    before: Floats,
    owner: Int64s,
    values: Floats,
    amounts: Int64s,
    last: Int64s,
    group: Int64s,
    sums: Floats,
) -> None:
    digits = np.zeros(_DIGITS, np.int64)
    odd = np.zeros(3, np.int64)
    span = np.array([_DIGITS, 0, 0], np.int64)
    event, current, held = 0, -1, 0
    for version in range(len(last)):
        if group[version] != current:
            current = group[version]
            digits[:] = 0
            odd[:] = 0
            span[0], span[1], span[2] = _DIGITS, 0, 0
            while held < len(owner) and owner[held] < current:
                held += 1
            while held < len(owner) and owner[held] == current:
                _add(digits, odd, span, before[held], 1)
                held += 1
        while event <= last[version]:
            if amounts[event] != 0:
                _add(digits, odd, span, values[event], amounts[event])
            event += 1
        sums[version] = _rounded(digits, odd, span)


@numba.njit(cache=CACHED, nogil=True)
def _add(digits: Int64s, odd: Int64s, span: Int64s, value: float, sign: int) -> None:
    """Add or subtract one value; ``span`` is the first and last digit in use, and additions."""
    if not np.isfinite(value):
        odd[2 if np.isnan(value) else (0 if value > 0 else 1)] += sign
        return
    if value == 0.0:
        return
    fraction, exponent = math.frexp(abs(value))
    mantissa = np.int64(fraction * 9007199254740992.0)
    place = exponent - 53 + _LOWEST
    if place < 0:  # subnormal: the lowest bits of the mantissa are 0
        mantissa >>= -place
        place = 0
    if value < 0:
        sign = -sign
    digit, shift = place >> 5, place & 31
    low = (mantissa & _MASK) << shift
    high = (mantissa >> 32) << shift
    digits[digit] += sign * (low & _MASK)
    digits[digit + 1] += sign * ((low >> 32) + (high & _MASK))
    digits[digit + 2] += sign * (high >> 32)
    span[0] = min(span[0], digit)
    span[1] = max(span[1], digit + 2)
    span[2] += 1
    if span[2] >= _CARRY_AFTER:
        _carry(digits, span)


@numba.njit(cache=CACHED, nogil=True)
def _carry(digits: Int64s, span: Int64s) -> None:
    """Digits from 0 to 2 ** 32 − 1, the highest one with the sign."""
    last = min(span[1] + 2, _DIGITS - 1)
    for i in range(span[0], last):
        digits[i + 1] += digits[i] >> 32
        digits[i] &= _MASK
    span[1], span[2] = last, 0


@numba.njit(cache=CACHED, nogil=True)
def _rounded(digits: Int64s, odd: Int64s, span: Int64s) -> float:
    if odd[2] > 0 or (odd[0] > 0 and odd[1] > 0):
        return np.nan
    if odd[0] > 0:
        return np.inf
    if odd[1] > 0:
        return -np.inf
    if span[0] > span[1]:
        return 0.0
    first, last = span[0], min(span[1] + 2, _DIGITS - 1)
    carried = np.empty(last - first + 1, np.int64)
    carry = np.int64(0)
    for i in range(first, last + 1):
        total = digits[i] + carry
        carry = total >> 32
        carried[i - first] = total & _MASK
    negative = carry < 0
    if negative:
        carry = np.int64(1)
        for i in range(len(carried)):
            total = (carried[i] ^ _MASK) + carry
            carry = total >> 32
            carried[i] = total & _MASK
    top = len(carried) - 1
    while top >= 0 and carried[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    return _to_double(carried, top, first, bool(negative))


@numba.njit(cache=CACHED, nogil=True)
def _to_double(carried: Int64s, top: int, first: int, negative: bool) -> float:
    """The nearest double, half to even, of digits whose highest is ``top``."""
    bits = 0
    while carried[top] >> bits:
        bits += 1
    # The 64 bits from the highest one down, and whether anything lies below them.
    window, below = np.uint64(0), False
    for i in range(64):
        place = bits - 1 - i
        digit = top
        while place < 0:
            place += 32
            digit -= 1
        bit = np.uint64(0)
        if digit >= 0:
            bit = np.uint64((carried[digit] >> place) & 1)
        window = (window << np.uint64(1)) | bit
    lowest = top * 32 + bits - 64
    for i in range(max(0, lowest)):
        if (carried[i >> 5] >> (i & 31)) & 1:
            below = True
            break
    mantissa = np.int64(window >> np.uint64(11))
    rest = np.int64(window & np.uint64(2047))
    if rest > 1024 or (rest == 1024 and (below or mantissa & 1)):
        mantissa += 1
    exponent = first * 32 + top * 32 + bits - 53 - _LOWEST
    value = math.ldexp(float(mantissa), exponent)
    return -value if negative else value
