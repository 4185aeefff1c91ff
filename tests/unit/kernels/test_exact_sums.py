"""Exact sums: whatever comes and goes, in any order, the sum is that of the rows that stay."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly.kernels.exact_sums import SUM_WIDTH, Carried, play_sums

VALUES = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from(
    [0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, 2.0**-1060, 1e16, 1.0, -1e16]
)


def expected(values: list[float]) -> float:
    if any(map(math.isnan, values)) or (math.inf in values and -math.inf in values):
        return math.nan
    if math.inf in values or -math.inf in values:
        return math.inf if math.inf in values else -math.inf
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@given(before=st.lists(VALUES, max_size=6), fresh=st.lists(VALUES, max_size=8), data=st.data())
@example(before=[1e16, 1.0], fresh=[-1e16], data=None)
def test_the_sum_of_each_version_is_the_rounded_exact_sum(
    before: list[float], fresh: list[float], data: st.DataObject | None
) -> None:
    rows, values, amounts, answers = list(before), list[float](), list[int](), list[float]()
    for value in fresh:
        values.append(value)
        amounts.append(1)
        rows.append(value)
        answers.append(expected(rows))
    while rows and data is not None and data.draw(st.booleans()):
        values.append(rows.pop(data.draw(st.integers(0, len(rows) - 1))))
        amounts.append(-1)
        answers.append(expected(rows))
    sums = play_sums(
        np.array(before, np.float64),
        np.array([0, 0, len(before)]),
        np.array([7.5, *values], np.float64),
        np.array([1, *amounts], np.int64),
        np.arange(len(values) + 1),
        np.array([0] + [1] * len(values), np.int64),
        Carried.of(2, {}, np.empty(0, np.int64), SUM_WIDTH),
    )
    assert sums[0] == 7.5
    np.testing.assert_array_equal(sums[1:], np.array(answers))
