"""Partial values of panes: what many rows become, however they are cut and merged."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mayfly.kernels.delta import payload
from mayfly.kernels.pane_partials import PaneNumber, PanePartials
from mayfly.plan.expressions import Column
from mayfly.plan.pane_functions import COUNT, MAX, MIN, ROWS, SUM
from mayfly.plan.types import BIGINT, DOUBLE, STRING, DataType, decimal
from mayfly.plan.window_kinds import Range, Slide

KINDS = {"k": STRING, "v": BIGINT, "x": DOUBLE, "t": STRING, "m": decimal(5, 2)}
RAW = payload(tuple(Column("s", name, kind) for name, kind in KINDS.items()))
LARGE = 2**63 - 1


def of(name: str) -> Column:
    return Column("s", name, KINDS[name])


def content(function: str, name: str | None, kind: DataType) -> PaneNumber:
    argument = None if name is None else of(name)
    return PaneNumber(function, argument, Column("", f"{function} {name}", kind))


CONTENTS = (
    content(ROWS, None, BIGINT),
    content(COUNT, "v", BIGINT),
    content(SUM, "v", BIGINT),
    content(MIN, "x", DOUBLE),
    content(MAX, "t", STRING),
    content(SUM, "m", decimal(38, 2)),
)


def partials(
    duration: int = 10, period: int = 4, origin: int = 0, values: str = ""
) -> PanePartials:
    told_apart = tuple(of(name) for name in values)
    named = tuple(Column("", one.name, one.type) for one in (of("k"), *told_apart))
    columns = payload((*named, *(one.column for one in CONTENTS)))
    window = Range(duration=duration, slide=Slide(period=period, origin=origin))
    return PanePartials("panes", (window,), (of("k"),), told_apart, CONTENTS, columns)


def rows_of(listed: list[dict[str, Any]]) -> pa.Table:
    names = [name.partition(".")[2] for name in RAW.names]
    arrays = [
        pa.array([row.get(name) for row in listed], one.type)
        for name, one in zip(names, RAW, strict=True)
    ]
    times = pa.array([row["ts"] for row in listed], pa.int64())
    return pa.table([*arrays, times], names=[*RAW.names, "_ts"])


def random_rows(seed: int, count: int) -> list[dict[str, Any]]:
    rng = Random(seed)
    return [
        {
            "ts": rng.randint(-30, 30),
            "k": rng.choice(("a", "b", None)),
            "v": rng.choice((1, -7, None, 5)),
            "x": rng.choice((0.5, -0.0, 0.0, math.nan, math.inf, None)),
            "t": rng.choice(("p", "q", "", None)),
            "m": rng.choice((Decimal("1.25"), Decimal("-900.01"), None)),
        }
        for _ in range(count)
    ]


def refreshes(ts: int, window: Range) -> tuple[int, int]:
    """The first refresh that shows a row, and the first that no longer does."""
    assert window.slide is not None
    assert window.slide.period is not None
    seen = [
        at
        for at in range(-100, 100)
        if (at - window.slide.origin) % window.slide.period == 0 and at - window.duration < ts <= at
    ]
    return (seen[0], seen[-1]) if seen else (0, -1)


def least(values: list[float]) -> float | None:
    numbers = [value for value in values if not math.isnan(value)]
    return (min(numbers) if numbers else math.nan) if values else None


def brute(listed: list[dict[str, Any]], window: Range) -> dict[Any, tuple[Any, ...]]:
    """Row by row, from the definition of what a refresh shows."""
    panes: dict[Any, list[dict[str, Any]]] = {}
    for row in listed:
        first, last = refreshes(row["ts"], window)
        if first <= last:
            panes.setdefault((row["k"], first, last), []).append(row)
    made = {}
    for pane, rows in panes.items():
        having = {n: [row[n] for row in rows if row[n] is not None] for n in "vxtm"}
        made[pane] = (
            len(rows),
            len(having["v"]),
            sum(having["v"]) if having["v"] else None,
            str(least(having["x"])).replace("-0.0", "0.0"),
            max(having["t"], default=None),
            sum(having["m"]) if having["m"] else None,
        )
    return made


def by_pane(table: pa.Table, window: Range) -> dict[Any, tuple[Any, ...]]:
    found: dict[Any, tuple[Any, ...]] = {}
    for row in table.to_pylist():
        key, *numbers, at = row.values()
        pane = key, *refreshes(at, window)
        assert pane not in found
        numbers[3] = str(numbers[3])
        found[pane] = tuple(numbers)
    return found


@pytest.mark.parametrize(
    ("duration", "period", "origin"), [(10, 5, 0), (10, 4, 1), (3, 7, -2), (1, 1, 0)]
)
def test_a_pane_has_the_numbers_of_its_rows(duration: int, period: int, origin: int) -> None:
    operator = partials(duration, period, origin)
    for seed in range(20):
        listed = random_rows(seed, seed * 3)
        found = by_pane(operator.prepared(rows_of(listed)), operator.windows[0])
        assert found == brute(listed, operator.windows[0])


@pytest.mark.parametrize("cuts", [2, 5])
def test_parts_of_panes_merge_to_what_their_rows_are(cuts: int) -> None:
    operator = partials()
    for seed in range(20):
        listed = random_rows(seed, 40)
        parts = [operator.prepared(rows_of(listed[at::cuts])) for at in range(cuts)]
        merged = operator.again.prepared(pa.concat_tables(parts))
        assert by_pane(merged, operator.windows[0]) == brute(listed, operator.windows[0])
        again = operator.again.again.prepared(merged)
        assert by_pane(again, operator.windows[0]) == brute(listed, operator.windows[0])


def test_a_sum_that_does_not_fit_is_left_apart() -> None:
    operator = partials()
    listed = [{"ts": 1, "k": "a", "v": LARGE}, {"ts": 2, "k": "a", "v": 1}]
    listed += [{"ts": 1, "k": "b", "v": LARGE}, {"ts": 2, "k": "b", "v": -LARGE}]
    found = operator.prepared(rows_of(listed))
    sums = list(zip(found[".k"].to_pylist(), found[".sum v"].to_pylist(), strict=True))
    assert sorted(sums) == [("a", 1), ("a", LARGE), ("b", 0)]
    merged = operator.again.prepared(found)
    assert sorted(merged[".sum v"].to_pylist()) == [0, 1, LARGE]
    lowest = [{"ts": 1, "k": "a", "v": -LARGE - 1}] * 2
    assert operator.prepared(rows_of(lowest))[".sum v"].to_pylist() == [-LARGE - 1] * 2


def test_values_that_are_asked_for_stay_apart() -> None:
    operator = partials(values="v")
    listed = [{"ts": 1, "k": "a", "v": v} for v in (1, 1, 2, None, None)]
    found = operator.prepared(rows_of(listed))
    assert sorted(zip(found[".v"].to_pylist(), found[".rows None"].to_pylist(), strict=True),
                  key=str) == [(1, 2), (2, 1), (None, 2)]  # fmt: skip


def test_times_at_the_ends_of_time_are_no_problem() -> None:
    operator = partials(duration=2**62, period=7)
    listed = [{"ts": 2**62 + 2**61, "k": "a", "v": 1}, {"ts": -(2**62), "k": "a", "v": 1}]
    assert operator.prepared(rows_of(listed)).num_rows == 2


def test_no_rows_have_no_panes() -> None:
    assert partials().prepared(rows_of([])).num_rows == 0
    assert np.array_equal(partials().again.columns.names, partials().columns.names)
