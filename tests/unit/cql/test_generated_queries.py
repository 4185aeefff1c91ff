"""The generator of queries: its windows by hand-worked cases, and that it covers the language."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from mayfly.plan.window_kinds import (
    Landmark,
    Now,
    PartitionRows,
    Range,
    RowsWindow,
    Slide,
    Unbounded,
    Window,
)
from mayfly.testing.query_mutations import broken, damaged, respelled
from mayfly.testing.random_queries import SHAPES, WindowTable, alive_at, random_query

ROWS = [
    {"ts": ts, "seq": seq, "k": k}
    for seq, (ts, k) in enumerate([(10, 1), (20, 2), (20, 1), (30, None), (41, 1), (55, None)])
]


@pytest.mark.parametrize(
    ("window", "at", "alive"),
    [
        (Unbounded(), 20, [0, 1, 2]),
        (Range(duration=10), 29, [1, 2]),
        (Range(duration=10), 30, [3]),
        (Range(duration=10, slide=Slide(period=25)), 49, [1, 2]),
        (Range(duration=10, slide=Slide(period=25)), 50, [4]),
        (Range(duration=10, slide=Slide(period=25, origin=4)), 53, [1, 2]),
        (Range(duration=10, slide=Slide(period=25, origin=4)), 54, []),
        (Now(), 20, [1, 2]),
        (Now(), 21, []),
        (RowsWindow(count=2), 20, [1, 2]),
        (RowsWindow(count=2), 30, [2, 3]),
        (RowsWindow(count=2, slide=Slide(rows=3)), 41, [1, 2]),
        (RowsWindow(count=2, slide=Slide(rows=3)), 55, [4, 5]),
        (RowsWindow(count=3, slide=Slide(period=40)), 60, [1, 2, 3]),
        (PartitionRows(partition_by=("k",), count=1), 41, [1, 3, 4]),
        (PartitionRows(partition_by=("k",), count=1), 55, [1, 4, 5]),
        (PartitionRows(partition_by=("k",), count=2, duration=20), 41, [3, 4]),
        (Landmark(start=20), 30, [1, 2, 3]),
        (Landmark(start=20, until=30), 55, [1, 2]),
    ],
)
def test_the_rows_alive_at_an_instant(window: Window, at: int, alive: list[int]) -> None:
    found = alive_at(WindowTable("t1", "s1", window), ROWS, at)
    assert sorted(row["seq"] for row in found) == alive


def test_rows_are_filtered_before_a_window_over_a_sub_query() -> None:
    def keep(row: Any) -> bool:
        return bool(row["k"] == 1)

    found = alive_at(WindowTable("t1", "s1", RowsWindow(count=2), keep), ROWS, 55)
    assert [row["seq"] for row in found] == [2, 4]


def test_the_same_seed_gives_the_same_query() -> None:
    assert random_query(Random(7)) == random_query(Random(7))


def test_every_shape_and_window_occurs() -> None:
    queries = [random_query(Random(seed)) for seed in range(300)]
    assert Counter(query.shape for query in queries).keys() == set(SHAPES)
    windows = [table.window for query in queries for table in query.tables]
    assert {type(w) for w in windows} == {
        Unbounded,
        Range,
        Now,
        RowsWindow,
        PartitionRows,
        Landmark,
    }
    assert any(window.slide and window.slide.origin for window in windows)
    texts = " ".join(query.cql for query in queries)
    for word in ("MEDIAN", "QUANTILE", "DISTINCT", "HAVING", "CASE", "Dstream", "LIMIT", "JOIN"):
        assert word in texts
    joins = [len(query.tables) for query in queries if query.shape == "join"]
    assert set(joins) == {2, 3, 4}
    selves = [q for q in queries if len({t.stream for t in q.tables}) < len(q.tables)]
    assert selves


def test_mutations_change_what_they_should() -> None:
    text = random_query(Random(3), "join").cql
    rng = Random(1)
    assert respelled(text, rng).lower() != text.lower()
    assert damaged(text, rng) != text
    found = Counter(
        mistake.mistake
        for seed in range(300)
        if (mistake := broken(random_query(Random(seed)).cql, Random(seed)))
    )
    assert len(found) >= 9
