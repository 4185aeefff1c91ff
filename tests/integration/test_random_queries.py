"""Random queries that run together on Spark give what each gives in this process."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from mayfly.runtime.in_process import ContinuousRun
from mayfly.spark.api.session import Session
from mayfly.testing.random_queries import STREAMS, random_query
from tests.integration.recorded import declare, record
from tests.integration.test_spark_queries import of_local, of_spark
from tests.property.continuous_cases import _rows, catalog, table_of
from tests.property.shared_runs import program_of

QUERIES, ROWS = 8, 42


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_spark_tells_the_changes_that_this_process_does(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng, known = Random(seed), catalog(0)
    texts = {f"q{number}": random_query(rng).cql for number in range(QUERIES)}
    rows = {name: _rows(rng, name, ROWS) for name in STREAMS}
    batches = [
        {name: table_of(name, listed[at : at + ROWS // 3]) for name, listed in rows.items()}
        for at in range(0, ROWS, ROWS // 3)
    ]
    record(tmp_path / "streams", batches)
    session = Session(spark)
    schemas = {name: table_of(name, []).schema for name in STREAMS}
    declare(session, tmp_path / "streams", schemas, sequence=["seq"])
    runs = session.queries(**texts).start(
        tmp_path / "ck", available_now=True, buckets=2, sync=False, history="forever"
    )
    assert all(run.await_done(400) for run in runs.values())
    given = 0
    for name, run in runs.items():
        alone = ContinuousRun(program_of(texts[name], known), known)
        own = alone.clocks.streams
        for batch in batches:
            alone.feed({one: table for one, table in batch.items() if one in own})
        end = run.status().clock
        assert end is not None
        alone.feed({}, dict.fromkeys(own, end))
        assert of_spark(run) == of_local(alone), texts[name]
        given += len(of_spark(run))
    assert given, "queries without results show nothing"
