"""Forms that people bring, together on Spark, give what each gives in this process.

All of them run in one pipeline with one checkpoint: aggregates of every kind, groupings, UNNEST.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.session import Session
from tests.integration.recorded import declare, record
from tests.integration.test_spark_queries import of_local, of_spark
from tests.property.survey_streams import R, S, random_streams, session

CALLS = {
    "first": "FIRST(x) AS a, FIRST(i) IGNORE NULLS AS b, FIRST(t ORDER BY y DESC) AS c",
    "last": "LAST(x) AS a, LAST(t, TRUE) AS b",
    "min_by": "MIN_BY(t, x) AS a, MAX_BY(i, y) AS b",
    "lists": "COLLECT_LIST(i) AS a, ARRAY_AGG(t ORDER BY x DESC) AS b, COLLECT_SET(t) AS c",
    "texts": "STRING_AGG(t, '-') AS a, LISTAGG(t, '+') WITHIN GROUP (ORDER BY i DESC) AS b",
    "populations": "VAR_POP(x) AS a, STDDEV_POP(i) AS b, VAR(x) AS c, STDDEV(y) AS d",
    "percentiles": "PERCENTILE(x, 0.3) AS a, QUANTILE(i, 0.7) AS b, MEDIAN(y) AS c, "
    "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x) AS d",
    "conditions": "BOOL_AND(i > 0) AS a, BOOL_OR(x > 1) AS b, COUNT_IF(t = 'a') AS c",
    "distinct_sums": "SUM(DISTINCT i) AS a, AVG(DISTINCT x) AS b, SUM(DISTINCT d) AS c, "
    "COUNT(DISTINCT i, t) AS e, STRING_AGG(DISTINCT t, '-') AS f, STDDEV(DISTINCT i) AS g",
    "pairs": "COVAR_POP(x, y) AS a, COVAR_SAMP(x, i) AS b, CORR(x, y) AS c, MODE(t) AS e",
    "some": "SUM(i) FILTER (WHERE x > 1) AS a, COUNT(*) FILTER (WHERE t = 'b') AS b",
}
DERIVED = "SELECT Istream(k, i) FROM s [RANGE 9 s] WHERE i > 0"
FORMS = {
    **{name: f"SELECT k, {calls} FROM s [RANGE 9 s] GROUP BY k" for name, calls in CALLS.items()},
    "all_rows": "SELECT SUM(DISTINCT x) AS a, CORR(x, y) AS b, FIRST(t) AS c FROM s [RANGE 9 s]",
    "sets": "SELECT k, t, SUM(i) AS a, GROUPING(t) AS b FROM s [RANGE 9 s] "
    "GROUP BY GROUPING SETS ((k, t), k, ())",
    "rollup": "SELECT k, t, COUNT(*) AS n FROM s [RANGE 9 s] GROUP BY ROLLUP(k, t)",
    "unnest": "SELECT k, e FROM s [RANGE 9 s] b, UNNEST(b.a) AS x(e)",
    "unnest_outer": "SELECT k, e, n FROM s [ROWS 5] LEFT JOIN UNNEST(a) WITH ORDINALITY AS x(e, n) "
    "ON TRUE",
    "explode_map": "SELECT p, SUM(e) AS n FROM s [RANGE 9 s] LATERAL VIEW explode(m) x AS p, e "
    "GROUP BY p",
    "unnest_joined": "SELECT e, r.z FROM s [RANGE 9 s] JOIN UNNEST(a) AS x(e) ON e > 1 "
    "JOIN r [RANGE 9 s] ON r.k = s.k",
    "first_of_groups": "SELECT k, x, n FROM (SELECT k, x, RANK() OVER (PARTITION BY k ORDER BY x "
    "DESC) AS n FROM s [RANGE 9 s]) q WHERE n <= 2",
    "band": "SELECT s.i, r.z FROM s [RANGE 9 s] JOIN r [RANGE 9 s] "
    "ON s.x BETWEEN r.z - 1 AND r.z + 1",
    "derived": "SELECT k, COUNT(*) AS n, MAX(i) AS m FROM d [RANGE 5 s] GROUP BY k",
    "derived_joined": "SELECT d.k, d.i, r.z FROM d [RANGE 9 s] JOIN r [RANGE 9 s] ON d.k = r.k",
    "derived_whole": "SELECT k, n FROM (SELECT Rstream(k, COUNT(*) AS n) "
    "FROM s [RANGE 9 s SLIDE 4 s] GROUP BY k) [RANGE 8 s] q",
    "derived_ends": "SELECT t FROM (SELECT Dstream(DISTINCT t) FROM s [RANGE 4 s]) [ROWS 3] q",
    "elements": "SELECT k, a[0] AS f, m['p'] AS g FROM s [RANGE 9 s] WHERE size(a) > 0",
}


def test_spark_tells_the_changes_that_this_process_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = Random(14)
    streams = random_streams(rng)
    while min(len(rows) for rows in streams.rows.values()) < 9:
        streams = random_streams(rng)
    middle = {name: len(rows) // 2 for name, rows in streams.rows.items()}
    batches = [
        {name: streams.table(name, streams.rows[name][part[name]]) for name in streams.rows}
        for part in (
            {name: slice(0, cut) for name, cut in middle.items()},
            {name: slice(cut, None) for name, cut in middle.items()},
        )
    ]
    record(tmp_path / "streams", batches)
    pipeline = Session(spark)
    declare(pipeline, tmp_path / "streams", {"s": S, "r": R}, sequence=["seq"])
    pipeline.derive_stream("d", DERIVED)
    runs = pipeline.queries(**FORMS).start(
        tmp_path / "ck", available_now=True, buckets=2, sync=False, history="forever"
    )
    assert all(run.await_done(500) for run in runs.values())
    local = session()
    local.execute(f"CREATE STREAM d AS {DERIVED}")
    for name, run in runs.items():
        alone = local.query(FORMS[name])
        own = alone.clocks.streams
        for batch in batches:
            alone.feed({stream: table for stream, table in batch.items() if stream in own})
        end = run.status().clock
        assert end is not None
        alone.feed({}, dict.fromkeys(own, end))
        assert of_spark(run), name
        assert of_spark(run) == of_local(alone), name


SAME_IN_SPARK = (
    "SUM(DISTINCT i)", "AVG(DISTINCT x)", "SUM(DISTINCT d)", "COUNT(DISTINCT i, t)",
    "STDDEV(DISTINCT i)", "VAR_POP(DISTINCT x)", "COVAR_POP(x, y)", "COVAR_SAMP(x, i)",
    "PERCENTILE(x, 0.3)", "PERCENTILE(x, 0.9)", "MEDIAN(y)", "COUNT_IF(i > 0)", "BOOL_AND(i > 0)",
    "MIN_BY(t, seq)", "MAX_BY(t, seq)",
    "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x)", "SUM(i) FILTER (WHERE x > 1)",
    "unix_timestamp(MAX(timestamp_micros(ts)))",
)  # fmt: skip
VARYING = "CORR(x, y)"


def test_aggregates_mean_what_they_mean_in_spark(spark: SparkSession) -> None:
    """Of the same rows, Spark's own aggregates say the same; PERCENTILE lies between values."""
    rng = Random(2)
    streams = random_streams(rng)
    while len(streams.rows["s"]) < 18:
        streams = random_streams(rng)
    table = streams.table("s")
    listed = ", ".join(f"{call} AS c{number}" for number, call in enumerate(SAME_IN_SPARK))
    columns = ["ts", "seq", "k", "i", "x", "y", "d", "t"]
    spark.createDataFrame(table.select(columns)).createOrReplaceTempView("survey_s")
    run = session().query(f"SELECT k, {listed} FROM s GROUP BY k")
    run.feed({"s": table})
    run.finish()
    own = {row["k"]: row for row in run.snapshot().to_pylist()}
    rows = spark.sql(f"SELECT k, {listed} FROM survey_s GROUP BY k").collect()
    assert len(own) == len(rows) > 2
    for row in rows:
        for name, value in row.asDict().items():
            mine = own[row["k"]][name]
            if isinstance(value, float):
                assert mine == pytest.approx(value), (row["k"], name)
            else:
                assert mine == value, (row["k"], name)
    told = spark.sql(f"SELECT k, {VARYING} AS c FROM survey_s GROUP BY k").collect()
    mine = session().query(f"SELECT k, {VARYING} AS c FROM s GROUP BY k")
    mine.feed({"s": table})
    mine.finish()
    answers = {row["k"]: row["c"] for row in mine.snapshot().to_pylist()}
    assert {row["k"]: row["c"] for row in told} == pytest.approx(answers, nan_ok=True)
