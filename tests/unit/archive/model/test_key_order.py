"""Key order, and merging sorted streams whose chunks end anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.archive.model.key_order import merge_sorted, order_key, sorted_by_key

NAN, INFINITY = float("nan"), float("inf")


def chunked(values: list[Any], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_floats_are_ordered_with_nan_last_and_one_zero(kind: pa.DataType) -> None:
    values = [-INFINITY, -1.5, -1.0, -0.0, 0.25, 3.0, INFINITY, NAN]
    places = order_key(chunked(values, kind)).to_pylist()
    assert all(low < high for low, high in pairwise(places))
    zeros = order_key(chunked([-0.0, 0.0], kind)).to_pylist()
    assert zeros[0] == zeros[1]
    many_nans = order_key(pa.chunked_array([pa.array([NAN, -NAN], kind)])).to_pylist()
    assert many_nans[0] == many_nans[1]


ORDERED: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [False, True],
    pa.int8(): [-128, 0, 127],
    pa.int64(): [-(2**63), -1, 0, 2**63 - 1],
    pa.float64(): [-INFINITY, -1.5, 0.0, 2.0, NAN],
    pa.string(): ["", "A", "a", "ab", "é", "🐞"],
    pa.binary(): [b"", b"\0", b"a", b"\xff"],
    pa.date32(): [date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1)],
    pa.timestamp("us", tz="UTC"): [-5, 0, 7],
    pa.timestamp("us"): [datetime(1, 1, 1), datetime(9999, 1, 1)],
    pa.duration("us"): [timedelta(-1), timedelta(0), timedelta(5)],
    pa.decimal128(10, 2): [Decimal("-1.50"), Decimal(0), Decimal("99999999.99")],
    pa.decimal128(38, 3): [Decimal("-1e34"), Decimal("0.001"), Decimal("1e34")],
}


@pytest.mark.parametrize("kind", ORDERED, ids=str)
def test_every_key_type_is_sorted_and_merged(kind: pa.DataType) -> None:
    values = ORDERED[kind]
    rows = pa.table({"k": pa.array(values[::-1] * 2, kind), "n": range(2 * len(values))})
    order = sorted_by_key(rows, ["k"])["n"].to_pylist()
    count = len(values)
    assert order == [n for at in range(count) for n in (count - 1 - at, 2 * count - 1 - at)]
    halves = [sorted_by_key(rows.slice(0, count), ["k"]), sorted_by_key(rows.slice(count), ["k"])]
    merged = pa.concat_tables(merge_sorted([_in_chunks(half, 1) for half in halves], ["k"]))
    assert merged["n"].to_pylist() == order


def _in_chunks(table: pa.Table, size: int) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, size):
        yield table.slice(start, size)


class Counted:
    """A stream that knows how many of its tables were taken."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self.tables, self.taken = tables, 0

    def __iter__(self) -> Iterator[pa.Table]:
        return self

    def __next__(self) -> pa.Table:
        table = next(self.tables)
        self.taken += 1
        return table


keys = st.tuples(st.integers(0, 5), st.sampled_from(["x", "y"]))
streams = st.lists(st.lists(keys, max_size=12), max_size=5)


@given(streams, st.lists(st.integers(1, 4), min_size=1, max_size=5), st.booleans())
def test_merging_is_sorting_everything(
    rows: list[list[tuple[int, str]]], sizes: list[int], with_empty_tables: bool
) -> None:
    """Rows of equal keys come in the order of the streams; chunks may be empty."""
    tables = []
    for number, stream in enumerate(rows):
        ordered = sorted(stream)
        columns = {
            "a": pa.array([key[0] for key in ordered], pa.int64()),
            "b": pa.array([key[1] for key in ordered], pa.string()),
            "from": pa.array([f"{number}.{at}" for at in range(len(ordered))], pa.string()),
        }
        tables.append(pa.table(columns))
    inputs = []
    for number, table in enumerate(tables):
        pieces = list(_in_chunks(table, sizes[number % len(sizes)]))
        if with_empty_tables:
            pieces = [one for piece in pieces for one in (piece.slice(0, 0), piece)]
        inputs.append(iter(pieces))
    found = [row for table in merge_sorted(inputs, ["a", "b"]) for row in table.to_pylist()]
    everything = [row for table in tables for row in table.to_pylist()]
    assert found == sorted(everything, key=lambda row: (row["a"], row["b"]))


def test_one_chunk_of_each_stream_is_held() -> None:
    """What is put out first needs the first chunks alone, however long the streams are."""
    table = pa.table({"k": pa.array(range(1000), pa.int64())})
    inputs = [Counted(_in_chunks(table, 10)), Counted(_in_chunks(table, 25))]
    merged = merge_sorted(inputs, ["k"])
    next(merged)
    assert [one.taken for one in inputs] == [1, 1]
    assert sum(part.num_rows for part in merged) + 18 == 2000


def test_a_key_larger_than_many_chunks() -> None:
    """It is complete before anything is put out, from all streams and in their order."""
    first = pa.table({"k": [1] * 57 + [2], "n": range(58)})
    second = pa.table({"k": [0] + [1] * 33, "n": range(100, 134)})
    merged = list(merge_sorted([_in_chunks(first, 10), _in_chunks(second, 7)], ["k"]))
    rows = pa.concat_tables(merged)
    assert rows["k"].to_pylist() == [0] + [1] * 90 + [2]
    assert rows["n"].to_pylist() == [100, *range(57), *range(101, 134), 57]


def test_nothing_to_merge() -> None:
    assert list(merge_sorted([], ["k"])) == []
    empty = pa.table({"k": pa.array([], pa.int64())})
    assert list(merge_sorted([iter([empty]), iter([])], ["k"])) == []
    assert sorted_by_key(empty, ["k"]).num_rows == 0
