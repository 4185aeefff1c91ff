"""Streams recorded as Parquet files: the i-th files of all streams make the i-th micro-batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.plan.types import from_arrow
from mayfly.spark.api.pipelines import Pipeline
from mayfly.spark.api.queries import Queries
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.api.streams import SparkQuery, SparkStream
from mayfly.storage.segment import DATA
from mayfly.testing import (
    Batch,
    ColumnSpec,
    JoinCase,
    StreamSpec,
    WindowJoinOracle,
    assert_same_rows,
    cut_by_rows,
    generate,
    together,
)

_EPOCH = 1_000_000_000
"""Spark takes files in the order of their modification times; these are made up."""


def record(folder: Path, batches: Sequence[Batch], first: int = 0) -> None:
    """Write the batches as ``folder/<stream>/<number>.parquet``; each file appears at once."""
    for number, batch in enumerate(batches, first):
        for name, rows in batch.items():
            target = folder / name / f"{number:06d}.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            hidden = target.with_name(f".{target.name}")
            pq.write_table(rows, hidden)
            os.utime(hidden, (_EPOCH + number, _EPOCH + number))
            hidden.rename(target)


def declare(
    session: Session, folder: Path, schemas: Mapping[str, pa.Schema], **settings: Any
) -> dict[str, SparkStream]:
    """The recorded streams, one file of each per micro-batch."""
    declared = {}
    for name, schema in schemas.items():
        ddl = ", ".join(f"`{one.name}` {from_arrow(one.type).sql()}" for one in schema)
        (folder / name).mkdir(parents=True, exist_ok=True)
        frame = session.spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1)
        declared[name] = session.stream(
            name, frame.parquet(str(folder / name)), **{"unit": "microseconds", **settings}
        )
    return declared


def pair_case(rows: int, size: int, seed: int = 0, slack: int = 0, **settings: Any) -> JoinCase:
    """Two streams of ``rows`` rows, ``size`` per batch, joined on a text that may be NULL."""
    keys = (ColumnSpec("k", "string", distinct=15, nulls=0.1),)
    payload = (ColumnSpec("v", distinct=20, edges=False),)
    chosen = {
        "keys": keys,
        "payload": payload,
        "ties": 0.2,
        "slack": f"{slack} us",
        "ts_type": "int64",
    }
    streams = {
        name: generate(StreamSpec(rows, seed=2 * seed + number, **{**chosen, **settings}))
        for number, name in enumerate("ab")
    }
    cut = together({name: cut_by_rows(table, size) for name, table in streams.items()})
    return JoinCase(cut, {"a": 40_000, "b": 70_000}, ("k",), slack)


def pair_query(
    session: Session, folder: Path, case: JoinCase, *, declared: Mapping[str, Any] | None = None
) -> SparkQuery:
    """The case's join over what is recorded in ``folder``."""
    schemas = {name: rows.schema for name, rows in case.batches[0].items()}
    streams = declare(session, folder, schemas, slack=f"{case.slack} us", **(declared or {}))
    left, right = (streams[name].window(f"{length} us") for name, length in case.windows.items())
    return left.join(right, list(case.keys))


def drained(query: SparkQuery, checkpoint: Path, **settings: Any) -> QueryRun:
    """Run the query over everything recorded, to the end."""
    run = query.start(checkpoint, available_now=True, **settings)
    run.await_done()
    return run


def run_over(
    queries: Queries | Pipeline, checkpoint: Path, ends: bool, **settings: Any
) -> dict[str, QueryRun]:
    """Run the queries over everything recorded; ``ends`` says whether it is the end of input."""
    runs = queries.start(checkpoint, available_now=ends, sync=False, history="forever", **settings)
    if not ends:
        one = next(iter(runs.values()))
        assert one.query is not None
        one.query.processAllAvailable()
        one.stop()
    assert all(one.await_done(1200) for one in runs.values())
    return runs


def answers(changes: pa.Table, instants: Iterable[int]) -> pa.Table:
    """The answer at each instant, as rows that begin with the instant ``at``."""
    ts, exp = (changes[name].cast(pa.int64()).to_numpy() for name in ("ts", "exp"))
    rows = changes.drop_columns(["ts", "exp"])
    parts = []
    for at in sorted(set(instants)):
        alive = rows.take(np.flatnonzero((ts <= at) & (at < exp)))
        parts.append(alive.add_column(0, "at", pa.array(np.full(alive.num_rows, at))))
    return pa.concat_tables(parts)


def assert_right(
    run: QueryRun, oracle: WindowJoinOracle, *, instants: int = 400, snapshots: int = 5
) -> None:
    """Change log, the answer at instants where it may change (up to so many), some snapshots."""
    changes = run.changes()
    assert_same_rows(changes, oracle.lifetimes(), "change log")
    clock = run.status().clock
    assert clock is not None
    closed = [at for at in oracle.boundaries() if at < clock]
    asked = closed[:: -(-len(closed) // instants)]
    assert_same_rows(answers(changes, asked), oracle.answer_at(asked), "answers")
    for at in closed[:: -(-len(closed) // snapshots)]:
        expected = oracle.answer_at([at]).drop_columns(["at"])
        assert_same_rows(run.snapshot(at), expected, f"snapshot at {at}")


def assert_nothing_orphaned(run: QueryRun) -> None:
    """Every file is sound, and after vacuum there are exactly those the manifest names."""
    report = run.verify()
    assert report.ok, report.problems
    run.vacuum()
    repository = run.runner.repository
    named = sorted(repository.current().segments)
    assert repository.directory.all_names(DATA) == named
