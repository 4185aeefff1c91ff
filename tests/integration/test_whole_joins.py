"""A join of three windows on one key, all at once on Spark, beside one that was begun in steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting
from mayfly.plan.strategy import Joining
from mayfly.spark.api.queries import Queries
from tests.integration.recorded import assert_nothing_orphaned, record, run_over
from tests.integration.test_spark_migration import queries_over
from tests.integration.test_spark_queries import batches, in_process, of_local, of_spark

CQL = (
    "SELECT l.k, l.v, m.v AS w, r.g FROM a [RANGE 30 us] l, b [RANGE 20 us] m, a [RANGE 10 us] r"
    " WHERE l.k = m.k AND m.k = r.k AND l.v <= r.v"
)
TEXTS = {"begun": CQL, "fresh": CQL}


def parts_kept(queries: Queries, checkpoint: Path, query: str) -> set[str]:
    """What the joins of a query have in the checkpoint."""
    runner = queries.open(checkpoint)[query].runner
    stored = runner.repository.current().properties["state"]
    tasks = runner.dataflow.stages.behind(query)
    return {
        part
        for task in tasks
        for name, state in stored.items()
        if task.operator.combines and name.startswith(f"task/{task.name}/")
        for part in state["runs"]
    }


def test_a_join_goes_on_as_it_was_begun(spark: SparkSession, tmp_path: Path) -> None:
    """As a checkpoint of a version that knew no whole joins does; both move to more buckets."""
    streams, checkpoint, rows = tmp_path / "streams", tmp_path / "ck", batches()
    record(streams, rows[:2])
    queries = queries_over(spark, streams, TEXTS)
    begun = queries.queries["begun"]
    in_steps = begun.under(begun.program.strategy, Joining.BINARY)
    assert "as was asked for" in str(in_steps.explain().text())
    first = Queries(queries.session, {**queries.queries, "begun": in_steps})
    run_over(first, checkpoint, ends=False, buckets=2)
    queries = queries_over(spark, streams, TEXTS)
    assert queries.migrate(checkpoint, buckets=3) == 3
    record(streams, rows[2:], first=2)
    runs = run_over(queries, checkpoint, ends=True)
    expected = of_local(in_process(CQL))
    assert expected
    for name, run in runs.items():
        assert of_spark(run) == expected, name
    assert parts_kept(queries, checkpoint, "begun") == {"left", "right"}
    assert parts_kept(queries, checkpoint, "fresh") == {"kept0", "kept1", "kept2"}
    assert_nothing_orphaned(runs["fresh"])
    changed = queries_over(spark, streams, {**TEXTS, "begun": CQL.replace("30 us", "40 us")})
    with pytest.raises(InvalidSetting, match="belongs to another query begun"):
        changed.open(checkpoint)
