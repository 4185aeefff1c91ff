"""Two drivers on one checkpoint: one carries on, the other is told, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.session import Session
from tests.faults.processes import FAILED, Program, wait_for
from tests.faults.recorded_links import Undisturbed, assert_ended_right, start_links


@pytest.mark.slow
@pytest.mark.parametrize("held_at", ["batch.clock-recorded", "batch.receipts", "batch.delivered"])
def test_a_driver_is_held_while_another_one_does_its_work(
    spark: SparkSession, tmp_path: Path, short: Undisturbed, held_at: str
) -> None:
    """Before the commit our own commit tells the loser; after it, Spark's does."""
    held = tmp_path / "held"
    held.mkdir()
    loser = Program.start(
        "tests.faults.links_driver",
        str(short.input),
        str(tmp_path),
        log=tmp_path / "log",
        pause_at=f"{held_at}@{held}",
    )
    try:
        wait_for(lambda: list(held.iterdir()), f"the driver at {held_at}")
        run = start_links(Session(spark), short.input, tmp_path)
        run.await_done()
        (held / "go").touch()
        assert loser.wait() == FAILED
    finally:
        loser.kill()
    assert loser.said().startswith("CommitConflict: another"), loser.said()
    assert_ended_right(run, tmp_path, short)
