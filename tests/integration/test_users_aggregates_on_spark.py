"""Aggregates written in Python, in a file beside a pipeline, on Spark and over a restart."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting, MayflyError
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.api.query_run import QueryRun
from mayfly.testing import users_forms
from tests.integration.recorded import record
from tests.integration.test_spark_queries import of_local, of_spark
from tests.property.survey_streams import random_streams, session

QUERIES = {
    "groups": "SELECT k, extent(i) AS a, dot(i, k) AS b, texts(t) AS c FROM s [RANGE 9 s] "
    "GROUP BY k",
    "whole": "SELECT decimal_peak(d) AS a, texts(t) FILTER (WHERE i > 0) AS b FROM s [RANGE 9 s]",
    "joined": "SELECT r.z, extent(s.i) AS a FROM s [RANGE 9 s] JOIN r [RANGE 9 s] ON s.k = r.k "
    "GROUP BY r.z",
}
FILE = """
CREATE AGGREGATE extent (i BIGINT) RETURNS BIGINT FROM python('own_aggregates:NumberExtent');
CREATE AGGREGATE dot (l BIGINT, r BIGINT) RETURNS BIGINT FROM python('own_aggregates:DotProduct');
CREATE AGGREGATE texts (t STRING) RETURNS STRING FROM python('own_aggregates:Texts');
CREATE AGGREGATE decimal_peak (d DECIMAL(6, 2)) RETURNS DECIMAL(6, 2)
  FROM python('own_aggregates:DecimalPeak');
CREATE STREAM s (ts BIGINT, seq BIGINT, k INT, i BIGINT, x DOUBLE, y DOUBLE, d DECIMAL(6, 2),
  t STRING, a ARRAY<INT>, m MAP<STRING, INT>)
  FROM parquet('in/s', maxFilesPerTrigger => '1') TIMESTAMP BY ts MICROSECONDS SEQUENCE seq;
CREATE STREAM r (ts BIGINT, seq BIGINT, k INT, z DOUBLE)
  FROM parquet('in/r', maxFilesPerTrigger => '1') TIMESTAMP BY ts MICROSECONDS SEQUENCE seq;
"""


def test_a_class_beside_the_pipeline_runs_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(14)
    streams = random_streams(rng)
    while min(len(rows) for rows in streams.rows.values()) < 9:
        streams = random_streams(rng)
    # A run closes the last instant that it has seen, so no instant is cut in two.
    middle = sorted(row["ts"] for rows in streams.rows.values() for row in rows)[9]
    parts = [
        {
            name: streams.table(name, [row for row in rows if (row["ts"] > middle) is is_later])
            for name, rows in streams.rows.items()
        }
        for is_later in (False, True)
    ]
    code = Path(users_forms.__file__).read_text()
    (tmp_path / "own_aggregates.py").write_text(code)
    file = tmp_path / "pipeline.cql"
    queries = "".join(f"CREATE QUERY {name} AS {text};\n" for name, text in QUERIES.items())
    file.write_text(FILE + queries)
    with pytest.raises(InvalidSetting, match="would run Python code"):
        load_pipeline(spark, file)
    runs: dict[str, QueryRun] = {}
    for number, part in enumerate(parts):
        record(tmp_path / "in", [part], number)
        runs = load_pipeline(spark, file, allow_python=True).start(
            tmp_path / "ck", available_now=True, buckets=2, sync=False, history="forever"
        )
        assert all(run.await_done(300) for run in runs.values())
    local = session()
    for name, run in runs.items():
        alone = local.query(QUERIES[name])
        own = alone.clocks.streams
        for part in parts:
            alone.feed({stream: rows for stream, rows in part.items() if stream in own})
        end = run.status().clock
        assert end is not None
        alone.feed({}, dict.fromkeys(own, end))
        assert of_spark(run), name
        assert of_spark(run) == of_local(alone), name
    stored = [path for path in (tmp_path / "ck").rglob("*") if path.is_file()]
    assert len(stored) > 5
    for path in stored:
        held = path.read_bytes()
        assert not re.search(rb"DotProduct|cloudpickle|self\.sum", held), path
    (tmp_path / "own_aggregates.py").write_text(
        code.replace("def merge(self, other: NumberEx", "def m(")
    )
    with pytest.raises(
        MayflyError, match="class NumberExtent of the aggregate extent has no merge"
    ):
        load_pipeline(spark, file, allow_python=True)


def test_a_failing_class_ends_the_run_with_group_and_instant(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams = random_streams(Random(3))
    rows = [{"ts": 5_000_000, "seq": 0, "k": 7, "i": 0}]
    record(tmp_path / "in", [{"s": streams.table("s", rows)}])
    (tmp_path / "own_aggregates.py").write_text(
        "class Inverse:\n"
        "    def __init__(self): self.value = 1\n"
        "    def add(self, value): self.value *= value\n"
        "    def merge(self, other): self.value *= other.value\n"
        "    def result(self): return 1 / self.value\n"
    )
    file = tmp_path / "pipeline.cql"
    stream = FILE[FILE.index("CREATE STREAM s") : FILE.index("CREATE STREAM r")]
    file.write_text(
        "CREATE AGGREGATE inverse (i BIGINT) RETURNS DOUBLE FROM python('own_aggregates:Inverse');"
        f"{stream} CREATE QUERY q AS SELECT k, inverse(i) AS a FROM s [RANGE 9 s] GROUP BY k;"
    )
    run = load_pipeline(spark, file, allow_python=True).start(
        tmp_path / "ck", available_now=True, buckets=2, sync=False
    )["q"]
    with pytest.raises(MayflyError, match=r"inverse of the group \(7\) failed in result: ZeroDiv"):
        run.await_done(300)
