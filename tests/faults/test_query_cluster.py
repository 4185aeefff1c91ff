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

from mayfly.spark.pipelines import load_pipeline
from mayfly.storage import Repository
from tests.faults.processes import descendants, wait_for
from tests.faults.test_streaming_cluster import Cluster, cluster
from tests.integration.recorded import assert_nothing_orphaned, record
from tests.integration.test_pipeline import PIPELINE
from tests.integration.test_spark_queries import batches, in_process, of_local, of_spark

__all__ = ["cluster"]
JOIN = "SELECT l.k, l.v, r.v AS w FROM a [RANGE 30 us] l, b [RANGE 20 us] r WHERE l.k = r.k"


def first_batch_done(checkpoint: Path) -> bool:
    if not Repository.exists(checkpoint):
        return False
    return bool(Repository.open(checkpoint).current().properties["batch"] >= 0)


@pytest.mark.slow
def test_a_pipeline_survives_the_loss_of_a_worker(
    spark: SparkSession, tmp_path: Path, cluster: Cluster
) -> None:
    """Two workers begin, one is killed after the first batch, the results are the same."""
    record(tmp_path / "streams", batches())
    (tmp_path / "pipeline.cql").write_text(PIPELINE)
    command = [str(Path(sys.executable).with_name("mayfly")), "run", "pipeline.cql", "--once"]
    command += ["--quiet", "--master", cluster.url, "--buckets", "2", "--history", "forever"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
    ) as started:
        wait_for(
            lambda: first_batch_done(tmp_path / "pipeline.state") or started.poll() is not None,
            "the first batch",
        )
        worker = next(iter(cluster.workers.values()))
        for process in (worker, *descendants(worker)):
            os.kill(process, signal.SIGKILL)
        _, told = started.communicate(timeout=300)
    assert started.returncode == 0, told
    pipeline = load_pipeline(spark, tmp_path / "pipeline.cql")
    run = pipeline.open(tmp_path / "pipeline.state")["pairs"]
    local = in_process(JOIN)
    assert of_spark(run) == of_local(local)
    assert pq.read_table(tmp_path / "out" / "pairs").num_rows == local.changes().num_rows
    assert_nothing_orphaned(run)
