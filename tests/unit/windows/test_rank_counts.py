"""Holistic aggregates of groups, however the rows are cut into batches, against sorted lists."""

from __future__ import annotations

from collections import Counter
from math import ceil
from statistics import variance
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly import LocalSession
from mayfly.windows.rank_counts import Ranked, Script, _ranks_within

AGGREGATES = (
    "MEDIAN(x) AS median, QUANTILE(x, 0.3) AS quantile, COUNT(DISTINCT x) AS distinct_x, "
    "TOP(x, 2) AS top, MODE(t) AS mode, COLLECT_SET(x) AS held, VAR(d) AS spread, "
    "MIN(t) AS low, MAX(t) AS high, MIN(d) AS least, "
    "MAX(x) AS most, SUM(d) AS total, AVG(d) AS mean"
)
ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 1), st.none() | st.integers(0, 5)), max_size=30
)


def model(rows: list[tuple[int, int, int | None]], at: int, window: int) -> dict[int, Any]:
    answers: dict[int, Any] = {}
    for key in (0, 1):
        alive = [x for ts, k, x in rows if k == key and ts <= at < ts + window]
        if not alive:
            continue
        present = sorted(x for x in alive if x is not None)
        size, counts = len(present), Counter(present)
        floats = [x / 10 for x in present]
        answers[key] = {
            "median": (present[(size - 1) // 2] + present[size // 2]) / 2 if size else None,
            "quantile": present[max(1, ceil(0.3 * size - 1e-9)) - 1] if size else None,
            "distinct_x": len(counts),
            "top": [
                {"value": v, "count": c}
                for v, c in sorted(counts.items(), key=lambda it: (-it[1], it[0]))[:2]
            ],
            "mode": f"t{min(counts, key=lambda v: (-counts[v], v))}" if size else None,
            "held": sorted(counts),
            "spread": pytest.approx(variance(floats), abs=1e-12) if size > 1 else None,
            "least": min(floats) if size else None,
            "most": max(present) if size else None,
            "low": f"t{present[0]}" if size else None,
            "high": f"t{present[-1]}" if size else None,
            "total": pytest.approx(sum(floats)) if size else None,
            "mean": pytest.approx(sum(floats) / size) if size else None,
        }
    return answers


@given(rows=ROWS, window=st.integers(1, 15), cuts=st.lists(st.integers(0, 45), max_size=5))
def test_answers_are_those_of_the_rows_alive(
    rows: list[tuple[int, int, int | None]], window: int, cuts: list[int]
) -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "k": "BIGINT", "x": "BIGINT", "t": "STRING",
                         "d": "DOUBLE"})  # fmt: skip
    run = session.query(f"SELECT k, {AGGREGATES} FROM s [RANGE {window} MICROSECONDS] GROUP BY k")
    ordered, edges = sorted(rows, key=lambda row: row[0]), [*sorted(cuts), 100]
    for begin, end in zip([0, *edges], edges, strict=False):
        part = [row for row in ordered if begin <= row[0] < end]
        run.feed({"s": table(part)}, heartbeats={"s": end})
        for at in (end - 1, end - 3):
            if at < begin:
                continue
            answers = {row.pop("k"): row for row in run.snapshot(at).to_pylist()}
            assert answers == model(ordered, at, window)


def table(rows: list[tuple[int, int, int | None]]) -> pa.Table:
    xs = [x for _, _, x in rows]
    return pa.table(
        {
            "ts": pa.array([ts for ts, _, _ in rows], pa.int64()),
            "k": pa.array([k for _, k, _ in rows], pa.int64()),
            "x": pa.array(xs, pa.int64()),
            "t": pa.array([None if x is None else f"t{x}" for x in xs], pa.string()),
            "d": pa.array([None if x is None else x / 10 for x in xs], pa.float64()),
        }
    )


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 5)), max_size=40))
def test_ranks_by_table_are_ranks_by_sort(rows: list[tuple[int, int]]) -> None:
    """Keys that lie close together are ranked by a table, others by a sort."""
    groups = np.array([group for group, _ in rows], np.int64)
    keys = np.array([key for _, key in rows], np.int64)
    by_table, by_sort = (_ranks_within(groups, keys * far, 3) for far in (1, 10**9))
    assert by_table[0].tolist() == by_sort[0].tolist()
    expected = sorted(set(rows))
    for places, first in (by_table, by_sort):
        assert [expected[place] for place in places] == rows
        assert [rows[row] for row in first] == expected


HELD = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=12)


WHOLE = pa.int64()


def columns(rows: list[tuple[int, int]], kind: pa.DataType = WHOLE) -> tuple[pa.Array, Any]:
    """Values and their groups."""
    values = pa.array([x for _, x in rows], pa.int64()).cast(kind)
    return values, np.array([g for g, _ in rows], np.int64)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.decimal128(20, 1)], ids=str)
@given(before=HELD, came=HELD)
@example(before=[(0, 2), (0, 4), (1, 5)], came=[(0, 1), (0, 3), (0, 3), (2, 2)])
def test_counts_go_from_step_to_step(
    kind: pa.DataType, before: list[tuple[int, int]], came: list[tuple[int, int]]
) -> None:
    """What one step leaves of a group stands for its rows in the next one."""
    before, came = sorted(before), sorted(came)
    first = Ranked.of(*columns([], kind), *columns(before, kind), 3)
    left = first.after(np.ones(len(before), np.int64), np.array([0, 2]))
    counts = Counter(before)
    for group in (0, 2):
        values = sorted(x for g, x in counts if g == group)
        assert [int(x) for x in left[group][0].tolist()] == values
        assert left[group][1].tolist() == [counts[group, x] for x in values]
    others = [row for row in before if row[0] == 1]
    known = Ranked.of(*columns(others, kind), *columns(came, kind), 3, left)
    plain = Ranked.of(*columns(before, kind), *columns(came, kind), 3)
    assert known.values.to_pylist() == plain.values.to_pylist()
    for name in ("keys", "starts", "counts", "ids"):
        assert getattr(known, name).tolist() == getattr(plain, name).tolist(), name


def test_a_set_forgets_what_left() -> None:
    ranked = Ranked.of(*columns([(0, 5), (0, 7)]), *columns([(0, 5), (0, 6)]), 1)
    script = Script(np.array([-1, 1]), np.array([0, 1]), np.array([0, 0]))
    assert ranked.at(ranked.listed(script, 3)).to_pylist() == [7, 6, 7]
