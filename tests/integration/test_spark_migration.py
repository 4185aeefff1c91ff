"""A pipeline that is stopped, moved to more buckets, and continued; a query that is replaced."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting
from mayfly.spark.api.queries import Queries
from mayfly.spark.api.session import Session
from mayfly.storage import Repository
from tests.integration.recorded import assert_nothing_orphaned, declare, record, run_over
from tests.integration.test_run_command import write_example
from tests.integration.test_spark_queries import (
    MORE,
    QUERIES,
    SCHEMA,
    batches,
    in_process,
    of_local,
    of_spark,
)

MAYFLY = str(Path(sys.executable).with_name("mayfly"))
TEXTS = {"pairs": QUERIES["join"], "lonely": MORE["negation"], "latest": MORE["union"]}


def queries_over(spark: SparkSession, folder: Path, texts: dict[str, str]) -> Queries:
    session = Session(spark)
    declare(session, folder, {"a": SCHEMA, "b": SCHEMA}, sequence=["seq"])
    return Queries(session, {name: session.query(cql) for name, cql in texts.items()})


@pytest.mark.slow
def test_a_pipeline_goes_on_with_more_buckets(spark: SparkSession, tmp_path: Path) -> None:
    streams, checkpoint, rows = tmp_path / "streams", tmp_path / "ck", batches()
    record(streams, rows[:2])
    queries = queries_over(spark, streams, TEXTS)
    run_over(queries, checkpoint, ends=False, buckets=2)
    with pytest.raises(InvalidSetting, match="has 2 buckets, not 3"):
        queries.start(checkpoint, buckets=3)
    assert queries.migrate(checkpoint, buckets=3) == 3
    record(streams, rows[2:], first=2)
    runs = run_over(queries_over(spark, streams, TEXTS), checkpoint, ends=True, buckets=3)
    for name, cql in TEXTS.items():
        assert of_spark(runs[name]) == of_local(in_process(cql)), name
        assert runs[name].verify().ok
    assert_nothing_orphaned(runs["pairs"])


@pytest.mark.slow
def test_a_changed_query_begins_anew_while_others_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams, checkpoint, rows = tmp_path / "streams", tmp_path / "ck", batches()
    record(streams, rows[:2])
    texts = {"pairs": TEXTS["pairs"], "latest": TEXTS["latest"]}
    first = run_over(queries_over(spark, streams, texts), checkpoint, ends=False)
    clock = first["pairs"].status().clock
    assert clock is not None
    changed = {**texts, "latest": "SELECT k, v FROM a [PARTITION BY k ROWS 3]"}
    queries = queries_over(spark, streams, changed)
    with pytest.raises(InvalidSetting, match="belongs to another query latest"):
        queries.start(checkpoint)
    with pytest.raises(InvalidSetting, match="no query nobody to replace"):
        queries.start(checkpoint, anew=["nobody"])
    record(streams, rows[2:], first=2)
    runs = run_over(queries, checkpoint, ends=True, anew=["latest"])
    assert of_spark(runs["pairs"]) == of_local(in_process(TEXTS["pairs"]))
    latest, since = runs["latest"], runs["latest"].since
    assert since is not None
    assert since >= clock - 1
    assert latest.changes().num_rows > 0
    again = run_over(queries, checkpoint, ends=True, anew=["latest"])["latest"]
    assert again.since == since, "what has begun anew is not replaced again"


@pytest.mark.slow
def test_a_pipeline_file_is_moved_from_the_command_line(tmp_path: Path) -> None:
    file = write_example(tmp_path)

    def mayfly(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [MAYFLY, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    refused = mayfly("migrate", file.name, "--buckets", "3")
    assert (refused.returncode, "no checkpoint" in refused.stderr) == (2, True), refused.stderr
    assert mayfly("run", file.name, "--once", "--quiet", "--buckets", "2").returncode == 0
    done = mayfly("migrate", file.name, "--buckets", "3")
    assert done.returncode == 0, done.stderr
    root = file.with_suffix(".state")
    assert Repository.open(root).current().properties["buckets"] == 3
    again = mayfly("run", file.name, "--once", "--quiet")
    assert again.returncode == 0, again.stderr
