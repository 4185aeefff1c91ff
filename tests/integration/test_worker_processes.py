"""What is loaded before workers are forked, their collection of garbage passes over."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        counts = [[gc.get_freeze_count()], [len(gc.get_objects())]]
        yield pa.RecordBatch.from_arrays(list(map(pa.array, counts)), ["frozen", "looked_at"])


def test_garbage_is_not_looked_for_among_what_is_loaded(spark: SparkSession) -> None:
    (row,) = (
        spark.range(1).repartition(1).mapInArrow(frozen, "frozen long, looked_at long").collect()
    )
    assert row.frozen > 50_000
    assert row.looked_at < row.frozen / 4
