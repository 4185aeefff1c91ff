from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from mayfly.testing import (
    KEY_TYPES,
    ColumnSpec,
    StreamSpec,
    assert_same_rows,
    generate,
    row_difference,
    shuffle_within_slack,
)


def test_order_of_rows_and_columns_does_not_matter() -> None:
    assert_same_rows(
        pa.table({"a": [1, 2], "b": ["x", None]}), [{"b": None, "a": 2}, {"b": "x", "a": 1}]
    )


def test_the_message_counts_and_shows_what_differs() -> None:
    actual = pa.table({"key": ["a", "a", "a", "b"], "n": [1, 1, 1, 2]})
    expected = pa.table({"n": [1, 3], "key": ["a", None]})
    with pytest.raises(AssertionError) as failure:
        assert_same_rows(actual, expected, "at τ=7")
    assert str(failure.value).splitlines() == [
        "at τ=7: 4 rows found, 2 expected: 1 missing, 3 unexpected",
        "missing, the first 1 of 1 distinct rows:",
        "  n=3, key=None",
        "unexpected, the first 2 of 2 distinct rows:",
        "  n=1, key='a'   x2",
        "  n=2, key='b'",
    ]


def test_only_the_first_rows_are_listed() -> None:
    difference = row_difference(
        pa.table({"a": list(range(100))}), pa.table({"a": pa.array([], pa.int64())})
    )
    assert "the first 5 of 100" in str(difference)
    assert len(str(difference).splitlines()) == 7


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, 1, 2]), pa.array([1, 2, 2])),
        (pa.array([None, 1]), pa.array([1, 1])),
        (pa.array([math.nan, None]), pa.array([math.nan, math.nan])),
        (pa.array([math.nan, 0.0]), pa.array([None, 0.0])),
        (pa.array([[1, None]]), pa.array([[1, 2]])),
        (pa.array([{"x": 1}]), pa.array([{"x": 2}])),
        (pa.array([1]), pa.array([1, 1])),
        (pa.array([0.1]), pa.array([Decimal("0.1")])),
    ],
)
def test_different_multisets_are_told_apart(one: pa.Array, other: pa.Array) -> None:
    for actual, expected in ((one, other), (other, one)):
        with pytest.raises(AssertionError):
            assert_same_rows(pa.table({"a": actual}), pa.table({"a": expected}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([math.nan, 1.0, None]), pa.array([None, math.nan, 1.0])),
        (pa.array([-0.0, 0.0, 0.0]), pa.array([0.0, 0.0, -0.0])),
        (pa.array([1, 2], pa.int32()), pa.array([2, 1], pa.int64())),
        (pa.array([Decimal("1.50")]), pa.array([Decimal("1.5")])),
        (pa.array([7], pa.timestamp("us", "UTC")), pa.array([7])),
        (pa.array([7], pa.timestamp("us", "UTC")), pa.array([7], pa.timestamp("us"))),
        (pa.array([7], pa.duration("us")), pa.array([7])),
        (pa.array([2**62], pa.timestamp("us")), pa.array([2**62], pa.timestamp("us", "UTC"))),
        (pa.array([[math.nan, None]]), pa.array([[math.nan, None]])),
        (pa.array([{"x": [b"\x00"]}]), pa.array([{"x": [b"\x00"]}])),
        (
            pa.array([[datetime(1970, 1, 1, tzinfo=UTC)]]),
            pa.array([[0]]),
        ),
    ],
)
def test_values_equal_in_sql_are_equal_here(one: pa.Array, other: pa.Array) -> None:
    assert_same_rows(pa.table({"a": one}), pa.table({"a": other}))


def test_zeros_of_either_sign_do_not_hide_behind_sorting() -> None:
    assert_same_rows(
        pa.table({"a": [0.0, -0.0], "b": [1, 2]}), pa.table({"a": [0.0, -0.0], "b": [2, 1]})
    )


def test_types_that_cannot_be_sorted_are_compared_too() -> None:
    rows = pa.table({"a": pa.array(["x", "y"]).dictionary_encode(), "b": pa.nulls(2)})
    assert_same_rows(rows, rows.take([1, 0]))
    with pytest.raises(AssertionError, match="a='x', b=None"):
        assert_same_rows(rows, rows.slice(1))


@pytest.mark.parametrize("kind", KEY_TYPES)
def test_every_key_type_can_be_compared_in_any_order(kind: str) -> None:
    rows = generate(StreamSpec(200, keys=(ColumnSpec("key", kind, 20, nulls=0.2),)))
    assert_same_rows(shuffle_within_slack(rows, "1 h", seed=1), rows)


def test_other_columns_are_an_error_with_the_names() -> None:
    with pytest.raises(AssertionError, match=r"here: columns differ: found a; expected a, b"):
        assert_same_rows(pa.table({"a": [1]}), pa.table({"a": [1], "b": [1]}), "here")


def test_an_empty_list_fits_any_columns() -> None:
    assert_same_rows(pa.table({"a": pa.array([], pa.int64())}), [])
    assert_same_rows([], [])
    with pytest.raises(AssertionError, match="1 unexpected"):
        assert_same_rows(pa.table({"a": [1]}), [])


def test_rows_without_columns_are_counted() -> None:
    two, three = (pa.table({"a": [0] * n}).select([]) for n in (2, 3))
    assert_same_rows(two, two)
    with pytest.raises(AssertionError, match="2 rows found, 3 expected: 1 missing"):
        assert_same_rows(two, three)
