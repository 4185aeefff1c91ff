"""Drivers killed while a stream comes to their pipeline: between the batches before and after."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.faults import KILL_AT
from mayfly.pipeline.control_requests import Control
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.storage import Repository
from tests.faults.processes import wait_for
from tests.faults.test_pipeline_kills import KILLED
from tests.integration.recorded import assert_nothing_orphaned, record
from tests.integration.test_control import ALL, JOIN, stream_text
from tests.integration.test_run_command import MAYFLY, batches_done
from tests.integration.test_spark_queries import batches, in_process, of_local, of_spark

POINTS = ("sources.moved:1", "commit.checked:1", "queries.settled:1", "batch.receipts:1")


@pytest.mark.slow
def test_a_driver_is_killed_between_two_sets_of_streams(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows, file = batches(), tmp_path / "pipeline.cql"
    place = file.with_suffix(".state")
    (tmp_path / "streams" / "b").mkdir(parents=True)
    record(tmp_path / "streams", [{"a": rows[0]["a"]}])
    file.write_text(
        f"{stream_text('a', tmp_path)};\nCREATE QUERY everything TO parquet('out/all') AS {ALL};\n"
    )

    def run(*more: str, kill_at: str = "") -> subprocess.Popen[str]:
        faults = {KILL_AT: kill_at} if kill_at else {}
        words = [MAYFLY, "run", str(file), "--quiet", "--history", "forever", *more]
        return subprocess.Popen(
            words, env={**os.environ, **faults}, stderr=subprocess.PIPE, text=True
        )

    with run(kill_at=POINTS[0]) as running:
        wait_for(lambda: batches_done(place) >= 1, "a batch")
        control = Control.of(place)
        control.stream(stream_text("b", tmp_path))
        control.add("pairs", JOIN, parquet=tmp_path / "out" / "pairs")
        _, told = running.communicate(timeout=300)
    assert running.returncode == KILLED, told
    assert len(control.pending()) == 2, "nothing was applied"
    record(tmp_path / "streams", rows[1:], first=1)
    record(tmp_path / "streams", [{"b": rows[0]["b"]}])
    for point in POINTS[1:]:
        with run(kill_at=point) as running:
            _, told = running.communicate(timeout=300)
        assert running.returncode == KILLED, (point, told)
    assert control.pending() == []
    with run("--once") as running:
        _, told = running.communicate(timeout=300)
    assert running.returncode == 0, told
    (tmp_path / "streams" / "e").mkdir()
    with open(file, "a") as text:
        text.write(f"{stream_text('e', tmp_path)};\nCREATE QUERY none AS SELECT k FROM e [NOW];\n")
    with run("--once") as running:
        _, told = running.communicate(timeout=300)
    assert running.returncode == 0, told
    assert "the stream e is new" in told
    found = load_pipeline(spark, file).open(place)
    ends = {found[name].status().clock for name in ("everything", "pairs", "none")}
    assert len(ends) == 1, "a stream that comes after the end of the others ends with them"
    for name, cql, folder in (("everything", ALL, "all"), ("pairs", JOIN, "pairs")):
        assert of_spark(found[name]) == of_local(in_process(cql)), name
        assert found[name].status().changes == pq.read_table(tmp_path / "out" / folder).num_rows
    assert_nothing_orphaned(found["pairs"])
    parts = [one.name for one in place.iterdir() if one.name.startswith("spark")]
    assert parts == [Repository.open(place).current().properties["spark_part"]]
