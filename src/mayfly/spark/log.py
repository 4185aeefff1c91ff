"""Reading the change log: committed results with their lifetimes.

The log of a join is a table of results with ``[ts, exp)``. What happened between two instants,
what a batch delivered and what the answer was at an instant are all ranges over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.spark.tasks import LOG
from mayfly.storage.files import Directory
from mayfly.storage.manifest import Manifest
from mayfly.storage.segment import EXP, TS, Segment, segment_batches

TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class LogRange:
    """Results generated in ``[since, until)`` and, if ``at`` is given, alive at that instant."""

    since: int = MIN_TIME
    until: int = NEVER
    at: int | None = None

    @staticmethod
    def alive(at: int) -> LogRange:
        return LogRange(until=at + 1, at=at)

    def may_hold(self, segment: Segment) -> bool:
        dead = self.at is not None and segment.dead_at(self.at)
        return not dead and segment.ts.low < self.until and segment.ts.high >= self.since

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ts = batch.column(TS)
        wanted = pc.and_(pc.greater_equal(ts, self.since), pc.less(ts, self.until))
        if self.at is not None:
            wanted = pc.and_(wanted, pc.greater(batch.column(EXP), self.at))
        return batch.filter(wanted)


def log_segments(manifest: Manifest, wanted: LogRange) -> list[Segment]:
    return [segment for segment in manifest.in_group(LOG) if wanted.may_hold(segment)]


def visible_schema(schema: pa.Schema) -> pa.Schema:
    """What users see: the result's columns, then ts and exp as timestamps."""
    fields = [one for one in schema if one.name not in (TS, EXP)]
    return pa.schema([*fields, ("ts", TIMESTAMP), ("exp", TIMESTAMP)])


def visible(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A stored batch as users see it."""
    own = [batch.column(one.name) for one in schema if one.name not in ("ts", "exp")]
    times = [batch.column(name).cast(TIMESTAMP) for name in (TS, EXP)]
    return pa.RecordBatch.from_arrays([*own, *times], schema=schema)


def log_batches(
    directory: Directory, manifest: Manifest, wanted: LogRange, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The wanted results in bounded batches, as users see them."""
    for segment in log_segments(manifest, wanted):
        for batch in segment_batches(directory, segment):
            chosen = wanted.rows(batch)
            if chosen.num_rows:
                yield visible(chosen, schema)


@dataclass(frozen=True, slots=True)
class _ReadLog:
    """Executor side of ``log_frame``: each input row names one segment."""

    root: str
    segments: tuple[Segment, ...]
    wanted: LogRange
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.at(self.root)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for rows in segment_batches(directory, self.segments[number]):
                    yield visible(self.wanted.rows(rows), self.schema)


def log_frame(
    spark: SparkSession,
    directory: Directory,
    segments: list[Segment],
    wanted: LogRange,
    schema: pa.Schema,
    ddl: str,
) -> DataFrame:
    """The wanted results as a DataFrame, read by executors from the committed files."""
    numbers = spark.range(0, len(segments), 1, max(1, len(segments)))
    task = _ReadLog(str(directory.root), tuple(segments), wanted, schema)
    return numbers.mapInArrow(task, ddl)
