"""The driver's side of queries of the language: batches, commits, results.

The protocol is that of every ``Runner``: clock written ahead, one action that brings back
receipts, one manifest, delivery. What differs is what a batch computes: the operators of any number
of queries, stage by stage, with rows travelling as parcels. Queries that read different streams
have clocks of their own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from mayfly.archive.contract import Promise, due_at
from mayfly.errors import BadInput, InvalidSetting
from mayfly.faults import reach
from mayfly.kernels.delta import Delta
from mayfly.kernels.interval import Interval
from mayfly.lifetime import MIN_TIME, NEVER, instant_text
from mayfly.physical.sharing import ClockGroup
from mayfly.physical.stages import StagedTask
from mayfly.pipeline.clocks import Clocks
from mayfly.pipeline.commands import Commands
from mayfly.pipeline.gaps import Limits, limits
from mayfly.pipeline.query import Stream
from mayfly.pipeline.relations import Changing
from mayfly.pipeline.storing import stored_paths
from mayfly.spark.arrivals import Arrived
from mayfly.spark.parcels import packed
from mayfly.spark.program_results import Results
from mayfly.spark.program_splitting import LIMITS
from mayfly.spark.program_tasks import LOG, OUT, SENT, ProgramTask
from mayfly.spark.program_wiring import ProgramWiring
from mayfly.spark.receipts import Receipt, accept
from mayfly.spark.runner import BatchFacts, Runner, dues, empty_properties
from mayfly.spark.sinks import Sink
from mayfly.spark.state_format import CURRENT, STATE_FORMAT
from mayfly.spark.tasks import DEAD_LETTERS
from mayfly.storage import DropSegments, Manifest, Segment, SetProperties, vacuum

YEAR = 365 * 86_400_000_000
YEAR_1980 = 315_532_800_000_000
REFRESHES = "refreshes"
DELIVERED = "delivered"
"""Property: the batch whose changes were erased after all sinks had taken them."""


@dataclass
class ProgramRunner(Runner[ProgramWiring]):
    """Executes the batches of some queries over one checkpoint directory."""

    relations: Mapping[str, Changing] = field(default_factory=dict)
    sinks_of: Mapping[str, Sequence[Sink]] = field(default_factory=dict)
    """Per query."""
    promises: Callable[[], Iterable[Promise]] = tuple
    """What archives that are fed promise about bytes, as of now."""
    commands: Commands | None = None
    """What other processes ask for."""
    _input_closed: bool = field(default=False, init=False)
    _limits: Mapping[str, Limits] = field(default_factory=dict, init=False)
    """What the rows of the running batch are measured by."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._groups = self.wiring.stages.groups
        self.results = {one.name: Results(one) for one in self.wiring.program.members}

    def process(self, rows: DataFrame, batch_id: int) -> None:
        super().process(rows, batch_id)
        if self.commands is not None and self.commands.asked is not None:
            self.end_soon()

    def close_input(self) -> None:
        """End of input; every query's handle asks for it, once is enough."""
        if self._input_closed:
            return
        self._close()
        self._input_closed = True

    def _close(self) -> None:
        base = self.repository.current()
        clocks = Clocks.from_json(base.properties["clocks"])
        if clocks.ended:
            self._deliver(base)
            if clocks.closed() == clocks:
                return
            base = self.repository.current()  # streams that came since have not ended yet
        nothing = dict.fromkeys(self._names, 0)
        facts = BatchFacts(clocks.closed(), nothing, {}, {}, base.properties["first"])
        self._deliver(self._step(None, base, base.properties["batch"], facts))

    def _run(self, rows: DataFrame, base: Manifest, batch_id: int) -> Manifest:
        # Before any job: the first one that needs the rows splits them.
        known = self.recorded(batch_id)
        self._limits = dict(known.limits) if known is not None else {}
        if not self._limits:
            self._limits = self._planned(Clocks.from_json(base.properties["clocks"]))
        self._tell(self._limits)
        try:
            return super()._run(rows, base, batch_id)
        finally:
            self._tell(None)

    def _tell(self, limits: Mapping[str, Limits] | None) -> None:
        """Tell those who split the batch what is late; of the next one they know nothing yet."""
        told = [] if limits is None else [astuple(limits[name]) for name in self._names]
        self.spark.sparkContext.setLocalProperty(LIMITS, json.dumps(told) if told else "")

    def _planned(self, before: Clocks) -> dict[str, Limits]:
        """What the rows of the next batch are measured by."""
        late, now = self._late_before(before), self.settings.wall_clock()
        return {
            one.name: limits(
                late[one.name],
                one.max_gap,
                live=one.live and not self.settings.replay,
                now=now,
            )
            for one in self._streams
        }

    def _facts(self, rows: DataFrame, before: Clocks) -> BatchFacts:
        came = dict(zip(self._names, self.wiring.arrived(rows), strict=True))
        known = self.repository.current().properties["first"]
        first = {n: one.smallest for n, one in came.items() if one.smallest is not None} | known
        timeless = {name: one.timeless for name, one in came.items()}
        for stream in self._streams:
            if not stream.unit_given and before.largest.get(stream.name) is None:
                _check_unit(stream, came[stream.name], self.settings.wall_clock())
        steps = {n: one.step for n, one in self._limits.items() if one.step is not None}
        before, reached = before.reaching({n: came[n].spans for n in steps}, steps)
        largest = {name: one.largest for name, one in came.items()} | reached
        clocks = self._advanced(
            before, largest, timeless, {name: one.promised for name, one in came.items()}
        )
        return BatchFacts(
            clocks,
            {name: one.rows for name, one in came.items()},
            timeless,
            {name: one.late for name, one in came.items()},
            first,
            {name: one.shed for name, one in came.items()},
            {name: one.beyond for name, one in came.items()},
            self._limits,
        )

    def _clocks_together(self, clocks: Clocks) -> list[Clocks]:
        return [clocks.of(group.streams) for group in self._groups]

    def _late_before(self, before: Clocks) -> dict[str, int]:
        """Per stream: the instants before this are closed for some query that reads it."""
        return {
            name: max(
                (before.of(one.streams).query for one in self._groups if name in one.streams),
                default=MIN_TIME,
            )
            for name in self._names
        }

    def _step(
        self, rows: DataFrame | None, base: Manifest, batch: int, facts: BatchFacts
    ) -> Manifest:
        self.check_dead_letters()
        before = Clocks.from_json(base.properties["clocks"])
        interval = _interval(before, facts.clocks, self._names)
        intervals = tuple(_interval(before, facts.clocks, group.streams) for group in self._groups)
        asked = self.commands.taken() if self.commands is not None else {}
        # Once: a change that comes while the batch runs belongs to the next one.
        changed = self.relation_changes(base, intervals)
        due = self._due(base, intervals, facts)
        receipts: list[Receipt] = []
        if any(due):
            tasks = [
                self.task_of(base, stage, intervals, facts, changed)
                for stage in range(self.wiring.stages.stages)
            ]
            if rows is None:
                nothing = self.wiring.nothing(self._session or self.spark)
                frame = self.wiring.stepped(nothing, tasks, due)
            else:
                frame = self.wiring.receipts(rows, tasks, due)
            receipts = collected(frame, due)
        reach("batch.receipts")
        seen = {name: list(effective) for name, (_, effective) in changed.items()}
        edits = self._edits(base, batch, facts, interval, receipts)
        read = self.read_of_relations(seen)
        edits.append(SetProperties({"relations": seen, "read": read, **asked}))
        committed = self.repository.commit(base, edits)
        reach("batch.committed")
        return committed

    def _due(
        self, base: Manifest, intervals: Sequence[Interval], facts: BatchFacts
    ) -> list[list[int]]:
        """All buckets of every stage, unless nothing came and nothing falls due."""
        stages, properties = self.wiring.stages, base.properties
        everyone = [list(range(count)) for count in stages.counts(self.settings.buckets)]
        latest = max(one.clock for one in intervals)
        waking = any(at < latest for at in properties["due"].values())
        changed = any(
            len(self._changing(task).changes) > len(properties["relations"].get(task.name, ()))
            for task in self.relation_tasks()
        )
        slides = any(one.sent is not None and one.sent.slide is not None for one in stages.answers)
        known = properties["state"]
        fresh = any(f"task/{task.name}/0" not in known for task in stages.tasks)
        promises = tuple(self.promises())
        erases = any(due_at(promises, i.began) != due_at(promises, i.clock) for i in intervals)
        # The first instants that are closed have an answer, if only that nothing came.
        opening = any(one.began == MIN_TIME < one.clock for one in intervals)
        due = waking or changed or slides or fresh or erases or opening
        busy = due or any(facts.rows.values())
        return everyone if busy else [[] for _ in everyone]

    def task_of(
        self,
        base: Manifest,
        stage: int,
        intervals: tuple[Interval, ...],
        facts: BatchFacts,
        changed: Mapping[str, tuple[Delta, tuple[int, ...]]],
    ) -> ProgramTask:
        states = self._states_of(base, stage)
        relations = {}
        for task in self.relation_tasks():
            if task.stage == stage:
                delta, _ = changed[task.name]
                relations[str(task.number)] = packed(delta.born), packed(delta.cut)
        return ProgramTask(
            root=str(self.repository.directory.root),
            sync=self.settings.sync,
            program=self.wiring.stages,
            stage=stage,
            buckets=self.settings.buckets,
            intervals=intervals,
            states=states,
            segments={path: base.segments[path] for path in stored_paths(states)},
            relations=relations,
            history=max(1, self.history),
            max_state_bytes=self.settings.max_state_bytes,
            first=tuple(_first(group, facts.first) for group in self._groups),
            shed=self.wiring.shedding.at_joins,
            stretched=self.wiring.shedding.stretches(sum(facts.rows.values())),
            erased=tuple(due_at(self.promises(), one.clock) for one in intervals),
            zone=self.wiring.zone,
        )

    def _states_of(self, base: Manifest, stage: int) -> dict[str, Any]:
        """Where the states of a stage are: a task need not know about the others."""
        stages = self.wiring.stages
        mine = {f"task/{task.name}" for task in stages.tasks if task.stage == stage}
        for answer in stages.answers:
            if answer.stage == stage:
                mine |= {f"{SENT}/{answer.query}", f"{LOG}/{answer.query}"}
        known = base.properties["state"]
        return {name: known[name] for name in known if name.rpartition("/")[0] in mine}

    def relation_tasks(self) -> Iterator[StagedTask]:
        return (task for task in self.wiring.stages.tasks if task.relation is not None)

    def _changing(self, task: StagedTask) -> Changing:
        assert task.relation is not None
        return self.relations[task.relation.relation.casefold()]

    def relation_changes(
        self, base: Manifest, intervals: Sequence[Interval]
    ) -> dict[str, tuple[Delta, tuple[int, ...]]]:
        """Per task over a stored table: what changes for it, and when all changes took effect."""
        found = {}
        for task in self.relation_tasks():
            assert task.relation is not None
            seen, own = base.properties["relations"].get(task.name, ()), intervals[task.group]
            found[task.name] = self._changing(task).between(task.relation, own, seen)
        return found

    def read_of_relations(self, seen: Mapping[str, Sequence[int]]) -> dict[str, list[str]]:
        """Per relation, the changes that some task has seen."""
        read: dict[str, list[str]] = {}
        for task in self.relation_tasks():
            assert task.relation is not None
            name, changing = task.relation.relation.casefold(), self._changing(task)
            count = max(len(seen[task.name]), len(read.get(name, ())))
            read[name] = changing.digests(count)
        return read

    def check_relations(self) -> None:
        """Refuse relations that are not those the checkpoint has read, with changes at most."""
        read = self.repository.current().properties["read"]
        for task in self.relation_tasks():
            assert task.relation is not None
            name, changing = task.relation.relation, self._changing(task)
            known = read.get(name.casefold(), [])
            if known != changing.digests(len(known)):
                raise InvalidSetting(
                    f"the relation {name} is not the one this checkpoint has read",
                    "leave what filled it as it was, and add INSERT, UPDATE or DELETE behind it",
                )

    def _expired(self, base: Manifest, interval: Interval, horizon: int) -> Iterator[Segment]:
        """The changes of the batch before; tasks themselves drop what is dead of state and log."""
        yield from base.in_group(OUT)
        yield from base.in_group(DEAD_LETTERS)

    def _own_properties(
        self, base: Manifest, facts: BatchFacts, interval: Interval, receipts: Sequence[Receipt]
    ) -> dict[str, Any]:
        stored = {k: v for receipt in receipts for k, v in receipt.stored.items()}
        answers = dict(base.properties["answers"])
        for name, count in _answered(receipts).items():
            answers[name] = answers.get(name, 0) + count
        # All buckets of all stages run, so what others say is of a plan with other stages.
        due = {"due": dues({}, receipts)} if receipts else {}
        return {
            **due,
            "first": dict(facts.first),
            "state": {**base.properties["state"], **stored},
            "answers": answers,
            REFRESHES: _refreshes(base, receipts),
            "kept_from": self._kept_from(base, facts),
            "last_answers": _answered(receipts),
            "delivery": base.version + 1,
        }

    def _kept_from(self, base: Manifest, facts: BatchFacts) -> dict[str, int]:
        """Per query, the instant from which its history is whole."""
        kept = {}
        for name, one in self.results.items():
            clock = facts.clocks.of(one.member.group.streams).query
            forever = self.history >= NEVER or clock == MIN_TIME
            horizon = MIN_TIME if forever else max(clock - self.history, MIN_TIME)
            kept[name] = max(base.properties["kept_from"].get(name, MIN_TIME), horizon)
        return kept

    def _delivery_id(self, committed: Manifest) -> int:
        """The version of the batch itself: queries that come or go make versions, too."""
        number: int = committed.properties["delivery"]
        return number

    @property
    def history(self) -> int:
        """How long dead results are kept: as asked for, or less where an archive forbids it."""
        return min([self.settings.history, *(one.history for one in self.promises())])

    def check_dead_letters(self) -> None:
        """Refuse to keep dead letters of rows whose bytes an archive promises to erase."""
        kept = [one for one in self._streams if one.dead_letter is not None]
        if kept and any(True for _ in self.promises()):
            raise InvalidSetting(
                f"dead letters of stream {kept[0].name} are kept in {kept[0].dead_letter}, but an "
                "archive that the query feeds promises PHYSICAL WITHIN: nobody would remove them",
                "run it without dead letters, or give the archive a contract without PHYSICAL",
            )

    def _deliver(self, committed: Manifest) -> None:
        if committed.properties.get(DELIVERED) == self._delivery_id(committed):
            return  # every sink had it, and what it brought was erased
        self._deliver_dead_letters(committed)
        reach("dead-letters.delivered")
        directory = self.repository.directory
        for name, sinks in self.sinks_of.items():
            delivery = self.results[name].delivery(self.spark, directory, committed)
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
        gone = DropSegments(tuple(sorted(one.path for one in committed.in_group(OUT))))
        done = SetProperties({DELIVERED: self._delivery_id(committed)})
        current = self.repository.commit(committed, [gone, done])
        reach("batch.erased")
        older = [one for one in self.repository.stored_versions() if one != current.version]
        # Between two batches nothing of ours is being written, so nothing is too young.
        vacuum(self.repository, keep_versions=1, grace=0, broken=older)


def _check_unit(stream: Stream, came: Arrived, now: int) -> None:
    """Refuse the first times of a stream that look like numbers of another unit."""
    far = came.beyond and came.largest is None
    if came.largest is None and not far:
        return
    if not far and came.largest is not None and YEAR_1980 <= came.largest <= now + YEAR:
        return
    seen = "far ahead" if came.largest is None else instant_text(came.largest)
    raise BadInput(
        f"the first times of stream {stream.name} are {seen} as microseconds since 1970",
        f"say what {stream.time} counts: TIMESTAMP BY {stream.time} MILLISECONDS (or SECONDS, "
        f'NANOSECONDS), in Python unit="milliseconds"; MICROSECONDS accepts them as they are',
    )


def collected(frame: DataFrame, due: Sequence[Sequence[int]]) -> list[Receipt]:
    """The one action of a batch: receipts, one for each due bucket of each stage."""
    handed_in = [Receipt.decode(bytes(row[0]).decode()) for row in frame.collect()]
    places = [(stage, bucket) for stage, listed in enumerate(due) for bucket in listed]
    return accept(handed_in, places)


def _answered(receipts: Sequence[Receipt]) -> dict[str, int]:
    """Per query, the changes of one batch."""
    found: Counter[str] = Counter()
    for receipt in receipts:
        found.update(receipt.answers)
    return dict(found)


def _interval(before: Clocks, after: Clocks, streams: Sequence[str]) -> Interval:
    began = before.of(streams).query
    return Interval(began, max(began, after.of(streams).query))


def _first(group: ClockGroup, first: Mapping[str, int]) -> int | None:
    return min((first[name] for name in group.streams if name in first), default=None)


def _refreshes(base: Manifest, receipts: Sequence[Receipt]) -> dict[str, list[int]]:
    """Per query: refreshes answered and passed over so far."""
    found = {name: list(pair) for name, pair in base.properties.get(REFRESHES, {}).items()}
    for receipt in receipts:
        for name, pair in receipt.refreshes.items():
            old = found.get(name, [0, 0])
            found[name] = [one + other for one, other in zip(old, pair, strict=True)]
    return found


def empty_program_properties(
    streams: Sequence[Stream], queries: Mapping[str, Mapping[str, Any]], buckets: int
) -> dict[str, Any]:
    """The properties of a checkpoint before its first batch."""
    own: dict[str, Any] = {
        "kind": "queries", "queries": dict(queries), "first": {}, "state": {}, "relations": {},
        "answers": {}, "read": {}, "kept_from": {}, "delivery": 0, STATE_FORMAT: CURRENT,
    }  # fmt: skip
    return {**empty_properties(streams, {}, buckets), **own}
