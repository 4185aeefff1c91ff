"""Frequent items: the worked example, and the guarantees on random sub-windows."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.errors import InvalidSetting
from mayfly.windows import ApproximateFrequent, Frequent, Rows, Span

SUB_WINDOWS = ["xxxxxaaabc", "aaaacccxxx", "aaaacccxxx", "xxxxxxaabb", "xxxxxxxxxx"]
EXPECTED = [
    (3, {"x": 5}, True),
    (6, {"a": 7}, True),
    (9, {"a": 11}, False),
    (8, {"a": 10}, False),
    (5, {"x": 16, "a": 6}, False),
]


def test_the_example_of_the_specification() -> None:
    window = Frequent(k=2, slots=3, by=Rows(10))
    for number, (text, expected) in enumerate(zip(SUB_WINDOWS, EXPECTED, strict=True)):
        window.append(list(text))
        answer = window.items()
        assert (answer.delta, {i.value: i.low for i in answer.items}, answer.partial) == expected
        true = Counter("".join(SUB_WINDOWS[max(0, number - 2) : number + 1]))
        for value, count in true.items():
            low, high = window.bounds(value)
            assert low <= count <= high
    assert window.bounds("x") == (16, 19)
    assert window.top(1).items[0].value == "x"


@given(
    k=st.integers(1, 4),
    slots=st.integers(1, 4),
    sketched=st.booleans(),
    sub_windows=st.lists(
        st.lists(st.none() | st.integers(0, 12), max_size=30), min_size=1, max_size=8
    ),
)
def test_no_false_positive_and_bounds_hold(
    k: int, slots: int, sketched: bool, sub_windows: list[list[int | None]]
) -> None:
    by = Span("1 s")
    window = (
        ApproximateFrequent(k, slots, by, size=3) if sketched else Frequent(k, slots, by)
    )  # fmt: skip
    first = next((i for i, rows in enumerate(sub_windows) if rows), len(sub_windows))
    for number, rows in enumerate(sub_windows):
        window.append(rows, [number * 1_000_000 + 1] * len(rows))
        window.advance((number + 1) * 1_000_000 + 1)
        held = sub_windows[max(first, number - slots + 1) : number + 1]
        true = Counter(v for part in held for v in part if v is not None)
        answer = window.items()
        assert answer.rows == sum(true.values())
        reported = {item.value for item in answer.items}
        for item in answer.items:
            assert answer.delta < true[item.value]
            assert item.low <= true[item.value] <= item.high
        for value, count in true.items():
            low, high = window.bounds(value)
            assert low <= count <= high
            assert value in reported or count <= 2 * answer.delta
        for threshold in (answer.delta, answer.delta + 3, sum(true.values()) // 4):
            over = {value for value, count in true.items() if count > threshold}
            surely, maybe = window.over(threshold), window.over(threshold, false_negatives=False)
            assert {item.value for item in surely.items} <= over
            assert not surely.complete or {item.value for item in surely.items} == over
            assert not maybe.complete or over <= {item.value for item in maybe.items}


def test_a_sketch_that_overflows_bounds_what_it_has_lost() -> None:
    random = Random(6)
    for k in (1, 2, 3, 4):
        window = ApproximateFrequent(k, 2, Rows(60), size=3)
        held: list[list[int]] = []
        for _ in range(30):
            held = [*held[-1:], [min(int(random.expovariate(0.15)), 40) for _ in range(60)]]
            window.append(held[-1])
            for value, count in Counter(v for part in held for v in part).items():
                low, high = window.bounds(value)
                assert low <= count <= high


@pytest.mark.parametrize(
    ("per", "k", "expected"),
    [
        (20, 5, (5.2, 3, 3, 25154, 0.4)),
        (100, 7, (2.6, 6, 5, 7055, 2.8)),
        (500, 10, (1.5, 9, 8, 2026, 2.2)),
    ],
)
def test_zipf_draws_give_the_figures_of_the_specification(
    per: int, k: int, expected: tuple[float, int, int, int, float]
) -> None:
    weights = [1 / (i + 1) ** 1.2 for i in range(1647)]
    stream = Random(2006).choices(range(1647), weights, k=100_000)
    window = Frequent(k, 100_000 // per, Rows(per))
    window.append(stream)
    true, answer = Counter(stream), window.items()
    over = [value for value, count in true.items() if count > answer.delta]
    error = sum(1 - i.low / true[i.value] for i in answer.items) / max(1, len(answer.items))
    assert expected == (
        round(answer.delta / 1000, 1),
        len(over),
        len(answer.items),
        window.stored,
        round(100 * error, 1),
    )


@pytest.mark.parametrize("threshold", [float("nan"), True, "3", None])
def test_a_threshold_is_a_number(threshold: Any) -> None:
    with pytest.raises(InvalidSetting, match="threshold"):
        Frequent(2, 2, Rows(2)).over(threshold)
