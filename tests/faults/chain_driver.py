"""A driver of a three-way chained join on a cluster, whose executors wait before each stage.

Run it as ``python -m tests.faults.chain_driver <input> <world> <master> <folder>``. Executors go
on once there is a file ``go`` in ``<folder>/stage-1``, and then in ``<folder>/stage-2``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from mayfly.faults import PAUSE_AT
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.api.streams import SparkQuery
from mayfly.spark.cluster.local_spark import local_spark
from mayfly.testing import (
    Batch,
    ColumnSpec,
    StreamSpec,
    Windowed,
    WindowJoinOracle,
    cut_by_rows,
    generate,
    together,
)
from tests.integration.recorded import declare

WINDOWS = {"a": 300_000, "b": 500_000, "c": 200_000}
ROWS, ROWS_PER_FILE = 240, 60


def chain_rows() -> dict[str, pa.Table]:
    keys = (ColumnSpec("k", distinct=60), ColumnSpec("s", "string", distinct=30, nulls=0.05))
    return {
        name: generate(StreamSpec(ROWS, keys=keys, payload=(), ts_type="int64", seed=seed))
        for seed, name in enumerate(WINDOWS)
    }


def chain_batches() -> list[Batch]:
    return together({n: cut_by_rows(rows, ROWS_PER_FILE) for n, rows in chain_rows().items()})


def chain_oracle() -> WindowJoinOracle:
    streams = {name: Windowed(rows, f"{WINDOWS[name]} us") for name, rows in chain_rows().items()}
    return WindowJoinOracle(streams, [("a.k", "b.k"), ("b.s", "c.s")])


def chain_query(session: Session, input: Path) -> SparkQuery:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "s": pa.string(), "seq": pa.int64()})
    streams = declare(session, input, dict.fromkeys(WINDOWS, schema))
    a, b, c = (streams[name].window(f"{length} us") for name, length in WINDOWS.items())
    return a.join(b, "k").join(c, [("b.s", "c.s")])


def start_chain(session: Session, input: Path, world: Path) -> QueryRun:
    return chain_query(session, input).start(
        world / "checkpoint",
        available_now=True,
        parquet=world / "out",
        buckets=2,
        history="forever",
    )


def main(input: Path, world: Path, master: str, paused: str) -> None:
    pauses = ",".join(f"{stage}.begun@{paused}/{stage}" for stage in ("stage-1", "stage-2"))
    spark = local_spark(
        master=master,
        settings={
            "spark.executor.memory": "600m",
            # As on machines of their own: a dead executor's shuffle files are gone.
            "spark.shuffle.readHostLocalDisk": "false",
            f"spark.executorEnv.{PAUSE_AT}": pauses,
        },
    )
    start_chain(Session(spark), input, world).await_done()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
