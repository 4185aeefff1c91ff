"""What large groups leave in memory is found again by the workers of Spark, batch after batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mayfly.kernels.resident import LEAST_ROWS, RESIDENTS
from mayfly.spark.api.session import Session
from tests.integration.recorded import declare, record

BATCHES = 8


def figures(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a worker: who it is, what it has found and what it has made."""
    for _ in batches:
        listed = [[os.getpid()], [RESIDENTS.reused], [RESIDENTS.rebuilt]]
        yield pa.RecordBatch.from_arrays(list(map(pa.array, listed)), ["pid", "reused", "rebuilt"])


def counted(spark: SparkSession) -> dict[int, tuple[int, int]]:
    """The figures of every worker that answers."""
    frame = spark.range(0, 64, 1, 8).mapInArrow(figures, "pid long, reused long, rebuilt long")
    return {row.pid: (row.reused, row.rebuilt) for row in frame.collect()}


@pytest.mark.slow
def test_counts_are_used_again_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    random, size = np.random.default_rng(1), 2 * LEAST_ROWS
    batches, at = [], 0
    for number in range(BATCHES):
        rows = size if number == 0 else 50
        ts = np.arange(at, at + rows)
        at += rows
        batches.append({"s": pa.table({"ts": ts, "v": random.integers(0, 900, rows)})})
    record(tmp_path, batches)
    session = Session(spark)
    declare(session, tmp_path, {"s": batches[0]["s"].schema})
    before = counted(spark)
    query = session.query("SELECT MEDIAN(v) AS m, COUNT(*) AS n FROM s [RANGE 1 s]")
    run = query.start(tmp_path / "ck", available_now=True, buckets=1)
    assert run.await_done(timeout=300)
    after = counted(spark)
    reused, rebuilt = (
        sum(figure[part] - before.get(pid, (0, 0))[part] for pid, figure in after.items())
        for part in (0, 1)
    )
    print(f"reused {reused}, rebuilt {rebuilt}")
    assert rebuilt >= 1
    assert reused >= 1, "a worker finds what it has left, unless every batch goes to another one"
    values = np.concatenate([batch["s"]["v"].to_numpy() for batch in batches])[:-1]
    assert run.snapshot(at - 2).to_pylist() == [{"m": float(np.median(values)), "n": len(values)}]
