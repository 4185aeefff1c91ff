"""A file of statements run as a pipeline."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.archive.model.contract import Contract
from mayfly.errors import BadInput, InvalidSetting
from mayfly.spark.api.pipelines import load_pipeline
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


@pytest.mark.parametrize(
    ("sinks", "problem"),
    [
        (("parquet('out')", "parquet('out')"), "go to one folder"),
        (("parquet('out', compression => 'gzip')", "console()"), "with compression"),
        (("json('out')", "console()"), "goes to json"),
        (("console()", "parquet('out/../streams/a')"), "where stream a reads"),
    ],
)
def test_sinks_that_would_lose_something_are_refused(
    spark: SparkSession, folder: Path, sinks: tuple[str, str], problem: str
) -> None:
    stream = PIPELINE.partition("CREATE STREAM b")[0]
    queries = [
        f"CREATE QUERY q{at} TO {sink} AS SELECT k FROM a [RANGE 1 SEC];"
        for at, sink in enumerate(sinks)
    ]
    (folder / "sinks.cql").write_text(stream + "".join(queries))
    with pytest.raises(InvalidSetting, match=problem):
        load_pipeline(spark, folder / "sinks.cql").start(folder / "state")
    assert not (folder / "state").exists()


def test_the_reason_for_which_a_batch_failed_is_told(spark: SparkSession, folder: Path) -> None:
    stream = PIPELINE.partition("CREATE STREAM b")[0]
    query = "CREATE QUERY q AS SELECT 1 div (k - k) AS x FROM a [RANGE 1 SEC];"
    (folder / "zero.cql").write_text(stream + query)
    runs = load_pipeline(spark, folder / "zero.cql").start(folder / "state", available_now=True)
    with pytest.raises(BadInput, match="division by zero"):
        runs["q"].await_done(120)


def settings_of(spark: SparkSession, folder: Path, layout: str) -> Any:
    """The settings of the archive that a file with this layout and contract declares."""
    file = folder / "archived.cql"
    file.write_text(
        PIPELINE + f"CREATE ARCHIVE kept KEY k REFRESH 1 s LAYOUT {layout} AS"
        " SELECT k, v FROM a [RANGE 1 HOUR];"
    )
    pipeline = load_pipeline(spark, file)
    return pipeline.archives(pipeline._together().results())["kept"].settings


def test_archives_are_made_as_their_statements_say(spark: SparkSession, folder: Path) -> None:
    wave = settings_of(spark, folder, "WATA(4) USING IN PLACE SOFT(2)")
    assert (wave.technique.value, wave.layout.constituents) == ("in-place", 4)
    shutil.rmtree(folder / "archives")
    asked = "SOFT(2) PHYSICAL WITHIN 3 HOURS"
    cells = settings_of(spark, folder, f"ROUND_ROBIN(2, 3) USING NO REBUILD {asked}")
    assert str(cells.contract) == str(Contract.parse(asked))
    same = settings_of(spark, folder, "ROUND_ROBIN(2, 3) SOFT(3) PHYSICAL WITHIN 4 HOURS")
    assert same.contract == cells.contract, "it promises more than is asked"
    for more in ("HARD", "SOFT(2) PHYSICAL WITHIN 2 HOURS"):
        with pytest.raises(InvalidSetting, match=r"has contract SOFT\(2\) PHYSICAL"):
            settings_of(spark, folder, f"ROUND_ROBIN(2, 3) {more}")


@pytest.mark.parametrize(
    ("layout", "problem"),
    [
        ("WATA(4) PHYSICAL WITHIN 3 HOURS", "WATA does not promise when bytes are gone"),
        ("ROUND_ROBIN(2, 3) USING IN PLACE", "ROUND_ROBIN of kept is not updated by IN PLACE"),
    ],
)
def test_archives_that_cannot_be_as_their_statements_say_are_refused(
    spark: SparkSession, folder: Path, layout: str, problem: str
) -> None:
    with pytest.raises(InvalidSetting, match=problem):
        settings_of(spark, folder, layout)
    assert not (folder / "archives").exists()


def test_what_is_passed_over_is_told(spark: SparkSession, folder: Path) -> None:
    file = folder / "more.cql"
    file.write_text("SHOW STREAMS;" + PIPELINE + "EXPLAIN pairs;")
    assert load_pipeline(spark, file).passed_over == (
        "line 1: SHOW is ignored",
        "line 12: EXPLAIN is ignored",
    )
    assert load_pipeline(spark, folder / "pipeline.cql").passed_over == ()


def test_columns_that_no_file_has_are_told(spark: SparkSession, folder: Path) -> None:
    file = folder / "other.cql"
    stream, rest = PIPELINE.split("CREATE STREAM b")
    file.write_text(f"{stream.replace('seq BIGINT', 'seqq BIGINT')}CREATE STREAM b{rest}".replace(
        "SEQUENCE seq;", ";"))  # fmt: skip
    (told,) = load_pipeline(spark, file).passed_over
    assert told == (
        f"stream a: the Parquet files in {folder}/streams/a have no column seqq, so it is always "
        "NULL; is seq meant?"
    )


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
