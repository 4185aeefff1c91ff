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
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.storage import Repository
from tests.faults.processes import FAILED, ROOT, Program, wait_for
from tests.faults.recorded_links import (
    Undisturbed,
    assert_ended_right,
    assert_results_right,
    links_query,
)

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


def start(
    story: Undisturbed,
    world: Path,
    *master: str,
    kill_at: str | None = None,
    pause_at: str | None = None,
) -> Program:
    """A driver of this world."""
    return Program.start(
        "tests.faults.links_driver",
        str(story.input),
        str(world),
        *master,
        log=world / "log",
        kill_at=kill_at,
        pause_at=pause_at,
    )


def live(story: Undisturbed, world: Path, kill_at: str | None = None) -> int:
    """One life of the driver: how it ended."""
    return start(story, world, kill_at=kill_at).wait()


def check(
    spark: SparkSession,
    story: Undisturbed,
    world: Path,
    right: Callable[[QueryRun, Path, Undisturbed], None] = assert_ended_right,
) -> None:
    """Look at what the dead driver left, from another process."""
    right(links_query(Session(spark), story.input, world).open(world / "checkpoint"), world, story)


def kill_after_a_commit(story: Undisturbed, world: Path, delay: float) -> None:
    before = last_version(world)
    program = start(story, world)
    wait_for(lambda: last_version(world) > before or program.process.poll() is not None, "a commit")
    time.sleep(delay)
    still_running = program.process.poll() is None
    program.kill()
    assert still_running, f"the run ended before it could be killed: {program.said()}"


def last_version(world: Path) -> int:
    root = world / "checkpoint"
    return Repository.open(root).newest() if Repository.exists(root) else -1


def test_every_point_is_in_a_campaign() -> None:
    """The storage core's own points have their own campaign; some are in these as well."""
    named = {
        found
        for name in ("stream/runner.py", "io/sinks.py", "stream/stage_tasks.py")
        for found in re.findall(
            r'reach\("([^"]+)"\)', (ROOT / "src/mayfly/spark" / name).read_text()
        )
    }
    elsewhere = {"batch.erased"}  # test_erasing_kills.py
    assert named - elsewhere <= {
        point.partition(":")[0] for point in (*DRIVER_POINTS, *WORKER_POINTS)
    }


@pytest.mark.slow
def test_killed_around_a_commit_and_a_worker_lost(
    spark: SparkSession, tmp_path: Path, short: Undisturbed
) -> None:
    """The driver is killed after a commit; then a worker dies and its task is retried."""
    assert live(short, tmp_path, kill_at="sink.delivered:2") == KILLED
    paused = tmp_path / "paused"
    paused.mkdir()
    program = start(short, tmp_path, "local[2,3]", pause_at=f"task.state-written@{paused}")
    wait_for(lambda: list(paused.iterdir()), "a task that has written its state")
    os.kill(int(next(paused.iterdir()).name), signal.SIGKILL)
    (paused / "go").touch()
    assert program.wait() == 0, program.said()
    check(spark, short, tmp_path)


@pytest.mark.slow
def test_killed_at_every_point_of_the_driver(
    spark: SparkSession, tmp_path: Path, long: Undisturbed
) -> None:
    for point in DRIVER_POINTS:
        assert live(long, tmp_path, kill_at=point) == KILLED, point
    assert live(long, tmp_path) == 0, (tmp_path / "log").read_text()
    check(spark, long, tmp_path)


@pytest.mark.slow
def test_killed_while_closing_the_input_and_cleaning_up(
    spark: SparkSession, tmp_path: Path, long: Undisturbed
) -> None:
    closing = long.batches + 1
    assert live(long, tmp_path, kill_at=f"batch.receipts:{closing}") == KILLED
    for point in ("batch.committed", "sink.delivered", *VACUUM_POINTS):
        assert live(long, tmp_path, kill_at=point) == KILLED, point
    assert last_version(tmp_path) == closing
    assert live(long, tmp_path) == 0, (tmp_path / "log").read_text()
    check(spark, long, tmp_path)


@pytest.mark.slow
def test_workers_killed_at_every_point_of_a_task(
    spark: SparkSession, tmp_path: Path, long: Undisturbed
) -> None:
    """local[2] does not retry a task: the batch fails with an error, and the restart repeats it."""
    for point in WORKER_POINTS:
        before = last_version(tmp_path)
        assert live(long, tmp_path, kill_at=point) == FAILED, point
        assert last_version(tmp_path) >= before
    assert live(long, tmp_path) == 0, (tmp_path / "log").read_text()
    check(spark, long, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_random_moments(
    spark: SparkSession, tmp_path: Path, punctual: Undisturbed, seed: int
) -> None:
    """Five kills of all processes at once, each some moments after a life's first commit.

    Some hit Spark while it decides what the next batch reads. It notes files source by source,
    and after a restart takes those it had noted together with the next ones: batches are then cut
    differently, which may change what is late, but nothing else.
    """
    moments = random.Random(seed)
    for _ in range(5):
        kill_after_a_commit(punctual, tmp_path, moments.uniform(0, 1.2))
    assert live(punctual, tmp_path) == 0, (tmp_path / "log").read_text()
    check(spark, punctual, tmp_path, assert_results_right)
