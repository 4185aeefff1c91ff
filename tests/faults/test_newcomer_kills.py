"""Drivers killed while a query comes to their pipeline and learns its history, and commands too."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.pipeline.control_requests import Control
from mayfly.spark.api.pipelines import load_pipeline
from tests.faults.pipeline_driver import SETTINGS
from tests.faults.test_pipeline_kills import KILLED, live, rows_in
from tests.integration.recorded import assert_nothing_orphaned, record
from tests.integration.test_pipeline_sinks import STREAMS
from tests.integration.test_spark_queries import batches, of_spark

FIRST = STREAMS.replace("DEAD LETTERS TO parquet('late')", "") + (
    "CREATE RELATION names (id INT, name STRING) KEY id;\n"
    "CREATE QUERY everything AS SELECT k, g, v FROM a [RANGE 40 us];\n"
    "CREATE QUERY named AS SELECT n.name, l.v FROM a [RANGE 30 us] l, names n WHERE l.k = n.id;\n"
)
COUNTS = "SELECT g, COUNT(*) AS n FROM a [RANGE 25 us] GROUP BY g"
POINTS = (
    "commit.checked:1",
    "commit.published:1",
    "sink.written:1",
    "history.delivered:1",
    "batch.receipts:1",
)


def world(spark: SparkSession, folder: Path) -> Path:
    """A pipeline over the first rows, then told of another query and a change, with more rows."""
    rows, file = batches(), folder / "pipeline.cql"
    record(folder / "streams", rows[:1])
    file.write_text(FIRST)
    runs = load_pipeline(spark, file).start(
        file.with_suffix(".state"), available_now=True, **SETTINGS
    )
    assert next(iter(runs.values())).await_done(300)
    record(folder / "streams", rows[1:], first=1)
    control = Control.of(file.with_suffix(".state"))
    control.change("INSERT INTO names VALUES (1, 'one'), (3, 'three')")
    control.add("counts", COUNTS, parquet=folder / "out")
    return file


@pytest.mark.slow
def test_a_newcomer_is_killed_on_its_way(spark: SparkSession, tmp_path: Path) -> None:
    quiet, file = world(spark, tmp_path / "quiet"), world(spark, tmp_path / "disturbed")
    assert live(quiet) == 0, (quiet.parent / "log").read_text()
    killed = [live(file, point) == KILLED for point in POINTS]
    assert all(killed), list(zip(POINTS, killed, strict=True))
    assert live(file) == 0, (file.parent / "log").read_text()
    wanted, found = (
        load_pipeline(spark, one).open(one.with_suffix(".state")) for one in (quiet, file)
    )
    assert set(found) == {"everything", "named", "counts"}
    for name, run in found.items():
        assert of_spark(run) == of_spark(wanted[name]), name
        assert run.status().changes == wanted[name].status().changes, name
        assert run.changes().num_rows, name
    counts = found["counts"]
    assert counts.since is not None
    assert counts.whole_from == counts.since - 1
    files = [rows_in(pq.read_table(one.parent / "out")) for one in (quiet, file)]
    assert files[0] == files[1]
    assert_nothing_orphaned(counts)
