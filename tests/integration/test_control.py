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
from mayfly.pipeline.control_log import Controlled
from mayfly.pipeline.control_requests import Control
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.api.queries import Queries
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.io.sinks import Callback, ParquetFiles
from mayfly.spark.io.sources import NAMING
from mayfly.storage import Repository
from tests.faults.processes import wait_for
from tests.integration.recorded import declare, record
from tests.integration.test_newcomers import answer
from tests.integration.test_run_command import MAYFLY, batches_done, later, write_example
from tests.integration.test_spark_queries import SCHEMA, batches, in_process, of_local, of_spark

ALL = "SELECT k, g, v, seq FROM a [RANGE 60 us]"
COUNTS = "SELECT g, COUNT(*) AS n FROM a [RANGE 25 us] GROUP BY g"
NAMED = "SELECT n.name, l.v FROM a [RANGE 30 us] l, names n WHERE l.k = n.id"
OWN = "SELECT g, COUNT(*) AS n FROM d [RANGE 25 us] GROUP BY g"
JOIN = "SELECT l.k, l.v, r.v AS w FROM a [RANGE 30 us] l, b [RANGE 20 us] r WHERE l.k = r.k"
PAIRS = JOIN.replace("b [", "c [")
SETTINGS: dict[str, Any] = {"buckets": 2, "sync": False, "history": "forever"}


def queries(spark: SparkSession, folder: Path, streams: str = "ab", **texts: str) -> Queries:
    session = Session(spark)
    declare(session, folder / "streams", dict.fromkeys(streams, SCHEMA), sequence=["seq"])
    names = pa.table({"id": pa.array([1], pa.int32()), "name": ["one"]})
    session.relation("names", names, key=["id"])
    return session.queries(**texts)


def done(checkpoint: Path, count: int) -> bool:
    return Repository.exists(checkpoint) and batches_done(checkpoint) >= count


def stream_text(name: str, folder: Path) -> str:
    columns = "ts TIMESTAMP, seq BIGINT, k INT, g STRING, v BIGINT, x DOUBLE"
    source = f"parquet('{folder / 'streams' / name}')"
    return f"CREATE STREAM {name} ({columns}) FROM {source} TIMESTAMP BY ts SEQUENCE seq"


def test_queries_streams_relations_and_the_end_are_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows, place, streams = batches(), tmp_path / "ck", tmp_path / "streams"
    record(streams, rows[:1])
    (streams / "c").mkdir()
    program = queries(spark, tmp_path, everything=ALL, named=NAMED, keys="SELECT k FROM b [NOW]")
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
        control.stream(stream_text("c", tmp_path)),
        control.add("counts", COUNTS, parquet=tmp_path / "out" / "counts"),
        control.add("pairs", PAIRS, parquet=tmp_path / "out" / "pairs"),
    ]
    wait_for(lambda: "pairs" in handles[-1], "the new queries")
    named = handles[0]["named"]
    assert handles[-1]["named"] is named, "the handle of a query that stays goes on"
    counts = handles[-1]["counts"]
    assert counts.whole_from is not None
    assert counts.since is not None
    assert counts.whole_from < counts.since, "the rows it needs are kept"
    local = in_process(COUNTS)
    assert answer(counts.snapshot(counts.since - 1)) == answer(local.snapshot(counts.since - 1))
    record(streams, rows[1:], first=1)
    last = local.clocks.largest["a"]
    wait_for(lambda: named.status().clock == last, "all rows of a: a silent stream holds up none")
    assert handles[-1]["pairs"].status().clock is None
    asked += [counts.control.drop("everything"), control.stop()]
    assert named.await_done(120)
    serving.join(120)
    assert not serving.is_alive()
    assert [control.outcome(one) for one in asked] == ["done"] * 6
    assert len(handles) >= 2

    record(streams, [dict.fromkeys("cd", pa.concat_tables([batch["b"] for batch in rows]))])
    more = queries(spark, tmp_path, "ad", everything=ALL, named=NAMED, own=OWN)
    runs = more.start(place, available_now=True, **SETTINGS)
    assert all(run.await_done(120) for run in runs.values())
    assert set(runs) == {"named", "counts", "pairs", "own"}, "what commands did lasts"
    register = runs["own"].register
    assert register is not None
    assert (register.new_streams, register.gone_streams) == (("d",), ("b",))
    told = {row["name"] for row in runs["named"].changes().to_pylist()}
    assert told == {"one", "three"}
    at = local.clocks.query - 1
    assert answer(runs["counts"].snapshot(at)) == answer(local.snapshot(at))
    for name, cql in {"pairs": JOIN, "own": OWN.replace("d [", "b [")}.items():
        assert of_spark(runs[name]) == of_local(in_process(cql)), name
    for name in ("counts", "pairs"):
        assert pq.read_table(tmp_path / "out" / name).num_rows == runs[name].status().changes
    part = Repository.open(place).current().properties["spark_part"]
    assert [one.name for one in place.glob("spark*")] == [part]


@pytest.mark.slow
def test_a_name_is_given_to_another_query_and_a_relation_comes(
    spark: SparkSession, tmp_path: Path
) -> None:
    record(tmp_path / "streams", batches())
    own = tmp_path / "out" / "counts"
    sinks = {"counts": [ParquetFiles(str(own))]}

    def run() -> dict[str, QueryRun]:
        together = queries(spark, tmp_path, everything=ALL, counts=COUNTS)
        runs = together.start(tmp_path / "ck", sinks=sinks, available_now=True, **SETTINGS)
        assert all(run.await_done(120) for run in runs.values())
        return runs

    written = run()["counts"].status().changes
    control = Control.of(tmp_path / "ck")
    control.drop("counts")
    control.add("counts", "SELECT k FROM a [RANGE 60 us]", parquet=tmp_path / "out" / "keys")
    taken = control.add("more", "SELECT g FROM a [RANGE 60 us]", parquet=tmp_path / "out" / "keys")
    control.relation("CREATE RELATION owners (id INT, owner STRING) KEY id")
    control.change("INSERT INTO owners VALUES (1, 'ann')")
    control.add("owned", "SELECT o.owner FROM a [RANGE 60 us] l, owners o WHERE l.k = o.id")
    for _ in range(2):
        runs = run()
        assert set(runs) == {"everything", "counts", "owned"}
        ones = [row for row in runs["everything"].snapshot().to_pylist() if row["k"] == 1]
        assert ones
        assert runs["owned"].snapshot().to_pylist() == [{"owner": "ann"}] * len(ones)
        assert "keys already" in str(control.outcome(taken))
        answer = runs["counts"].snapshot()
        assert answer.schema.names == ["k"]
        assert answer.num_rows == runs["everything"].snapshot().num_rows
        assert pq.read_table(tmp_path / "out" / "keys").num_rows == answer.num_rows
        assert pq.read_table(own).num_rows == written, "the folder of the query that left"


@pytest.mark.slow
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


@pytest.mark.slow
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
def test_spark_may_know_sources_by_names_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    rows, place = batches(), tmp_path / "ck"
    record(tmp_path / "streams", rows[:2])
    file, declared = tmp_path / "p.cql", [f"{stream_text(name, tmp_path)};\n" for name in "ab"]
    spark.conf.set(NAMING, "true")
    try:
        file.write_text(f"{declared[0]} CREATE QUERY everything AS {ALL};")
        first = load_pipeline(spark, file).start(place, **SETTINGS)["everything"]
        assert first.query is not None
        first.query.processAllAvailable()
        first.stop()
        record(tmp_path / "streams", rows[2:], first=2)
        more = f"CREATE QUERY everything AS {ALL}; CREATE QUERY pairs AS {JOIN};"
        file.write_text("".join(reversed(declared)) + more)
        runs = load_pipeline(spark, file).start(place, available_now=True, **SETTINGS)
        assert all(run.await_done(120) for run in runs.values())
    finally:
        spark.conf.unset(NAMING)
    for name, cql in {"everything": ALL, "pairs": JOIN}.items():
        assert of_spark(runs[name]) == of_local(in_process(cql)), name


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
            # Nobody watches the file: what it says now does not matter to those who run.
            (tmp_path / "pipeline.cql").write_text("CREATE QUERY half of")
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
