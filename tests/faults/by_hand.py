"""A driver by hand: a test hands over the micro-batches itself, as Spark would after a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mayfly.spark.api.queries import Queries
from mayfly.spark.api.query_run import QUERY, QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.api.streams import SparkQuery
from mayfly.spark.io.sinks import Delivery, ParquetFiles
from mayfly.spark.stream.dataflow import Dataflow
from mayfly.spark.stream.query_history import settle
from mayfly.spark.stream.runner import Runner
from tests.faults.recorded_links import WINDOWS, Undisturbed, assert_ended_right, links_query


class PowerCut(Exception):
    """Ends a batch where it stands; everything in memory is then thrown away."""


@dataclass
class Remembered:
    """A sink that keeps every delivery it gets: (batch id, rows)."""

    deliveries: list[tuple[int, pa.Table]] = field(default_factory=list)

    def deliver(self, delivery: Delivery) -> None:
        self.deliveries.append((delivery.batch_id, delivery.table()))


@dataclass
class DriverByHand:
    """One driver of a world; ``restarted`` is the next one over the same checkpoint."""

    spark: SparkSession
    undisturbed: Undisturbed
    world: Path
    wall_clock: Callable[[], int] | None = None
    """Makes the streams declare heartbeats."""
    sink: Remembered = field(default_factory=Remembered)
    query: SparkQuery = field(init=False)
    runner: Runner = field(init=False)

    def __post_init__(self) -> None:
        session, idle = Session(self.spark), None if self.wall_clock is None else 0
        self.query = links_query(session, self.undisturbed.input, self.world, idle)
        self.runner, register = Queries(session, {QUERY: self.query})._runner(
            f"{self.world}/checkpoint",
            None,
            {"history": "forever", "sync": False, "wall_clock": self.wall_clock},
        )
        settle(self.runner, register)
        self.runner.sinks_of = {QUERY: (self.sink, ParquetFiles(str(self.world / "out")))}

    @property
    def version(self) -> int:
        return self.runner.repository.newest()

    def rows(self, batch: int) -> DataFrame:
        """What Spark hands over as this batch."""
        frames = {}
        for name in WINDOWS:
            schema = self.query.session.frame_of(name).schema
            file = self.undisturbed.input / name / f"{batch:06d}.parquet"
            frames[name] = self.spark.read.schema(schema).parquet(str(file))
        return self.runner.dataflow.tagged(frames, None)

    def process(self, batch: int) -> None:
        self.runner.process(self.rows(batch), batch)

    def restarted(self) -> DriverByHand:
        return DriverByHand(self.spark, self.undisturbed, self.world, self.wall_clock)

    def finish(self, first: int) -> QueryRun:
        """Process what is left and close the input."""
        for batch in range(first, self.undisturbed.batches):
            self.process(batch)
        self.runner.close_input()
        return self.handle()

    def handle(self) -> QueryRun:
        return QueryRun(self.runner, None)

    def delivery(self) -> Delivery:
        """What the last committed batch has to deliver."""
        committed = self.runner.repository.current()
        directory = self.runner.repository.directory
        return self.runner.results[QUERY].delivery(self.spark, directory, committed)

    def finish_right(self, first: int) -> None:
        assert_ended_right(self.finish(first), self.world, self.undisturbed)

    def rewire(self, kind: type[Dataflow]) -> None:
        """Replace the dataflow by a faulty one."""
        dataflow = self.runner.dataflow
        self.runner.dataflow = kind(
            **{one.name: getattr(dataflow, one.name) for one in fields(dataflow)}
        )
