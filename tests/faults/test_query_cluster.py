"""A pipeline file on a real cluster, from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.pipelines import load_pipeline
from mayfly.storage import Repository
from tests.faults.processes import descendants, wait_for
from tests.faults.test_streaming_cluster import Cluster, cluster
from tests.integration.recorded import assert_nothing_orphaned, record
from tests.integration.test_pipeline import PIPELINE
from tests.integration.test_spark_queries import batches, in_process, of_local, of_spark

__all__ = ["cluster"]
JOIN = "SELECT l.k, l.v, r.v AS w FROM a [RANGE 30 us] l, b [RANGE 20 us] r WHERE l.k = r.k"


def last_batch(checkpoint: Path) -> int:
    if not Repository.exists(checkpoint):
        return -1
    found: int = Repository.open(checkpoint).current().properties["batch"]
    return found


def begun(folder: Path, cluster: Cluster) -> subprocess.Popen[str]:
    """A pipeline on the cluster that has committed one batch more."""
    before = last_batch(folder / "pipeline.state")
    command = [str(Path(sys.executable).with_name("mayfly")), "run", "pipeline.cql", "--once"]
    command += ["--quiet", "--master", cluster.url, "--buckets", "2", "--history", "forever"]
    started = subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
    )
    wait_for(
        lambda: last_batch(folder / "pipeline.state") > before or started.poll() is not None,
        "another batch",
    )
    return started


def assert_same_as_here(spark: SparkSession, folder: Path) -> None:
    pipeline = load_pipeline(spark, folder / "pipeline.cql")
    run = pipeline.open(folder / "pipeline.state")["pairs"]
    local = in_process(JOIN)
    assert of_spark(run) == of_local(local)
    assert pq.read_table(folder / "out" / "pairs").num_rows == local.changes().num_rows
    assert_nothing_orphaned(run)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    record(tmp_path / "streams", batches())
    (tmp_path / "pipeline.cql").write_text(PIPELINE)
    return tmp_path


@pytest.mark.slow
def test_a_pipeline_survives_the_loss_of_its_driver_and_of_a_worker(
    spark: SparkSession, world: Path, cluster: Cluster
) -> None:
    """The driver is killed after the first batch and started again; then a worker is killed."""
    with begun(world, cluster) as first:
        for process in (first.pid, *descendants(first.pid)):
            os.kill(process, signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL
    with begun(world, cluster) as second:
        worker = next(iter(cluster.workers.values()))
        for process in (worker, *descendants(worker)):
            os.kill(process, signal.SIGKILL)
        _, told = second.communicate(timeout=300)
    assert second.returncode == 0, told
    assert_same_as_here(spark, world)
