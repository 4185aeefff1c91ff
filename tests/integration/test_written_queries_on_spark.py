"""Forms put together as people put them, on Spark: what each gives in this process.

All of them run in one pipeline with one checkpoint; their answers in this process are compared with
DuckDB in tests/property/test_written_queries.py.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from mayfly import LocalSession
from mayfly.spark.api.session import Session
from tests.integration.recorded import declare, record
from tests.integration.test_spark_queries import of_local, of_spark
from tests.property.written_cases import KINDS, random_streams, written_queries

WINDOW = "[RANGE 6 SECONDS]"
NAMES = (
    "full subs", "right sub", "exists view", "sets outer", "top join", "rank left",
    "filter distinct", "unnest join", "using3 full", "with with", "intersect all group",
    "scalar having", "outer chain", "marked under or", "union all outer", "natural",
)  # fmt: skip


@pytest.mark.slow
def test_written_queries(spark: SparkSession, tmp_path: Path) -> None:
    streams = random_streams(Random(7))
    batches = streams.batches(Random(8))
    chosen = {query.name: query.within(WINDOW) for query in written_queries()}
    session, local = Session(spark), LocalSession()
    record(tmp_path / "in", batches)
    declare(session, tmp_path / "in", KINDS, sequence=["seq"])
    for name, kinds in KINDS.items():
        local.stream(name, kinds, sequence="seq")
    for statement in {text for name in NAMES for text in chosen[name].before}:
        name, text = statement.removeprefix("CREATE VIEW ").split(" AS ", 1)
        session.view(name, text)
        local.execute(statement)
    texts = {name.replace(" ", "_"): chosen[name].cql for name in NAMES}
    runs = session.queries(**texts).start(
        tmp_path / "ck", available_now=True, buckets=2, sync=False, history="forever"
    )
    assert all(run.await_done(400) for run in runs.values())
    for name, run in runs.items():
        alone = local.query(texts[name])
        own = alone.clocks.streams
        for batch in batches:
            alone.feed({stream: table for stream, table in batch.items() if stream in own})
        end = run.status().clock
        assert end is not None
        alone.feed({}, dict.fromkeys(own, end))
        assert of_spark(run), name
        assert of_spark(run) == of_local(alone), name
