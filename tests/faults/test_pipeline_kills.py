"""Drivers of a pipeline with several queries, a relation, archives and dead letters, killed.

Whatever the kills left behind, results, files, archives and dead letters must be those of a
pipeline that nobody disturbed.
"""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.serving.pipeline_places import ARCHIVES
from mayfly.spark.api.pipelines import load_pipeline
from tests.faults.pipeline_driver import SETTINGS
from tests.faults.processes import Program
from tests.integration.recorded import assert_nothing_orphaned, record
from tests.integration.test_pipeline_sinks import LATE, PIPELINE
from tests.integration.test_spark_queries import SCHEMA, batches, of_spark

KILLED = -signal.SIGKILL
POINTS = (
    "batch.clock-recorded",
    "stage-2.begun",
    "task.state-written",
    "batch.receipts",
    "batch.committed",
    "dead-letters.delivered",
    "sink.written",
    "archive.ends-kept",
    "staging.committed",
    "staging.before-update",
    "staging.taken",
    "archive.void-written",
    "archive.ends-applied",
    "batch.delivered",
)
MORE = """
CREATE RELATION names (id INT, name STRING) KEY id;
INSERT INTO names VALUES (1, 'one'), (3, 'three');
CREATE QUERY named TO parquet('out/named') AS
  SELECT n.name, l.v FROM a [RANGE 30 us] l, names n WHERE l.k = n.id;
CREATE QUERY groups TO parquet('out/groups') AS
  SELECT l.g, COUNT(*) AS n FROM a [RANGE 30 us] l, b [RANGE 20 us] r WHERE l.k = r.k GROUP BY l.g;
"""


def world(folder: Path) -> Path:
    recorded = [
        {name: rows.slice(at, 15) for name, rows in batch.items()}
        for batch in batches()
        for at in range(0, 60, 15)
    ]
    late = pa.Table.from_pylist(LATE, schema=SCHEMA)
    recorded[-1]["a"] = pa.concat_tables([recorded[-1]["a"], late])
    record(folder / "streams", recorded)
    (folder / "pipeline.cql").write_text(PIPELINE + MORE)
    return folder / "pipeline.cql"


def content(spark: SparkSession, file: Path) -> dict[str, Any]:
    """Everything a pipeline has left, in a form that can be compared."""
    pipeline = load_pipeline(spark, file)
    runs = pipeline.open(file.with_suffix(".state"))
    found: dict[str, Any] = {}
    for name, run in runs.items():
        found[name] = of_spark(run)
        found[f"changes of {name}"] = run.status().changes
        assert run.verify().ok
    for name in ("named", "groups"):
        found[f"files of {name}"] = rows_in(pq.read_table(file.parent / "out" / name))
    for name in ("pairs", "totals"):
        archive = pipeline.session.open_archive(file.parent / ARCHIVES / name)
        assert archive.maintain.verify().ok
        found[f"archive {name}"] = archive.version().state.update, rows_in(archive.scan())
    found["late"] = rows_in(pq.read_table(file.parent / "late"))
    assert_nothing_orphaned(next(iter(runs.values())))
    return found


def rows_in(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def live(file: Path, kill_at: str | None = None) -> int:
    log = file.parent / "log"
    driver = Program.start("tests.faults.pipeline_driver", str(file), log=log, kill_at=kill_at)
    return driver.wait()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_pipeline_is_killed_at_every_point(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    quiet = world(tmp_path / "quiet")
    runs = load_pipeline(spark, quiet).start(
        quiet.with_suffix(".state"), available_now=True, **SETTINGS
    )
    assert next(iter(runs.values())).await_done(300)
    file, rng = world(tmp_path / "disturbed"), Random(seed)
    points = rng.sample(POINTS, len(POINTS))
    killed = [live(file, f"{point}:1") != 0 for point in points]
    assert sum(killed) >= len(POINTS) // 2, "most points are reached"
    assert live(file) == 0, (file.parent / "log").read_text()
    wanted, found = content(spark, quiet), content(spark, file)
    for name in wanted:
        assert found[name] == wanted[name], name
