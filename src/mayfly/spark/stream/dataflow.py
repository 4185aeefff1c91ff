"""How rows travel through a batch of queries: what came is counted, then stepped, by one action
each on one DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from mayfly.physical.shared_program import SharedProgram
from mayfly.physical.stager import staged
from mayfly.physical.stages import StagedProgram
from mayfly.plan.expressions import quoted
from mayfly.plan.stream_joins import Stream
from mayfly.runtime.max_gap import Limits
from mayfly.runtime.shed_load import NOTHING, Shedding
from mayfly.spark.stream.arrivals import Arrived, added, decoded, left_out, promise, unwanted
from mayfly.spark.stream.pane_pass import PanePass
from mayfly.spark.stream.pane_split import PaneSplitter
from mayfly.spark.stream.parcels import COUNTS, MARKER, RECEIPT, SCHEMA
from mayfly.spark.stream.pushdown import wanted_rows
from mayfly.spark.stream.row_split import Splitter
from mayfly.spark.stream.slots import HEARTBEAT, STREAM, Slots, projection
from mayfly.spark.stream.stage_tasks import StageStep
from mayfly.storage import TS

SHARES = 1_000_000
_KINDS = {pa.int32(): IntegerType(), pa.string(): StringType(), pa.binary(): BinaryType()}
PARCELS = StructType([StructField(field.name, _KINDS[field.type]) for field in SCHEMA])
"""Made once: a text would be read by Spark at every use."""


@dataclass(frozen=True)
class Dataflow:
    """How input rows travel: all streams in one DataFrame, columns in slots of their type."""

    program: SharedProgram
    stages: StagedProgram
    streams: tuple[Stream, ...]
    slot_types: Mapping[str, str]
    slots: tuple[Mapping[str, str], ...]
    buckets: int
    shedding: Shedding = NOTHING
    """What is left out on purpose."""
    zone: str = "UTC"
    """In which times have a day and an hour."""
    panes: tuple[PanePass, ...] = ()
    """What Spark SQL makes of rows, of each stream with queries that take panes."""

    @staticmethod
    def of(
        program: SharedProgram,
        streams: Sequence[Stream],
        types: Mapping[str, Mapping[str, str]],
        buckets: int,
    ) -> Dataflow:
        """``types``: stream → column → Spark DDL type."""
        stages, slots = staged(program), Slots()
        placed = []
        for stream in streams:
            needed = dict.fromkeys(
                name
                for feed in stages.feeds
                if feed.source.stream == stream.name
                for name in feed.source.columns
            )
            if stream.dead_letter is not None:
                needed = dict.fromkeys(stream.schema.names)
            placed.append(slots.place([(name, types[stream.name][name]) for name in needed]))
        panes = PanePass.of(stages.feeds, streams, placed)
        return Dataflow(
            program, stages, tuple(streams), slots.types, tuple(placed), buckets, panes=panes
        )

    @property
    def splitter(self) -> Splitter:
        names = tuple(stream.name for stream in self.streams)
        kept = frozenset(stream.name for stream in self.streams if stream.dead_letter is not None)
        return Splitter(self.stages, names, self.slots, self.buckets, kept, self.zone)

    def tagged(self, frames: Mapping[str, DataFrame], heartbeat: DataFrame | None) -> DataFrame:
        """One streaming DataFrame of parcels, split and exchanged, and of their counts; where
        panes are made of rows, of the rows."""
        parts = [
            self._tagged(number, stream, frames[stream.name])
            for number, stream in enumerate(self.streams)
        ]
        if heartbeat is not None:
            nothing = [f"{HEARTBEAT} AS {STREAM}", f"CAST(NULL AS BIGINT) AS {TS}"]
            parts.append(heartbeat.selectExpr(*nothing, *projection(self.slot_types, {})))
        rows = reduce(DataFrame.unionAll, parts)
        if self.panes:
            return rows
        return self._exchanged(rows.mapInArrow(self.splitter, PARCELS))

    @contextmanager
    def parcels(self, batch: DataFrame, limits: Sequence[Limits]) -> Iterator[DataFrame]:
        """What ``tagged`` gives for a batch, as parcels: two actions may use these."""
        if not self.panes:
            yield batch
            return
        alone, parts = len(self.streams) == 1, []
        tags = [tag for panes in self.panes for tag in panes.tags]
        for panes in self.panes:
            rows = batch if alone else batch.where(f"{STREAM} IN ({_listed(panes.tags)})")
            groups = panes.aggregated(rows, limits[panes.stream])
            splitter = PaneSplitter(self.stages, panes, self.buckets, tuple(limits), self.zone)
            parts.append(groups.mapInArrow(splitter, PARCELS))
            if panes.rest:
                beside = replace(self.splitter, only=frozenset(panes.rest))
                parts.append(self._rows_beside(rows, panes).mapInArrow(beside, PARCELS))
        if len(self.panes) < len(self.streams):
            others = batch.where(f"{STREAM} NOT IN ({_listed(tags)})")
            parts.append(others.mapInArrow(self.splitter, PARCELS))
        parcels = self._exchanged(reduce(DataFrame.unionAll, parts)).persist()
        try:
            yield parcels
        finally:
            parcels.unpersist()

    def _rows_beside(self, rows: DataFrame, panes: PanePass) -> DataFrame:
        """Of a stream with panes, the rows that other feeds may select, and what they read."""
        feeds = [self.stages.feeds[number] for number in panes.rest]
        slots = {column: slot for slot, column in self.slots[panes.stream].items()}
        needed = dict.fromkeys(slots[name] for feed in feeds for name in feed.source.columns)
        condition = wanted_rows(feeds, lambda column: slots[column.name])
        rows = rows.where(f"{STREAM} = {panes.stream}")
        chosen = rows if condition is None else rows.where(condition)
        return chosen.select(STREAM, TS, *needed)

    def _exchanged(self, parcels: DataFrame) -> DataFrame:
        return parcels.repartitionById(self.buckets, "_bucket")

    def _tagged(self, number: int, stream: Stream, frame: DataFrame) -> DataFrame:
        time = quoted(stream.time)
        if pa.types.is_timestamp(stream.schema.field(stream.time).type):
            time = f"unix_micros({time})"
        filled = {slot: quoted(name) for slot, name in self.slots[number].items()}
        tag = self._tag(number, stream)
        rows = frame.selectExpr(
            f"{tag} AS {STREAM}", f"{time} AS {TS}", *projection(self.slot_types, filled)
        )
        if tag == str(number):
            return rows
        needed = {slot: f"IF({STREAM} >= 0, {slot}, NULL)" for slot in filled}
        return rows.selectExpr(STREAM, TS, *projection(self.slot_types, needed))

    def _tag(self, number: int, stream: Stream) -> str:
        """The number of the stream, unless a row only counts."""
        cases = []
        if stream.punctuations:
            others = [f"{quoted(n)} IS NULL" for n in stream.schema.names if n != stream.time]
            alone = " AND ".join([f"{quoted(stream.time)} IS NOT NULL", *others])
            cases.append(f"WHEN {alone} THEN {promise(number)}")
        if self.shedding.of_rows:
            columns = ", ".join(quoted(name) for name in stream.schema.names)
            cases.append(
                f"WHEN pmod(xxhash64({columns}), {SHARES})"
                f" < {round(self.shedding.of_rows * SHARES)}"
                f" THEN {left_out(number)}"
            )
        feeds = [feed for feed in self.stages.feeds if feed.source.stream == stream.name]
        condition = wanted_rows(feeds) if stream.dead_letter is None else None
        if condition is not None:
            cases.append(f"WHEN ({condition}) IS NOT TRUE THEN {unwanted(number)}")
        return f"CASE {' '.join(cases)} ELSE {number} END" if cases else str(number)

    def arrived(self, parcels: DataFrame) -> list[Arrived]:
        """Per stream, what came of it in a batch."""
        rows = parcels.where(f"_edge = '{COUNTS}'").select("_data").collect()
        return added((decoded(bytes(row[0])) for row in rows), len(self.streams))

    def receipts(
        self,
        parcels: DataFrame,
        tasks: Sequence[StageStep],
        due: Sequence[Sequence[int]],
    ) -> DataFrame:
        """All stages over a batch as ``tagged`` made it, as one DataFrame of receipts; only one
        action may use it."""
        moving = parcels.mapInArrow(replace(tasks[0], placed=True), PARCELS)
        return self.stepped(moving, tasks[1:], due[1:])

    def nothing(self, spark: SparkSession) -> DataFrame:
        """No parcels at all, not exchanged."""
        number = "CAST(id AS INT)"
        return spark.range(0).selectExpr(
            f"{number} AS _bucket", f"{number} AS _stage", "'' AS _edge", "CAST('' AS BINARY) _data"
        )

    def kept_rows(self, spark: SparkSession, reader: Any, count: int) -> DataFrame:
        """The parcels a reader makes of so many stored pieces."""
        return spark.range(0, count, 1, max(1, count)).mapInArrow(reader, PARCELS)

    def stepped(
        self,
        moving: DataFrame,
        tasks: Sequence[StageStep],
        due: Sequence[Sequence[int]],
    ) -> DataFrame:
        """All stages over parcels that are not exchanged yet, as receipts."""
        for task, listed in zip(tasks, due, strict=True):
            markers = self._markers(moving.sparkSession, task.stage, listed)
            # What moves comes first: a task that is placed counts its partitions.
            moving = self._exchanged(moving.unionAll(markers)).mapInArrow(task, PARCELS)
        return moving.where(f"_edge = '{RECEIPT}'").select("_data")

    def _markers(self, spark: SparkSession, stage: int, due: Sequence[int]) -> DataFrame:
        listed = ", ".join(str(bucket) for bucket in due)
        return spark.sql(
            f"SELECT explode(array({listed})) AS _bucket, {stage} AS _stage,"
            f" '{MARKER}' AS _edge, CAST('' AS BINARY) AS _data"
        )


def _listed(tags: Sequence[int]) -> str:
    return ", ".join(map(str, tags))
