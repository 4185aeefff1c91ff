"""The runner of queries in this process: its tasks, receipts and commits without Spark.

Only the way rows travel between tasks is made up here; splitting, steps, states, commits and
results are the code that runs on Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.cql import bind_query
from mayfly.lifetime import NEVER
from mayfly.optimizer.optimize import optimize
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.physical.compiler import compile_plan
from mayfly.physical.program import Program
from mayfly.physical.shared_program import canonical, shared
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.logical_operators import Output
from mayfly.plan.strategy import Strategy
from mayfly.plan.stream_joins import Stream
from mayfly.plan.types import arrow_type, from_arrow
from mayfly.runtime.max_gap import Limits
from mayfly.spark.stream.arrivals import Arrived, added, decoded, promise
from mayfly.spark.stream.batch_record import BatchRecords
from mayfly.spark.stream.checkpoint_properties import empty_properties
from mayfly.spark.stream.dataflow import Dataflow
from mayfly.spark.stream.micro_batch import RunSettings
from mayfly.spark.stream.parcels import COUNTS, MARKER, RECEIPT, Parcel, batch_of, parcels_of
from mayfly.spark.stream.results import Results
from mayfly.spark.stream.runner import Runner
from mayfly.spark.stream.slots import STREAM
from mayfly.spark.stream.stage_tasks import StageStep
from mayfly.storage import Manifest, Repository
from mayfly.storage.segment import TS


@dataclass(frozen=True)
class Collected:
    rows: list[tuple[bytes]]

    def collect(self) -> list[tuple[bytes]]:
        return self.rows


class HereDataflow(Dataflow):
    """Exchanges parcels in memory."""

    def arrived(self, parcels: list[Parcel]) -> list[Arrived]:  # type: ignore[override]
        told = (decoded(one.data) for one in parcels if one.edge == COUNTS)
        return added(told, len(self.streams))

    @contextmanager
    def parcels(self, batch: Any, limits: Sequence[Limits]) -> Iterator[Any]:
        yield batch

    def nothing(self, spark: Any) -> list[Parcel]:  # type: ignore[override]
        return []

    def receipts(  # type: ignore[override]
        self,
        parcels: list[Parcel],
        tasks: Sequence[StageStep],
        due: Sequence[Sequence[int]],
    ) -> Collected:
        return self.stepped(parcels, tasks, due)

    def kept_rows(self, spark: Any, reader: Any, count: int) -> list[Parcel]:  # type: ignore[override]
        numbered = pa.RecordBatch.from_pydict({"id": list(range(count))})
        return _unpacked(reader(iter([numbered])))

    def stepped(  # type: ignore[override]
        self,
        moving: list[Parcel],
        tasks: Sequence[StageStep],
        due: Sequence[Sequence[int]],
    ) -> Collected:
        for task, listed in zip(tasks, due, strict=True):
            moving += [Parcel(bucket, task.stage, MARKER, b"") for bucket in listed]
            after: list[Parcel] = []
            for bucket in range(self.buckets):
                mine = [one for one in moving if one.bucket == bucket]
                after += _unpacked(task(iter([batch_of(mine)])))
            moving = after
        return Collected([(one.data,) for one in moving if one.edge == RECEIPT])


def _unpacked(batches: Iterator[pa.RecordBatch]) -> list[Parcel]:
    return [parcel for batch in batches for parcel in parcels_of(batch)]


@dataclass(frozen=True)
class HereRecords(BatchRecords):
    """With heartbeats of the test."""

    beats: Mapping[str, int]

    def heartbeats(self) -> dict[str, int]:
        return dict(self.beats)


class HereRunner(Runner):
    """Fed with tables instead of DataFrames."""

    heartbeats: Mapping[str, int] = {}
    told: Mapping[str, Limits] = {}

    def _tell(self, limits: Mapping[str, Limits] | None) -> None:
        """``feed`` splits; what the tasks of Spark would be told is remembered."""
        if limits is not None:
            self.told = dict(limits)

    @property
    def records(self) -> HereRecords:
        return HereRecords(self.dataflow, self.repository, self.settings, self.heartbeats)

    def feed(
        self,
        batch: Mapping[str, pa.Table],
        heartbeats: Mapping[str, int],
        punctuations: Mapping[str, Sequence[int]] | None = None,
    ) -> Manifest:
        self.heartbeats = heartbeats
        base = self.repository.current()
        limits = self.records.limits(base, base.properties["batch"] + 1)
        rows = tagged(self.dataflow, batch, punctuations or {}).to_batches()
        told = [limits[name] for name in self._names]
        parcels: Any = _unpacked(self.dataflow.splitter.split(iter(rows), told))
        return self._run(parcels, base, base.properties["batch"] + 1)


def tagged(
    dataflow: Dataflow,
    batch: Mapping[str, pa.Table],
    punctuations: Mapping[str, Sequence[int]] | None = None,
) -> pa.Table:
    """All streams in one table, as Spark brings them."""
    kinds: dict[str, pa.DataType] = {}
    for stream, slots in zip(dataflow.streams, dataflow.slots, strict=True):
        kinds |= {slot: stream.schema.field(name).type for slot, name in slots.items()}
    schema = pa.schema([(STREAM, pa.int32()), (TS, pa.int64()), *kinds.items()])
    parts = [schema.empty_table()]
    for number, stream in enumerate(dataflow.streams):
        if said := (punctuations or {}).get(stream.name):
            tags = pa.array([promise(number)] * len(said), pa.int32())
            empty = [pa.nulls(len(said), kind) for kind in kinds.values()]
            promised = [tags, pa.array(said, pa.int64()), *empty]
            parts.append(pa.table(promised, schema=schema))
        rows = batch.get(stream.name)
        if rows is None or not rows.num_rows:
            continue
        own = dataflow.slots[number]
        columns = [
            rows[own[slot]] if slot in own else pa.nulls(rows.num_rows, kind)
            for slot, kind in kinds.items()
        ]
        stamp = pa.array(np.full(rows.num_rows, number), pa.int32())
        parts.append(pa.table([stamp, rows[stream.time].cast(pa.int64()), *columns], schema=schema))
    return pa.concat_tables(parts)


def program_of(
    cql: str,
    catalog: Catalog,
    strategy: Strategy = Strategy.UPA,
    *,
    panes: bool = True,
    sharing: Collection[str] = SHARING,
    peers: Sequence[str] = (),
) -> Program:
    """``peers`` are the queries that share a join with it."""

    def plan_of(text: str) -> Output:
        plan = optimize(bind_query(text, catalog), strategy=strategy).plan
        assert isinstance(plan, Output)
        return canonical(plan)

    return compile_plan(
        plan_of(cql), catalog, strategy, panes=panes, sharing=sharing,
        peers=tuple(map(plan_of, peers)),
    )  # fmt: skip


def runner_of(
    folder: Path | str,
    catalog: Catalog,
    queries: Mapping[str, str],
    buckets: int = 2,
    since: Mapping[str, int | None] | None = None,
    streams: Sequence[str] = (),
    entries: Mapping[str, int | None] | None = None,
    strategy: Strategy = Strategy.UPA,
    *,
    panes: bool = True,
    sharing: Collection[str] = SHARING,
    programs: Mapping[str, Program] | None = None,
) -> HereRunner:
    """``programs`` are those of the queries, where they are not compiled one by one."""
    programs = programs or {
        name: program_of(cql, catalog, strategy, panes=panes, sharing=sharing)
        for name, cql in queries.items()
    }
    program = shared(programs, since or {}, entries)
    read = {name for member in program.members for name in member.group.streams} | set(streams)
    declared = [
        _stream(one) for one in catalog if isinstance(one, StreamDefinition) and one.name in read
    ]
    types = {
        one.name: {field.name: from_arrow(field.type).sql() for field in one.schema}
        for one in declared
    }
    plain = Dataflow.of(program, declared, types, buckets)
    dataflow = HereDataflow(**{one.name: getattr(plain, one.name) for one in fields(plain)})
    if Repository.exists(folder):
        repository = Repository.open(folder, sync=False)
    else:
        properties = empty_properties(declared, {name: {} for name in queries}, buckets)
        repository = Repository.create(folder, properties, sync=False)
    settings = RunSettings(buckets=buckets, max_state_bytes=1 << 30, history=NEVER, sync=False)
    nothing: Any = None
    return HereRunner(nothing, dataflow, repository, settings)


def _stream(definition: StreamDefinition) -> Stream:
    schema = pa.schema([(one.name, arrow_type(one.type)) for one in definition.columns])
    timed = pa.types.is_timestamp(schema.field(definition.time).type)
    return Stream(
        definition.name,
        schema,
        time=definition.time,
        slack=definition.slack,
        max_gap=definition.max_gap,
        unit_given=timed or definition.unit_given,
    )


def results_of(runner: HereRunner, name: str) -> pa.Table:
    """All results of a query, with ``ts`` and ``exp`` in µs."""
    found: Results = runner.results[name]
    directory = runner.repository.directory
    reader = found.log_reader(directory, runner.repository.current())
    table = pa.Table.from_batches(list(reader.batches(directory)), schema=reader.schema)
    for one in ("ts", "exp"):
        at = table.schema.get_field_index(one)
        if at >= 0:
            endless = NEVER if one == "exp" else -NEVER - 1
            table = table.set_column(at, one, pc.fill_null(table[one].cast(pa.int64()), endless))
    return table
