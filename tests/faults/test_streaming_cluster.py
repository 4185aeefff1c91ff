"""A worker of a real cluster dies between the stages of a chained join."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.session import Session
from mayfly.storage import Repository
from mayfly.storage.segment import DATA
from mayfly.testing import assert_same_rows
from tests.faults.chain_driver import chain_batches, chain_oracle, chain_query, start_chain
from tests.faults.processes import ROOT, Program, descendants, running, wait_for
from tests.integration.recorded import assert_nothing_orphaned, assert_right, record


@dataclass(frozen=True)
class Cluster:
    url: str
    workers: dict[str, int]

    def kill_one_with(self, task: int) -> str:
        """SIGKILL the worker in which a task runs, and all it started; which one it was."""
        for name, worker in self.workers.items():
            below = descendants(worker)
            if task in below:
                for process in (worker, *below):
                    os.kill(process, signal.SIGKILL)
                return name
        raise AssertionError(f"process {task} belongs to no worker")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    command = [sys.executable, str(ROOT / "scripts" / "local-cluster.py")]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run([*command, "start", str(folder)], check=True, env=environment)
    try:
        described = json.loads((folder / "cluster.json").read_text())
        processes = described["processes"]
        yield Cluster(described["url"], {n: p for n, p in processes.items() if n != "master"})
    finally:
        subprocess.run([*command, "stop", str(folder)], check=True)


def written_for_nothing(repository: Repository) -> set[str]:
    manifests = [repository.load(version) for version in repository.stored_versions()]
    named = {path for manifest in manifests for path in manifest.segments}
    return set(repository.directory.all_names(DATA)) - named


def both_at(place: Path, driver: Program) -> list[int]:
    """Wait until the tasks of both buckets, each on a worker of its own, have come to a place."""

    def here() -> list[int]:
        return [int(path.name) for path in place.iterdir()]

    wait_for(lambda: len(here()) == 2 or driver.process.poll() is not None, f"tasks at {place}")
    assert driver.process.poll() is None, driver.said()
    return here()


@pytest.mark.slow
def test_a_worker_dies_between_chained_stages(
    spark: SparkSession, tmp_path: Path, cluster: Cluster
) -> None:
    """The first batch runs here, so that the one disturbed has state to build on."""
    input, paused = tmp_path / "input", tmp_path / "paused"
    first, *others = chain_batches()
    record(input, [first])
    begun = start_chain(Session(spark), input, tmp_path)
    assert begun.query is not None
    begun.query.awaitTermination()
    record(input, others, first=1)
    for stage in ("stage-1", "stage-2"):
        (paused / stage).mkdir(parents=True)
    driver = Program.start(
        "tests.faults.chain_driver",
        *map(str, (input, tmp_path, cluster.url, paused)),
        log=tmp_path / "log",
    )
    both_at(paused / "stage-1", driver)
    (paused / "stage-1" / "go").touch()
    tasks = both_at(paused / "stage-2", driver)
    dead = cluster.kill_one_with(tasks[0])
    wait_for(lambda: cluster.workers[dead] not in running(), "the worker's end")
    (paused / "stage-2" / "go").touch()
    assert driver.wait() == 0, driver.said()

    run = chain_query(Session(spark), input).open(tmp_path / "checkpoint")
    assert written_for_nothing(run.runner.repository), "a finished task of stage 1 ran again"
    assert_right(run, chain_oracle())
    assert_same_rows(pq.read_table(tmp_path / "out"), chain_oracle().lifetimes())
    assert_nothing_orphaned(run)
