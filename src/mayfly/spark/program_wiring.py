"""How rows travel through a batch of queries: one DataFrame, on which one action is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mayfly.pipeline.query import Stream
from mayfly.pipeline.sharing import SharedProgram
from mayfly.pipeline.shedding import NOTHING, Shedding
from mayfly.pipeline.staging import StagedProgram, staged
from mayfly.plan.expressions import quoted
from mayfly.spark.exchange import HEARTBEAT, STREAM
from mayfly.spark.parcels import DDL, MARKER, RECEIPT
from mayfly.spark.program_splitting import Splitter
from mayfly.spark.program_tasks import ProgramTask
from mayfly.spark.pushdown import wanted_rows
from mayfly.spark.slots import Slots, projection
from mayfly.storage import TS

SHARES = 1_000_000


@dataclass(frozen=True)
class ProgramWiring:
    """How input rows travel: all streams in one DataFrame, columns in slots of their type."""

    program: SharedProgram
    stages: StagedProgram
    streams: tuple[Stream, ...]
    slot_types: Mapping[str, str]
    slots: tuple[Mapping[str, str], ...]
    shedding: Shedding = NOTHING
    """What is left out on purpose."""

    @staticmethod
    def of(
        program: SharedProgram, streams: Sequence[Stream], types: Mapping[str, Mapping[str, str]]
    ) -> ProgramWiring:
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
        return ProgramWiring(program, stages, tuple(streams), slots.types, tuple(placed))

    def tagged(self, frames: Mapping[str, DataFrame], heartbeat: DataFrame | None) -> DataFrame:
        """One streaming DataFrame of all streams: (_stream, _ts, slots…)."""
        parts = [
            self._tagged(number, stream, frames[stream.name])
            for number, stream in enumerate(self.streams)
        ]
        if heartbeat is not None:
            nothing = [f"{HEARTBEAT} AS {STREAM}", f"CAST(NULL AS BIGINT) AS {TS}"]
            parts.append(heartbeat.selectExpr(*nothing, *projection(self.slot_types, {})))
        return reduce(DataFrame.unionAll, parts)

    def _tagged(self, number: int, stream: Stream, frame: DataFrame) -> DataFrame:
        time = quoted(stream.time)
        if pa.types.is_timestamp(stream.schema.field(stream.time).type):
            time = f"unix_micros({time})"
        filled = {slot: quoted(name) for slot, name in self.slots[number].items()}
        tag = self._tag(number, stream)
        return frame.selectExpr(
            f"{tag} AS {STREAM}", f"{time} AS {TS}", *projection(self.slot_types, filled)
        )

    def _tag(self, number: int, stream: Stream) -> str:
        """The number of the stream, unless a row is left out or is a punctuation."""
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
        return f"CASE {' '.join(cases)} ELSE {number} END" if cases else str(number)

    def nothing(self, spark: SparkSession) -> DataFrame:
        empty = [f"CAST(id AS INT) AS {STREAM}", f"id AS {TS}"]
        return spark.range(0).selectExpr(*empty, *projection(self.slot_types, {}))

    def receipts(
        self,
        rows: DataFrame,
        tasks: Sequence[ProgramTask],
        due: Sequence[Sequence[int]],
        count: int,
        late_before: Mapping[str, int],
    ) -> DataFrame:
        """All stages over one batch, as one DataFrame of receipts; only one action may use it."""
        names = tuple(stream.name for stream in self.streams)
        splitter = Splitter(self.stages, names, self.slots, count, late_before)
        wanted = wanted_rows(self.streams, self.stages.feeds, self.slots)
        moving = rows.where(wanted).mapInArrow(splitter, DDL)
        return self.stepped(moving, tasks, due, count)

    def kept_rows(self, spark: SparkSession, reader: Any, count: int) -> DataFrame:
        """The parcels a reader makes of so many stored pieces."""
        return spark.range(0, count, 1, max(1, count)).mapInArrow(reader, DDL)

    def stepped(
        self,
        moving: DataFrame,
        tasks: Sequence[ProgramTask],
        due: Sequence[Sequence[int]],
        count: int,
    ) -> DataFrame:
        """All stages over parcels, as receipts."""
        for task, listed in zip(tasks, due, strict=True):
            markers = self._markers(moving.sparkSession, task.stage, listed)
            moving = (
                moving.unionAll(markers).repartitionById(count, "_bucket").mapInArrow(task, DDL)
            )
        return moving.where(f"_edge = '{RECEIPT}'").select("_data")

    def _markers(self, spark: SparkSession, stage: int, due: Sequence[int]) -> DataFrame:
        listed = ", ".join(str(bucket) for bucket in due)
        return spark.range(1).selectExpr(
            f"explode(array({listed})) AS _bucket",
            f"{stage} AS _stage",
            f"'{MARKER}' AS _edge",
            "CAST('' AS BINARY) AS _data",
        )


def left_out(number: int) -> int:
    """How rows of a stream are marked that are left out; HEARTBEAT is -1."""
    return -2 * number - 2


def promise(number: int) -> int:
    """How punctuations of a stream are marked."""
    return -2 * number - 3
