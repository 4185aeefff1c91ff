"""The driver's side of a continuous query: one micro-batch, one commit.

A batch goes through: its clock, recorded before anything is computed; one Spark action that
steps every due bucket and brings back receipts; one manifest; delivery to sinks; Spark's own
commit. A crash between any two of these leaves the last manifest in force: an uncommitted batch
is run again with the recorded clock, a committed one is only delivered again.
"""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.errors import BadInput, InvalidSetting, ProtocolError
from mayfly.faults import reach
from mayfly.kernels.interval import Interval
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.pipeline.clocks import Clocks
from mayfly.pipeline.folders import IDENTITY
from mayfly.pipeline.gaps import Limits
from mayfly.pipeline.pacing import Pace
from mayfly.pipeline.query import Stream
from mayfly.spark.progress import RECENT, Batch, last_batch, totals_after, with_batch
from mayfly.spark.receipts import Receipt
from mayfly.spark.sinks import write_parquet
from mayfly.spark.tasks import DEAD_LETTERS, NO_TIME, REASON
from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    DropSegments,
    Manifest,
    Repository,
    Segment,
    SetProperties,
    segment_batches,
    vacuum,
)
from mayfly.storage.files import local_root
from mayfly.storage.sealed import read_json, seal_json

CLOCKS = "clock"
END_OF_INPUT = "end"
VACUUM_EVERY = 20
STREAM_SETTINGS = {
    # Jobs are short and their partitions fixed: planning them stage by stage changes nothing and
    # takes a tenth of a batch.
    "spark.sql.adaptive.enabled": "false",
    # A stage of a chain that runs again names other files in its receipts. Spark would take that
    # for other rows and give the job up; receipts are chosen by the driver.
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}
"""For the session that Spark makes for each stream; the user's own is left as it is."""


@dataclass(frozen=True)
class RunSettings:
    """How a query runs; none of it changes an answer."""

    buckets: int
    max_state_bytes: int
    history: int
    max_gap: int | None = None
    sync: bool = False
    wall_clock: Callable[[], int] = lambda: time.time_ns() // 1000
    pace: Pace | None = None
    replay: bool = False
    """Whether the input is read to its end, so that the wall clock says nothing of its times."""


@dataclass(frozen=True)
class BatchFacts:
    """What is fixed about a batch before it is computed."""

    clocks: Clocks
    rows: Mapping[str, int]
    timeless: Mapping[str, int]
    late: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)
    """The generation time of each stream's first row ever, where refreshes begin."""
    shed: Mapping[str, int] = field(default_factory=dict)
    """Rows left out on purpose."""
    beyond: Mapping[str, int] = field(default_factory=dict)
    """Rows later than MAX GAP allows."""
    limits: Mapping[str, Limits] = field(default_factory=dict)
    """What the rows were measured by: decided once, as a replay must decide the same."""

    def to_json(self) -> dict[str, Any]:
        return {
            "clocks": self.clocks.to_json(),
            "rows": dict(self.rows),
            "timeless": dict(self.timeless),
            "late": dict(self.late),
            "first": dict(self.first),
            "shed": dict(self.shed),
            "beyond": dict(self.beyond),
            "limits": {name: astuple(one) for name, one in self.limits.items()},
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> BatchFacts:
        clocks = Clocks.from_json(stored["clocks"])
        return BatchFacts(
            clocks,
            stored["rows"],
            stored["timeless"],
            stored["late"],
            stored["first"],
            stored["shed"],
            stored.get("beyond", {}),
            {name: Limits(*one) for name, one in stored.get("limits", {}).items()},
        )


class Wired(Protocol):
    """How the rows of a query's streams travel."""

    @property
    def streams(self) -> Sequence[Stream]: ...

    def tagged(self, frames: Mapping[str, DataFrame], heartbeat: DataFrame | None) -> DataFrame: ...


W = TypeVar("W", bound=Wired)


@dataclass
class Runner(ABC, Generic[W]):
    """Executes the batches of queries over one checkpoint directory."""

    spark: SparkSession
    wiring: W
    repository: Repository
    settings: RunSettings
    error: Exception | None = field(default=None, init=False)
    _session: SparkSession | None = field(default=None, init=False)
    """The one Spark made for the running stream."""
    stopping: threading.Event = field(default_factory=threading.Event, init=False)
    stream: StreamingQuery | None = field(default=None, init=False)
    """What feeds the batches, once it is started."""
    _batch: Any = field(default_factory=threading.RLock, init=False)
    _worker: int | None = field(default=None, init=False)
    """The thread that runs a batch."""
    _began: float | None = field(default=None, init=False)
    """When the running batch began, without the time that it waited for its pace."""

    def __post_init__(self) -> None:
        self._streams = self.wiring.streams
        self._names = [stream.name for stream in self._streams]

    # -- one batch -------------------------------------------------------------------------

    def process(self, rows: DataFrame, batch_id: int) -> None:
        """foreachBatch: run and commit a batch, or deliver it again if it is committed."""
        with self._batch:
            self._worker, self._began = threading.get_ident(), time.perf_counter()
            try:
                self._process(rows, batch_id)
            finally:
                self._worker = self._began = None

    @property
    def in_batch(self) -> bool:
        """Whether this is asked by a sink, inside the batch that is delivered."""
        return self._worker == threading.get_ident()

    def end_soon(self) -> None:
        """End the stream after the batch that is running, without waiting for that: Spark waits
        for its batch to return before it stops."""
        self.stopping.set()
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        self.finish_batch()
        while self.stream is None:  # the first batch may be quicker than the call that began it
            time.sleep(0.01)
        self.stream.stop()

    def finish_batch(self) -> None:
        """Return when no batch is running; none is begun any more."""
        self.stopping.set()
        if self.settings.pace is not None:
            self.settings.pace.stop()
        with self._batch:
            pass

    def _process(self, rows: DataFrame, batch_id: int) -> None:
        if self.stopping.is_set():
            # To return would tell Spark that the batch is done.
            raise ProtocolError(f"the query is stopped before batch {batch_id}", "start it again")
        try:
            self._settle(rows.sparkSession)
            base = self.repository.current()
            done = base.properties["batch"]
            if batch_id > done + 1:
                raise _passed_over(done + 1, batch_id, self.repository)
            if batch_id > done:
                if Clocks.from_json(base.properties["clocks"]).ended:
                    # Spark does not know of the commit that closed the input: it may have been
                    # the last thing a driver did before it died, so nobody was told yet.
                    self._deliver(base)
                    base = self.repository.current()  # a delivery may erase, which is a version
                base = self._run(rows, base, batch_id)
            if batch_id == base.properties["batch"]:
                self._deliver(base)
        except Exception as error:
            self.error = error
            raise

    def _settle(self, session: SparkSession) -> None:
        # Every batch brings another handle on the one session of its stream.
        if self._session is None and session is not self.spark:
            for name, value in STREAM_SETTINGS.items():
                session.conf.set(name, value)
        self._session = session

    def recorded(self, batch_id: int) -> BatchFacts | None:
        """What was fixed about a batch when it was run before."""
        name, directory = clock_record(batch_id), self.repository.directory
        if not directory.exists(name):
            return None
        return BatchFacts.from_json(read_json(directory, name, _NEW_CLOCK))

    def _run(self, rows: DataFrame, base: Manifest, batch_id: int) -> Manifest:
        name = clock_record(batch_id)
        directory = self.repository.directory
        if not directory.exists(name):
            facts = self._facts(rows, Clocks.from_json(base.properties["clocks"]))
            directory.put_if_absent(name, seal_json(facts.to_json()))
        facts = BatchFacts.from_json(read_json(directory, name, _NEW_CLOCK))
        reach("batch.clock-recorded")
        together = self._clocks_together(facts.clocks)
        for one in together:
            one.check_gap(self.settings.max_gap)
        if self.settings.pace is not None:
            waited = self.settings.pace.wait_for(max(one.query for one in together))
            self._began = None if self._began is None else self._began + waited
        committed = self._step(rows, base, batch_id, facts)
        self._clean_up(batch_id)
        return committed

    def _advanced(
        self,
        before: Clocks,
        largest: Mapping[str, int | None],
        timeless: Mapping[str, int],
        promised: Mapping[str, int | None] | None = None,
    ) -> Clocks:
        """The clocks after a batch, unless it holds rows without a time that are not wanted."""
        for stream in self._streams:
            if timeless[stream.name] and stream.null_time == "error":
                raise BadInput(
                    f"{timeless[stream.name]} rows of stream {stream.name} have no {stream.time}",
                    "nothing of this batch was applied: repair or filter them at the source, or "
                    "set them aside, with DEAD LETTERS TO parquet('folder') in CREATE STREAM or "
                    "null_time='dead_letter', dead_letter='folder' in Session.stream",
                )
        now = self.settings.wall_clock()
        heartbeats = {s.name: now - s.idle.minus for s in self._streams if s.idle is not None}
        heartbeats |= {name: at for name, at in (promised or {}).items() if at is not None}
        slack = {stream.name: stream.slack for stream in self._streams}
        return before.advanced(largest, slack, heartbeats)

    def _edits(
        self,
        base: Manifest,
        batch: int,
        facts: BatchFacts,
        interval: Interval,
        receipts: Sequence[Receipt],
    ) -> list[Any]:
        added = [segment for receipt in receipts for segment in receipt.added]
        dropped = {path for receipt in receipts for path in receipt.dropped}
        forever = self.settings.history >= NEVER
        horizon = MIN_TIME if forever else max(interval.clock - self.settings.history, MIN_TIME)
        dropped |= {one.path for one in self._expired(base, interval, horizon)}
        properties = {
            "batch": batch,
            "clocks": facts.clocks.to_json(),
            "interval": [interval.began, interval.clock],
            "history_from": max(horizon, base.properties["history_from"]),
            "due": dues(base.properties["due"], receipts),
            "totals": totals_after(base.properties["totals"], facts, receipts),
            "last": last_batch(receipts),
            **self._in_figures(base, facts),
            **self._own_properties(base, facts, interval, receipts),
        }
        return [
            AddSegments(tuple(added)),
            DropSegments(tuple(sorted(dropped))),
            SetProperties(properties),
        ]

    def _in_figures(self, base: Manifest, facts: BatchFacts) -> dict[str, Any]:
        if self._began is None:
            return {}  # the end of the input is no batch
        seconds, now = time.perf_counter() - self._began, self.settings.wall_clock()
        batch = Batch(now, seconds, facts.rows, facts.clocks.streams)
        return {RECENT: with_batch(base, batch)}

    # -- what kinds of queries do differently ----------------------------------------------

    @abstractmethod
    def close_input(self) -> None:
        """End of input: close the last instant, as one more commit."""

    @abstractmethod
    def _facts(self, rows: DataFrame, before: Clocks) -> BatchFacts:
        """One pass over the batch: times, rows and missing times per stream."""

    @abstractmethod
    def _clocks_together(self, clocks: Clocks) -> list[Clocks]:
        """The clocks of streams whose rows wait for each other."""

    @abstractmethod
    def _step(self, rows: DataFrame, base: Manifest, batch: int, facts: BatchFacts) -> Manifest:
        """The next version: one action over the rows, and one commit."""

    @abstractmethod
    def _expired(self, base: Manifest, interval: Interval, horizon: int) -> Iterator[Segment]:
        """Segments that no batch after this one needs."""

    @abstractmethod
    def _own_properties(
        self, base: Manifest, facts: BatchFacts, interval: Interval, receipts: Sequence[Receipt]
    ) -> dict[str, Any]:
        """What this kind of query remembers besides."""

    @abstractmethod
    def _delivery_id(self, committed: Manifest) -> int:
        """What sinks know a committed batch by."""

    @abstractmethod
    def _deliver(self, committed: Manifest) -> None:
        """Hand a committed batch to its sinks, dead letters first."""

    # -- after the commit ------------------------------------------------------------------

    def _deliver_dead_letters(self, committed: Manifest) -> None:
        for stream in self._streams:
            if stream.dead_letter is None:
                continue
            found = sorted(
                committed.in_group(f"{DEAD_LETTERS}/{stream.name}"), key=lambda one: one.group
            )
            if found:
                target = (
                    local_root(stream.dead_letter)
                    / f"{stream.name}-{self._delivery_id(committed):012d}.parquet"
                )
                self._write_dead_letters(target, stream, found)

    def _write_dead_letters(self, target: Path, stream: Stream, found: list[Segment]) -> None:
        batches = [
            batch
            for segment in found
            for batch in segment_batches(self.repository.directory, segment)
        ]
        table = pa.Table.from_batches(batches)
        names = [name.removeprefix(f"{stream.name}.") for name in table.column_names]
        table = table.rename_columns([{REASON: "reason"}.get(name, name) for name in names])
        if stream.time not in names:
            missing = pc.equal(table["reason"], NO_TIME)
            times = pc.if_else(missing, pa.scalar(None, pa.int64()), table[TS])
            own = times.cast(stream.schema.field(stream.time).type)
            table = table.add_column(0, stream.time, own)
        table = table.drop_columns([TS, EXP])
        write_parquet(target, table.schema, iter(table.to_batches()))

    def _clean_up(self, batch_id: int) -> None:
        """Old clock records, old versions, and files of runs that never committed."""
        if batch_id % VACUUM_EVERY:
            return
        directory = self.repository.directory
        for name in directory.names(CLOCKS)[:-VACUUM_EVERY]:
            directory.remove(name)
        # Between two batches nothing of ours is being written, so nothing is too young.
        vacuum(self.repository, grace=0)


_NEW_CLOCK = (
    "restore it from a copy, or remove it if nothing of its batch was committed: the batch is then "
    "closed at another instant, as if it came anew"
)


def clock_record(batch: int) -> str:
    """The file in which the clock of a batch is written down ahead."""
    return f"{CLOCKS}/{batch:020d}.json"


def _passed_over(missing: int, batch_id: int, repository: Repository) -> ProtocolError:
    return ProtocolError(
        f"batch {missing} is missing from {repository.directory.root}, "
        f"but Spark goes on with batch {batch_id}",
        "the checkpoint is older than its folder spark/ (a copy, or a power cut with sync=False): "
        "restore both from one copy, or start anew with a new checkpoint",
    )


def dues(before: Mapping[str, int], receipts: Sequence[Receipt]) -> dict[str, int]:
    """Where rows wait, stage/bucket → the next instant for which one does."""
    told = {f"{receipt.stage}/{receipt.bucket}": receipt.next_due for receipt in receipts}
    return {place: at for place, at in {**before, **told}.items() if at is not None}


def empty_properties(
    streams: Sequence[Stream], description: Mapping[str, Any], buckets: int
) -> dict[str, Any]:
    """The properties of a checkpoint before its first batch."""
    names = tuple(stream.name for stream in streams)
    return {
        IDENTITY: uuid.uuid4().hex,
        "kind": "window join",
        "query": dict(description),
        "buckets": buckets,
        "batch": -1,
        "clocks": Clocks.unset(names).to_json(),
        "interval": [MIN_TIME, MIN_TIME],
        "history_from": MIN_TIME,
        "due": {},
        "totals": {
            "rows": {},
            "timeless": {},
            "late": {},
            "null_keys": {},
            "shed": {},
            "changes": 0,
        },
        "last": {"changes": 0, "bucket_rows": [], "slowest_task_seconds": 0.0, "io": {}},
    }


def identity(repository: Repository) -> str:
    """What a checkpoint is known by to those who take its batches: it may be moved, and another
    one made in its place. One of an earlier version is known by its path."""
    return str(repository.current().properties.get(IDENTITY, repository.directory.root))


def check_same_query(stored: Mapping[str, Any], wanted: Mapping[str, Any], root: Path) -> None:
    """Refuse to continue a checkpoint with another query: its state would mean something else."""
    differing = [
        f"  {name}: the checkpoint has {stored.get(name)!r}, the query has {wanted.get(name)!r}"
        for name in sorted({*stored, *wanted})
        if stored.get(name) != wanted.get(name)
    ]
    if differing:
        raise InvalidSetting(
            f"the checkpoint {root} belongs to another query:\n" + "\n".join(differing),
            "use a new checkpoint directory, or the query it was made for",
        )
