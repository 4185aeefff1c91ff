"""The stable order against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.arrays.order import stable_order

NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([-(2**63), 2**63 - 1, 0, 2**11, 2**22 - 1, 2**33]),
)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=60))
def test_by_two_columns(rows: list[tuple[int, int]]) -> None:
    first, second = np.array(rows, np.int64).reshape(-1, 2).T.copy()
    assert stable_order(first, second).tolist() == np.lexsort((second, first)).tolist()


@pytest.mark.parametrize("high", [1, 2, 2**11, 2**12, 2**40, 2**63 - 1])
def test_many_rows_of_every_width(high: int) -> None:
    values = np.random.default_rng(high).integers(-high, high, 5_000)
    expected = np.argsort(values, kind="stable")
    assert stable_order(values).tolist() == expected.tolist()


def test_in_order_reversed_and_alike() -> None:
    ascending = np.arange(-5, 5)
    assert stable_order(ascending).tolist() == list(range(10))
    assert stable_order(ascending[::-1].copy()).tolist() == list(range(9, -1, -1))
    assert stable_order(np.zeros(4, np.int64)).tolist() == [0, 1, 2, 3]


def test_read_only_values_stay_as_they_are() -> None:
    values = np.array([3, 1, 2])
    values.flags.writeable = False
    assert stable_order(values).tolist() == [1, 2, 0]
    assert values.tolist() == [3, 1, 2]
