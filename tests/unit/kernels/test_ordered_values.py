"""FIRST, LAST, MIN_BY, MAX_BY and lists: by the order of the data, whatever came when."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import LocalSession
from mayfly.errors import LimitExceeded
from mayfly.kernels import resident
from mayfly.kernels.ordered_values import ranks_of_entries

Row = dict[str, Any]
COLUMNS = {"ts": "BIGINT", "seq": "BIGINT", "k": "BIGINT", "v": "BIGINT", "g": "STRING"}


def run_of(call: str, *, window: str = "[RANGE 6 us]", **options: Any) -> Any:
    session = LocalSession()
    session.stream("s", COLUMNS, sequence=["seq"], slack="3 us", **options)
    return session.query(f"SELECT k, {call} AS a FROM s {window} GROUP BY k")


def fed(run: Any, rows: list[Row], size: int) -> Any:
    for start in range(0, len(rows), size):
        run.feed({"s": rows[start : start + size]})
    run.feed(heartbeats={"s": 40})
    return run


def order_of(row: Row) -> tuple[int, int]:
    return row["ts"], row["seq"]


def text_of(rows: list[Row]) -> str | None:
    texts = [row["g"] for row in sorted(rows, key=order_of) if row["g"] is not None]
    return "-".join(texts) if texts else None


def with_value(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["v"] is not None]


def taken(rows: list[Row], key: Callable[[Row], Any], name: str) -> Any:
    return min(rows, key=key)[name] if rows else None


MODELS: dict[str, Callable[[list[Row]], Any]] = {
    "FIRST(v)": lambda rows: min(rows, key=order_of)["v"],
    "LAST(v)": lambda rows: max(rows, key=order_of)["v"],
    "LAST(v) IGNORE NULLS": lambda rows: taken(
        with_value(rows), lambda row: [-part for part in order_of(row)], "v"
    ),
    "MIN_BY(g, v)": lambda rows: taken(
        with_value(rows), lambda row: (row["v"], *order_of(row)), "g"
    ),
    "MAX_BY(g, v)": lambda rows: taken(
        with_value(rows), lambda row: (-row["v"], *order_of(row)), "g"
    ),
    "MAX_BY(g, v) FILTER (WHERE seq % 2 = 0)": lambda rows: taken(
        [row for row in with_value(rows) if row["seq"] % 2 == 0],
        lambda row: (-row["v"], *order_of(row)),
        "g",
    ),
    "COLLECT_LIST(v)": lambda rows: [row["v"] for row in sorted(with_value(rows), key=order_of)],
    "ARRAY_AGG(v ORDER BY v DESC)": lambda rows: sorted(
        (row["v"] for row in with_value(rows)), reverse=True
    ),
    "STRING_AGG(g, '-')": text_of,
}

values = st.none() | st.integers(-2, 2)
texts = st.sampled_from([None, "a", "b", "é", ""])
entries = st.tuples(st.integers(0, 14), st.integers(0, 1), values, texts)


@given(
    entries=st.lists(entries, min_size=1, max_size=12),
    size=st.integers(1, 6),
    seed=st.integers(0, 9),
    large=st.booleans(),
    call=st.sampled_from(sorted(MODELS)),
)
def test_the_order_is_that_of_the_data(
    entries: list[tuple[int, int, int | None, str | None]],
    size: int,
    seed: int,
    large: bool,
    call: str,
) -> None:
    """Rows come in any order within the slack, in any batches; large groups stay in memory."""
    rows: list[Row] = [
        {"ts": ts, "seq": number, "k": k, "v": v, "g": g}
        for number, (ts, k, v, g) in enumerate(sorted(entries, key=lambda entry: entry[0]))
    ]
    random = Random(seed)
    arrived = sorted(rows, key=lambda row: row["ts"] + random.randint(0, 2))
    least = resident.LEAST_ROWS
    resident.LEAST_ROWS = 1 if large else least
    try:
        run = fed(run_of(call), arrived, size)
    finally:
        resident.LEAST_ROWS = least
    for moment in range(20):
        alive = [row for row in rows if row["ts"] <= moment < row["ts"] + 6]
        groups = {row["k"]: [r for r in alive if r["k"] == row["k"]] for row in alive}
        answer = {row["k"]: row["a"] for row in run.snapshot(moment).to_pylist()}
        assert answer == {k: MODELS[call](members) for k, members in groups.items()}, moment


def test_rows_that_are_equal_are_listed_each() -> None:
    run = run_of("COLLECT_LIST(v)")
    fed(run, [{"ts": 1, "seq": 0, "k": 1, "v": 7, "g": "a"}] * 3, 2)
    assert run.snapshot(1).to_pylist() == [{"k": 1, "a": [7, 7, 7]}]


def test_without_a_sequence_ties_go_by_the_values_of_the_row() -> None:
    session = LocalSession()
    session.stream("s", COLUMNS)
    run = session.query("SELECT FIRST(g) AS a, LAST(g) AS b FROM s [RANGE 6 us]")
    rows = [
        {"ts": 1, "seq": 2, "k": 1, "v": 1, "g": "a"},
        {"ts": 1, "seq": 1, "k": 1, "v": 2, "g": "b"},
    ]
    run.feed({"s": rows})
    run.finish()
    assert run.snapshot(1).to_pylist() == [{"a": "b", "b": "a"}]


def test_of_a_join_the_pair_that_came_first_is_first() -> None:
    session = LocalSession()
    session.stream("s", COLUMNS, sequence=["seq"])
    session.stream("t", COLUMNS, sequence=["seq"])
    run = session.query(
        "SELECT FIRST(t.g) AS a, LAST(t.g) AS b FROM s [RANGE 60 us], t [RANGE 60 us]"
        " WHERE s.k = t.k"
    )
    row = {"seq": 0, "k": 1, "v": 1}
    left = [row | {"ts": 1, "g": "x"}, row | {"ts": 20, "g": "y"}]
    right = [row | {"ts": 9, "g": "later"}, row | {"ts": 3, "g": "early"}]
    run.feed({"s": left, "t": right}, heartbeats={"s": 30, "t": 30})
    assert run.snapshot(9).to_pylist() == [{"a": "early", "b": "later"}]
    assert run.snapshot(20).to_pylist() == [{"a": "early", "b": "later"}]


@pytest.mark.parametrize(
    ("order", "ranks"),
    [
        (["ASC", "ASC"], [1, 0, 2, 1]),
        (["DESC", "ASC"], [0, 2, 1, 0]),
        (["ASC NULLS LAST", "DESC"], [1, 2, 0, 1]),
        (["DESC NULLS FIRST", "DESC"], [2, 0, 1, 2]),
    ],
)
def test_ranks_of_entries(order: list[str], ranks: list[int]) -> None:
    entries = pa.array(
        [{"a": 5, "v": "x"}, {"a": None, "v": "x"}, {"a": 5, "v": "y"}, {"a": 5, "v": "x"}]
    )
    assert ranks_of_entries(entries, order).tolist() == ranks


def test_lists_that_would_fill_the_memory_are_refused() -> None:
    session = LocalSession()
    session.stream("s", COLUMNS)
    run = session.query("SELECT COLLECT_LIST(v) FROM s [RANGE 1 h]", max_state_bytes=1 << 20)
    rows = [{"ts": ts, "seq": 0, "k": 0, "v": ts, "g": ""} for ts in range(1000)]
    with pytest.raises(LimitExceeded, match="COLLECT_LIST over"):
        run.feed({"s": rows}, heartbeats={"s": 2000})
