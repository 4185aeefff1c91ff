"""Codes: equal keys have equal codes, whatever type and bits they come in."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mayfly.kernels.codes import NULL_CODE, adjacent_equal, buckets, group_codes, key_codes
from mayfly.kernels.functions.xxhash64 import xxhash64
from mayfly.plan.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
    from_arrow,
)
from mayfly.testing import KEY_TYPES, ColumnSpec, domain

NTZ = DataType("timestamp_ntz")


def codes(array: pa.Array, kind: DataType | None = None) -> list[int | None]:
    found: list[int | None] = key_codes(
        [pa.chunked_array([array])], [kind or from_arrow(array.type)]
    ).to_pylist()
    return found


@pytest.mark.parametrize("kind", KEY_TYPES)
def test_distinct_keys_have_distinct_codes_and_null_has_none(kind: str) -> None:
    values = domain(ColumnSpec("key", kind, distinct=300))
    kept = [repr(v + 0.0) if isinstance(v, float) else v for v in values.to_pylist()]
    found = codes(pa.concat_arrays([values, pa.nulls(1, values.type), values]))
    half = len(values)
    assert found[half] is None
    assert found[:half] == found[half + 1 :]
    assert None not in found[:half]
    assert len(set(found[:half])) == len(set(kept)), "-0.0 is 0.0, all NaN are one"


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (pa.array([1, -1], pa.int8()), pa.array([1, -1], pa.int64()), BIGINT),
        (pa.array([0.5], pa.float32()), pa.array([0.5], pa.float64()), DOUBLE),
        (pa.array([3], pa.int32()), pa.array([3.0], pa.float64()), DOUBLE),
        (pa.array([2**53 + 1]), pa.array([2.0**53]), DOUBLE),
        (pa.array([7]), pa.array([Decimal("7.00")], pa.decimal128(9, 2)), decimal(22, 2)),
        (
            pa.array([1], pa.date32()),
            pa.array([86_400_000_000], pa.timestamp("us")),
            NTZ,
        ),
        (pa.array(["x"], pa.large_string()), pa.array(["x"]), STRING),
    ],
)
def test_keys_equal_in_their_common_type(left: pa.Array, right: pa.Array, kind: DataType) -> None:
    assert codes(left, kind) == codes(right, kind)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([-5, 2**62]), BIGINT, [-5, 2**62]),
        (pa.array([True, False]), BOOLEAN, [1, 0]),
        (pa.array([-1], pa.date32()), DATE, [-1]),
        (pa.array([-7], pa.timestamp("us", "UTC")), TIMESTAMP, [-7]),
    ],
)
def test_keys_that_fit_are_their_own_codes(
    values: pa.Array, kind: DataType, expected: list[int]
) -> None:
    assert codes(values, kind) == expected


def test_several_keys_are_null_if_one_is_and_their_order_matters() -> None:
    def pair(left: list[int | None], right: list[int | None]) -> list[int | None]:
        columns = [pa.chunked_array([pa.array(one, pa.int64())]) for one in (left, right)]
        found: list[int | None] = key_codes(columns, [BIGINT, BIGINT]).to_pylist()
        return found

    assert pair([1, None, 1, None], [None, 1, 2, None])[:2] == [None, None]
    assert pair([1], [2]) != pair([2], [1])
    assert pair([1, 1], [2, 2]) == pair([1], [2]) * 2


def test_a_second_key_beyond_the_years_of_python() -> None:
    far = pa.chunked_array([pa.array([2**62, -(2**62)], pa.timestamp("us", "UTC"))])
    one = pa.chunked_array([pa.array([1, 1])])
    found = key_codes([one, far], [BIGINT, TIMESTAMP]).to_pylist()
    assert len(set(found)) == 2


def test_columns_without_rows_or_values() -> None:
    assert codes(pa.array([], pa.string())) == []
    assert codes(pa.nulls(2, pa.string())) == [None, None]
    assert codes(pa.nulls(2), DataType("void")) == [None, None]
    assert codes(pa.nulls(2), STRING) == [None, None]


def test_regular_codes_spread_over_buckets() -> None:
    for stride in (1, 8, 1000):
        counts = np.bincount(buckets(np.arange(10_000) * stride, 7), minlength=7)
        assert counts.min() > 1_000


def test_buckets_are_in_range_for_negative_codes_too() -> None:
    found = buckets(np.array([-1, -(2**63), 2**63 - 1, 0]), 3)
    assert ((found >= 0) & (found < 3)).all()


def test_codes_that_are_hashes_are_those_of_spark_over_the_widest_type() -> None:
    text, whole = pa.array(["x", "y"]), pa.array([7, -7], pa.int8())
    assert group_codes([text], 2).tolist() == xxhash64([text], 2).tolist()
    wide = xxhash64([text, whole.cast(pa.int64())], 2)
    assert group_codes([text, whole], 2).tolist() == wide.tolist()
    half = pa.array([0.5, -0.0], pa.float32())
    assert group_codes([half], 2).tolist() == xxhash64([pa.array([0.5, 0.0])], 2).tolist()


def test_null_stands_for_itself_among_several_columns() -> None:
    one, other = pa.array([None, 1, None]), pa.array([1, None, None], pa.int64())
    codes_of = group_codes([one.cast(pa.int64()), other], 3).tolist()
    assert len(set(codes_of)) == 3
    null = pa.array([int(NULL_CODE), 1, int(NULL_CODE)])
    assert codes_of[0] == xxhash64([null, pa.array([1, 1, 1])], 3)[0]
    assert group_codes([pa.nulls(1, pa.string())], 1).tolist() == [int(NULL_CODE)]


NESTED = [
    pa.array([[], None, [None], [1], [1, None], [None, 1], [1, 1], [2**40]], pa.list_(pa.int64())),
    pa.array([[[1], [2]], [[1, 2]], [[], [1, 2]], [[1, 2], []], [[1, 2], None], None]),
    pa.array([{"a": 1, "b": None}, {"a": None, "b": 1}, {"a": None, "b": None}, None]),
    pa.array([[("a", 1)], [("a", None)], [("b", 1)], [], None], pa.map_(pa.string(), pa.int64())),
]


@pytest.mark.parametrize("values", NESTED)
def test_arrays_and_structures_that_differ_have_other_codes(values: pa.Array) -> None:
    found = group_codes([values], len(values)).tolist()
    assert len(set(found)) == len(values)
    twice = pa.concat_arrays([values, values]).slice(1)
    assert group_codes([twice], len(twice)).tolist() == [*found, *found][1:]


def test_the_bucket_of_a_code_is_that_of_spark() -> None:
    codes_of = np.array([-(2**63), -1, 0, 1, 2**63 - 1])
    hashes = xxhash64([pa.array(codes_of)], 5)
    assert buckets(codes_of, 7).tolist() == [int(one) % 7 for one in hashes.tolist()]


NESTED = [
    (pa.int64(), [1, 1, None, None, 2, 1]),
    (pa.float64(), [float("nan"), float("nan"), None, 0.0, -0.0, None, None]),
    (pa.string(), ["a", "a", None, "", "", "a"]),
    (pa.list_(pa.int64()), [[1, 2], [1, 2], [1], [], [], None, None, [None], [None], [1, None]]),
    (pa.struct({"a": pa.int64(), "b": pa.string()}),
     [{"a": 1, "b": "x"}, {"a": 1, "b": "x"}, {"a": 1, "b": None}, None, None,
      {"a": None, "b": None}, {"a": None, "b": None}]),
    (pa.list_(pa.struct({"v": pa.float64(), "n": pa.int64()})),
     [[{"v": 1.0, "n": 2}], [{"v": 1.0, "n": 2}], [{"v": 1.0, "n": 3}],
      [{"v": 1.0, "n": 3}, None], [{"v": 1.0, "n": 3}, None], [], None]),
    (pa.list_(pa.list_(pa.int64())), [[[1], []], [[1], []], [[1], None], [[1], None], [[]]]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), NESTED, ids=[str(kind) for kind, _ in NESTED])
@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_neighbours_are_equal_as_their_values_are(
    kind: pa.DataType, values: list[Any], skipped: int
) -> None:
    column = pa.array([*values, *values], kind).slice(skipped)
    listed = [repr(value).replace("-0.0", "0.0") for value in column.to_pylist()]
    expected = [one == other for one, other in pairwise(listed)]
    assert adjacent_equal(column).tolist() == expected
    assert adjacent_equal(column.slice(0, 1)).tolist() == []
    assert adjacent_equal(column.slice(0, 0)).tolist() == []
