"""TUMBLE, HOP, CUMULATE, SESSION and window() on Spark: all forms in one pipeline, with a death in
the middle of windows. Answers are compared with DuckDB (``finished_cases``)."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.session import Session
from mayfly.spark.stream import runner
from tests.integration.recorded import declare, record, run_over
from tests.property.finished_cases import (
    SCHEMA,
    SLACK,
    Batch,
    Query,
    admitted,
    expected,
    given,
    random_batches,
    random_query,
    recut,
)

STREAMS = ("s", "r")


class Killed(Exception):
    """Stands for the death of the driver."""


def queries_of(rng: Random, count: int) -> dict[str, Query]:
    """All kinds of windows, over one stream and over two."""
    made: dict[str, Query] = {}
    kinds = {"TUMBLE(", "HOP(", "CUMULATE(", "SESSION(", "window(", "session_window(", " JOIN "}
    while len(made) < count or kinds:
        query = random_query(rng)
        fresh = {kind for kind in kinds if kind in query.cql}
        if fresh or (len(made) < count - len(kinds)):
            kinds -= fresh
            made[f"q{len(made)}"] = query
    return made


def recorded(folder: Path, batches: list[Batch], first: int = 0) -> None:
    tables = [
        {name: pa.Table.from_pylist(rows, schema=SCHEMA) for name, rows in batch.items()}
        for batch in batches
    ]
    record(folder, tables, first)


def started(spark: SparkSession, folder: Path, texts: dict[str, str]) -> Any:
    session = Session(spark)
    declare(session, folder, dict.fromkeys(STREAMS, SCHEMA), slack=f"{SLACK} us")
    return session.queries(**texts)


def check(
    spark: SparkSession, folder: Path, seed: int, count: int, kills: pytest.MonkeyPatch
) -> None:
    """A part of the input, a death before its second batch is committed, the rest of it."""
    rng = Random(seed)
    queries = queries_of(rng, count)
    texts = {name: query.cql for name, query in queries.items()}
    rows = [batch for _ in range(3) for batch in random_batches(rng, STREAMS)]
    later = 0
    for batch in rows:  # one after the other in time, so that no row is late
        times = [row["ts"] for part in batch.values() for row in part]
        for part in batch.values():
            for row in part:
                row["ts"] += later
        later += max(times, default=0)
    batches = (recut(rows, rng) + [{name: [] for name in STREAMS}] * 3)[:3]
    batches[2] = {
        name: [row for batch in recut(rows, rng) for row in batch[name]][
            sum(len(batch[name]) for batch in batches[:2]) :
        ]
        for name in STREAMS
    }
    recorded(folder, batches[:2])
    begun, reached = started(spark, folder, texts), list[str]()

    def reach(place: str) -> None:
        reached.append(place)
        if reached.count("batch.receipts") == 2:
            raise Killed

    with kills.context() as deadly:
        deadly.setattr(runner, "reach", reach)
        settings: Any = {"sync": False, "history": "forever", "buckets": 2}
        runs = begun.start(folder / "ck", available_now=True, **settings)
        with pytest.raises(Killed):
            runs["q0"].await_done(240)
    recorded(folder, batches[2:], 2)
    runs = run_over(started(spark, folder, texts), folder / "ck", ends=True)
    kept = admitted(batches)
    for name, query in queries.items():
        answers = given(runs[name].changes())
        assert answers == expected(query, kept), (seed, query.cql)


def test_all_forms_in_one_pipeline_that_dies_within_windows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(spark, tmp_path, 3, 12, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 14))
def test_more_forms_in_pipelines_that_die(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    check(spark, tmp_path, seed, 40, monkeypatch)
