"""The state of Parquet sinks at an instant, as docs/serving.md reads it, is that of the views."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import mayfly
from mayfly.spark.io.sinks import ParquetFiles

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
QUERIES = {
    "last": "SELECT host, bytes FROM packets [RANGE 7 seconds]",
    "busy": "SELECT host, COUNT(*) AS n, SUM(bytes) AS bytes FROM packets [RANGE 9 seconds] "
    "GROUP BY host",
    "lonely": "SELECT host FROM packets [RANGE 6 seconds] p WHERE NOT EXISTS "
    "(SELECT * FROM packets [RANGE 3 seconds] q WHERE q.bytes = p.bytes + 1)",
}
COLUMNS = {"last": "host, bytes", "busy": "host, n, bytes", "lonely": "host"}


def recipe(query: str, cuts: bool) -> str:
    columns, changes = COLUMNS[query], f"{query}_changes"
    cut = f"EXCEPT ALL SELECT {columns}, ts, exp FROM {changes} WHERE cut <= t" if cuts else ""
    return (
        f"SELECT {columns} FROM (SELECT {columns}, ts, exp FROM {changes} WHERE "
        f"{'cut IS NULL AND ' if cuts else ''}ts <= t AND (exp IS NULL OR exp > t) {cut})"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Three sinks, written in batches of seven seconds; two rows of a second may be equal."""
    folder = tmp_path_factory.mktemp("sinks")
    rows: list[dict[str, Any]] = [
        {"ts": START + timedelta(seconds=s), "host": "abc"[s * s % 3], "bytes": s * 5 % 4}
        for s in range(42)
        for _ in range(1 + s % 2)
    ]
    (folder / "in").mkdir()
    for number in range(6):
        part = [row for row in rows if number * 7 <= (row["ts"] - START).seconds < number * 7 + 7]
        kinds = [("ts", pa.timestamp("us", "UTC")), ("host", pa.string()), ("bytes", pa.int64())]
        table = pa.Table.from_pylist(part, schema=pa.schema(kinds))
        pq.write_table(table, file := folder / "in" / f"{number}.parquet")
        os.utime(file, (number, number))  # Spark takes files in the order in which they changed
    session = mayfly.Session(spark)
    schema = "ts timestamp, host string, bytes bigint"
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    session.stream("packets", source.parquet(str(folder / "in")), time="ts")
    sinks = {name: [ParquetFiles(str(folder / name))] for name in QUERIES}
    runs = session.queries(**QUERIES).start(
        folder / "ck", sinks=sinks, available_now=True, buckets=2
    )
    for run in runs.values():
        run.await_done()
    return folder


def expected(folder: Path, name: str, instant: datetime) -> list[tuple[Any, ...]]:
    answer = mayfly.open(folder / "ck").view(name, as_of=instant.isoformat())
    return sorted(tuple(row.values()) for row in answer.rows.to_pylist())


@pytest.mark.parametrize("name", QUERIES)
def test_duckdb_at_every_second(folder: Path, name: str) -> None:
    lake = duckdb.connect()
    files = f"{folder / name}/changes-*.parquet"
    lake.execute(f"CREATE VIEW {name}_changes AS FROM read_parquet('{files}')")
    cuts = "cut" in [column[0] for column in lake.execute(f"FROM {name}_changes").description]
    assert cuts == (name != "last")
    lake.execute(f"CREATE MACRO state_at(t) AS TABLE {recipe(name, cuts)}")
    answers = set()
    for second in range(42):
        instant = START + timedelta(seconds=second, milliseconds=second % 2)
        if second == 41:
            instant = START + timedelta(seconds=41)
        text = f"FROM state_at(TIMESTAMPTZ '{instant.isoformat()}')"
        rows = sorted(lake.execute(text).fetchall())
        assert rows == expected(folder, name, instant), second
        answers.add(tuple(rows))
    assert len(answers) > 10


def test_spark_at_one_instant(folder: Path, spark: SparkSession) -> None:
    spark.read.parquet(str(folder / "busy")).createOrReplaceTempView("busy_changes")
    instant = START + timedelta(seconds=30)
    text = recipe("busy", cuts=True)
    spark.sql(f"CREATE TEMPORARY FUNCTION state_at(t TIMESTAMP) RETURNS TABLE RETURN {text}")
    rows = spark.sql(f"SELECT * FROM state_at(TIMESTAMP '{instant.isoformat()}')").collect()
    spark.sql("DROP TEMPORARY FUNCTION state_at")
    assert sorted(tuple(row) for row in rows) == expected(folder, "busy", instant)
