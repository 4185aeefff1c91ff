"""A file of statements run as a pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting
from mayfly.spark.pipelines import load_pipeline
from tests.integration.recorded import record
from tests.integration.test_spark_queries import batches, in_process

PIPELINE = """
CREATE STREAM a (ts TIMESTAMP, seq BIGINT, k INT, g STRING, v BIGINT, x DOUBLE)
  FROM parquet('streams/a', maxFilesPerTrigger => '1') TIMESTAMP BY ts SEQUENCE seq;
CREATE STREAM b (ts TIMESTAMP, seq BIGINT, k INT, g STRING, v BIGINT, x DOUBLE)
  FROM parquet('streams/b', maxFilesPerTrigger => '1') TIMESTAMP BY ts SEQUENCE seq;
CREATE RELATION names (id INT, name STRING) KEY id;
INSERT INTO names VALUES (1, 'one'), (3, 'three');
CREATE QUERY pairs TO parquet('out/pairs') AS
  SELECT l.k, l.v, r.v AS w FROM a [RANGE 30 us] l, b [RANGE 20 us] r WHERE l.k = r.k;
CREATE QUERY named AS
  SELECT n.name, l.v FROM a [RANGE 30 us] l, names n WHERE l.k = n.id;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    record(tmp_path / "streams", batches())
    (tmp_path / "pipeline.cql").write_text(PIPELINE)
    return tmp_path


def test_queries_of_a_file_run_and_continue(spark: SparkSession, folder: Path) -> None:
    pipeline = load_pipeline(spark, folder / "pipeline.cql")
    settings: dict[str, Any] = {
        "available_now": True,
        "sync": False,
        "buckets": 2,
        "history": "forever",
    }
    runs = pipeline.start(folder / "state", **settings)
    assert all(run.await_done(240) for run in runs.values())
    local = in_process(
        "SELECT l.k, l.v, r.v AS w FROM a [RANGE 30 us] l, b [RANGE 20 us] r WHERE l.k = r.k"
    )
    assert pq.read_table(folder / "out" / "pairs").num_rows == local.changes().num_rows
    ids = {1: "one", 3: "three"}
    known = [row for batch in batches() for row in batch["a"].to_pylist() if row["k"] in ids]
    assert runs["named"].changes().num_rows == len(known)
    again = load_pipeline(spark, folder / "pipeline.cql").start(folder / "state", **settings)
    assert all(run.await_done(240) for run in again.values())
    assert again["named"].changes().num_rows == len(known)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("CREATE STREAM a (ts TIMESTAMP) TIMESTAMP BY ts;", "no source"),
        ("CREATE STREAM a (ts TIMESTAMP) FROM parquet('nowhere') TIMESTAMP BY ts;", "no folder"),
        ("CREATE RELATION r (a INT) KEY a;", "no query"),
    ],
)
def test_what_cannot_run_is_refused(
    spark: SparkSession, tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "wrong.cql").write_text(text)
    with pytest.raises(InvalidSetting, match=problem):
        load_pipeline(spark, tmp_path / "wrong.cql")


@pytest.mark.slow
def test_the_command_runs_a_file(folder: Path) -> None:
    mayfly = Path(sys.executable).with_name("mayfly")
    command = [str(mayfly), "run", "pipeline.cql", "--once", "--quiet"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, env=os.environ.copy()
    )
    assert done.returncode == 0, done.stderr
    assert "pairs" in done.stderr
    assert "named" in done.stderr
    assert "WARN" not in done.stderr
