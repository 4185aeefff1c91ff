"""Drivers of queries with several stages and negative tuples, killed and started again.

Whatever the kill left behind, results, sink files and figures must be those of an undisturbed run.
"""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.session import Session
from tests.faults.processes import Program
from tests.faults.query_driver import query_over
from tests.integration.recorded import assert_nothing_orphaned, record
from tests.integration.test_spark_queries import (
    MORE,
    QUERIES,
    batches,
    in_process,
    of_local,
    of_spark,
)

KILLED = -signal.SIGKILL
POINTS = (
    "batch.clock-recorded",
    "stage-2.begun",
    "task.state-written",
    "batch.receipts",
    "batch.committed",
    "sink.written",
    "batch.delivered",
)


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    record(folder, batches())
    return folder


def live(streams: Path, world: Path, name: str, kill_at: str | None = None) -> int:
    return Program.start(
        "tests.faults.query_driver",
        str(streams),
        str(world),
        name,
        log=world / "log",
        kill_at=kill_at,
    ).wait()


def check(spark: SparkSession, streams: Path, world: Path, name: str) -> None:
    run = query_over(Session(spark), streams, name).open(world / "checkpoint")
    local = in_process({**QUERIES, **MORE}[name])
    assert of_spark(run) == of_local(local)
    assert run.verify().ok
    assert_nothing_orphaned(run)
    assert pq.read_table(world / "out").num_rows == run.status().changes


@pytest.mark.slow
def test_a_query_is_killed_between_its_stages(
    spark: SparkSession, streams: Path, tmp_path: Path
) -> None:
    name = "distinct over join"
    assert live(streams, tmp_path, name, "stage-2.begun:3") != 0
    assert live(streams, tmp_path, name, "batch.committed:2") == KILLED
    assert live(streams, tmp_path, name) == 0, (tmp_path / "log").read_text()
    check(spark, streams, tmp_path, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["frequent", "frequent rows", "extremes", "rstream"])
def test_summaries_panes_and_pruned_rows_go_on_after_a_kill(
    spark: SparkSession, streams: Path, tmp_path: Path, name: str
) -> None:
    """FREQUENT keeps summaries of sub-windows, MIN and MAX the rows that may still be an answer."""
    assert live(streams, tmp_path, name, "batch.committed:1") == KILLED
    assert live(streams, tmp_path, name, "batch.receipts:1") == KILLED
    assert live(streams, tmp_path, name) == 0, (tmp_path / "log").read_text()
    check(spark, streams, tmp_path, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("groups", "negation", "distinct over join", "istream", "panes"),
        *("sessions", "hop", "over", "asof", "decayed"),
    ],
)
def test_a_query_is_killed_at_every_point(
    spark: SparkSession, streams: Path, tmp_path: Path, name: str
) -> None:
    rng = Random(name)
    for point in POINTS:
        live(streams, tmp_path, name, f"{point}:{rng.randint(1, 2)}")
    assert live(streams, tmp_path, name) == 0, (tmp_path / "log").read_text()
    check(spark, streams, tmp_path, name)
