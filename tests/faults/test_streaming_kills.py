"""A driver is killed, at named points and at random moments, and started again until it ends.

Whatever the kill left behind, the change log, snapshots, sink files, dead letters and figures must
be those of a run nobody disturbed, and vacuum must leave no file that the manifest does not name.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.session import Session
from mayfly.storage import Repository
from tests.faults.links_driver import FAILED
from tests.faults.processes import ROOT, Program, wait_for
from tests.faults.recorded_links import (
    RecordedLinks,
    assert_ended_right,
    links_query,
    start_links,
)

BATCHES = 12
KILLED = -signal.SIGKILL

DRIVER_POINTS = (
    "batch.clock-recorded",
    "batch.receipts",
    "commit.checked",
    "link.before:2",
    "link.after:2",
    "commit.published",
    "batch.committed",
    "dead-letters.delivered",
    "sink.written",
    "sink.delivered",
    "batch.delivered",
)
WORKER_POINTS = ("segment.batch-written:3", "segment.closed:2", "task.state-written", "task.done")
VACUUM_POINTS = ("vacuum.oldest-raised", "vacuum.manifest-removed", "vacuum.file-removed")
READER_POINTS = ("pin.written",)


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RecordedLinks:
    links = RecordedLinks.record(tmp_path_factory.mktemp("undisturbed"), BATCHES)
    run = start_links(Session(spark), links.folder)
    run.await_done()
    assert_ended_right(run, links, links)
    return links


def live(folder: Path, kill_at: str | None = None, master: str = "local[2]") -> int:
    """One life of the driver over the folder: how it ended."""
    program = Program.start(
        "tests.faults.links_driver", str(folder), master, log=folder / "log", kill_at=kill_at
    )
    return program.wait()


def check(spark: SparkSession, links: RecordedLinks, undisturbed: RecordedLinks) -> None:
    """Look at what the dead driver left, from another process."""
    run = links_query(Session(spark), links.folder).open(links.folder / "checkpoint")
    assert_ended_right(run, links, undisturbed)


def kill_after_a_commit(folder: Path, delay: float) -> None:
    before = last_version(folder)
    program = Program.start("tests.faults.links_driver", str(folder), log=folder / "log")
    wait_for(
        lambda: last_version(folder) > before or program.process.poll() is not None, "a commit"
    )
    time.sleep(delay)
    still_running = program.process.poll() is None
    program.kill()
    assert still_running, f"the run ended before it could be killed: {program.said()}"


def last_version(folder: Path) -> int:
    root = folder / "checkpoint"
    return Repository.open(root).newest() if Repository.exists(root) else -1


def test_every_point_is_in_a_campaign() -> None:
    named = {
        found
        for path in (ROOT / "src/mayfly").rglob("*.py")
        if path.name != "faults.py"
        for found in re.findall(r'reach\("([^"]+)"\)', path.read_text())
    }
    listed = (*DRIVER_POINTS, *WORKER_POINTS, *VACUUM_POINTS, *READER_POINTS)
    assert named == {point.partition(":")[0] for point in listed}


def test_killed_around_a_commit_and_a_worker_lost(
    spark: SparkSession, tmp_path: Path, undisturbed: RecordedLinks
) -> None:
    """Three kills of the driver in one run's life; then a worker dies and its task is retried."""
    links = RecordedLinks.record(tmp_path, BATCHES)
    for point in ("batch.receipts:2", "batch.committed:2", "sink.delivered:3"):
        assert live(tmp_path, kill_at=point) == KILLED, point
    paused = tmp_path / "paused"
    paused.mkdir()
    program = Program.start(
        "tests.faults.links_driver",
        str(tmp_path),
        "local[2,3]",
        log=tmp_path / "log",
        pause_at=f"task.state-written@{paused}",
    )
    wait_for(lambda: list(paused.iterdir()), "a task that has written its state")
    os.kill(int(next(paused.iterdir()).name), signal.SIGKILL)
    (paused / "go").touch()
    assert program.wait() == 0, program.said()
    check(spark, links, undisturbed)


@pytest.mark.slow
def test_killed_at_every_point_of_the_driver(
    spark: SparkSession, tmp_path: Path, undisturbed: RecordedLinks
) -> None:
    links = RecordedLinks.record(tmp_path, BATCHES)
    for point in DRIVER_POINTS:
        assert live(tmp_path, kill_at=point) == KILLED, point
    assert live(tmp_path) == 0, (tmp_path / "log").read_text()
    check(spark, links, undisturbed)


@pytest.mark.slow
def test_killed_while_closing_the_input_and_cleaning_up(
    spark: SparkSession, tmp_path: Path, undisturbed: RecordedLinks
) -> None:
    links = RecordedLinks.record(tmp_path, BATCHES)
    closing = BATCHES + 1
    assert live(tmp_path, kill_at=f"batch.receipts:{closing}") == KILLED
    for point in ("batch.committed", "sink.delivered", *VACUUM_POINTS):
        assert live(tmp_path, kill_at=point) == KILLED, point
    assert last_version(tmp_path) == closing
    assert live(tmp_path) == 0, (tmp_path / "log").read_text()
    check(spark, links, undisturbed)


@pytest.mark.slow
def test_workers_killed_at_every_point_of_a_task(
    spark: SparkSession, tmp_path: Path, undisturbed: RecordedLinks
) -> None:
    """local[2] does not retry a task: the batch fails with an error, and the restart repeats it."""
    links = RecordedLinks.record(tmp_path, BATCHES)
    for point in WORKER_POINTS:
        before = last_version(tmp_path)
        assert live(tmp_path, kill_at=point) == FAILED, point
        assert last_version(tmp_path) >= before
    assert live(tmp_path) == 0, (tmp_path / "log").read_text()
    check(spark, links, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_random_moments(
    spark: SparkSession, tmp_path: Path, undisturbed: RecordedLinks, seed: int
) -> None:
    """Five kills of all processes at once, each some moments after a life's first commit."""
    links = RecordedLinks.record(tmp_path, BATCHES)
    moments = random.Random(seed)
    for _ in range(5):
        kill_after_a_commit(tmp_path, moments.uniform(0, 1.5))
    assert live(tmp_path) == 0, (tmp_path / "log").read_text()
    check(spark, links, undisturbed)
