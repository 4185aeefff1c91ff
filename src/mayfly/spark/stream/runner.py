"""The driver's side of continuous queries: one micro-batch, one commit.

A batch goes through: its clock, recorded before anything is computed; one Spark action that
steps every due bucket and brings back receipts; one manifest; delivery to sinks; Spark's own
commit. A crash between any two of these leaves the last manifest in force: an uncommitted batch
is run again with the recorded clock, a committed one is only delivered again. A batch computes the
operators of any number of queries, stage by stage; those that read different streams have clocks
of their own.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.archive.model.contract import Promise, due_at
from mayfly.checkpoint.awaited_rows import entries_after
from mayfly.checkpoint.clock_record import CLOCKS
from mayfly.checkpoint.operator_state import stored_paths
from mayfly.checkpoint.recent_batches import RECENT, Batch, with_batch
from mayfly.checkpoint.result_log import BEGAN, LOG, SHARES, horizon
from mayfly.errors import InvalidSetting
from mayfly.faults import reach
from mayfly.kernels.delta import Delta
from mayfly.kernels.interval import Interval
from mayfly.lifetime import MIN_TIME
from mayfly.pipeline.commands import Commands
from mayfly.runtime.clock import Clocks
from mayfly.runtime.closed_keys import check_erasable
from mayfly.runtime.max_gap import Limits
from mayfly.runtime.relation_log import Changing
from mayfly.spark.io.sinks import Sink, Unfinished
from mayfly.spark.stream.batch_record import BatchFacts, BatchRecords
from mayfly.spark.stream.checkpoint_properties import (
    DELIVERED,
    KNOWN,
    began_at,
    dues,
    ends_of_states,
    kept_from,
    without_dead,
)
from mayfly.spark.stream.dataflow import Dataflow
from mayfly.spark.stream.dead_letters import DEAD_LETTERS, deliver_dead_letters
from mayfly.spark.stream.micro_batch import (
    SHUFFLE_PARTITIONS,
    STREAM_SETTINGS,
    Interrupted,
    RunSettings,
    passed_over,
)
from mayfly.spark.stream.parcels import packed
from mayfly.spark.stream.receipts import Receipt, account_for, collect_receipts
from mayfly.spark.stream.relation_reads import RelationReads
from mayfly.spark.stream.results import results_of
from mayfly.spark.stream.row_split import LIMITS
from mayfly.spark.stream.stage_tasks import OUT, SENT, StageStep
from mayfly.spark.stream.status_figures import (
    REFRESHES,
    answered,
    last_batch,
    refreshes_after,
    totals_after,
)
from mayfly.storage import (
    AddSegments,
    DropSegments,
    Manifest,
    Repository,
    SetProperties,
    vacuum,
)

VACUUM_EVERY = 20


@dataclass
class Runner:
    """Executes the batches of queries over one checkpoint directory."""

    spark: SparkSession
    dataflow: Dataflow
    repository: Repository
    settings: RunSettings
    relations: Mapping[str, Changing] = field(default_factory=dict)
    sinks_of: Mapping[str, Sequence[Sink]] = field(default_factory=dict)
    """Per query."""
    promises: Callable[[], Iterable[Promise]] = tuple
    """What archives that are fed promise about bytes, as of now."""
    commands: Commands | None = None
    """What other processes ask for."""
    error: Exception | None = field(default=None, init=False)
    _session: SparkSession | None = field(default=None, init=False)
    """The one Spark made for the running stream."""
    stopping: bool = field(default=False, init=False)
    """A plain flag: handlers of signals set it, whatever locks the thread they interrupt holds."""
    stream: StreamingQuery | None = field(default=None, init=False)
    """What feeds the batches, once it is started."""
    _batch: Any = field(default_factory=threading.RLock, init=False)
    _worker: int | None = field(default=None, init=False)
    """The thread that runs a batch."""
    _began: float | None = field(default=None, init=False)
    """When the running batch began, without the time that it waited for its pace."""
    _input_closed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._streams = self.dataflow.streams
        self._names = [stream.name for stream in self._streams]
        self._groups = self.dataflow.stages.groups
        self.results = results_of(self.dataflow.program, self.dataflow.stages)

    @property
    def reads(self) -> RelationReads:
        return RelationReads(self.dataflow.stages, self.relations)

    @property
    def records(self) -> BatchRecords:
        return BatchRecords(self.dataflow, self.repository, self.settings)

    # -- one batch -------------------------------------------------------------------------

    def process(self, rows: DataFrame, batch_id: int) -> None:
        """foreachBatch: run and commit a batch, or deliver it again if it is committed."""
        with self._batch:
            self._worker, self._began = threading.get_ident(), time.perf_counter()
            try:
                if self.stopping:
                    raise Unfinished
                self._process(rows, batch_id)
            except Unfinished:
                self._await_stop()
                raise Interrupted from None
            except (Py4JError, PySparkException):
                if self.stream is None or self.stream.isActive:
                    raise
                self.error = None
                self.stopping = True
                raise Interrupted from None
            finally:
                self._worker = self._began = None
        if self.commands is not None and self.commands.asked is not None:
            self.end_soon()

    @property
    def in_batch(self) -> bool:
        """Whether this is asked by a sink, inside the batch that is delivered."""
        return self._worker == threading.get_ident()

    def end_soon(self) -> None:
        """End the stream after the batch that is running, without waiting for that: Spark waits
        for its batch to return before it stops."""
        self.stopping = True
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        self.finish_batch()
        self._stop_stream()

    def _stop_stream(self) -> None:
        while self.stream is None:  # the first batch may be quicker than the call that began it
            time.sleep(0.01)
        self.stream.stop()

    def _await_stop(self) -> None:
        """Leave a batch that is not done. To return would tell Spark that it is, and an error
        before Spark is asked to stop would be one of the query."""
        threading.Thread(target=self._stop_stream, daemon=True).start()
        while self.stream is None or self.stream.isActive:
            time.sleep(0.01)

    def finish_batch(self) -> None:
        """Return when no batch is running; none is begun any more."""
        self.stopping = True
        if self.settings.pace is not None:
            self.settings.pace.stop()
        with self._batch:
            pass

    def _process(self, rows: DataFrame, batch_id: int) -> None:
        try:
            self._settle(rows.sparkSession)
            base = self.repository.current()
            done = base.properties["batch"]
            if batch_id > done + 1:
                raise passed_over(done + 1, batch_id, self.repository)
            if batch_id > done:
                if Clocks.from_json(base.properties["clocks"]).ended:
                    # Spark does not know of the commit that closed the input: it may have been
                    # the last thing a driver did before it died, so no sink has it yet.
                    self._deliver(base)
                    base = self.repository.current()  # a delivery may erase, which is a version
                base = self._run(rows, base, batch_id)
            if batch_id == base.properties["batch"]:
                self._deliver(base)
        except Unfinished:
            raise
        except Exception as error:
            self.error = error
            raise

    def _settle(self, session: SparkSession) -> None:
        # Every batch brings another handle on the one session of its stream.
        if self._session is None and session is not self.spark:
            settings = {**STREAM_SETTINGS, SHUFFLE_PARTITIONS: str(self.settings.buckets)}
            for name, value in settings.items():
                session.conf.set(name, value)
        self._session = session

    def _run(self, rows: DataFrame, base: Manifest, batch_id: int) -> Manifest:
        # Before any job: the first one that needs the rows splits them.
        limits = self.records.limits(base, batch_id)
        self._tell(limits)
        try:
            with self.dataflow.parcels(rows, [limits[name] for name in self._names]) as parcels:
                facts = self.records.record(parcels, base, batch_id, limits)
                committed = self._step_paced(parcels, base, batch_id, facts)
        finally:
            self._tell(None)
        self._clean_up(batch_id)
        return committed

    def _step_paced(
        self, parcels: DataFrame, base: Manifest, batch_id: int, facts: BatchFacts
    ) -> Manifest:
        together = self.clocks_together(facts.clocks)
        for clocks in together:
            clocks.check_gap(self.settings.max_gap)
        if self.settings.pace is not None:
            waited = self.settings.pace.wait_for(max(clocks.query for clocks in together))
            self._began = None if self._began is None else self._began + waited
        return self._step(parcels, base, batch_id, facts)

    def clocks_together(self, clocks: Clocks) -> list[Clocks]:
        """The clocks of streams whose rows wait for each other."""
        return [clocks.of(group.streams) for group in self._groups]

    def _tell(self, limits: Mapping[str, Limits] | None) -> None:
        """Tell the tasks that split the batch what is late; the next one they do not know yet."""
        entries = [] if limits is None else [astuple(limits[name]) for name in self._names]
        self.spark.sparkContext.setLocalProperty(LIMITS, json.dumps(entries) if entries else "")

    def close_input(self) -> None:
        """End of input; every query's handle asks for it, once is enough."""
        if self._input_closed:
            return
        self._close()
        self._input_closed = True

    def _close(self) -> None:
        base = self.repository.current()
        clocks = Clocks.from_json(base.properties["clocks"])
        closed = clocks.closed([group.streams for group in self._groups])
        if clocks.ended:
            self._deliver(base)
            if closed == clocks:
                return
            base = self.repository.current()  # streams that came since have not ended yet
        nothing = dict.fromkeys(self._names, 0)
        facts = BatchFacts(closed, nothing, {}, {}, base.properties["first"])
        self._deliver(self._step(None, base, base.properties["batch"], facts))

    def _step(
        self, rows: DataFrame | None, base: Manifest, batch: int, facts: BatchFacts
    ) -> Manifest:
        self.check_dead_letters()
        before = Clocks.from_json(base.properties["clocks"])
        interval = _interval(before, facts.clocks, self._names)
        intervals = tuple(_interval(before, facts.clocks, group.streams) for group in self._groups)
        asked = self.commands.take() if self.commands is not None else {}
        # Once: a change that comes while the batch runs belongs to the next one.
        changed = self.reads.changes(base, intervals)
        due = self._due(base, intervals, facts)
        receipts: list[Receipt] = []
        if any(due):
            tasks = [
                self.task_of(base, stage, intervals, facts, changed)
                for stage in range(self.dataflow.stages.stages)
            ]
            if rows is None:
                nothing = self.dataflow.nothing(self._session or self.spark)
                frame = self.dataflow.stepped(nothing, tasks, due)
            else:
                frame = self.dataflow.receipts(rows, tasks, due)
            receipts = collect_receipts(frame, due)
            account_for(receipts, facts.fed or {})
        reach("batch.receipts")
        seen = {name: list(effective) for name, (_, effective) in changed.items()}
        edits = self._edits(base, batch, facts, interval, receipts)
        read = self.reads.digests(seen)
        edits.append(SetProperties({"relations": seen, "read": read, **asked}))
        oldest = min((group.clock for group in intervals), default=interval.clock)
        dead = horizon(oldest, self.history)
        edits += self.reads.store(base, self.repository.directory, seen, dead)
        committed = self.repository.commit(base, edits)
        reach("batch.committed")
        return committed

    def _due(
        self, base: Manifest, intervals: Sequence[Interval], facts: BatchFacts
    ) -> list[list[int]]:
        """All buckets of every stage, unless nothing came and nothing falls due."""
        stages, properties = self.dataflow.stages, base.properties
        everyone = [list(range(count)) for count in stages.counts(self.settings.buckets)]
        latest = max(interval.clock for interval in intervals)
        waking = any(instant < latest for instant in properties["due"].values())
        slides = any(
            answer.sent is not None and answer.sent.slide is not None for answer in stages.answers
        )
        states = properties["state"]
        fresh = any(f"task/{task.name}/0" not in states for task in stages.tasks)
        promises = tuple(self.promises())
        erases = any(due_at(promises, i.began) != due_at(promises, i.clock) for i in intervals)
        # The first instants that are closed have an answer, if only that nothing came.
        opening = any(interval.began == MIN_TIME < interval.clock for interval in intervals)
        due = waking or self.reads.come(base) or slides or fresh or erases or opening
        busy = due or any(facts.rows.values())
        return everyone if busy else [[] for _ in everyone]

    def task_of(
        self,
        base: Manifest,
        stage: int,
        intervals: tuple[Interval, ...],
        facts: BatchFacts,
        changed: Mapping[str, tuple[Delta, tuple[int, ...]]],
    ) -> StageStep:
        states = self._states_of(base, stage)
        relations = {}
        for task in self.reads.tasks():
            if task.stage == stage:
                delta, _ = changed[task.name]
                relations[str(task.number)] = packed(delta.born), packed(delta.cut)
        return StageStep(
            root=self.repository.directory.address,
            sync=self.settings.sync,
            program=self.dataflow.stages,
            stage=stage,
            buckets=self.settings.buckets,
            intervals=intervals,
            states=states,
            segments={path: base.segments[path] for path in stored_paths(states)},
            relations=relations,
            history=max(1, self.history),
            max_state_bytes=self.settings.max_state_bytes,
            first=tuple(facts.first_of(group.streams) for group in self._groups),
            shed=self.dataflow.shedding.at_joins,
            stretched=self.dataflow.shedding.stretches(sum(facts.rows.values())),
            erased=tuple(due_at(self.promises(), interval.clock) for interval in intervals),
            delivery=base.version + 1,
            zone=self.dataflow.zone,
            knows_from=base.properties.get(KNOWN, {}),
            letters=frozenset(s.name for s in self._streams if s.dead_letter is not None),
        )

    def _states_of(self, base: Manifest, stage: int) -> dict[str, Any]:
        """Where the states of a stage are: a task need not know about the others."""
        stages = self.dataflow.stages
        mine = {f"task/{task.name}" for task in stages.tasks if task.stage == stage}
        for answer in stages.answers:
            if answer.stage == stage:
                mine |= {f"{SENT}/{answer.query}", f"{LOG}/{answer.log}"}
        states = base.properties["state"]
        return {name: states[name] for name in states if name.rpartition("/")[0] in mine}

    def _edits(
        self,
        base: Manifest,
        batch: int,
        facts: BatchFacts,
        interval: Interval,
        receipts: Sequence[Receipt],
    ) -> list[Any]:
        stages = self.dataflow.stages
        added = [segment for receipt in receipts for segment in receipt.added]
        dropped = {path for receipt in receipts for path in receipt.dropped}
        # The changes of the batch before; tasks themselves drop what is dead of state and log.
        dropped |= {
            segment.path for group in (OUT, DEAD_LETTERS) for segment in base.in_group(group)
        }
        before, came = base.properties, answered(receipts)
        stored = {k: v for receipt in receipts for k, v in receipt.stored.items()}
        if not receipts:
            stored = without_dead(base, ends_of_states(stages, facts.clocks, self.history))
            dropped |= stored_paths(before["state"]) - stored_paths({**before["state"], **stored})
        properties = {
            "batch": batch,
            "clocks": facts.clocks.to_json(),
            "interval": [interval.began, interval.clock],
            # All buckets of all stages run, so what others say is of a plan with other stages.
            "due": dues(receipts) if receipts else before["due"],
            "totals": totals_after(before["totals"], facts, receipts),
            "last": last_batch(receipts),
            **self._in_figures(base, facts),
            "first": dict(facts.first),
            "state": {**before["state"], **stored},
            **entries_after(before["queries"], stored, facts.clocks),
            "answers": {
                name: before["answers"].get(name, 0) + came.get(name, 0)
                for name in {**before["answers"], **came}
            },
            REFRESHES: refreshes_after(base, receipts),
            "kept_from": kept_from(base, stages, facts.clocks, self.history),
            "last_answers": came,
            "delivery": base.version + 1,
            SHARES: {
                answer.query: answer.share.to_json()
                for answer in stages.answers
                if answer.share is not None
            },
            BEGAN: began_at(base, stages, added),
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

    @property
    def history(self) -> int:
        """How long dead results are kept: as asked for, or less where an archive forbids it."""
        return min([self.settings.history, *(promise.history for promise in self.promises())])

    def check_dead_letters(self) -> None:
        """Refuse to keep dead letters or keys of rows whose bytes an archive promises to erase."""
        if not any(True for _ in self.promises()):
            return
        if kept := [stream for stream in self._streams if stream.dead_letter is not None]:
            raise InvalidSetting(
                f"dead letters of stream {kept[0].name} are kept in {kept[0].dead_letter}, but an "
                "archive that the query feeds promises PHYSICAL WITHIN: they would never go",
                "run it without dead letters, or give the archive a contract without PHYSICAL",
            )
        check_erasable(self._streams)

    # -- after the commit ------------------------------------------------------------------

    def _deliver(self, committed: Manifest) -> None:
        if committed.properties.get(DELIVERED) == committed.properties["delivery"]:
            return  # every sink had it, and what it brought was erased
        number = committed.properties["delivery"]
        deliver_dead_letters(self.repository, self._streams, committed, number)
        reach("dead-letters.delivered")
        directory = self.repository.directory
        for name, sinks in self.sinks_of.items():
            delivery = self.results[name].delivery(self.spark, directory, committed)
            delivery = replace(delivery, stopping=lambda: self.stopping)
            for sink in sinks:
                if delivery.rows or getattr(sink, "wants_every_batch", False):
                    sink.deliver(delivery)
        reach("batch.delivered")
        if any(True for _ in self.promises()):
            self._erase_delivered(committed)

    def _erase_delivered(self, committed: Manifest) -> None:
        """Keep no changes of the batch and no older version: either may hold rows that must go.

        A reader of an older version finds it gone.
        """
        gone = DropSegments(tuple(sorted(segment.path for segment in committed.in_group(OUT))))
        done = SetProperties({DELIVERED: committed.properties["delivery"]})
        current = self.repository.commit(committed, [gone, done])
        reach("batch.erased")
        older = [
            version for version in self.repository.stored_versions() if version != current.version
        ]
        # Between two batches nothing of ours is being written, so nothing is too young.
        vacuum(self.repository, keep_versions=1, grace=0, broken=older)

    def _clean_up(self, batch_id: int) -> None:
        """Remove old clock records, old versions, and files of runs that never committed."""
        if batch_id % VACUUM_EVERY:
            return
        directory = self.repository.directory
        for name in directory.names(CLOCKS)[:-VACUUM_EVERY]:
            directory.remove(name)
        # Between two batches nothing of ours is being written, so nothing is too young.
        vacuum(self.repository, grace=0)


def _interval(before: Clocks, after: Clocks, streams: Sequence[str]) -> Interval:
    began = before.of(streams).query
    return Interval(began, max(began, after.of(streams).query))
