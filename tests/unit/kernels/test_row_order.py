"""Codes in the order of ORDER BY: never against it, and whole rows where they say so."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.kernels.row_order import OrderColumn, exact_ranks, order_codes

KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
    pa.int16(): st.integers(-300, 300),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, 1.0, 1.5, -1.5, float("nan")]),
    pa.float32(): st.floats(width=32),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=10) | st.text("ab\0\1", max_size=4),
    pa.binary(): st.binary(max_size=10),
    pa.date32(): st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    pa.decimal128(30, 2): st.integers(-(10**27), 10**27).map(lambda n: Decimal(n).scaleb(-2)),
}


@st.composite
def parts(draw: st.DrawFn) -> list[OrderColumn]:
    size = draw(st.integers(1, 12))
    return [
        OrderColumn(
            pa.array(draw(st.lists(st.none() | KINDS[kind], min_size=size, max_size=size)), kind),
            draw(st.booleans()),
            draw(st.booleans()),
        )
        for kind in draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
    ]


@given(parts())
def test_a_row_that_comes_first_has_no_larger_code(columns: list[OrderColumn]) -> None:
    rows = len(columns[0].values)
    ranks = [rank for part in columns for rank in exact_ranks(part)]
    order = np.lexsort(ranks[::-1])
    codes = order_codes(columns, rows)[order]
    assert (codes[1:] >= codes[:-1]).all()
    equal = np.all([rank[order][1:] == rank[order][:-1] for rank in ranks], axis=0)
    assert (codes[1:] == codes[:-1])[equal].all(), "equal rows have one code"
    whole = (codes[1:] == codes[:-1]) & (codes[1:] & 1 == 0)
    assert equal[whole].all(), "rows of one code that holds them are equal"


@pytest.mark.parametrize(
    ("columns", "whole"),
    [
        ([[1, 1000, None], ["a", "tcp", None]], True),
        ([[0.5, 2.0, -1.0], [1, 2, 3], [True, False, None]], True),
        ([[0.1, 0.2, 0.3]], False),
        ([["ten letters", "more than that", "nine more."]], False),
        ([[Decimal("1.50"), Decimal(2), Decimal(3)]], False),
    ],
)
def test_small_rows_fit_their_code(columns: list[list[Any]], whole: bool) -> None:
    codes = order_codes([OrderColumn(pa.array(values)) for values in columns], 3)
    assert (codes & 1 == 0).tolist() == [whole] * 3
