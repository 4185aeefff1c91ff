"""The life of a continuous query: stopped, moved, continued, refused, at its limits, in silence."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from mayfly.errors import InvalidSetting, LimitExceeded, VersionExpired
from mayfly.faults import on_reach
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.stream.dataflow import Dataflow
from mayfly.spark.stream.micro_batch import Interrupted
from mayfly.testing import (
    Batch,
    JoinCase,
    ManualClock,
    Windowed,
    WindowJoinOracle,
    assert_same_rows,
)
from tests.integration.recorded import (
    answers,
    assert_nothing_orphaned,
    assert_right,
    declare,
    drained,
    pair_case,
    pair_query,
    record,
)

PATIENCE = 120.0


def wait_for(run: QueryRun, condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert run.query is not None
        assert run.query.isActive, f"the query ended before {what}"
        assert time.monotonic() < end, f"waited {PATIENCE:.0f} s for {what}"
        time.sleep(0.05)


def test_stopped_moved_and_continued(spark: SparkSession, tmp_path: Path) -> None:
    case = pair_case(300, 60)
    record(tmp_path, case.batches[:2])
    query = pair_query(Session(spark), tmp_path, case)
    run = query.start(tmp_path / "ck", buckets=2, history="forever")
    wait_for(run, lambda: run.status().batch == 1, "the second batch")
    run.stop()
    assert run.await_done()
    stopped = run.status()
    assert stopped.clock == case.outcomes[1].clock, "the last instant stays open"

    record(tmp_path, case.batches[2:], first=2)
    (tmp_path / "ck").rename(tmp_path / "elsewhere")
    with pytest.raises(InvalidSetting, match="has 2 buckets, not 3"):
        query.start(tmp_path / "elsewhere", buckets=3)
    run = drained(query, tmp_path / "elsewhere", history="forever")
    assert run.status().batch == 4
    assert not (tmp_path / "ck").exists()
    assert_right(run, case.oracle())
    assert_nothing_orphaned(run)


def test_another_query_on_an_old_checkpoint_is_refused_with_the_differences(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = pair_case(60, 60)
    record(tmp_path, case.batches)
    drained(pair_query(Session(spark), tmp_path, case), tmp_path / "ck")
    schemas = {name: rows.schema for name, rows in case.batches[0].items()}
    streams = declare(Session(spark), tmp_path, schemas)
    other = streams["a"].window("1 s").join(streams["b"].window("70 ms"), "v")
    with pytest.raises(InvalidSetting) as refused:
        other.start(tmp_path / "ck")
    message = str(refused.value)
    assert "- FROM `a` [RANGE 40 ms], `b` [RANGE 70 ms]" in message
    assert "+ FROM `a` [RANGE 1 s], `b` [RANGE 70 ms]" in message
    assert "- WHERE `a`.`k` = `b`.`k`" in message
    assert "+ WHERE `a`.`v` = `b`.`v`" in message
    with pytest.raises(InvalidSetting, match="there is no checkpoint"):
        other.open(tmp_path / "nowhere")


def test_limits_stop_the_query_and_more_room_lets_it_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = pair_case(200, 100)
    late_start = case.batches[0]["b"].slice(0, 1)
    batches = [{**case.batches[0], "b": late_start}, *case.batches[1:]]
    rest = pa.concat_tables([case.batches[0]["b"].slice(1), case.batches[1]["b"]])
    batches[1] = {**case.batches[1], "b": rest}
    record(tmp_path, batches)
    query = pair_query(Session(spark), tmp_path, case)

    run = query.start(tmp_path / "ck", available_now=True, max_state_bytes=1_000)
    with pytest.raises(LimitExceeded, match=r"max_state_bytes = 1,000|limit of 1,000"):
        run.await_done()
    assert run.status().version == 0
    run = query.start(tmp_path / "ck", available_now=True, max_gap="10 ms")
    with pytest.raises(LimitExceeded, match=r"stream a is .* ahead of stream b"):
        run.await_done()
    assert run.status().version == 0
    run = drained(query, tmp_path / "ck", history="forever")
    assert_right(run, case.oracle())
    assert_nothing_orphaned(run)


def link_like(case: JoinCase, name: str, after: int) -> pa.Table:
    """The stream's first row once more, so long after its last one."""
    first = case.batches[0][name].slice(0, 1)
    last = max(int(batch[name]["ts"].to_numpy().max()) for batch in case.batches)
    return first.set_column(0, "ts", pa.array([last + after], pa.int64()))


@pytest.mark.slow
def test_history_is_kept_as_long_as_asked(spark: SparkSession, tmp_path: Path) -> None:
    case = pair_case(500, 100)
    record(tmp_path, case.batches)
    history = 60_000
    run = drained(
        pair_query(Session(spark), tmp_path, case), tmp_path / "ck", history=f"{history} us"
    )
    status, oracle = run.status(), case.oracle()
    assert status.clock is not None
    oldest = status.clock - history
    with pytest.raises(
        VersionExpired, match=r"1970-.* is older than the kept history of 60 ms\n.* ask for 1970-"
    ):
        run.snapshot(oldest - 1)
    closed = [at for at in oracle.boundaries() if oldest <= at < status.clock]
    assert len(closed) > 50
    assert_same_rows(answers(run.changes(), closed), oracle.answer_at(closed))
    assert_same_rows(run.snapshot(oldest), oracle.answer_at([oldest]).drop_columns(["at"]))
    assert 0 < status.log_rows < status.changes
    assert status.changes == oracle.lifetimes().num_rows
    assert_nothing_orphaned(run)

    more = {"a": link_like(case, "a", 10_000), "b": link_like(case, "b", 10_000)}
    record(tmp_path, [more], first=len(case.batches))
    run = drained(pair_query(Session(spark), tmp_path, case), tmp_path / "ck", history="forever")
    with pytest.raises(VersionExpired):
        run.snapshot(oldest - 1)  # a longer history does not bring back what was dropped
    assert_same_rows(run.snapshot(oldest), oracle.answer_at([oldest]).drop_columns(["at"]))


@pytest.mark.slow
def test_stopping_does_not_end_the_input(spark: SparkSession, tmp_path: Path) -> None:
    """What is stopped in the middle of its input goes on there, with nothing late."""
    case = pair_case(240, 60)
    record(tmp_path, case.batches)
    query = pair_query(Session(spark), tmp_path, case)
    asked, stopping = threading.Event(), threading.Event()

    def hold() -> None:
        asked.set()
        assert stopping.wait(PATIENCE)

    with on_reach("batch.receipts", hold):
        run = query.start(tmp_path / "ck", available_now=True, history="forever")
        assert asked.wait(PATIENCE)
        threading.Timer(0.5, stopping.set).start()
        run.stop()
    assert run.await_done()
    assert run.status().batch < len(case.batches) - 1
    run = drained(query, tmp_path / "ck", history="forever")
    assert run.status().late == {"a": 0, "b": 0}
    assert_right(run, case.oracle())


def test_a_stopped_query_that_ends_in_peace_has_not_read_its_input_to_the_end() -> None:
    """Whether Spark interrupts the batch that follows, or there is none to interrupt."""
    runner, query = Mock(in_batch=False), Mock()
    runner.stopping = False
    query.awaitTermination.return_value = None
    run = QueryRun(runner, query, drain=True)
    run.stop()
    assert run.await_done()
    query.stop.assert_called_once_with()
    runner.close_input.assert_not_called()


@pytest.mark.slow
def test_a_frame_stays_readable_while_the_query_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = pair_case(300, 60)
    record(tmp_path, case.batches[:2])
    query = pair_query(Session(spark), tmp_path, case)
    run = drained(query, tmp_path / "ck", history="1 ms")
    before = run.changes()
    frame = run.changes_frame().where("a_k IS NOT NULL")
    gc.collect()
    record(tmp_path, case.batches[2:], first=2)
    later = drained(query, tmp_path / "ck", history="1 ms")
    later.vacuum()
    assert later.changes().num_rows < later.status().changes
    assert_same_rows(frame.toArrow(), before)


def link(ts: list[int], k: list[int]) -> pa.Table:
    return pa.table({"ts": pa.array(ts, pa.int64()), "k": pa.array(k, pa.int64())})


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for every step that a query makes."""
    made: list[object] = []
    receipts = Dataflow.receipts

    def counted(*given: Any) -> DataFrame:
        made.append(given)
        return receipts(*given)

    monkeypatch.setattr(Dataflow, "receipts", counted)
    return made


def test_silence_moves_the_clock_where_heartbeats_are_declared(
    spark: SparkSession, tmp_path: Path, steps: list[object]
) -> None:
    """Rows wait for a silent stream; heartbeats let them meet, expire and be forgotten."""
    rows: Batch = {"a": link([1_000, 5_000], [1, 2]), "b": link([2_000], [2])}
    wall = ManualClock(1_500)
    record(tmp_path, [rows])
    schemas = {name: table.schema for name, table in rows.items()}
    streams = declare(Session(spark), tmp_path, schemas, idle="500 us")
    a, b = streams["a"].window("10 ms"), streams["b"].window("20 ms")
    run = a.join(b, "k").start(tmp_path / "ck", wall_clock=wall, history="3 ms")
    wait_for(run, lambda: run.status().rows == {"a": 2, "b": 1}, "the rows")
    assert run.status().clock == 2_000
    assert run.status().waiting_rows == 2
    assert run.status().changes == 0

    wall.set(6_500)
    wait_for(run, lambda: run.status().clock == 6_000, "the first heartbeat")
    windows = {"a": Windowed(rows["a"], "10 ms"), "b": Windowed(rows["b"], "20 ms")}
    assert_same_rows(run.changes(), WindowJoinOracle(windows, ["k"]).lifetimes())
    assert run.snapshot(5_999).num_rows == 1
    assert run.status().waiting_rows == 0
    assert run.status().io["files_written"] > 0

    wall.set(13_000)
    wait_for(run, lambda: run.status().clock == 12_500, "the second heartbeat")
    assert run.snapshot(12_000).num_rows == 1
    wall.set(30_000)
    wait_for(run, lambda: run.status().clock == 29_500, "the last heartbeat")
    status = run.status()
    assert (status.state_rows, status.log_rows, status.segments) == (0, 0, 0)
    assert run.snapshot().num_rows == 0
    assert status.io == {}, "everything was dropped by its metadata"

    assert len(steps) == 2, "only rows that came or fell due were worth a step"
    run.stop()


def has_clock(run: QueryRun, clock: int) -> bool:
    return run.status().clock == clock


def test_a_heartbeat_makes_no_step_while_nothing_that_waits_is_due(
    spark: SparkSession, tmp_path: Path, steps: list[object]
) -> None:
    """The first waiting row has gone, but its run is kept as it is: the others are more."""
    rows: Batch = {"a": link([1_000, *[50_000] * 8], [1] * 9), "b": link([900], [1])}
    record(tmp_path, [rows])
    schemas = {name: table.schema for name, table in rows.items()}
    streams = declare(Session(spark), tmp_path, schemas, idle=0)
    a, b = streams["a"].window("10 ms"), streams["b"].window("100 ms")
    wall = ManualClock(1_000)
    run = a.join(b, "k").start(tmp_path / "ck", wall_clock=wall, buckets=1, history="forever")
    wait_for(run, lambda: run.status().rows == {"a": 9, "b": 1}, "the rows")
    made = []
    for now in (2_000, 3_000, 40_000, 51_000):
        wall.set(now)
        wait_for(run, partial(has_clock, run, now), f"the heartbeat {now}")
        made.append(len(steps))
    run.stop()
    assert made == [2, 2, 2, 3]
    windows = {"a": Windowed(rows["a"], "10 ms"), "b": Windowed(rows["b"], "100 ms")}
    assert_same_rows(run.changes(), WindowJoinOracle(windows, ["k"]).lifetimes())


def test_sparks_own_stop_in_the_middle_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    case = pair_case(300, 60)
    record(tmp_path, case.batches[:2])
    query = pair_query(Session(spark), tmp_path, case)
    began = threading.Event()

    def work(changes: DataFrame, batch: int) -> None:
        began.set()
        spark.range(100).mapInArrow(_slowly, "id BIGINT").count()

    run = query.start(tmp_path / "ck", buckets=2, history="forever", on_changes=work)
    assert began.wait(PATIENCE)
    assert run.query is not None
    run.query.stop()
    assert run.await_done(PATIENCE)
    assert run.runner.stopping
    assert run.runner.error is None, "Spark knows the end for a stop, and nobody is told a trace"
    assert run.query.exception() is None
    record(tmp_path, case.batches[2:], first=2)
    assert_right(drained(query, tmp_path / "ck", buckets=2, history="forever"), case.oracle())


def _slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(20)
        yield batch


def test_what_a_stopped_batch_raises_is_short_and_in_sparks_words() -> None:
    words = str(Interrupted())
    assert "py4j.protocol.Py4JJavaError: An error occurred while calling" in words
    assert words.endswith("java.lang.InterruptedException")


STOPPED_IN_A_BATCH = """
import sys, threading, time
from pyspark.sql import SparkSession
from mayfly import Session

def slowly(batches):
    for batch in batches:
        time.sleep(20)
        yield batch

folder, began = sys.argv[1], threading.Event()
local = {f"spark.driver.{name}": "127.0.0.1" for name in ("host", "bindAddress")}
spark = SparkSession.builder.master("local[2]").config(map=local).getOrCreate()
session = Session(spark)
session.stream("s", spark.readStream.schema("ts TIMESTAMP, k BIGINT").json(f"{folder}/in"))

def work(changes, batch):
    began.set()
    spark.range(100).mapInArrow(slowly, "id BIGINT").count()

run = session.query("SELECT k FROM s [RANGE 1 MIN]").start(f"{folder}/ck", on_changes=work)
assert began.wait(120)
run.query.stop()
assert run.await_done(120)
print("stopped")
"""


@pytest.mark.slow
def test_sparks_own_stop_is_quiet_in_a_session_that_logs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = "\n".join(f'{{"ts": "2026-01-01T00:00:0{i}Z", "k": {i}}}' for i in range(9))
    (tmp_path / "in" / "0.json").write_text(rows)
    command = [sys.executable, "-c", STOPPED_IN_A_BATCH, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.stdout.strip() == "stopped", ended.stderr
    assert "StackOverflow" not in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) < 100
