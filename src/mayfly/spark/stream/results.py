"""The results of a query as users see them, read from committed files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mayfly.checkpoint.result_folders import IDENTITY
from mayfly.checkpoint.result_log import BEGAN, DELIVERY, LOG
from mayfly.checkpoint.stored_results import (
    EVERYTHING,
    TIMESTAMP,
    Extent,
    SegmentReader,
    StoredResults,
)
from mayfly.kernels.delta import column_name
from mayfly.lifetime import MIN_TIME
from mayfly.physical.joint_readers import LogShare
from mayfly.physical.shared_program import Member, SharedProgram
from mayfly.physical.stages import StagedProgram
from mayfly.plan.added_columns import LifetimeColumns
from mayfly.plan.expressions import quoted
from mayfly.runtime.clock import Clocks
from mayfly.spark.io.sinks import Delivery
from mayfly.spark.stream.stage_tasks import BORN, CUT, OUT
from mayfly.storage import Manifest, Segment
from mayfly.storage.directory import Directory


@dataclass(frozen=True)
class Results:
    """What one query gives: its columns, and times as far as it has them."""

    member: Member
    share: LogShare | None = None
    """Where they are, if they are among those of other queries."""

    @property
    def log(self) -> str:
        """The name of the log with its results."""
        return self.name if self.share is None else self.share.log

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
        folder = f"{OUT}/{self.log}"
        # Of a newcomer's first step all that it shows is new.
        began = committed.properties.get(BEGAN, {}).get(self.log) if number is None else MIN_TIME
        began = None if self.share is None else began
        number = committed.properties["delivery"] if number is None else number
        segments = [
            *committed.in_group(f"{folder}/{BORN}"), *committed.in_group(f"{folder}/{CUT}"),
            *(segment for segment in self.stored.logged(committed)
              if segment.tags.get(DELIVERY) == number or self._may_hold(segment, began)),
        ]  # fmt: skip
        rows = self._changes(committed, number, segments)
        if not rows:
            segments = []  # those of others, or what a query shows that came after the batch
        whole = replace(self.stored, schema=self.schema)
        reader = replace(whole.reader(directory, committed, segments), began=began)
        return Delivery(
            batch_id=number,
            rows=rows,
            schema=self.schema,
            batches=lambda: reader.batches(directory),
            frame=lambda: frame_of(reader, spark, self.ddl()),
            clock=self.clocks(committed).query,
            source=str(committed.properties.get(IDENTITY, "")),
            times=self.times,
        )

    def _may_hold(self, segment: Segment, began: int | None) -> bool:
        """Whether results of a batch may still hold in a segment that is no log."""
        is_log = segment.group.startswith(f"state/{LOG}/")
        return began is not None and not is_log and segment.ts.high >= began

    @cached_property
    def stored(self) -> StoredResults:
        """The log, in which no result is cut."""
        sources = tuple(column_name(column) for column in self.member.program.plan.schema)
        sent = self.member.program.sent
        slide = sent.slide if sent is not None and sent.is_periodic else None
        if self.share is None:
            return StoredResults(self.name, self.log_schema, sources, self.view, slide)
        place = self.share.log, self.share.reader, self.share.open
        return StoredResults(
            self.name, self.log_schema, self.share.sources, self.view, slide, share=place
        )

    def _changes(self, committed: Manifest, number: int, segments: Sequence[Segment]) -> int:
        """How many results are delivered; files that queries share hold those of others, too."""
        if self.share is not None and number == committed.properties["delivery"]:
            return int(committed.properties.get("last_answers", {}).get(self.name, 0))
        return sum(segment.rows for segment in segments)

    def log_reader(
        self, directory: Directory, manifest: Manifest, extent: Extent = EVERYTHING
    ) -> SegmentReader:
        """The kept results of [since, until), alive at an instant if there is one."""
        return self.stored.log_reader(directory, manifest, extent)


def frame_of(reader: SegmentReader, spark: SparkSession, ddl: str) -> DataFrame:
    """Stored results as a DataFrame, read by executors."""
    count = len(reader.segments)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(reader, ddl)


def results_of(program: SharedProgram, stages: StagedProgram) -> dict[str, Results]:
    """The results of every query, by name."""
    shares = {answer.query: answer.share for answer in stages.answers}
    return {member.name: Results(member, shares[member.name]) for member in program.members}
