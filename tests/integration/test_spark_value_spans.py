"""DISTINCT from first and last times that Spark SQL makes, against DuckDB at every instant."""

from __future__ import annotations

from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from mayfly.spark.api.session import Session
from tests.integration.recorded import run_over
from tests.integration.test_spark_panes import lifetimes, recorded, session_of
from tests.property.test_panes import admitted, random_batches, shown
from tests.property.test_value_spans import Asked, every_instant

QUESTIONS = {
    "values": Asked("SELECT DISTINCT g, k FROM {} WHERE v > 1 OR v IS NULL", 12),
    "floats": Asked("SELECT DISTINCT f FROM {}", 7),
    "slid": Asked("SELECT DISTINCT g FROM {}", 12, 5, 2),
    "counted": Asked("SELECT g, COUNT(DISTINCT v) AS n, MAX(v) AS m FROM {} GROUP BY g", 40),
    "all": Asked("SELECT COUNT(DISTINCT g) AS n FROM {} WHERE k = 1", 6),
}


def test_no_row_of_a_stream_crosses_for_distinct(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(3)
    batches = random_batches(rng, 4, (40, 60))
    texts = {name: asked.cql for name, asked in QUESTIONS.items()}
    for first, some in ((0, batches[:2]), (2, batches[2:])):
        recorded(tmp_path, some, first)
        queries = session_of(spark, tmp_path).queries(**texts)
        runs = run_over(queries, tmp_path / "ck", ends=bool(first), buckets=2)
    (panes,) = runs["values"].runner.dataflow.panes
    assert len(panes.feeds) == len(QUESTIONS)
    assert not panes.rest
    rows = admitted(batches)
    for name, asked in QUESTIONS.items():
        table, times = lifetimes(runs[name]), every_instant(rows, asked.duration)
        for at in rng.sample(times, 12):
            assert shown(table, at) == asked.answer(rows, at), (name, at)


def test_a_checkpoint_that_was_begun_with_every_row_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    asked, batches = QUESTIONS["counted"], random_batches(Random(4), 2, (40, 60))
    session: Session = session_of(spark, tmp_path)
    recorded(tmp_path, batches[:1])
    begun = session.query(asked.cql, without=["first-last"])
    begun.start(tmp_path / "ck", available_now=True, buckets=2, sync=False).await_done(240)
    recorded(tmp_path, batches[1:], 1)
    run = session.query(asked.cql).start(tmp_path / "ck", available_now=True, sync=False)
    run.await_done(240)
    assert run.runner.repository.current().properties["batch"] == 1
    assert "every_row_because='the rule is switched off'" in repr(run.runner.dataflow.stages.tasks)
