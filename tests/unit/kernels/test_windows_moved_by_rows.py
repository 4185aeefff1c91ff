"""SLIDE n ROWS: a window changes when the last of n rows comes, and at no other instant."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly import LocalSession
from mayfly.plan.window_kinds import PartitionRows, Range, RowsWindow, Slide, Unbounded, Window
from mayfly.testing.random_queries import WindowTable, alive_at

SCHEMA = pa.schema([("ts", pa.int64()), ("seq", pa.int64()), ("k", pa.int64())])
WINDOWS: dict[str, Window] = {
    "RANGE 10 us": Range(duration=10),
    "ROWS 3": RowsWindow(count=3),
    "PARTITION BY k ROWS 2 RANGE 8 us": PartitionRows(partition_by=("k",), count=2, duration=8),
    "UNBOUNDED": Unbounded(),
}


@pytest.mark.parametrize("strategy", ["UPA", "NT"])
@pytest.mark.parametrize("text", WINDOWS)
@settings(max_examples=settings().max_examples // 3)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1)), max_size=8),
    step=st.integers(1, 4),
    cut=st.integers(1, 5),
)
def test_nothing_leaves_between_two_moves(
    text: str, strategy: str, gaps: list[tuple[int, int]], step: int, cut: int
) -> None:
    rows: list[dict[str, Any]] = []
    for seq, (gap, key) in enumerate(gaps):
        rows.append({"ts": (rows[-1]["ts"] if rows else 0) + gap, "seq": seq, "k": key})
    session = LocalSession()
    session.stream("s", SCHEMA, sequence=["seq"])
    run = session.query(f"SELECT seq FROM s [{text} SLIDE {step} ROWS]", strategy=strategy)
    for start in range(0, len(rows), cut):
        run.feed({"s": pa.Table.from_pylist(rows[start : start + cut], SCHEMA)})
    end = rows[-1]["ts"] + 30 if rows else 30
    run.feed(heartbeats={"s": end})
    window = WINDOWS[text].with_options(Slide(rows=step), internal=False)
    points = {row["ts"] + after for row in rows for after in (-1, 0, 8, 10)}
    for at in sorted(points):
        alive = alive_at(WindowTable("s", "s", window), rows, at)
        assert Counter(run.snapshot(at)["seq"].to_pylist()) == Counter(r["seq"] for r in alive)
