"""Aggregates at the edge of their types: large whole numbers, infinities, negative zero."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly import LocalSession
from mayfly.errors import BadInput
from mayfly.kernels.group_events import Wide

LARGE = 2**62
Value = Any


def answers(
    kind: str, values: list[Value], expression: str, *, window: str = "", size: int = 1
) -> list[Value]:
    """The aggregate after each row, one row per microsecond, fed in batches of a size."""
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "a": kind})
    run = session.query(f"SELECT {expression} AS v FROM s {window}")
    for start in range(0, len(values), size):
        part = values[start : start + size]
        arrow = {"BIGINT": pa.int64(), "DOUBLE": pa.float64()}.get(kind, pa.decimal128(38, 0))
        times = pa.array(range(start, start + len(part)), pa.int64())
        run.feed({"s": pa.table({"ts": times, "a": pa.array(part, arrow)})})
    run.finish()
    return [run.snapshot(at)["v"][0].as_py() for at in range(len(values))]


@given(
    values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8),
    size=st.integers(1, 4),
)
@example(values=[LARGE] * 4, size=1)
@example(values=[-(2**63)] * 5, size=2)
def test_a_mean_of_whole_numbers_does_not_overflow(values: list[int], size: int) -> None:
    """Over a window of three rows, so that rows leave too; the state goes from batch to batch."""
    means = answers("BIGINT", values, "AVG(a)", window="[ROWS 3]", size=size)
    for at, mean in enumerate(means):
        alive = values[max(0, at - 2) : at + 1]
        exact = float(Fraction(sum(alive), len(alive)))
        assert math.isclose(mean, exact, rel_tol=1e-15)
        assert mean == pytest.approx(
            duckdb.execute("SELECT avg(v) FROM unnest(?::BIGINT[]) t(v)", [alive]).fetchone()[0],  # type: ignore[index]
            rel=1e-15,
        )


@given(st.lists(st.integers(-(2**110), 2**110), max_size=5))
def test_a_wide_number_is_known_from_its_lower_half_and_a_near_one(values: list[int]) -> None:
    low = np.array([v & (2**64 - 1) for v in values], np.uint64).view(np.int64)
    wide = Wide.near(low, np.array([float(v) * (1 + 2**-50) for v in values]))
    halves = zip(wide.high.tolist(), wide.low.view(np.uint64).tolist(), strict=True)
    assert [high * 2**64 + half for high, half in halves] == values


def test_a_sum_may_pass_what_fits_within_an_instant_and_comes_back() -> None:
    values = [LARGE, LARGE - 1, 1 - LARGE, 2**63 - 1 - LARGE]
    sums = answers("BIGINT", values, "SUM(a)")
    assert sums == [LARGE, 2 * LARGE - 1, LARGE, 2**63 - 1]


def test_a_sum_that_does_not_fit_names_the_group_and_the_instant() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "k": "STRING", "n": "INT", "a": "BIGINT"})
    run = session.query("SELECT k, n, SUM(a) AS v FROM s GROUP BY k, n")
    rows = {"ts": [1, 2, 3, 4], "k": ["x"] * 4, "n": [7, 7, 8, 8], "a": [LARGE, LARGE, 1, 1]}
    kinds = [("ts", pa.int64()), ("k", pa.string()), ("n", pa.int32()), ("a", pa.int64())]
    with pytest.raises(BadInput, match=r"SUM of the group \('x', 7\) .* at .* 00:00:00.000002"):
        run.feed({"s": pa.table(rows, pa.schema(kinds))})


def test_a_sum_of_decimals_that_does_not_fit_names_the_instant() -> None:
    values = [Decimal(9 * 10**37)] * 2
    with pytest.raises(BadInput, match=r"SUM does not fit .* at 1970-01-01 00:00:00.000001"):
        answers("DECIMAL(38,0)", values, "SUM(a)")


INF = math.inf


@pytest.mark.parametrize(
    ("values", "median"),
    [([INF, INF], INF), ([-INF, -INF, 1.0], -INF), ([1.0, INF], INF), ([1e308, 1.5e308], 1.25e308)],
)
def test_a_median_of_infinities(values: list[float], median: float) -> None:
    assert answers("DOUBLE", values, "MEDIAN(a)")[-1] == median


@pytest.mark.parametrize("name", ["VAR", "STDDEV", "MEDIAN"])
def test_large_whole_numbers_are_taken_as_doubles(name: str) -> None:
    values = [2**60 + 1, 2**61 + 1, 2**62 + 3, -(2**62) - 5]
    sql = {"VAR": "var_samp", "STDDEV": "stddev_samp", "MEDIAN": "median"}[name]
    wanted = duckdb.execute(f"SELECT {sql}(v) FROM unnest(?::BIGINT[]) t(v)", [values]).fetchone()
    assert wanted is not None
    assert answers("BIGINT", values, f"{name}(a)")[-1] == pytest.approx(wanted[0], rel=1e-12)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM s GROUP BY a",
        "SELECT DISTINCT a FROM s",
        "SELECT MEDIAN(a) AS a FROM s",
        "SELECT QUANTILE(a, 0.5) AS a FROM s",
        "SELECT MAX(a) AS a FROM s",
    ],
)
def test_the_sign_of_zero_depends_on_nothing(query: str) -> None:
    for order in ([0.0, -0.0], [-0.0, 0.0], [-0.0]):
        session = LocalSession()
        session.stream("s", {"ts": "BIGINT", "a": "DOUBLE"})
        run = session.query(query)
        run.feed({"s": pa.table({"ts": pa.array([1] * len(order), pa.int64()), "a": order})})
        run.finish()
        (answer,) = run.snapshot()["a"].to_pylist()
        assert (answer, math.copysign(1, answer)) == (0.0, 1.0)
