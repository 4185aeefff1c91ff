"""Drivers of pipelines whose streams close keys, killed at every point and started again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.faults.processes import Program
from tests.faults.test_query_kills import POINTS
from tests.integration.recorded import record
from tests.integration.test_closed_keys_on_spark import (
    batches_of,
    check,
    pipeline,
    run_once,
    tables_of,
)

MORE = ("task.done", "dead-letters.delivered")


@pytest.mark.slow
def test_no_closed_key_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    rng, tables, file = Random("kills"), tables_of("kills"), pipeline(tmp_path)
    record(tmp_path, batches_of(tables))

    def live(kill_at: str | None = None) -> int:
        log = tmp_path / "log"
        driver = "tests.faults.pipeline_driver"
        return Program.start(driver, str(file), log=log, kill_at=kill_at).wait()

    for point in (*(p for p in POINTS if p != "sink.written"), *MORE):
        live(f"{point}:{rng.randint(1, 2)}")
    assert live() == 0, (tmp_path / "log").read_text()
    check(run_once(spark, file), tmp_path, tables)
