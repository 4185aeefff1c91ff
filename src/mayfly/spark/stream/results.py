"""The results of a query as users see them, read from committed files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from mayfly.checkpoint.result_folders import IDENTITY
from mayfly.checkpoint.result_log import DELIVERY
from mayfly.kernels.delta import END, column_name
from mayfly.kernels.refreshes import repeated
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.physical.shared_program import Member
from mayfly.plan.added_columns import LifetimeColumns
from mayfly.plan.expressions import quoted
from mayfly.plan.window_specs import Slide
from mayfly.runtime.clock import Clocks
from mayfly.spark.io.sinks import Delivery
from mayfly.spark.stream.stage_tasks import BORN, CUT, LOG, OUT
from mayfly.storage import EXP, TS, Manifest, Segment, segment_batches
from mayfly.storage.commit import reading_version
from mayfly.storage.directory import Directory

TIMESTAMP = pa.timestamp("us", tz="UTC")
Bounds = tuple[int, int, int | None]
"""Since, until, and an instant at which results must be alive."""
EVERYTHING: Bounds = (MIN_TIME, NEVER, None)


@dataclass(frozen=True)
class Results:
    """What one query gives: its columns, and times as far as it has them."""

    member: Member

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def view(self) -> bool:
        return self.member.program.sent is None

    @property
    def strict(self) -> bool:
        return self.view and self.member.program.answer.strict

    @cached_property
    def times(self) -> LifetimeColumns:
        """What the times of results are called, beside the columns of the query."""
        return LifetimeColumns.beside(column.name for column in self.member.program.plan.schema)

    @cached_property
    def schema(self) -> pa.Schema:
        columns, answer = self.member.program.plan.schema, self.member.program.answer.columns
        fields = [
            pa.field(column.name, answer.field(column_name(column)).type) for column in columns
        ]
        times = [self.times.ts, self.times.exp, self.times.cut][: 1 + self.view + self.strict]
        return pa.schema([*fields, *((name, TIMESTAMP) for name in times)])

    @property
    def log_schema(self) -> pa.Schema:
        return pa.schema(list(self.schema)[:-1] if self.strict else list(self.schema))

    def ddl(self, *, log: bool = False) -> str:
        columns = self.member.program.plan.schema
        times = (self.log_schema if log else self.schema).names[len(columns) :]
        listed = [f"{quoted(column.name)} {column.type.sql()}" for column in columns]
        return ", ".join([*listed, *(f"{quoted(name)} TIMESTAMP" for name in times)])

    def clocks(self, manifest: Manifest) -> Clocks:
        """The clocks of the streams this query reads."""
        return Clocks.from_json(manifest.properties["clocks"]).of(self.member.group.streams)

    def delivery(
        self,
        spark: SparkSession,
        directory: Directory,
        committed: Manifest,
        number: int | None = None,
    ) -> Delivery:
        """The changes of a committed batch, or of the step that was given a number."""
        folder = f"{OUT}/{self.name}"
        number = committed.properties["delivery"] if number is None else number
        logged = self._logged(committed)
        segments = [
            *committed.in_group(f"{folder}/{BORN}"), *committed.in_group(f"{folder}/{CUT}"),
            *(segment for segment in logged if segment.tags.get(DELIVERY) == number),
        ]  # fmt: skip
        reader = self._reader(directory, committed, segments, self.schema)
        return Delivery(
            batch_id=number,
            rows=sum(segment.rows for segment in segments),
            schema=self.schema,
            batches=lambda: reader.batches(directory),
            frame=lambda: reader.frame(spark, self.ddl()),
            clock=self.clocks(committed).query,
            source=str(committed.properties.get(IDENTITY, "")),
            times=self.times,
        )

    def log_reader(
        self, directory: Directory, manifest: Manifest, bounds: Bounds = EVERYTHING
    ) -> SegmentReader:
        """The kept results of [since, until), alive at an instant if one is given."""
        since, until, instant = bounds
        listed = [
            segment
            for segment in self._logged(manifest)
            if segment.ts.low < until
            and (segment.ts.high >= since or not self.view)
            and (instant is None or not segment.dead_at(instant))
        ]
        return self._reader(directory, manifest, listed, self.log_schema, bounds)

    def _logged(self, manifest: Manifest) -> list[Segment]:
        return [
            manifest.segments[path]
            for name, stored in manifest.properties["state"].items()
            if name.startswith(f"{LOG}/{self.name}/")
            for path in stored["runs"]["kept"]
        ]

    def _reader(
        self,
        directory: Directory,
        manifest: Manifest,
        segments: list[Segment],
        schema: pa.Schema,
        bounds: Bounds = EVERYTHING,
    ) -> SegmentReader:
        sources = tuple(column_name(column) for column in self.member.program.plan.schema)
        root, version = directory.address, manifest.version
        sent = self.member.program.sent
        slide = sent.slide if sent is not None and sent.is_periodic else None
        return SegmentReader(root, version, tuple(segments), schema, sources, bounds, slide)


@dataclass(frozen=True)
class SegmentReader:
    """Stored results as users see them, read here or by executors."""

    root: str
    version: int
    segments: tuple[Segment, ...]
    schema: pa.Schema
    sources: tuple[str, ...]
    bounds: Bounds = EVERYTHING
    slide: Slide | None = None
    """Of a query whose rows stand for runs of refreshes."""

    def batches(self, directory: Directory) -> Iterator[pa.RecordBatch]:
        with reading_version(directory, self.version):
            for segment in self.segments:
                for batch in segment_batches(directory, segment):
                    for part in self._repeated(batch):
                        yield self._shown(part)

    def _repeated(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        since, until, _ = self.bounds
        if self.slide is None:
            yield batch
            return
        for part in repeated(pa.Table.from_batches([batch]), self.slide, since, until):
            yield from part.to_batches()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.at(self.root)
        mine = [number for batch in batches for number in batch.column("id").to_pylist()]
        part = replace(self, segments=tuple(self.segments[number] for number in mine))
        return part.batches(directory)

    def frame(self, spark: SparkSession, ddl: str) -> DataFrame:
        count = len(self.segments)
        return spark.range(0, count, 1, max(1, count)).mapInArrow(self, ddl)

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        since, until, instant = self.bounds
        ts = batch.column(TS)
        keep = pc.and_(pc.greater_equal(ts, since), pc.less(ts, until))
        if instant is not None:
            keep = pc.and_(keep, pc.greater(batch.column(EXP), instant))
        batch = batch.filter(keep)
        columns = [batch.column(name) for name in self.sources]
        for source in (TS, EXP, END)[: len(self.schema) - len(columns)]:
            if source in batch.schema.names:
                columns.append(_instants(batch.column(source)))
            else:
                columns.append(pa.nulls(batch.num_rows, TIMESTAMP))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _instants(times: pa.Array) -> pa.Array:
    """As timestamps; "always" and "never", which no calendar has, are NULL."""
    endless = pc.or_(pc.equal(times, NEVER), pc.equal(times, MIN_TIME))
    return pc.if_else(endless, pa.scalar(None, pa.int64()), times).cast(TIMESTAMP)
