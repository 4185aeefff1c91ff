"""Variances: whatever comes and goes, in any order, those of the rows that stay."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly.kernels.exact_sums import Carried
from mayfly.kernels.exact_variances import SPREAD_WIDTH, play_variances

FINITE = st.floats(-1e150, 1e150, allow_nan=False) | st.sampled_from(
    [0.0, -0.0, 5e-324, -5e-324, 2.0**-1060, 1e9, 1e9 + 1, 1e9 + 2, 1e16, 1.0, -1e16]
)


def exact(values: list[float]) -> Fraction:
    whole = list(map(Fraction, values))
    mean = sum(whole, Fraction(0)) / len(whole)
    return sum(((one - mean) ** 2 for one in whole), Fraction(0)) / (len(whole) - 1)


def played(before: list[float], values: list[float], amounts: list[int], root: bool) -> list[float]:
    """The answer after each event of one group, behind another that has one row."""
    answers = play_variances(
        np.array(before, np.float64),
        np.array([0, 0, len(before)]),
        np.array([7.5, *values], np.float64),
        np.array([1, *amounts], np.int64),
        np.arange(len(values) + 1),
        np.array([0] + [1] * len(values), np.int64),
        Carried.of(2, {}, np.empty(0, np.int64), SPREAD_WIDTH),
        root,
        1,
    )
    assert math.isnan(answers[0])
    return [float(one) for one in answers[1:]]


@given(before=st.lists(FINITE, max_size=6), fresh=st.lists(FINITE, max_size=8), data=st.data())
@example(before=[1e9, 1e9 + 1, 1e9 + 2], fresh=[1e9 + 1], data=None)
@example(before=[1e16, -1e16], fresh=[1.0], data=None)
def test_the_variance_of_each_version_is_the_rounded_exact_one(
    before: list[float], fresh: list[float], data: st.DataObject | None
) -> None:
    rows, values, amounts, wanted = list(before), list[float](), list[int](), list[list[float]]()
    for value in fresh:
        values.append(value)
        amounts.append(1)
        rows.append(value)
        wanted.append(list(rows))
    while rows and data is not None and data.draw(st.booleans()):
        values.append(rows.pop(data.draw(st.integers(0, len(rows) - 1))))
        amounts.append(-1)
        wanted.append(list(rows))
    variances, roots = (played(before, values, amounts, root) for root in (False, True))
    for alive, variance, root in zip(wanted, variances, roots, strict=True):
        if len(alive) < 2:
            assert math.isnan(variance)
            continue
        true = exact(alive)
        assert math.isclose(variance, float(true), rel_tol=4e-16, abs_tol=5e-324)
        assert math.isclose(Fraction(root) ** 2, true, rel_tol=1e-15, abs_tol=1e-300)


def test_a_deviation_fits_where_its_square_does_not() -> None:
    (root,) = played([1e200], [-1e200], [1], True)
    assert math.isclose(root, math.sqrt(2) * 1e200, rel_tol=1e-15)
    assert played([1e200], [-1e200], [1], False) == [math.inf]


def test_what_is_no_number_makes_the_answer_none_until_it_leaves() -> None:
    answers = played([1.0, 2.0], [math.inf, math.inf, math.nan, math.nan], [1, -1, 1, -1], False)
    assert [str(one) for one in answers] == ["nan", "0.5", "nan", "0.5"]
