"""What OVER and ASOF JOIN keep, which rows an event touches, and what they say of wrong values."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from mayfly import LocalSession
from mayfly.errors import BadInput
from mayfly.runtime.in_process import ContinuousRun

BY_KEY = "PARTITION BY k ORDER BY ts"
ASOF = "SELECT s.x, t.x AS o FROM s ASOF JOIN t MATCH_CONDITION (t.ts <= s.ts) ON s.k = t.k"


def started(query: str) -> ContinuousRun:
    session = LocalSession()
    for name in "st":
        session.stream(name, {"ts": "BIGINT", "k": "BIGINT", "x": "BIGINT", "y": "DOUBLE"})
    return session.query(query)


def rows(first: int, count: int, keys: int = 4) -> pa.Table:
    """One row per instant, the keys in turn."""
    number = np.arange(first, first + count)
    return pa.table({"ts": number, "k": number % keys, "x": number, "y": number / 3})


def kept(run: ContinuousRun, *kinds: str) -> int:
    return sum(
        state.rows
        for task, states in run.states.items()
        for state in states
        if type(task.operator).__name__ in kinds
    )


@pytest.mark.parametrize(
    ("call", "most"),
    [
        (f"SUM(x) OVER ({BY_KEY} RANGE BETWEEN 20 PRECEDING AND CURRENT ROW)", 21),
        (f"SUM(x) OVER ({BY_KEY} RANGE BETWEEN 20 PRECEDING AND 5 PRECEDING)", 21),
        (f"SUM(x) OVER ({BY_KEY} ROWS 3 PRECEDING)", 4 * 3),
        (f"LAG(x, 5) OVER ({BY_KEY})", 4 * 5),
        (f"ROW_NUMBER() OVER ({BY_KEY})", 4),
        (f"SUM(y) OVER ({BY_KEY})", 4),
        (f"MIN(x) OVER ({BY_KEY})", 4),
        (f"STDDEV(y) OVER ({BY_KEY})", 4),
        (f"FIRST_VALUE(x) OVER ({BY_KEY})", 4),
        (f"LAST_VALUE(x) OVER ({BY_KEY})", 0),
        (f"COUNT(*) OVER ({BY_KEY} RANGE CURRENT ROW)", 0),
    ],
)
def test_only_what_a_later_frame_can_reach_is_kept(call: str, most: int) -> None:
    run = started(f"SELECT k, {call} AS c FROM s")
    for batch in range(5):
        run.feed({"s": rows(40 * batch, 40)})
    assert kept(run, "OverRows") <= most
    if "RANGE BETWEEN" in call:
        run.feed({}, {"s": 10_000})
        assert kept(run, "OverRows") == 0


def test_one_right_row_per_key_is_kept() -> None:
    run = started(
        "SELECT s.x, t.x AS o FROM s ASOF JOIN t MATCH_CONDITION (t.ts <= s.ts) ON s.k = t.k"
    )
    for batch in range(5):
        run.feed({"s": rows(40 * batch, 40), "t": rows(40 * batch, 40)})
    assert kept(run, "AsofRows") == 4
    assert run.snapshot().num_rows == 199


def touched(run: ContinuousRun) -> int:
    return sum(report.rows_touched for report in run.reports())


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT SUM(x) OVER ({BY_KEY} ROWS 2 PRECEDING) AS c FROM s [RANGE 4000 us]",
        f"SELECT SUM(x) OVER ({BY_KEY} RANGE BETWEEN 9 PRECEDING AND 9 FOLLOWING) AS c "
        "FROM s [RANGE 4000 us]",
        f"SELECT LAG(x) OVER ({BY_KEY}) AS a, LEAD(x) OVER ({BY_KEY}) AS b FROM s [RANGE 4000 us]",
        "SELECT s.x, t.x AS o FROM s [RANGE 4000 us] ASOF JOIN t [RANGE 4000 us] "
        "MATCH_CONDITION (t.ts <= s.ts) ON s.k = t.k",
    ],
)
def test_an_event_touches_the_rows_whose_frames_hold_it(query: str) -> None:
    """Four partitions of a thousand rows: a step reads each once (its rows and what is shown of
    them), and of 400 rows that come and 400 that go each concerns few."""
    run = started(query)
    names = [name for name in "st" if name in run.clocks.streams]
    run.feed({name: rows(0, 4_000) for name in names})
    before = touched(run)
    run.feed({name: rows(4_000, 400) for name in names})
    read = 3 * 4 * 1_000 + 3 * 4 * 200
    assert touched(run) - before < read + 800 * 12


def test_the_last_of_equal_times_is_the_closest_before() -> None:
    run = started(
        "SELECT s.x, t.x AS o FROM s ASOF JOIN t MATCH_CONDITION (t.ts <= s.ts) ON s.k = t.k"
    )
    right = pa.table({"ts": [1, 1, 2], "k": [0, 0, 0], "x": [7, 9, 3], "y": [0.0, 0.0, 0.0]})
    left = pa.table({"ts": [1, 2, 3], "k": [0, 0, None], "x": [1, 2, 3], "y": [0.0, 0.0, 0.0]})
    run.feed({"s": left, "t": right})
    run.finish()
    assert Counter(zip(*run.snapshot().to_pydict().values(), strict=True)) == Counter(
        [(1, 9), (2, 3)]
    )


def test_a_sum_that_does_not_fit_says_so() -> None:
    run = started(f"SELECT SUM(x) OVER ({BY_KEY}) AS c FROM s")
    large = pa.table({"ts": [1, 2], "k": [0, 0], "x": [2**62, 2**62], "y": [0.0, 0.0]})
    with pytest.raises(BadInput, match="does not fit a BIGINT"):
        run.feed({"s": large}, {"s": 10})


def test_a_running_sum_passes_the_limit_where_the_frame_does_not() -> None:
    """Totals have 128 bits: the average of large numbers goes on."""
    run = started(f"SELECT AVG(x) OVER ({BY_KEY}) AS c FROM s")
    for instant in range(6):
        large = pa.table({"ts": [instant], "k": [0], "x": [2**62], "y": [0.0]})
        run.feed({"s": large})
    run.finish()
    assert set(run.snapshot()["c"].to_pylist()) == {float(2**62)}
