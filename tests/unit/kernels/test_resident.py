"""What large groups leave for the next step changes no answer, is bounded, and spares the rows."""

from __future__ import annotations

import gc
from collections.abc import Hashable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mayfly import LocalSession
from mayfly.checkpoint.operator_state import load_state, store_state
from mayfly.kernels import resident
from mayfly.kernels.delta import Delta
from mayfly.kernels.group_by import GroupRows, GroupState
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.lifetime_rows import RowRun
from mayfly.kernels.resident import RESIDENTS, Part, Residents, place_of
from mayfly.kernels.room import Touched
from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage.directory import Directory

CALLS = {
    "median": "MEDIAN(x)",
    "quantile": "QUANTILE(x, 0.3)",
    "distinct values": "COUNT(DISTINCT x)",
    "top": "TOP(x, 3)",
    "mode": "MODE(x)",
    "min": "MIN(x)",
    "max": "MAX(x)",
    "set": "COLLECT_SET(x)",
    "sum": "SUM(x)",
    "variance": "VAR(x)",
    "deviation": "STDDEV(x)",
    "texts": "COUNT(DISTINCT t)",
    "most frequent texts": "TOP(t, 3)",
    "most frequent text": "MODE(t)",
    "set of texts": "COLLECT_SET(t)",
    "quantile of texts": "QUANTILE(t, 0.6)",
    "most frequent decimals": "TOP(d, 3)",
}
EVERY = ", ".join(f"{call} AS a{number}" for number, call in enumerate(CALLS.values()))
VALUES = st.none() | st.sampled_from([0.1, -0.0, 0.0, 2.5, 1e300, -7.25, float("nan")])
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), VALUES), max_size=40)


def run_of(select: str, window: str, strategy: str = "UPA") -> ContinuousRun:
    session = LocalSession()
    columns = {"ts": "BIGINT", "n": "BIGINT", "k": "BIGINT", "x": "DOUBLE", "t": "STRING",
               "d": "DECIMAL(9,2)"}  # fmt: skip
    session.stream("s", columns, sequence=["n"])
    return session.query(f"SELECT k, {select} FROM s [{window}] GROUP BY k", strategy=strategy)


@pytest.fixture
def every_group_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "LEAST_ROWS", 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
       window=st.sampled_from(["RANGE 6 us", "ROWS 7", "RANGE 9 us SLIDE 3 us"]),
       strategy=st.sampled_from(["UPA", "NT", "DIRECT"]))  # fmt: skip
def test_answers_are_the_same_without_it(
    every_group_is_large: None, rows: list[Any], sizes: list[int], window: str, strategy: str
) -> None:
    runs = [run_of(EVERY, window, strategy) for _ in range(2)]
    times = np.cumsum([gap for gap, _, _ in rows]) if rows else np.empty(0, np.int64)
    listed = [
        {"ts": int(ts), "n": n, "k": k, "x": x, "t": None if x is None else str(x),
         "d": None if x is None else Decimal(n % 4)}
        for n, (ts, (_, k, x)) in enumerate(zip(times, rows, strict=True))
    ]  # fmt: skip
    start, turn = 0, 0
    while start < len(listed):
        batch = listed[start : start + sizes[turn % len(sizes)]]
        start, turn = start + len(batch), turn + 1
        with_it = runs[0].feed({"s": batch})
        kept = dict(RESIDENTS._entries), RESIDENTS.bytes
        RESIDENTS.clear()
        without = runs[1].feed({"s": batch})
        RESIDENTS.clear()
        RESIDENTS._entries.update(kept[0])
        RESIDENTS.bytes = kept[1]
        assert repr(with_it.to_pylist()) == repr(without.to_pylist())
    RESIDENTS.clear()


def batch(first: int, rows: int, values: int = 500, seed: int = 5) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed + first)
    number = np.arange(first, first + rows)
    x = rng.integers(0, values, rows).astype(np.float64) / 4
    texts, decimals = pa.array(x).cast(pa.string()), pa.array(x).cast(pa.decimal128(9, 2))
    k = np.zeros(rows, np.int64)
    return {"s": pa.table({"ts": number, "n": number, "k": k, "x": x, "t": texts, "d": decimals})}


def touched_per_row(call: str, window: int, step: int = 500, steps: int = 8) -> float:
    run = run_of(f"{call} AS a", f"RANGE {window} us")
    run.feed(batch(0, window))
    run.feed(batch(window, step))
    before = sum(report.rows_touched for report in run.reports())
    for number in range(1, steps + 1):
        run.feed(batch(window + number * step, step))
    return (sum(report.rows_touched for report in run.reports()) - before) / (step * steps)


@pytest.mark.halved
@pytest.mark.parametrize("call", [call for call in CALLS.values() if call != "COLLECT_SET(t)"])
def test_rows_touched_do_not_grow_with_the_window(call: str) -> None:
    """At ten times the window and the same rate, at most 1.5 times as many."""
    small, large = (touched_per_row(call, window) for window in (5_000, 50_000))
    assert 1.0 <= large <= 1.5 * small


def test_a_step_that_is_repeated_gives_the_same(every_group_is_large: None) -> None:
    run = run_of("MEDIAN(x) AS a, SUM(x) AS b", "RANGE 50 us")
    run.feed(batch(0, 40))
    (task,) = [one for one in run.program.tasks() if isinstance(one.operator, GroupRows)]
    operator, (state,) = task.operator, run.states[task]
    columns = batch(40, 8)["s"]
    fresh = pa.table({
        "s.k": columns["k"], "s.x": columns["x"], "_ts": columns["ts"],
        "_exp": pa.array(np.arange(40, 48) + 50), "_id": columns["n"],
    })  # fmt: skip
    interval = Interval(run.clocks.query, 48)
    nothing = fresh.slice(0, 0).append_column("_end", pa.array([], pa.int64()))
    first, second = (operator.step(state, [Delta(fresh, nothing)], interval)[1] for _ in range(2))
    assert first.born.num_rows > 1
    assert first.born.equals(second.born)
    assert first.cut.equals(second.cut)


def test_it_is_found_again_by_the_files_of_a_stored_state(
    every_group_is_large: None, tmp_path: Path
) -> None:
    """As on Spark, where a worker loads the state that it stored in the batch before."""
    run = run_of("MEDIAN(x) AS a", "RANGE 1000 us")
    run.feed(batch(0, 300))
    (task,) = [one for one in run.program.tasks() if isinstance(one.operator, GroupRows)]
    (state,) = run.states[task]
    directory = Directory.at(tmp_path, sync=False)
    stored, added, _ = store_state(state, "state", directory)
    segments = {segment.path: segment for segment in added}
    loaded = load_state(task.operator.state(), stored, segments, directory)
    assert isinstance(loaded, GroupState)
    run.states[task][0] = loaded
    before = Touched.rows
    run.feed(batch(300, 10))
    assert Touched.rows - before <= 2 * 11
    run.states[task][0] = load_state(task.operator.state(), stored, segments, directory)
    run.feed(batch(310, 10))
    assert Touched.rows - before > 300, "an older state is read"


def test_memory_is_bounded_and_the_latest_used_stay() -> None:
    residents = Residents(limit=1000)
    part: dict[Hashable, Part] = {"m": (np.zeros(50, np.int64),)}
    larger: dict[Hashable, Part] = {"m": (np.zeros(500, np.int64),)}
    runs = [RowRun.of(pa.table({"_ts": [n], "_exp": [n + 9]})) for n in range(4)]
    kept = [KeptRows(Shape(), (run,)) for run in runs]
    for rows in kept[:3]:
        residents.put("q", rows, {1: part})
    assert (len(residents), residents.bytes) == (2, 800)
    assert residents.take("q", kept[0]) == {}
    assert residents.take("q", kept[2]) == {1: part}
    assert residents.take("q", kept[2]) == {}, "it was taken"
    assert residents.take("other", kept[1]) == {}
    residents.put("q", kept[3], {1: larger})
    assert residents.take("q", kept[3]) == {}, "larger than all the room"


def test_nothing_is_held_of_rows_that_nobody_has() -> None:
    """Rows in memory end with the state that has them; those of files may be loaded again."""
    residents = Residents()
    part: dict[Hashable, Part] = {"m": (np.zeros(50, np.int64),)}
    run = RowRun.of(pa.table({"_ts": [1], "_exp": [9]}))
    kept = KeptRows(Shape(), (run,))
    residents.put("q", kept, {1: part})
    residents.put("other", kept, {1: part})
    residents.move(place_of(kept), ("a file",))
    residents.put("q", kept, {1: part})
    assert len(residents) == 3
    del run, kept
    assert (len(residents), residents.bytes) == (2, 800)


def test_queries_that_are_over_leave_nothing() -> None:
    gc.collect()  # what other tests left must not hide what stays here
    held, entries = pa.total_allocated_bytes(), len(RESIDENTS)
    rows = [{"ts": ts, "n": ts, "k": 0, "x": ts, "t": "", "d": 0} for ts in range(5000)]
    for _ in range(2):
        run = run_of("COUNT(*) AS c, MAX(x) AS m", "RANGE 9000 us")
        run.feed({"s": rows})
        assert len(RESIDENTS) == entries + 1
        del run
    gc.collect()
    # Less where a cache of the process was given back meanwhile.
    assert pa.total_allocated_bytes() <= held
    assert len(RESIDENTS) == entries


def test_rows_that_died_in_a_run_that_lives_on_are_not_counted() -> None:
    """A large run is not written anew for the few of its rows that are dead."""
    run = run_of("COUNT(DISTINCT x) AS a, SUM(x) AS b", "RANGE 2000 us")
    times = [*range(2000), 2500, 2501, 2502]
    rows = [{"ts": ts, "n": ts, "k": 0, "x": float(ts), "t": "", "d": 0} for ts in times]
    for part in (rows[:2000], rows[2000:2001], rows[2001:2002], rows[2002:]):
        run.feed({"s": part})
    run.feed(heartbeats={"s": 2503})
    alive = [float(ts) for ts in times if ts > 502]
    assert run.snapshot(2502).to_pylist() == [{"k": 0, "a": len(alive), "b": sum(alive)}]
