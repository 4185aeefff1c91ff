"""KEEP on a stream of a pipeline file: its rows are there for one-time queries."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

import mayfly
from mayfly.runtime.one_time_explanation import OneTimeExplanation
from mayfly.spark.api.pipelines import load_pipeline

PIPELINE = """
CREATE STREAM clicks (ts TIMESTAMP, user STRING, n BIGINT)
  FROM json('in', maxFilesPerTrigger => '1') TIMESTAMP BY ts KEEP 10 SECONDS;
CREATE QUERY totals AS SELECT user, SUM(n) AS n FROM clicks [RANGE 30 SECONDS] GROUP BY user;
"""


def test_windows_over_what_a_pipeline_keeps(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "p.cql").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    for part in range(2):
        rows = [
            {"ts": f"2026-03-01T09:00:{second:02}Z", "user": "ab"[second % 2], "n": second}
            for second in range(part * 10, part * 10 + 10)
        ]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / "in" / f"{part}.json").write_text(text)
    runs = load_pipeline(spark, tmp_path / "p.cql").start(
        tmp_path / "p.state", available_now=True, sync=False, buckets=2
    )
    assert sorted(runs) == ["kept_clicks", "totals"]
    assert all(run.await_done(240) for run in runs.values())
    reader = mayfly.open(tmp_path / "p.cql")
    sql = "SELECT user, COUNT(*) AS c, MIN(n) AS low FROM clicks [RANGE 4 s] GROUP BY user"
    answer = reader.query(f"{sql} ORDER BY user BOUNDED STALENESS 0 s")
    assert [tuple(row.values()) for row in answer.rows.to_pylist()] == [("a", 2, 16), ("b", 2, 17)]
    explained = reader.explain(sql)
    assert isinstance(explained, OneTimeExplanation)
    assert explained.reads == (("clicks", "scan of the rows that kept_clicks keeps (10 s)"),)
