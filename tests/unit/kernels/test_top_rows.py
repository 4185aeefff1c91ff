"""Top-N: who moves up and who is pushed out, what is kept, and how many rows are looked at."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import LocalSession
from mayfly.checkpoint.operator_state import load_state, store_state
from mayfly.kernels.shown_rows import ShownRows
from mayfly.kernels.top_rows import TopRows
from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage.directory import Directory
from mayfly.storage.segment import Segment

COLUMNS = {"ts": "BIGINT", "n": "BIGINT", "k": "BIGINT", "x": "DOUBLE", "t": "STRING"}


def run_of(query: str, strategy: str = "UPA") -> ContinuousRun:
    session = LocalSession()
    session.stream("s", COLUMNS, sequence=["n"])
    return session.query(query, strategy=strategy)


def rows(*values: tuple[int, int, float | None]) -> dict[str, list[dict[str, Any]]]:
    return {
        "s": [
            {"ts": ts, "n": n, "k": k, "x": x, "t": f"t{k}"} for n, (ts, k, x) in enumerate(values)
        ]
    }


def shown(run: ContinuousRun, instant: int) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in run.snapshot(instant).to_pylist())


def state_of(run: ContinuousRun) -> tuple[Any, ShownRows]:
    (task,) = [task for task in run.program.tasks() if isinstance(task.operator, TopRows)]
    (state,) = run.states[task]
    return task, state


def test_the_next_row_moves_up_when_one_expires() -> None:
    run = run_of("SELECT k, x FROM s [RANGE 10 us] ORDER BY x DESC LIMIT 2")
    run.feed(rows((0, 1, 9.0), (3, 2, 5.0), (4, 3, 7.0), (6, 4, None)), {"s": 20})
    assert shown(run, 2) == [(1, 9.0)]
    assert shown(run, 3) == [(1, 9.0), (2, 5.0)]
    assert shown(run, 4) == [(1, 9.0), (3, 7.0)]
    assert shown(run, 10) == [(2, 5.0), (3, 7.0)]
    assert run.snapshot(13).sort_by("k").to_pylist() == [{"k": 3, "x": 7.0}, {"k": 4, "x": None}]
    assert shown(run, 16) == []


def test_offset_passes_over_the_first() -> None:
    run = run_of("SELECT x FROM s [RANGE 10 us] ORDER BY x LIMIT 2 OFFSET 1")
    run.feed(rows((0, 0, 1.0), (1, 0, 2.0), (2, 0, 3.0), (3, 0, 4.0)), {"s": 20})
    answers = [shown(run, instant) for instant in (0, 1, 3, 10, 11, 12)]
    assert answers == [[], [(2.0,)], [(2.0,), (3.0,)], [(3.0,), (4.0,)], [(4.0,)], []]


def test_groups_change_places() -> None:
    run = run_of("SELECT k, COUNT(*) AS n FROM s [RANGE 9 us] GROUP BY k ORDER BY n DESC LIMIT 1")
    run.feed(rows((0, 1, 0.0), (1, 2, 0.0), (2, 2, 0.0), (3, 1, 0.0)), {"s": 20})
    answers = [shown(run, instant) for instant in (0, 2, 3, 9, 10, 11)]
    assert answers == [[(1, 1)], [(2, 2)], [(1, 2)], [(2, 2)], [(1, 1)], [(1, 1)]]


def test_a_row_is_told_once_for_as_long_as_it_is_among_the_first() -> None:
    run = run_of("SELECT x FROM s [RANGE 100 us] ORDER BY x LIMIT 3")
    for number in range(40):
        run.feed(rows((number, 0, float(number % 20))), {"s": number + 1})
    lives = run.lifetimes().to_pylist()
    assert len(lives) == 3 + 1, "the second 0 pushes out 2; the older of two stays"


def test_a_row_is_pushed_out_in_its_last_instant() -> None:
    run = run_of("SELECT x FROM s [RANGE 10 us] ORDER BY x LIMIT 1")
    run.feed(rows((0, 0, 1.0)), {"s": 1})
    run.feed(rows((5, 0, 2.0)), {"s": 6})
    run.feed(rows((9, 0, 0.0)), {"s": 30})
    assert [shown(run, instant) for instant in (8, 9, 10)] == [[(1.0,)], [(0.0,)], [(0.0,)]]


@pytest.mark.parametrize("strategy", ["UPA", "NT", "DIRECT"])
@given(
    seed=st.integers(0, 2**40),
    window=st.sampled_from(["RANGE 7 us", "ROWS 5", "UNBOUNDED", "RANGE 9 us SLIDE 3 us"]),
    order=st.sampled_from(["x DESC", "t, x", "k % 2, x NULLS LAST", "k DESC NULLS FIRST, n", ""]),
)
def test_every_instant(strategy: str, seed: int, window: str, order: str) -> None:
    """Against sorting what is alive, for ties, NULLs, bursts, and batches cut anywhere."""
    rng = Random(seed)
    clause = f"ORDER BY {order} " if order else ""
    text = f"SELECT k, x, t, n FROM s [{window}] {clause}LIMIT 3 OFFSET {rng.randint(0, 2)}"
    whole = f"SELECT Rstream(k, x, t, n) FROM s [{window}] {text[text.index(']') + 2 :]}"
    view, listed = run_of(text, strategy), run_of(whole)
    instant = 0
    for _ in range(rng.randint(1, 8)):
        batch: list[dict[str, Any]] = []
        for _ in range(rng.choice((0, 1, 3, 12))):
            instant += rng.choice((0, 0, 1, 2))
            k, x = rng.choice((0, 1, 2, None)), rng.choice((0.5, 1.0, None, float("nan")))
            t = None if k is None else "prefixes" * k
            batch.append({"ts": instant, "n": len(batch), "k": k, "x": x, "t": t})
        view.feed({"s": batch}, {"s": instant})
        listed.feed({"s": batch}, {"s": instant})
    for run in (view, listed):
        run.feed({}, {"s": instant + 20})
    answers: dict[int, list[str]] = {}
    for row in listed.changes().to_pylist():
        answers.setdefault(row.pop("ts"), []).append(repr(row))
    now: list[str] = []
    for moment in range(instant + 20):
        now = sorted(answers.get(moment, now))
        if moment in answers or view.snapshot(moment).num_rows:
            assert sorted(map(repr, view.snapshot(moment).to_pylist())) == now, (text, moment)


def batch(first: int, size: int, values: int = 10**9) -> dict[str, pa.Table]:
    rng, number = np.random.default_rng(first), np.arange(first, first + size)
    x = rng.integers(0, values, size).astype(np.float64)
    texts = pa.array(x).cast(pa.string())
    return {"s": pa.table({"ts": number, "n": number, "k": number % 7, "x": x, "t": texts})}


def touched_per_row(query: str, window: int, values: int) -> float:
    step, steps = 100, 12
    run = run_of(query.format(window))
    for part in range(10):
        run.feed(batch(part * window // 10, window // 10, values))
    before = sum(report.rows_touched for report in run.reports())
    for number in range(steps):
        run.feed(batch(window + number * step, step, values))
    return (sum(report.rows_touched for report in run.reports()) - before) / (step * steps)


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("SELECT k, x FROM s [RANGE {} us] ORDER BY x DESC LIMIT 10", 10**9),
        ("SELECT k, x FROM s [ROWS {}] ORDER BY x DESC LIMIT 10", 10**9),
        ("SELECT k, x, n FROM s [RANGE {} us] ORDER BY k, x LIMIT 10 OFFSET 5", 4),
        ("SELECT k, n FROM s [ROWS {}] ORDER BY k, n DESC LIMIT 10", 4),
    ],
)
def test_rows_touched_do_not_grow_with_the_window(query: str, values: int) -> None:
    """At ten times the window and the same rate, at most 1.5 times as many."""
    small, large = (touched_per_row(query, window, values) for window in (2_000, 20_000))
    assert 1.0 <= large <= 1.5 * small


def test_rows_that_enough_better_ones_outlive_are_not_kept() -> None:
    run = run_of("SELECT x FROM s [RANGE 20000 us] ORDER BY x DESC LIMIT 10")
    for part in range(40):
        run.feed(batch(part * 1000, 1000))
    assert state_of(run)[1].members.rows < 2000


def test_explain_names_the_structure_and_why() -> None:
    session = LocalSession()
    session.stream("s", COLUMNS)
    text = str(session.explain("SELECT x FROM s [RANGE 1 s] ORDER BY x DESC LIMIT 10 OFFSET 2"))
    assert "early pruning: rows go that 12 better ones outlive" in text
    assert "a Fenwick tree over their best rows" in text
    assert "STR because of LIMIT at line 1: a better tuple pushes out another" in text
    text = str(session.explain("SELECT x FROM s [ROWS 20] ORDER BY x NULLS LAST LIMIT 10"))
    assert "no early pruning: negative tuples may delete what outlives a row" in text
    assert "BY x NULLS LAST LIMIT 10" in text


def test_a_stored_state_goes_on(tmp_path: Path) -> None:
    query = "SELECT k, x FROM s [RANGE 300 us] ORDER BY t DESC, n LIMIT 5"
    straight, stopped = run_of(query), run_of(query)
    directory = Directory.at(tmp_path, sync=False)
    segments: dict[str, Segment] = {}
    for part in range(6):
        for run in (straight, stopped):
            run.feed(batch(part * 100, 100, 50))
        task, state = state_of(stopped)
        stored, added, _ = store_state(state, f"state{part}", directory)
        segments |= {segment.path: segment for segment in added}
        stopped.states[task][0] = load_state(task.operator.state(), stored, segments, directory)
    assert straight.lifetimes().equals(stopped.lifetimes())
    assert straight.lifetimes().num_rows > 20
