"""A pipeline on Spark that is told things from elsewhere, and sinks that stop it or fail."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from mayfly.errors import InvalidSetting, LimitExceeded
from mayfly.pipeline.control import Control, Controlled
from mayfly.queries import Queries, QueryRun
from mayfly.session import Session
from mayfly.spark.sinks import Callback
from mayfly.storage import Repository
from tests.faults.processes import wait_for
from tests.integration.recorded import declare, record
from tests.integration.test_newcomers import answer
from tests.integration.test_run_command import MAYFLY, batches_done, later, write_example
from tests.integration.test_spark_queries import SCHEMA, batches, in_process

ALL = "SELECT k, g, v, seq FROM a [RANGE 60 us]"
COUNTS = "SELECT g, COUNT(*) AS n FROM a [RANGE 25 us] GROUP BY g"
NAMED = "SELECT n.name, l.v FROM a [RANGE 30 us] l, names n WHERE l.k = n.id"
SETTINGS: dict[str, Any] = {"buckets": 2, "sync": False, "history": "forever"}


def queries(spark: SparkSession, folder: Path, **texts: str) -> Queries:
    session = Session(spark)
    declare(session, folder / "streams", {"a": SCHEMA, "b": SCHEMA}, sequence=["seq"])
    names = pa.table({"id": pa.array([1], pa.int32()), "name": ["one"]})
    session.relation("names", names, key=["id"])
    return session.queries(**texts)


def done(checkpoint: Path, count: int) -> bool:
    return Repository.exists(checkpoint) and batches_done(checkpoint) >= count


def test_queries_relations_and_the_end_are_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    rows, place = batches(), tmp_path / "ck"
    record(tmp_path / "streams", rows[:1])
    program = queries(spark, tmp_path, everything=ALL, named=NAMED)
    handles: list[dict[str, QueryRun]] = []
    serving = threading.Thread(
        target=lambda: program.serve(place, on_start=handles.append, **SETTINGS)
    )
    serving.start()
    wait_for(lambda: done(place, 1), "a batch")
    control = Control.of(place)
    with pytest.raises(InvalidSetting, match="already a query named"):
        control.add("named", COUNTS)
    asked = [
        control.change("INSERT INTO names VALUES (3, 'three')"),
        control.add("counts", COUNTS, parquet=tmp_path / "out"),
    ]
    wait_for(lambda: "counts" in handles[-1], "the new query")
    counts = handles[-1]["counts"]
    assert counts.whole_from is not None
    assert counts.since is not None
    assert counts.whole_from < counts.since, "the rows it needs are kept"
    local = in_process(COUNTS)
    assert answer(counts.snapshot(counts.since - 1)) == answer(local.snapshot(counts.since - 1))
    record(tmp_path / "streams", rows[1:], first=1)
    wait_for(lambda: done(place, 3), "all batches")
    asked += [counts.control.drop("everything"), control.stop()]
    serving.join(120)
    assert not serving.is_alive()
    assert [control.outcome(one) for one in asked] == ["done"] * 4
    assert len(handles) >= 2
    stopped = Repository.open(place).current().properties
    assert set(stopped["queries"]) == {"named", "counts"}
    opened = queries(spark, tmp_path, everything=ALL, named=NAMED).open(place)
    assert set(opened) == {"named", "counts"}, "what commands did lasts"
    told = {row["name"] for row in opened["named"].changes().to_pylist()}
    assert told == {"one", "three"}
    at = opened["counts"].status().clock
    assert at is not None
    assert answer(opened["counts"].snapshot()) == answer(local.snapshot(at - 1))
    assert pq.read_table(tmp_path / "out").num_rows == opened["counts"].status().changes


def test_a_sink_may_stop_its_query(spark: SparkSession, tmp_path: Path) -> None:
    record(tmp_path / "streams", batches())
    held: dict[str, QueryRun] = {}
    ready, told = threading.Event(), []

    def stop(changes: DataFrame, batch: int) -> None:
        told.append(batch)
        assert ready.wait(60)
        held["run"].stop()

    one = queries(spark, tmp_path, everything=ALL).queries["everything"]
    run = held["run"] = one.start(tmp_path / "ck", on_changes=stop, available_now=True, **SETTINGS)
    ready.set()
    assert run.await_done(120)
    assert len(told) == 1
    assert batches_done(tmp_path / "ck") == 1
    assert not run.runner.repository.current().properties["clocks"]["ended"]
    again = one.start(tmp_path / "ck", available_now=True, **SETTINGS)
    assert again.await_done(120)
    assert batches_done(tmp_path / "ck") == 3


def test_a_failing_sink_stops_all_queries_and_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    record(tmp_path / "streams", batches())
    together = queries(spark, tmp_path, everything=ALL, counts=COUNTS)
    told: list[int] = []

    def fail(changes: DataFrame, batch: int) -> None:
        told.append(batch)
        if len(told) == 1:
            raise ValueError("the sink is broken")

    sinks = {"everything": [Callback(fail)]}
    runs = together.start(tmp_path / "ck", sinks=sinks, available_now=True, **SETTINGS)
    with pytest.raises(Exception, match="the sink is broken"):
        runs["counts"].await_done(120)
    assert batches_done(tmp_path / "ck") == 1, "the batch itself was committed"
    again = together.start(tmp_path / "ck", sinks=sinks, available_now=True, **SETTINGS)
    assert all(run.await_done(120) for run in again.values())
    assert told[1] == told[0], "the same batch again, under the same number"
    assert batches_done(tmp_path / "ck") == 3


def test_a_state_limit_stops_all_queries_before_anything_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    record(tmp_path / "streams", batches())
    together = queries(spark, tmp_path, everything=ALL, counts=COUNTS)
    limited = {**SETTINGS, "max_state_bytes": 1_000}
    runs = together.start(tmp_path / "ck", available_now=True, **limited)
    with pytest.raises(LimitExceeded, match="max_state_bytes"):
        runs["counts"].await_done(120)
    assert batches_done(tmp_path / "ck") == 0
    again = together.start(tmp_path / "ck", available_now=True, **SETTINGS)
    assert all(run.await_done(120) for run in again.values())
    assert batches_done(tmp_path / "ck") == 3


@pytest.mark.slow
def test_the_command_controls_a_pipeline_that_runs(tmp_path: Path) -> None:
    write_example(tmp_path)
    place = tmp_path / "pipeline.state"

    def control(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [MAYFLY, "control", *words], capture_output=True, text=True, timeout=120,
            env=os.environ.copy(), cwd=tmp_path,
        )  # fmt: skip

    with subprocess.Popen(
        [MAYFLY, "run", "pipeline.cql", "--quiet"], cwd=tmp_path, stderr=subprocess.PIPE,
        text=True, start_new_session=True, env=os.environ.copy(),
    ) as started:  # fmt: skip
        try:
            wait_for(lambda: done(place, 1), "a batch")
            wrong = control("add", "pipeline.state", "x", "SELECT nothing FROM orders [NOW]")
            assert wrong.returncode == 2
            assert "nothing" in wrong.stderr
            more = "SELECT customer FROM orders [RANGE 1 MIN]"
            added = control("add", "pipeline.state", "more", more, "--wait", "60")
            assert added.returncode == 0, added.stderr
            assert added.stdout.strip().endswith("done")
            later(tmp_path / "in", 30)
            dropped = control("drop", "pipeline.state", "unpaid", "--wait", "60")
            assert dropped.stdout.strip().endswith("done"), dropped.stderr
            stopped = control("stop", "pipeline.state", "--wait", "60")
            assert stopped.stdout.strip().endswith("done"), stopped.stderr
            _, told = started.communicate(timeout=120)
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 0, told
    assert "the query more is new" in told
    assert "the query unpaid is gone" in told
    assert "control log" in told
    log = control("log", "pipeline.state").stdout.splitlines()
    assert [line.rpartition("\t")[2] for line in log] == ["done"] * 3
    known = Repository.open(place).current()
    assert "more" in known.properties["queries"]
    assert Controlled.of(known).dropped == ("unpaid",)
