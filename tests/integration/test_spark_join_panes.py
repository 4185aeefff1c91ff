"""Several aggregates over one join on Spark, with a restart, against DuckDB at each refresh."""

from __future__ import annotations

from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from mayfly.kernels.join_panes import JoinPaneStore
from mayfly.kernels.window_join import JoinRows
from mayfly.spark.api.session import Session
from tests.integration.recorded import declare, record, run_over
from tests.integration.test_spark_panes import lifetimes
from tests.property.test_join_panes import (
    SCHEMA,
    SLACK,
    admitted,
    asked,
    fed,
    instants,
    oracle,
    random_batches,
)
from tests.property.test_panes import shown

QUERIES = {
    "day": asked((20, 20)),
    "short": asked((8, 12), "", "MAX(l.v)"),
    "some": asked((8, 8), "l.v > 0", "COUNT(*)"),
}


def test_queries_share_one_join_through_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(5)
    batches = [batch for _ in range(2) for batch in random_batches(rng, ("a", "b"))]
    half = len(batches) // 2
    for first, some in ((0, batches[:half]), (half, batches[half:])):
        record(tmp_path, [fed(batch) for batch in some], first)
        session = Session(spark)
        declare(session, tmp_path, {"a": SCHEMA, "b": SCHEMA}, slack=f"{SLACK} us")
        queries = session.queries(**{name: query.cql for name, query in QUERIES.items()})
        explained = str(queries.sharing())
        runs = run_over(queries, tmp_path / "ck", ends=bool(first), buckets=2)
    assert "joined once for 3 queries, whose results are 2 states" in explained
    runner = runs["day"].runner
    kinds = [type(task.operator) for task in runner.dataflow.stages.tasks]
    assert (kinds.count(JoinRows), kinds.count(JoinPaneStore)) == (1, 2)
    stored = runner.repository.current().properties["queries"]
    assert all(len(stored[name]["joined"]) == len(QUERIES) for name in QUERIES)
    assert sum(segment.bytes for segment in runner.repository.current().segments.values()) > 0
    rows = admitted(batches, ("a", "b"))
    for name, query in QUERIES.items():
        table = lifetimes(runs[name])
        for at in instants(rows, rng):
            assert shown(table, at) == oracle(query, rows, at), (name, at)
