"""A pipeline file that changes between two runs over one checkpoint."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting, VersionExpired
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.api.query_run import QueryRun
from tests.integration.recorded import record, run_over
from tests.integration.test_pipeline_sinks import STREAMS
from tests.integration.test_spark_queries import batches, in_process, of_local, of_spark

JOIN = "SELECT l.k, l.v, r.v AS w FROM a [RANGE 30 us] l, b [RANGE 20 us] r WHERE l.k = r.k"
COUNTS = "SELECT g, COUNT(*) AS n FROM a [RANGE 20 us] GROUP BY g"


def run(
    spark: SparkSession, folder: Path, ends: bool = True, **queries: str
) -> dict[str, QueryRun]:
    """The queries as a pipeline file, over everything recorded."""
    text = STREAMS + "".join(
        f"CREATE QUERY {n} TO parquet('out/{n}') AS {cql};\n" for n, cql in queries.items()
    )
    (folder / "pipeline.cql").write_text(text)
    pipeline = load_pipeline(spark, folder / "pipeline.cql")
    return run_over(pipeline, folder / "state", ends, buckets=2)


@pytest.mark.slow
def test_queries_come_and_go_between_runs(spark: SparkSession, tmp_path: Path) -> None:
    rows = batches()
    record(tmp_path / "streams", rows[:2])
    first = run(spark, tmp_path, ends=False, pairs=JOIN, counts=COUNTS)
    clock = first["pairs"].status().clock
    assert clock is not None
    record(tmp_path / "streams", rows[2:], first=2)
    second = run(spark, tmp_path, again=JOIN, pairs=JOIN)
    local = of_local(in_process(JOIN))
    assert of_spark(second["pairs"]) == local
    again = second["again"]
    assert again.since == clock
    assert again.whole_from == clock, "the join that runs keeps the rows of the same join"
    assert 0 < again.changes().num_rows < second["pairs"].changes().num_rows
    at = second["pairs"].status().clock
    assert at is not None
    for later in (clock, clock + 5, at - 1):
        rows_of = [sorted(map(repr, one.snapshot(later).to_pylist())) for one in second.values()]
        assert rows_of[0] == rows_of[1]
    with pytest.raises(VersionExpired, match="knows nothing"):
        again.snapshot(clock - 1)
    with pytest.raises(InvalidSetting, match="belongs to another query pairs"):
        run(spark, tmp_path, again=JOIN, pairs=JOIN.replace("30 us", "31 us"))
    manifest = second["pairs"].runner.repository.current()
    assert list(manifest.properties["queries"]) == ["again", "pairs"]
    assert not [name for name in manifest.properties["state"] if "/counts/" in name]
    third = run(spark, tmp_path, pairs=JOIN)
    written = pq.read_table(tmp_path / "out" / "pairs").num_rows
    assert written == third["pairs"].status().changes, "nothing is delivered under another number"
