"""Two hundred seeded kills of pipelines with several queries, stages, a relation and archives.

A seed is one pipeline that is killed ten times, at points and moments of its own, moved to other
buckets between its lives (and killed there, too), and then run to its end: everything it left must
be what a pipeline left that nobody disturbed. ``MAYFLY_KILL_SEEDS=3:7`` runs the seeds 3 to 6 only,
so that the campaign can be run in pieces.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mayfly.spark.pipelines import load_pipeline
from mayfly.storage import Repository
from tests.faults.pipeline_driver import SETTINGS
from tests.faults.processes import Program
from tests.faults.test_pipeline_kills import KILLED, POINTS, content, world

SEEDS, KILLS = 20, 10
MORE_POINTS = (
    "stage-1.begun",
    "task.done",
    "segment.closed",
    "commit.checked",
)
MOVING = ("segment.closed", "migration.written", "migration.committed")
LIVES = 4 * KILLS
"""A pipeline that cannot be killed so often in so many lives is not worth the time."""


def asked() -> range:
    low, _, high = os.environ.get("MAYFLY_KILL_SEEDS", f"0:{SEEDS}").partition(":")
    return range(int(low), int(high))


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = world(tmp_path_factory.mktemp("quiet"))
    runs = load_pipeline(spark, file).start(
        file.with_suffix(".state"), available_now=True, **SETTINGS
    )
    assert next(iter(runs.values())).await_done(300)
    return content(spark, file)


def live(file: Path, *task: str, kill_at: str | None = None) -> int:
    log = file.parent / "log"
    module = "tests.faults.campaign_driver"
    return Program.start(module, str(file), *task, log=log, kill_at=kill_at).wait()


def disturbed(file: Path, rng: Random) -> tuple[int, int]:
    """Lives of a pipeline until it was killed often enough or is done: kills, and moves tried."""
    kills = moves = 0
    for _ in range(LIVES):
        if kills == KILLS:
            break
        begun = Repository.exists(file.with_suffix(".state"))
        if begun and rng.random() < 0.25:
            moves += 1
            point = rng.choice(MOVING)
            buckets = str(rng.randint(1, 3))
            code = live(file, "migrate", buckets, kill_at=f"{point}:1")
            assert code in (0, KILLED), (file.parent / "log").read_text()
            kills += code == KILLED
            continue
        point, time = rng.choice((*POINTS, *MORE_POINTS)), rng.choice((1, 1, 2))
        killed = live(file, "run", kill_at=f"{point}:{time}") != 0
        kills += killed
        if not killed:
            break
    return kills, moves


@pytest.mark.slow
@pytest.mark.parametrize("seed", asked())
def test_a_pipeline_survives_ten_kills(
    spark: SparkSession, undisturbed: dict[str, Any], tmp_path: Path, seed: int
) -> None:
    file = world(tmp_path)
    kills, moves = disturbed(file, Random(seed))
    assert kills >= KILLS // 2, f"{kills} kills and {moves} moves: the input ended too early"
    assert live(file, "run") == 0, (tmp_path / "log").read_text()
    found = content(spark, file)
    for name, wanted in undisturbed.items():
        assert found[name] == wanted, name
