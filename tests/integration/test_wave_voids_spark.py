"""Void rows and smaller windows of waves: DataFrames and the data source show what probes show."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import mayfly

DAY = 86_400_000_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ARRAY<STRING>", pytest.param("STRING", marks=pytest.mark.slow)])
def test_every_read_leaves_the_same_rows_out(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    path = str(tmp_path / "archive")
    columns = f"k {kind}, ts BIGINT, id BIGINT"
    archive = mayfly.Session(spark).create_archive(
        path, columns, key="k", window=4, origin=0, scheme="RATA", constituents=3, parts=2
    )
    names = ["a", "b", "c"]
    for day in range(1, 7):
        cells = [[name, "x"] if kind != "STRING" else name for name in names]
        ids = [10 * day + at for at in range(3)]
        table = pa.table({"k": cells, "ts": pa.array([day * DAY] * 3), "id": pa.array(ids)})
        archive.update(table)
        if day == 5:
            assert archive.invalidate(["b"]).rows == 4
    mayfly.register(spark)

    def shown(window: str | None, keys: list[str] | None) -> list[list[int]]:
        arrow = archive.scan(window=window) if keys is None else archive.probe(*keys, window=window)
        frame = archive.frame(keys=keys, window=window)
        reader = spark.read.format("mayfly")
        reader = reader if window is None else reader.option("window", window)
        source = (reader if keys is None else reader.option("key", keys[0])).load(path)
        collected = [[row["id"] for row in one.collect()] for one in (frame, source)]
        return [sorted(found) for found in (arrow["id"].to_pylist(), *collected)]

    asked: list[tuple[list[str] | None, set[int]]] = [(None, {0, 1, 2}), (["b"], {1})]
    for keys, wanted in asked:
        expected = {10 * day + at for day in range(3, 7) for at in wanted} - {31, 41, 51}
        assert shown(None, keys) == [sorted(expected)] * 3
        assert shown("2 days", keys) == [sorted(id for id in expected if id >= 50)] * 3
