"""The join ordering model against every figure of thesis 5.3 (Tables 5.3 to 5.6)."""

from __future__ import annotations

from itertools import permutations
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.optimizer.join_order import (
    JoinInput,
    by_selectivity,
    choose_order,
    order_cost,
    origin_cost,
    result_size,
)


def streams(rates: list[float], lengths: list[float], values: list[float]) -> list[JoinInput]:
    return [JoinInput.windowed(*row) for row in zip(rates, lengths, values, strict=True)]


TABLE_53 = streams([10, 1, 1, 3], [100, 100, 200, 100], [500, 50, 40, 5])
TABLE_55 = streams([10, 1, 1, 1], [100] * 4, [40, 100, 8, 5])
TABLE_55_AS_PRINTED = streams([100, 1, 1, 1], [100] * 4, [40, 100, 8, 5])
TABLE_56 = streams([11, 10, 1, 1], [100] * 4, [200, 100, 65, 20])
ALL_ORDERS = list(permutations(range(4)))


def cost(inputs: list[JoinInput], *order: int) -> int:
    """The cost of an order written with the thesis's numbers, which begin at 1."""
    return round(order_cost(inputs, tuple(place - 1 for place in order)))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ((1, 2), 200),
        ((1, 3), 400),
        ((1, 4), 600),
        ((2, 3), 400),
        ((2, 4), 600),
        ((3, 4), 1500),
        ((1, 2, 3), 800),
        ((1, 2, 4), 1200),
    ],
)
def test_table_54_intermediate_results(members: tuple[int, ...], expected: float) -> None:
    size = result_size(TABLE_53, [member - 1 for member in members])
    assert size == pytest.approx(expected, rel=1e-12)


def test_table_53() -> None:
    parts = [origin_cost(TABLE_53, (0, 1, 2, 3), origin) for origin in range(4)]
    assert parts == pytest.approx([3800, 3800, 2400, 6000], rel=1e-12)
    assert cost(TABLE_53, 1, 2, 3, 4) == 16000
    worst = max(ALL_ORDERS, key=lambda order: order_cost(TABLE_53, order))
    assert worst == (3, 2, 1, 0)
    assert cost(TABLE_53, 4, 3, 2, 1) == 86850


def test_table_55_with_the_rate_its_figures_hold_for() -> None:
    assert cost(TABLE_55, 2, 1, 3, 4) == 16200
    assert cost(TABLE_55, 2, 3, 4, 1) == 42600
    assert cost(TABLE_55, 1, 2, 3, 4) == 21000
    assert cost(TABLE_55, 3, 4, 1, 2) == 135150
    assert max(round(order_cost(TABLE_55, order)) for order in ALL_ORDERS) == 135150
    assert min(round(order_cost(TABLE_55, order)) for order in ALL_ORDERS) == 16200


def test_table_55_as_printed() -> None:
    assert cost(TABLE_55_AS_PRINTED, 2, 1, 3, 4) == 160200
    assert cost(TABLE_55_AS_PRINTED, 2, 3, 4, 1) == 420600
    assert cost(TABLE_55_AS_PRINTED, 1, 2, 3, 4) == 210000
    assert max(round(order_cost(TABLE_55_AS_PRINTED, order)) for order in ALL_ORDERS) == 1347900


def test_table_56() -> None:
    assert cost(TABLE_56, 3, 4, 1, 2) == 49542
    assert cost(TABLE_56, 3, 1, 4, 2) == 47977
    assert cost(TABLE_56, 3, 1, 2, 4) == 51954
    assert cost(TABLE_56, 1, 2, 3, 4) == 68200
    assert cost(TABLE_56, 2, 1, 3, 4) == 79000
    assert round(mean(order_cost(TABLE_56, order) for order in ALL_ORDERS)) == 63362
    assert min(round(order_cost(TABLE_56, order)) for order in ALL_ORDERS) == 47977


def test_the_heuristic_starts_by_selectivity() -> None:
    assert (0, 1, 2, 3) in by_selectivity(TABLE_53)
    assert (1, 2, 3, 0) in by_selectivity(TABLE_55)
    assert (2, 3, 0, 1) in by_selectivity(TABLE_56)


def test_the_heuristic_moves_fast_streams_up() -> None:
    assert round(order_cost(TABLE_53, choose_order(TABLE_53))) == 16000
    assert choose_order(TABLE_55) == (1, 0, 2, 3)
    assert choose_order(TABLE_56) == (2, 0, 3, 1)


def test_hashed_state_divides_what_is_scanned() -> None:
    hashed = [JoinInput(each.rate, each.size, each.distinct, buckets=10) for each in TABLE_53]
    assert order_cost(hashed, (0, 1, 2, 3)) == pytest.approx(1600)
    for order in ALL_ORDERS:
        assert order_cost(hashed, order) == pytest.approx(order_cost(TABLE_53, order) / 10)
    uneven = [
        JoinInput(each.rate, each.size, each.distinct, buckets)
        for each, buckets in zip(TABLE_53, (1, 2, 4, 5), strict=True)
    ]
    # X1 = 10 × (100/2 + 0.2·200/4 + 0.8·300/5) by hand
    assert origin_cost(uneven, (0, 1, 2, 3), 0) == pytest.approx(10 * (50 + 10 + 48))


def test_inputs_without_a_common_attribute_come_last() -> None:
    chain = [
        JoinInput(1, 100, {"x": 10}),
        JoinInput(1, 1000, {"x": 1000, "y": 1000}),
        JoinInput(1, 100, {"y": 50}),
    ]
    assert result_size(chain, (0, 2)) == 100 * 100
    first, second, _ = choose_order(chain)
    assert 1 in (first, second)


def test_a_cross_product_scans_all_buckets() -> None:
    apart = [JoinInput(2, 100, {"x": 10}, 10), JoinInput(3, 200, {"y": 10}, 10)]
    assert order_cost(apart, (0, 1)) == 2 * 200 + 3 * 100


def test_small_joins() -> None:
    assert choose_order([]) == ()
    assert choose_order(TABLE_53[:1]) == (0,)
    assert sorted(choose_order(TABLE_53[:2])) == [0, 1]


inputs = st.lists(
    st.builds(
        JoinInput.windowed,
        st.integers(1, 50).map(float),
        st.integers(1, 300).map(float),
        st.integers(1, 500).map(float),
    ),
    min_size=2,
    max_size=6,
)


@given(inputs)
def test_the_chosen_order_is_a_permutation_no_dearer_than_the_given_one(
    several: list[JoinInput],
) -> None:
    order = choose_order(several)
    assert sorted(order) == list(range(len(several)))
    assert order_cost(several, order) <= order_cost(several, tuple(range(len(several))))


@given(inputs)
def test_the_size_of_a_result_does_not_depend_on_the_order(several: list[JoinInput]) -> None:
    forward = result_size(several, range(len(several)))
    backward = result_size(several, range(len(several))[::-1])
    assert forward == pytest.approx(backward, rel=1e-9)
