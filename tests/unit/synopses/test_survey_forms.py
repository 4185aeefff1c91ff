"""Exponential histograms, decay and n-of-N windows against the rows themselves."""

from __future__ import annotations

from math import isclose

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.errors import BadInput, InvalidSetting
from mayfly.synopses.contents import Aggregate
from mayfly.synopses.decay import DecayedSum
from mayfly.synopses.row_windows import RowWindows
from mayfly.windows.exponential_histogram import ExponentialHistogram


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 40)), max_size=120),
    length=st.integers(1, 60),
    error=st.sampled_from([0.5, 0.25, 0.1, 0.05]),
    batch=st.integers(1, 30),
)
def test_a_histogram_is_within_its_error_and_its_bounds(
    rows: list[tuple[int, int]], length: int, error: float, batch: int
) -> None:
    gaps, amounts = np.array(rows, np.int64).reshape(-1, 2).T
    instants = np.cumsum(gaps)
    histogram = ExponentialHistogram(length, error)
    for start in range(0, len(rows), batch):
        part = slice(start, start + batch)
        histogram.add(instants[part], amounts[part])
        last = int(instants[part][-1])
        for now in (last, last + length // 2):
            seen = slice(0, start + batch)
            exact = int(amounts[seen][instants[seen] > now - length].sum())
            answer = histogram.answer(now)
            assert answer.low <= exact <= answer.high
            assert abs(answer.value - exact) <= error * exact
            if now > last:
                break
        histogram = rebuilt(histogram, instants[: start + batch], amounts[: start + batch])


def rebuilt(
    histogram: ExponentialHistogram, instants: np.ndarray, amounts: np.ndarray
) -> ExponentialHistogram:
    """One that has not been asked about the future yet."""
    again = ExponentialHistogram(histogram.length, histogram.error)
    again.add(instants, amounts)
    return again


def test_a_histogram_keeps_few_buckets() -> None:
    histogram = ExponentialHistogram(100_000, 0.05)
    histogram.add(np.arange(200_000), np.ones(200_000, np.int64))
    assert histogram.stored <= (10 + 2) * 17
    answer = histogram.answer(199_999)
    assert abs(answer.value - 100_000) <= 5_000
    assert histogram.answer(400_000).high == 0


def test_a_histogram_refuses_what_it_cannot_count() -> None:
    histogram = ExponentialHistogram(10, 0.1)
    with pytest.raises(BadInput, match="amounts below 0"):
        histogram.add(np.array([1]), np.array([-1]))
    histogram.add(np.array([5]), np.array([1]))
    with pytest.raises(BadInput, match="the instant 4 after 5"):
        histogram.add(np.array([4]), np.array([1]))
    with pytest.raises(InvalidSetting, match="an error between 0 and 1"):
        ExponentialHistogram(10, 1.0)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 50), st.sampled_from("ab"), st.none() | st.integers(-9, 9)),
        min_size=1,
        max_size=30,
    ),
    batch=st.integers(1, 10),
    half_life=st.integers(1, 20),
)
def test_a_decayed_sum_is_that_of_the_rows_at_every_instant(
    rows: list[tuple[int, str, int | None]], batch: int, half_life: int
) -> None:
    decayed = DecayedSum("x", ("k",), half_life)
    for start in range(0, len(rows), batch):
        instants, keys, values = zip(*rows[start : start + batch], strict=True)
        table = pa.table({"k": keys, "x": pa.array(values, pa.int64())})
        decayed.add(table, np.array(instants))
        seen = rows[: start + batch]
        last = max(row[0] for row in seen)
        for now in (last, last + 7):
            exact = {
                key: sum((x or 0) * 2 ** (-(now - ts) / half_life) for ts, k, x in seen if k == key)
                for key in {row[1] for row in seen}
            }
            given_rows = decayed.answer(now).to_pylist()
            assert {row["k"] for row in given_rows} == exact.keys()
            for row in given_rows:
                assert isclose(row["value"], exact[row["k"]], rel_tol=1e-9, abs_tol=1e-9)
    with pytest.raises(BadInput, match="before the last row"):
        decayed.answer(last - 1)


@settings(max_examples=settings().max_examples // 3)
@given(
    values=st.lists(st.none() | st.integers(-5, 5), min_size=1, max_size=25),
    cuts=st.integers(1, 9),
    step=st.integers(1, 4),
    function=st.sampled_from(["SUM", "MAX", "COUNT DISTINCT"]),
)
def test_any_n_of_the_last_n_rows(
    values: list[int | None], cuts: int, step: int, function: str
) -> None:
    call = Aggregate(function, "x")
    windows = RowWindows(call, pa.schema({"x": pa.int64()}), most=4 * step, step=step)
    for start in range(0, len(values), cuts):
        windows.append(pa.table({"x": pa.array(values[start : start + cuts], pa.int64())}))
        seen = values[: start + cuts]
        full = seen[: len(seen) // step * step]
        for n in range(step, 4 * step + 1, step):
            present = [value for value in full[-n:] if value is not None]
            exact = {
                "SUM": sum(present) if present else None,
                "MAX": max(present, default=None),
                "COUNT DISTINCT": len(set(present)),
            }[function]
            rows = windows.answer(n).to_pylist()
            assert (rows[0]["value"] if rows else exact) == exact
            assert bool(rows) == bool(full)
    with pytest.raises(InvalidSetting, match="the last 0 rows"):
        windows.answer(0)


def test_what_a_histogram_keeps_does_not_depend_on_who_asks() -> None:
    """What has expired is gone before anything is merged with it."""
    instants = np.array([1, 2, 3, 4, 5, 6, 7, 101, 102, 103, 104, 105, 106, 107, 108, 209])
    amounts = np.full(len(instants), 3, np.int64)
    at_once, asked = (ExponentialHistogram(length=100, error=0.3) for _ in range(2))
    at_once.add(instants, amounts)
    for place in range(len(instants)):
        asked.add(instants[place : place + 1], amounts[:1])
        asked.answer(int(instants[place]) + 1)
        again = ExponentialHistogram.restored(100, 0.3, asked.stored_form)
        assert again.stored_form == asked.stored_form
    assert at_once.stored_form == asked.stored_form
