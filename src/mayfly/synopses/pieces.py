"""Aligned dyadic intervals: how many of them make up a window.

Idea: j neighbouring panes are cut greedily, from the oldest on, into the largest intervals
``S(level, i)``, panes (i − 1)·2^level + 1 to i·2^level, that fit. How many that takes depends on
where the window lies; the worst and the mean over all alignments have closed recurrences
(thesis 2.3.4; "log b" there holds at aligned instants only). Cost: O(log j), remembered.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache


def power_of_two(panes: int) -> int:
    """The number of panes rounded up to a power of two."""
    return 1 << (panes - 1).bit_length()


@cache
def worst_reads(panes: int) -> int:
    """The most intervals that so many panes take, over all alignments; not monotone.

    >>> [worst_reads(j) for j in range(1, 9)]
    [1, 2, 2, 3, 3, 4, 3, 4]
    """
    if panes == 0:
        return 0
    half = panes // 2
    return 1 + worst_reads(half) if panes % 2 else 2 + worst_reads(half - 1)


@cache
def mean_reads(panes: int) -> Fraction:
    """The intervals that so many panes take in the mean over all alignments."""
    if panes < 2:
        return Fraction(panes)
    half = panes // 2
    if panes % 2:
        return 1 + mean_reads(half)
    return (mean_reads(half) + 2 + mean_reads(half - 1)) / 2
