"""Queries that come to a running pipeline on Spark, over history that is kept there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.runtime.in_process import ContinuousRun
from tests.integration.recorded import record
from tests.integration.test_growing_pipeline import run
from tests.integration.test_spark_queries import batches, in_process

ALL = "SELECT k, g, v, seq FROM a [RANGE 60 us]"
COUNTS = "SELECT g, COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 25 us] WHERE v > 1 GROUP BY g"
KEYS = "SELECT k FROM b [NOW]"
"""Reads b, but keeps too little of it."""
OTHERS = "SELECT l.v, r.v AS w FROM a [RANGE 20 us] l, b [RANGE 10 us] r WHERE l.k = r.k"


def answer(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def assert_same(found: pa.Table, local: ContinuousRun, at: int) -> None:
    assert answer(found) == answer(local.snapshot(at)), at


@pytest.mark.slow
def test_a_newcomer_answers_over_what_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    rows = batches()
    record(tmp_path / "streams", rows[:2])
    before = {"everything": ALL, "keys": KEYS}
    first = run(spark, tmp_path, ends=False, **before)
    clock = first["everything"].status().clock
    assert clock is not None
    second = run(spark, tmp_path, ends=False, **before, counts=COUNTS, others=OTHERS)
    counts, others = second["counts"], second["others"]
    local = in_process(COUNTS)
    assert counts.since == clock
    assert counts.whole_from == clock - 1
    assert counts.status().warming_until is None
    assert_same(counts.snapshot(), local, clock - 1)
    assert answer(counts.snapshot()), "an empty answer shows nothing"
    first_file = pq.read_table(tmp_path / "out" / "counts")
    assert first_file.num_rows >= counts.snapshot().num_rows, "sinks have it, too"
    arrived = max(batch["b"]["ts"].cast(pa.int64()).to_numpy().max() for batch in rows[:2])
    assert others.whole_from == arrived + 10, "nobody kept enough of b"
    assert others.status().warming_until == others.whole_from
    record(tmp_path / "streams", rows[2:], first=2)
    third = run(spark, tmp_path, ends=True, **before, counts=COUNTS, others=OTHERS)
    assert local.clocks.query > clock + 25
    for at in range(clock - 1, local.clocks.query):
        assert_same(third["counts"].snapshot(at), local, at)
    joined = in_process(OTHERS)
    since = third["others"].whole_from
    assert since is not None
    assert since < joined.clocks.query
    for at in range(since, joined.clocks.query):
        assert_same(third["others"].snapshot(at), joined, at)
    assert third["others"].status().warming_until is None
    assert third["others"].verify().ok
