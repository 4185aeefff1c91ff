"""Two hundred seeded kills of pipelines with several queries, stages, a relation and archives.

A seed is ten kills, at points and moments of its own. A pipeline is moved to other buckets between
its lives (and killed there, too), and then run to its end: everything it left must be what a
pipeline left that nobody disturbed. One that ends before its tenth kill is followed by another.
``MAYFLY_KILL_SEEDS=3:7`` runs the seeds 3 to 6 only, so that the campaign can be run in pieces.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.pipelines import load_pipeline
from mayfly.storage import Repository
from tests.faults.pipeline_driver import SETTINGS
from tests.faults.processes import FAILED, Program
from tests.faults.test_pipeline_kills import KILLED, POINTS, content, world

SEEDS, KILLS = 20, 10
IN_TASKS = ("stage-1.begun", "stage-2.begun", "segment.closed", "task.state-written", "task.done")
"""There a worker of Spark is killed, and the driver gives up."""
ANYWHERE = tuple(sorted({*POINTS, *IN_TASKS, "commit.checked"}))
MOVING = ("segment.closed", "migration.written", "migration.committed")
PIPELINES = 10
"""Where so many are not killed ten times, points are no longer reached."""


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


def disturbed(file: Path, rng: Random, most: int) -> int:
    """Lives of a pipeline until it was killed so often or is done; how often it was killed."""
    kills = 0
    while kills < most:
        begun = Repository.exists(file.with_suffix(".state"))
        if begun and rng.random() < 0.25:
            point, buckets = rng.choice(MOVING), str(rng.randint(1, 3))
            code = live(file, "migrate", buckets, kill_at=f"{point}:1")
            assert code in (0, KILLED), (file.parent / "log").read_text()
            kills += code == KILLED
            continue
        point, time = rng.choice(ANYWHERE), rng.choice((1, 1, 2))
        code = live(file, "run", kill_at=f"{point}:{time}")
        assert code != FAILED or point in IN_TASKS, (file.parent / "log").read_text()
        if code == 0:
            break
        kills += 1
    return kills


@pytest.mark.slow
@pytest.mark.parametrize("seed", asked())
def test_pipelines_survive_ten_kills(
    spark: SparkSession, undisturbed: dict[str, Any], tmp_path: Path, seed: int
) -> None:
    rng, kills = Random(seed), 0
    for number in range(PIPELINES):
        file = world(tmp_path / str(number))
        kills += disturbed(file, rng, KILLS - kills)
        assert live(file, "run") == 0, (file.parent / "log").read_text()
        found = content(spark, file)
        for name, wanted in undisturbed.items():
            assert found[name] == wanted, name
        if kills == KILLS:
            break
    assert kills == KILLS
