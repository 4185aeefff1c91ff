"""PUNCTUATION (k) WHEN (condition) in pipelines: a file runs, goes on and says what was late."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.api.query_run import QueryRun
from tests.integration.recorded import record
from tests.property.test_closed_keys import (
    SLACK,
    expected,
    late_rows,
    rows_of,
    schema_of,
    stream_rows,
)

QUERIES = {
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM o GROUP BY k",
    "pairs": "SELECT o.k, v, w FROM o LEFT JOIN p ON o.k = p.k",
    "equal": "SELECT v, w FROM o, p WHERE v = w",
}
CUTS = (0, 20, 35, 50, 70)


def pipeline(folder: Path, condition: str = "= 0", more: str = "") -> Path:
    file = folder / "p.cql"
    streams = (
        f"CREATE STREAM {stream} (ts BIGINT, k STRING, {value} BIGINT)"
        f" FROM parquet('{folder}/{stream}', maxFilesPerTrigger => '1')"
        f" TIMESTAMP BY ts MICROSECONDS SLACK {SLACK} MICROSECONDS"
        f" PUNCTUATION (k) WHEN ({value} {condition})"
        f" DEAD LETTERS TO parquet('{folder}/late-{stream}');"
        for stream, value in (("o", "v"), ("p", "w"))
    )
    queries = (f"CREATE QUERY {name} AS {text};" for name, text in QUERIES.items())
    file.write_text("\n".join([*streams, *queries, more]))
    return file


def tables_of(seed: str) -> dict[str, pa.Table]:
    rng = Random(seed)
    rows = {"o": stream_rows(rng, "v"), "p": stream_rows(rng, "w")}
    return {name: pa.Table.from_pylist(mine, schema_of(name)) for name, mine in rows.items()}


def batches_of(tables: dict[str, pa.Table]) -> list[dict[str, pa.Table]]:
    return [
        {name: table.slice(low, high - low) for name, table in tables.items()}
        for low, high in pairwise(CUTS)
    ]


def run_once(spark: SparkSession, file: Path) -> dict[str, QueryRun]:
    runs = load_pipeline(spark, file).start(
        file.with_suffix(".state"), available_now=True, sync=False, history="forever", buckets=2
    )
    assert all(run.await_done(240) for run in runs.values())
    return runs


def check(runs: dict[str, QueryRun], folder: Path, tables: dict[str, pa.Table]) -> None:
    """Answers, figures and dead letters are those of DuckDB."""
    for name, text in QUERIES.items():
        for instant in (27, 59):
            columns = runs[name].snapshot(instant).columns
            rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
            assert rows_of(rows) == expected(tables, text, instant), (name, instant)
    for name, table in tables.items():
        letters = pq.read_table(folder / f"late-{name}")
        assert set(letters["reason"].to_pylist()) == {"its key was closed"}
        columns = letters.drop_columns(["reason"]).columns
        rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
        assert rows_of(rows) == late_rows(name, table)
        assert runs["pairs"].status().late[name] == len(rows)
    held = {state.operator for state in runs["pairs"].status().operators}
    assert {"closed keys of o", "closed keys of p"} <= held


def test_a_pipeline_closes_keys(spark: SparkSession, tmp_path: Path) -> None:
    tables, file = tables_of("pipeline"), pipeline(tmp_path)
    record(tmp_path, batches_of(tables))
    check(run_once(spark, file), tmp_path, tables)
    newcomer = "CREATE QUERY more AS SELECT DISTINCT k FROM o;"
    with pytest.raises(InvalidSetting, match="may have closed keys before the query more came"):
        run_once(spark, pipeline(tmp_path, more=newcomer))
    with pytest.raises(InvalidSetting, match="PUNCTUATION"):
        run_once(spark, pipeline(tmp_path, "= 1"))
