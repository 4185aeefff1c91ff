"""Columns that are called what Mayfly calls its own, on every way through Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.io.sinks import Callback, Memory

HOSTILE = (
    "ts", "exp", "_ts", "_exp", "Cut", "reason", "_stream", "bucket", "code", "sign", "kind",
    "stream", "order", "a b", "größe", "s0", "_code",
)  # fmt: skip
DECLARED = ", ".join(["at BIGINT", "k BIGINT", *(f"`{name}` BIGINT" for name in HOSTILE)])
PIPELINE = f"""
CREATE STREAM s ({DECLARED}) FROM json('in') TIMESTAMP BY at MICROSECONDS
  DEAD LETTERS TO parquet('late');
CREATE STREAM u (at BIGINT, k BIGINT) FROM json('other') TIMESTAMP BY at MICROSECONDS;
CREATE QUERY everything TO parquet('out') AS SELECT * FROM s [RANGE 3 SEC];
CREATE QUERY alone TO console() AS SELECT k, `ts`, `exp`, Cut FROM s [RANGE 3 SEC]
  WHERE NOT EXISTS (SELECT * FROM u [RANGE 2 SEC] WHERE u.k = s.k);
CREATE QUERY sent AS SELECT Istream(k, ts) FROM s [RANGE 3 SEC];
CREATE ARCHIVE kept KEY k REFRESH 1 s AS SELECT k, ts, exp, `a b` FROM s [RANGE 30 SEC];
CREATE ARCHIVE ended KEY k REFRESH 1 s AS SELECT k, ts, exp, Cut FROM s [RANGE 30 SEC]
  WHERE NOT EXISTS (SELECT * FROM u [RANGE 2 SEC] WHERE u.k = s.k);
"""
SECOND = 1_000_000


def write(folder: Path, file: str, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / file).write_text("\n".join(map(json.dumps, rows)))


def row(second: int, key: int) -> dict[str, Any]:
    return {"at": second * SECOND, "k": key, **{n: 100 * i + key for i, n in enumerate(HOSTILE)}}


def started(spark: SparkSession, file: Path, **sinks: Any) -> Any:
    pipeline = load_pipeline(spark, file)
    queries = pipeline._together()
    listed = {one.name: pipeline._sinks(one) for one in pipeline.queries}
    for name, sink in sinks.items():
        listed[name] = [*listed[name], *sink]
    runs = queries.start(
        file.with_suffix(".state"),
        sinks=listed,
        archives=pipeline.archives(queries.results()),
        available_now=True,
        buckets=2,
        sync=False,
    )
    assert all(run.await_done(300) for run in runs.values())
    return runs


@pytest.mark.slow
def test_users_keep_their_names(spark: SparkSession, tmp_path: Path, capsys: Any) -> None:
    file, memory, heard = tmp_path / "p.cql", Memory(), list[list[str]]()
    file.write_text(PIPELINE)
    write(tmp_path / "in", "0.json", [row(second, second % 3) for second in range(1, 5)])
    write(tmp_path / "other", "0.json", [{"at": 2 * SECOND, "k": 1}, {"at": 4 * SECOND, "k": 7}])

    def hear(changes: DataFrame, batch_id: int) -> None:
        heard.append(changes.columns)
        assert changes.count() > 0

    runs = started(spark, file, everything=[memory], alone=[Callback(hear)])
    own = ["at", "k", *HOSTILE]
    run = runs["everything"]
    expected = [row(second, second % 3) for second in (2, 3, 4)]
    assert run.snapshot().sort_by("at").to_pylist() == expected
    assert run.changes().schema.names == [*own, "ts_", "exp_"]
    assert run.changes_frame().columns == [*own, "ts_", "exp_"]
    assert run.view("hostile").columns == own
    (found,) = spark.sql("SELECT ts, `a b`, `größe` FROM hostile WHERE at = 4000000").collect()
    assert tuple(found) == (1, 1301, 1401)
    assert memory.table().schema.names == [*own, "ts_", "exp_"]
    assert pq.read_table(tmp_path / "out").schema.names == [*own, "ts_", "exp_"]
    assert heard[0] == ["k", "ts", "exp", "Cut", "ts_", "exp_", "cut_"]
    assert "ts_=1970-01-01" in capsys.readouterr().out
    assert runs["sent"].changes().schema.names == ["k", "ts", "ts_"]

    # Again, with a late row, and a query that came by a command.
    run.control.add("later", "SELECT exp, COUNT(*) AS ts FROM s [RANGE 9 SEC] GROUP BY exp")
    write(tmp_path / "in", "1.json", [row(1, 8), row(6, 0), row(9, 1)])
    write(tmp_path / "other", "1.json", [{"at": 9 * SECOND, "k": 7}])
    runs = started(spark, file)
    assert runs["everything"].snapshot().to_pylist() == [row(9, 1)]
    assert {"exp": 101, "ts": 3} in runs["later"].snapshot().to_pylist()
    (letter,) = pq.read_table(tmp_path / "late").to_pylist()
    assert letter == {**row(1, 8), "reason_": "late"}
    session = load_pipeline(spark, file).session
    for name, columns in {
        "kept": ["k", "ts", "exp", "a b"],
        "ended": ["k", "ts", "exp", "Cut"],
    }.items():
        archive = session.open_archive(tmp_path / "archives" / name)
        assert list(archive.settings.columns) == [*columns, "ts_", "exp_"]
        rows = archive.scan().to_pylist()
        assert {0, 2} <= {one["k"] for one in rows}
        assert all(one["ts"] == one["k"] and one["exp"] == 100 + one["k"] for one in rows)


OF_JOINS = ("ts", "exp", "_ts", "_exp", "cut", "bucket", "batch", "_v", "_id", "_end", "_code")


@pytest.mark.slow
def test_joins_and_their_archives_keep_names(spark: SparkSession, tmp_path: Path) -> None:
    columns = ", ".join(["at BIGINT", "k BIGINT", *(f"`{name}` BIGINT" for name in OF_JOINS)])
    for stream in ("a", "b"):
        rows = [
            {"at": i * SECOND, "k": i % 3, **{n: 100 * j + i for j, n in enumerate(OF_JOINS)}}
            for i in range(1, 8)
        ]
        write(tmp_path / stream, "0.json", rows)
    stored = [name for name in OF_JOINS if not name.startswith("_")]
    joined = "FROM a [RANGE 30 SEC], b [RANGE 30 SEC] WHERE a.k = b.k AND a.ts = b.ts"
    file = tmp_path / "p.cql"
    file.write_text(
        "".join(
            f"CREATE STREAM {one} ({columns}) FROM json('{one}') TIMESTAMP BY at MICROSECONDS;"
            for one in ("a", "b")
        )
        + f"CREATE QUERY pairs AS SELECT a.k, {', '.join(f'b.`{n}`' for n in OF_JOINS)} {joined};"
        "CREATE QUERY counts AS SELECT `_ts`, COUNT(*) AS batch, SUM(bucket) AS exp "
        "FROM a [RANGE 30 SEC] GROUP BY `_ts`;"
        "CREATE ARCHIVE kept KEY k REFRESH 1 s AS "
        f"SELECT a.k, {', '.join(f'b.{n}' for n in stored)} {joined};"
    )
    runs = started(spark, file)
    pairs = runs["pairs"].snapshot().to_pylist()
    assert len(pairs) == 7
    assert all(one[n] == 100 * j + one["ts"] for one in pairs for j, n in enumerate(OF_JOINS))
    assert runs["pairs"].changes().schema.names == ["k", *OF_JOINS, "ts_", "exp_"]
    assert {"_ts": 201, "batch": 1, "exp": 501} in runs["counts"].snapshot().to_pylist()
    archive = load_pipeline(spark, file).session.open_archive(tmp_path / "archives" / "kept")
    kept = archive.scan().to_pylist()
    assert kept
    assert all(row["exp"] == 100 + row["ts"] and row["cut"] == 400 + row["ts"] for row in kept)
