"""The driver's side of a query of the language: batches, commits, results.

The protocol is the window join's (see ``runner``): clock written ahead, one action that brings back
receipts, one manifest, delivery. What differs is what a batch computes: any program of operators,
stage by stage, with rows travelling as parcels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from mayfly.errors import InvalidSetting
from mayfly.faults import reach
from mayfly.kernels.delta import END, column_name
from mayfly.kernels.interval import Interval
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.pipeline.clocks import Clocks
from mayfly.pipeline.compiling import Program, Relation
from mayfly.pipeline.query import Stream
from mayfly.pipeline.relations import Changing
from mayfly.pipeline.staging import StagedProgram, staged
from mayfly.plan.expressions import quoted
from mayfly.plan.logical import Schema
from mayfly.spark.exchange import HEARTBEAT, STREAM
from mayfly.spark.log import TIMESTAMP
from mayfly.spark.parcels import DDL, MARKER, RECEIPT, packed
from mayfly.spark.program_tasks import LOG, OUT, OUT_BORN, OUT_CUT, SENT, ProgramTask, Splitter
from mayfly.spark.receipts import Receipt, accept
from mayfly.spark.runner import BatchFacts, Runner, empty_properties
from mayfly.spark.sinks import Delivery
from mayfly.spark.slots import Slots, projection
from mayfly.storage import (
    EXP,
    TS,
    Manifest,
    Segment,
    segment_batches,
)
from mayfly.storage.files import Directory

CUT = "cut"


@dataclass(frozen=True)
class ProgramWiring:
    """How input rows travel: all streams in one DataFrame, columns in slots of their type."""

    program: Program
    stages: StagedProgram
    streams: tuple[Stream, ...]
    slot_types: Mapping[str, str]
    slots: tuple[Mapping[str, str], ...]

    @staticmethod
    def of(
        program: Program, streams: Sequence[Stream], types: Mapping[str, Mapping[str, str]]
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
        return frame.selectExpr(
            f"{number} AS {STREAM}", f"{time} AS {TS}", *projection(self.slot_types, filled)
        )

    def nothing(self, spark: SparkSession) -> DataFrame:
        empty = [f"CAST(id AS INT) AS {STREAM}", f"id AS {TS}"]
        return spark.range(0).selectExpr(*empty, *projection(self.slot_types, {}))

    def receipts(
        self,
        rows: DataFrame,
        tasks: Sequence[ProgramTask],
        due: Sequence[Sequence[int]],
        count: int,
    ) -> DataFrame:
        """All stages over one batch, as one DataFrame of receipts; only one action may use it."""
        names = tuple(stream.name for stream in self.streams)
        splitter = Splitter(self.stages, names, self.slots, count)
        moving = rows.where(f"{STREAM} >= 0").mapInArrow(splitter, DDL)
        for task, listed in zip(tasks, due, strict=True):
            markers = self._markers(rows.sparkSession, task.stage, listed)
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


@dataclass
class ProgramRunner(Runner):
    """Executes the batches of one program over one checkpoint directory."""

    wiring: ProgramWiring  # type: ignore[assignment]
    relations: Mapping[str, Changing] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._streams = self.wiring.streams
        self._names = [stream.name for stream in self._streams]
        columns = self.wiring.program.plan.schema
        self._columns: Schema = columns
        fields = [
            pa.field(one.name, kind) for one, kind in zip(columns, self._kinds(), strict=True)
        ]
        self.view = self.wiring.program.sent is None
        times = [("ts", TIMESTAMP)]
        if self.view:
            times += [("exp", TIMESTAMP)]
            times += [(CUT, TIMESTAMP)] if self.wiring.program.answer.strict else []
        self.schema = pa.schema([*fields, *times])
        for stream in self._streams:
            if stream.dead_letter is not None:
                raise InvalidSetting(
                    f"stream {stream.name} has a dead letter, which queries in CQL do not fill yet",
                    "declare the stream without dead_letter; late rows are counted",
                )

    def _kinds(self) -> list[pa.DataType]:
        answer = self.wiring.program.answer.columns
        return [answer.field(column_name(one)).type for one in self.wiring.program.plan.schema]

    def close_input(self) -> None:
        base = self.repository.current()
        clocks = Clocks.from_json(base.properties["clocks"])
        if clocks.ended:
            self._deliver(base)
            return
        facts = BatchFacts(
            clocks.closed(), dict.fromkeys(self._names, 0), {}, base.properties["first"]
        )
        nothing = self.wiring.nothing(self.spark)
        self._deliver(self._step(nothing, base, base.properties["batch"], facts))

    def _facts(self, rows: DataFrame, before: Clocks) -> BatchFacts:
        facts = super()._facts(rows, before)
        known = self.repository.current().properties["first"]
        if known is None and self.wiring.program.sent is not None:
            known = rows.where(f"{STREAM} >= 0").agg(sql.min(TS)).collect()[0][0]
        return replace(facts, first=known)

    def _step(self, rows: DataFrame, base: Manifest, batch: int, facts: BatchFacts) -> Manifest:
        before = Clocks.from_json(base.properties["clocks"])
        interval = Interval(before.query, max(before.query, facts.clocks.query))
        due = self._due(base, interval, facts)
        receipts: list[Receipt] = []
        if any(due):
            tasks = [
                self._task_of(base, stage, interval, facts)
                for stage in range(self.wiring.stages.stages)
            ]
            frame = self.wiring.receipts(rows, tasks, due, self.settings.buckets)
            handed_in = [Receipt.decode(bytes(row[0]).decode()) for row in frame.collect()]
            places = [(stage, bucket) for stage, listed in enumerate(due) for bucket in listed]
            receipts = accept(handed_in, places)
        reach("batch.receipts")
        committed = self.repository.commit(
            base, self._edits(base, batch, facts, interval, receipts)
        )
        reach("batch.committed")
        return committed

    def _due(self, base: Manifest, interval: Interval, facts: BatchFacts) -> list[list[int]]:
        """All buckets of every stage, unless nothing came and nothing falls due."""
        stages = self.wiring.stages
        everyone = [
            [0] if stages.single(stage) else list(range(self.settings.buckets))
            for stage in range(stages.stages)
        ]
        waking = any(at < interval.clock for at in base.properties["due"].values())
        changed = any(
            len(one.changes) > len(base.properties["relations"].get(name, ()))
            for name, one in self.relations.items()
        )
        slides = stages.sent is not None and stages.sent.slide is not None
        busy = any(facts.rows.values()) or waking or changed or slides
        first = base.properties["batch"] < 0
        return everyone if busy or first else [[] for _ in everyone]

    def _task_of(
        self, base: Manifest, stage: int, interval: Interval, facts: BatchFacts
    ) -> ProgramTask:
        states = self._states_of(base, stage)
        return ProgramTask(
            root=str(self.repository.directory.root),
            sync=self.settings.sync,
            program=self.wiring.stages,
            stage=stage,
            buckets=self.settings.buckets,
            interval=interval,
            states=states,
            segments={path: base.segments[path] for path in _paths(states)},
            relations=self._relation_rows(base, stage, interval),
            history=max(1, self.settings.history),
            max_state_bytes=self.settings.max_state_bytes,
            first=facts.first,
        )

    def _states_of(self, base: Manifest, stage: int) -> dict[str, Any]:
        """Where the states of a stage are: a task need not know about the others."""
        stages = self.wiring.stages
        mine = {f"task/{task.number}" for task in stages.tasks if task.stage == stage}
        mine |= {SENT, LOG} if stage == stages.sent_stage else set()
        known = base.properties["state"]
        return {name: known[name] for name in known if name.rpartition("/")[0] in mine}

    def _relation_rows(
        self, base: Manifest, stage: int, interval: Interval
    ) -> dict[str, tuple[bytes, bytes]]:
        found = {}
        for task in self.wiring.stages.tasks:
            if task.relation is not None and task.stage == stage:
                changing = self.relations[task.relation.relation.casefold()]
                seen = base.properties["relations"].get(task.relation.relation.casefold(), ())
                delta, _ = changing.between(task.relation, interval, seen)
                found[str(task.number)] = packed(delta.born), packed(delta.cut)
        return found

    def _expired(self, base: Manifest, interval: Interval, horizon: int) -> Iterator[Segment]:
        """The changes of the batch before; tasks themselves drop what is dead of state and log."""
        yield from base.in_group(OUT)

    def _own_properties(
        self, base: Manifest, facts: BatchFacts, interval: Interval, receipts: Sequence[Receipt]
    ) -> dict[str, Any]:
        stored = {k: v for receipt in receipts for k, v in receipt.stored.items()}
        return {
            "first": facts.first,
            "state": {**base.properties["state"], **stored},
            "relations": self._relations_seen(base, interval),
        }

    def _relations_seen(self, base: Manifest, interval: Interval) -> dict[str, list[int]]:
        """Per relation, the instants at which its changes took effect."""
        seen = dict(base.properties["relations"])
        for name, changing in self.relations.items():
            probe = Relation(name, name, ())
            _, done = changing.between(probe, interval, seen.get(name, ()))
            seen[name] = list(done)
        return seen

    # ── results ───────────────────────────────────────────────────────────────────────────

    def delivery(self, committed: Manifest) -> Delivery:
        segments = [*committed.in_group(OUT_BORN), *committed.in_group(OUT_CUT)]
        directory = self.repository.directory
        reader = SegmentReader(str(directory.root), tuple(segments), self.schema, self._sources())
        return Delivery(
            batch_id=committed.version,
            rows=committed.properties["last"]["changes"],
            schema=self.schema,
            batches=lambda: reader.batches(directory),
            frame=lambda: reader.frame(self.spark, self.result_ddl()),
            clock=committed.properties["interval"][1],
        )

    def _sources(self) -> tuple[str, ...]:
        return tuple(column_name(one) for one in self._columns)

    def result_ddl(self) -> str:
        columns = [f"{quoted(one.name)} {one.type.sql()}" for one in self._columns]
        times = self.schema.names[len(columns) :]
        return ", ".join([*columns, *(f"{name} TIMESTAMP" for name in times)])

    def log_reader(self, manifest: Manifest, wanted: tuple[int, int, int | None]) -> SegmentReader:
        """The kept results of [since, until), alive at an instant if one is given."""
        listed = [
            manifest.segments[path]
            for name, stored in manifest.properties["state"].items()
            if name.startswith(f"{LOG}/")
            for path in stored["runs"]["kept"]
        ]
        root = str(self.repository.directory.root)
        schema = pa.schema([one for one in self.schema if one.name != CUT])
        return SegmentReader(root, tuple(listed), schema, self._sources(), wanted)


@dataclass(frozen=True)
class SegmentReader:
    """Stored results as users see them, read here or by executors."""

    root: str
    segments: tuple[Segment, ...]
    schema: pa.Schema
    sources: tuple[str, ...]
    wanted: tuple[int, int, int | None] = (MIN_TIME, NEVER, None)

    def batches(self, directory: Directory) -> Iterator[pa.RecordBatch]:
        for segment in self.segments:
            for batch in segment_batches(directory, segment):
                yield self._shown(batch)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.at(self.root)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for rows in segment_batches(directory, self.segments[number]):
                    yield self._shown(rows)

    def frame(self, spark: SparkSession, ddl: str) -> DataFrame:
        count = len(self.segments)
        return spark.range(0, count, 1, max(1, count)).mapInArrow(self, ddl)

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        since, until, at = self.wanted
        ts = batch.column(TS)
        keep = pc.and_(pc.greater_equal(ts, since), pc.less(ts, until))
        if at is not None:
            keep = pc.and_(keep, pc.greater(batch.column(EXP), at))
        batch = batch.filter(keep)
        columns = [batch.column(name) for name in self.sources]
        times = {"ts": TS, "exp": EXP, CUT: END}
        for name in self.schema.names[len(columns) :]:
            source = times[name]
            if source in batch.schema.names:
                columns.append(_instants(batch.column(source)))
            else:
                columns.append(pa.nulls(batch.num_rows, TIMESTAMP))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _paths(states: Mapping[str, Any]) -> Iterator[str]:
    """The segments in which states are stored."""
    for stored in states.values():
        for paths in stored["runs"].values():
            yield from paths


def _instants(times: pa.Array) -> pa.Array:
    """As timestamps; "always" and "never", which no calendar has, are NULL."""
    endless = pc.or_(pc.equal(times, NEVER), pc.equal(times, MIN_TIME))
    return pc.if_else(endless, pa.scalar(None, pa.int64()), times).cast(TIMESTAMP)


def empty_program_properties(
    streams: Sequence[Stream], description: Mapping[str, Any], buckets: int
) -> dict[str, Any]:
    """The properties of a checkpoint before its first batch."""
    own: dict[str, Any] = {"kind": "query", "first": None, "state": {}, "relations": {}}
    return {**empty_properties(streams, description, buckets), **own}
