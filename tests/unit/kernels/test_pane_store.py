"""Panes of windows of different lengths: each is cut as long as a window needs the cut."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from mayfly.cql import catalog_after, parse
from tests.property.shared_runs import results_of, runner_of

SECOND = 1_000_000
CATALOG = catalog_after(
    parse("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) FROM json('in') TIMESTAMP BY ts;")
)


def test_what_left_a_short_window_is_not_merged_with_what_is_in_it(tmp_path: Path) -> None:
    """Old rows are cut at the minutes of the long window alone, but not beyond what is old."""
    queries = {
        "long": "SELECT k, SUM(v) AS v FROM s [RANGE 10 min SLIDE 1 min] GROUP BY k",
        "short": "SELECT k, SUM(v) AS v FROM s [RANGE 30 s SLIDE 1 s] GROUP BY k",
    }
    runner = runner_of(tmp_path, CATALOG, queries, 1)
    rows = {10: 100, 60: 5} | dict.fromkeys((70, 71, 72, 73, 74, 75, 80, 85, 95), 1)
    for second, value in rows.items():
        stamp = pa.array([second * SECOND], pa.timestamp("us", "UTC"))
        runner.feed({"s": pa.table({"ts": stamp, "k": [1], "v": [value]})}, {})
    answers = results_of(runner, "short").to_pylist()
    for instant in range(10, 95):
        shown = [a["v"] for a in answers if a["ts"] <= instant * SECOND < a["exp"]]
        inside = [value for second, value in rows.items() if instant - 30 < second <= instant]
        assert shown == ([sum(inside)] if inside else []), instant
