"""What runs in executors for a query of the language: the steps of a stage.

A stage task loads the committed state of its bucket, steps every operator of the stage, writes new
segments under fresh names, sends results to later stages as parcels and hands in a receipt. It
changes nothing that is committed, so it may run any number of times.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.checkpoint.operator_state import Stored, check_copied
from mayfly.checkpoint.reader_history import Entrance, interval_of_readers
from mayfly.checkpoint.result_log import DELIVERY, LOG, ResultLog, alive_from, horizon
from mayfly.errors import LimitExceeded, MayflyError
from mayfly.faults import reach
from mayfly.kernels.delta import END, ID, Delta, concatenated, payload_names, united, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.lifetime_rows import CODE, READER, chosen, clustered, numbers
from mayfly.kernels.outputs import Sent, seen
from mayfly.kernels.refreshes import Refreshes, repetitions, rounded
from mayfly.kernels.room import limited
from mayfly.lifetime import MIN_TIME, NEVER, use_zone
from mayfly.physical.stages import Route, StagedAnswer, StagedProgram, StagedTask, first_state
from mayfly.plan.strategy import Structure
from mayfly.runtime.shed_load import shed_sides, without_least_promising
from mayfly.spark.stream.dead_letters import DEAD_LETTERS
from mayfly.spark.stream.parcels import MARKER, RECEIPT, Parcel, batch_of, parcels_of, split
from mayfly.spark.stream.receipts import Receipt
from mayfly.spark.stream.row_split import rows_of_others, this_partition
from mayfly.spark.stream.step_state import StepState
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, Segment, segment_batches, write_segment

OUT, BORN, CUT = "out", "born", "cut"
SENT = "sent"
PARCELS_AT_ONCE = 64
Pieces = Iterator[Delta]
"""Results that are made when they are drawn, once."""


@dataclass(frozen=True)
class StageStep:
    """One stage of a program in any bucket."""

    root: str
    sync: bool
    program: StagedProgram
    stage: int
    buckets: int
    intervals: tuple[Interval, ...]
    """Of each clock group."""
    states: Mapping[str, Mapping[str, Any]]
    """``task/name/bucket`` → where its state is stored."""
    segments: Mapping[str, Segment]
    relations: Mapping[str, tuple[bytes, bytes]]
    """Per task over a relation: its born and cut rows in this step."""
    history: int
    max_state_bytes: int
    first: tuple[int | None, ...]
    """Of each clock group: the generation time of its first row, where refreshes begin."""
    begins: Mapping[int, int] = field(default_factory=dict)
    """Clock groups that learn their history, and the clock they found: only these are stepped."""
    erased: tuple[int | None, ...] = ()
    """Of each clock group: the instant before which rows expired whose bytes must go, if any."""
    placed: bool = False
    """Whether partition p holds what goes to bucket p, so that no markers are needed."""
    shed: float = 0.0
    """The share of rows that joins leave out: those with the fewest partners."""
    stretched: bool = False
    """Whether of the refreshes that are closed only the last one is answered."""
    zone: str = "UTC"
    """In which times have a day and an hour."""
    knows_from: Mapping[str, int] = field(default_factory=dict)
    """Per task of a query that came later, or reader of one: from when on it knows all rows."""
    letters: frozenset[str] = frozenset()
    """Streams whose dead letters are kept."""
    entering: Mapping[str, Entrance] = field(default_factory=dict)
    """Per task with readers that learn their history."""
    delivery: int = 0
    """The number under which the results of this step will be delivered."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_zone(self.zone)
        began = time.perf_counter()
        reach(f"stage-{self.stage + 1}.begun")
        mine: dict[int, dict[str, list[bytes]]] = {}
        here = this_partition() if self.placed else -1
        if 0 <= here < self.program.count(self.stage, self.buckets):
            mine[here] = {MARKER: []}
        size = 0
        for batch in batches:
            onward = []
            for parcel in parcels_of(batch):
                if parcel.stage != self.stage or parcel.edge == RECEIPT:
                    onward.append(parcel)
                    continue
                size += len(parcel.data)
                held = mine.setdefault(parcel.bucket, {})
                held.setdefault(parcel.edge, []).append(parcel.data)
            if onward:
                yield batch_of(onward)
        for bucket, parcels in sorted(mine.items()):
            if MARKER not in parcels:
                if self.placed:
                    raise rows_of_others(here)
                continue
            try:
                if size > self.max_state_bytes:
                    raise self._too_large(size)
                yield from self._run_bucket(bucket, parcels, began)
            except MayflyError as error:
                failed = Receipt.failure(self.stage, bucket, error)
                yield batch_of([self._receipt(bucket, failed)])

    def _receipt(self, bucket: int, receipt: Receipt) -> Parcel:
        return Parcel(bucket, self.stage, RECEIPT, receipt.encode().encode())

    def steps(self, group: int) -> bool:
        return not self.begins or group in self.begins

    def _run_bucket(
        self, bucket: int, parcels: Mapping[str, list[bytes]], began: float
    ) -> Iterator[pa.RecordBatch]:
        with Directory.at(self.root, sync=self.sync).syncing_together() as directory:
            step = _Step(self, bucket, parcels, directory)
            with limited(self.max_state_bytes):
                results = step.run()
                step.finish(results)
            states = list(step.after.values())
            size = sum(state.bytes for state in states)
            if size > self.max_state_bytes:
                raise self._too_large(size)
        reach("task.state-written")
        sent = step.parcels(results)
        while parcels_out := list(islice(sent, PARCELS_AT_ONCE)):
            yield batch_of(parcels_out)
        reach("task.done")
        receipt = Receipt(
            stage=self.stage,
            bucket=bucket,
            added=tuple(step.added),
            dropped=tuple(step.dropped),
            rows_in=step.rows_in,
            changes=sum(step.changes.values()),
            state_rows=sum(state.rows for state in states),
            state_bytes=size,
            next_due=step.next_due(),
            seconds=time.perf_counter() - began,
            io=directory.io.to_json(),
            stored={name: stored.to_json() for name, stored in step.stored.items()},
            answers=step.changes,
            null_keys=step.null_keys,
            shed=step.shed,
            late=step.late,
            refreshes=step.refreshes,
        )
        yield batch_of([self._receipt(bucket, receipt)])

    def _too_large(self, size: int) -> LimitExceeded:
        return LimitExceeded(
            f"one bucket of stage {self.stage + 1} needs {size:,} bytes, "
            f"more than max_state_bytes = {self.max_state_bytes:,}",
            "use shorter windows, more buckets or a larger max_state_bytes, or limit the rate",
        )


@dataclass
class _Step(StepState):
    """One step of a stage in one bucket."""

    rows_in: dict[str, int] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    """Per query."""
    null_keys: dict[str, int] = field(default_factory=dict)
    """Per stream: rows that came to joins without a key."""
    shed: dict[str, int] = field(default_factory=dict)
    """Per stream: rows that joins left out."""
    refreshes: dict[str, list[int]] = field(default_factory=dict)
    """Per query: refreshes answered and skipped."""

    def run(self) -> dict[int, Delta | Pieces]:
        results: dict[int, Delta | Pieces] = {}
        drawn = self.program.drawn_once(self.task.stage)
        for staged in self.program.tasks:
            steps = self.task.steps(staged.group) or staged.name in self.task.entering
            if staged.stage == self.task.stage and steps and self._runs_here(staged):
                results[staged.number] = self._run(staged, results, drawn.get(staged.number))
        for closed in self.program.closed:
            if closed.task in results:
                self.forget_closed(closed)
        return results

    def _runs_here(self, staged: StagedTask) -> bool:
        """What needs everything in one place is in bucket 0, whatever else its stage does."""
        return staged.bucketed or self.bucket == 0

    def _run(
        self,
        staged: StagedTask,
        results: Mapping[int, Delta | Pieces],
        drawn: frozenset[str] | None,
    ) -> Delta | Pieces:
        """``drawn`` are the columns that are wanted of results which are drawn once."""
        operator, first = staged.operator, self.task.first[staged.group]
        knows_from = self.task.knows_from.get(staged.name, MIN_TIME)
        interval = replace(self.task.intervals[staged.group], first=first, knows_from=knows_from)
        interval = interval_of_readers(staged, interval, self.task.knows_from, self.task.entering)
        inputs = [self._input(staged, side, results) for side in range(len(staged.local))]
        name = f"task/{staged.name}"
        before = self._load(name, first_state(operator, self.bucket))
        if drawn is not None and not isinstance(inputs[0], Delta):
            self._keep(name, before, staged.group)
            return (operator.step(before, [piece], interval)[1] for piece in inputs[0])
        after: Any
        delta: Delta | Pieces
        for side, stream in shed_sides(self.program, staged).items():
            lost = operator.keyless(inputs[side].born, side)
            self.null_keys[stream] = self.null_keys.get(stream, 0) + lost
        if self.task.shed:
            inputs = self._with_partners(staged, before, inputs)
        if drawn is not None and operator.combines:
            after, delta = operator.giving(drawn).pieces(before, inputs, interval)
        else:
            after, delta = operator.step(before, inputs, interval)
        if self._due(staged.group) is not None:
            after = operator.without_admitted(after, interval.clock)
        self._keep(name, after, staged.group)
        self.clocks[name] = operator.refreshed(interval.clock)
        self._count_rows(staged, inputs)
        self.tell_late(staged, before, inputs, interval)
        return delta

    def _with_partners(self, staged: StagedTask, state: Any, inputs: list[Delta]) -> list[Delta]:
        """Of a join's new rows, those that are not left out on purpose."""
        sides, operator = shed_sides(self.program, staged), staged.operator
        if not sides:
            return inputs
        interval = self.task.intervals[staged.group]
        inputs, lost = without_least_promising(
            operator, state, inputs, sides, self.task.shed, interval
        )
        for stream, count in lost.items():
            self.shed[stream] = self.shed.get(stream, 0) + count
        return inputs

    def _input(self, staged: StagedTask, side: int, results: Mapping[int, Delta | Pieces]) -> Any:
        local = staged.local[side]
        if local is not None:
            return results.get(local) or self._standing(local)
        if staged.relation is not None:
            return self._relation(staged)
        for number, feed in enumerate(self.program.feeds):
            if feed.task == staged.number:
                rows = self._tables(f"feed/{number}")
                table = concatenated(rows) if rows else staged.operator.no_input()
                return Delta(table, table.slice(0, 0))
        for number, link in enumerate(self.program.links):
            if (link.consumer, link.side) == (staged.number, side):
                nothing = self._nothing(link.task)
                return Delta(
                    concatenated([nothing.born, *self._tables(f"born/{number}")]),
                    concatenated([nothing.cut, *self._tables(f"cut/{number}")]),
                )
        raise AssertionError(f"task {staged.number} has no input {side}")

    def _standing(self, number: int) -> Delta:
        """What a task that is not stepped shows its readers."""
        source = self.program.tasks[number]
        state = self._load(f"task/{source.name}", first_state(source.operator, self.bucket))
        return source.operator.standing(state) or self._nothing(number)

    def _nothing(self, number: int) -> Delta:
        source = self.program.tasks[number]
        return Delta.empty(source.columns, dual=source.operator.dual)

    def _relation(self, staged: StagedTask) -> Delta:
        """The changes of a stored table, those of this bucket's keys only."""
        born, cut = (
            pa.ipc.open_stream(data).read_all() for data in self.task.relations[str(staged.number)]
        )
        return Delta(born, cut)

    def _count_rows(self, staged: StagedTask, came: Sequence[Delta]) -> None:
        for feed in self.program.feeds:
            if feed.task == staged.number:
                stream = feed.source.stream
                self.rows_in[stream] = self.rows_in.get(stream, 0) + came[0].born.num_rows

    def parcels(self, results: Mapping[int, Delta | Pieces]) -> Iterator[Parcel]:
        """Results for tasks of later stages."""
        for number, link in enumerate(self.program.links):
            if link.task in results:
                for delta in _pieces(results[link.task]):
                    yield from self._sent(delta, link.route, link.stage, str(number))
        for answer in self.program.answers:
            if (
                answer.sent is not None
                and answer.stage > self.task.stage
                and answer.task in results
            ):
                edge = f"answer/{answer.query}"
                for delta in _pieces(results[answer.task]):
                    yield from self._sent(seen(delta), answer.route, answer.stage, edge)

    def _sent(self, delta: Delta, route: Route, stage: int, edge: str) -> Iterator[Parcel]:
        count = self.program.count(stage, self.task.buckets)
        for kind, rows in (("born", delta.born), ("cut", delta.cut)):
            if rows.num_rows:
                yield from split(rows, route.buckets(rows, count), count, stage, f"{kind}/{edge}")

    # ── results ───────────────────────────────────────────────────────────────────────────

    def finish(self, results: Mapping[int, Delta | Pieces]) -> None:
        """Write the answers that leave in this stage, dead letters, and every state."""
        shared: dict[str, Mapping[int, int]] = {}
        for answer in self.program.answers:
            stepped = self.task.steps(answer.group) and self._leaves_here(answer)
            if answer.stage != self.task.stage or not stepped:
                continue
            if answer.share is None:
                self.changes[answer.query] = self._output(answer, results)
                continue
            if answer.log not in shared and answer.task in results:
                self._output(answer, results)
                shared[answer.log] = _by_reader(results[answer.task])
            self.changes[answer.query] = shared.get(answer.log, {}).get(answer.share.reader, 0)
        for edge in self.parcels_in:
            kind, _, stream = edge.partition("/")
            if kind == DEAD_LETTERS:
                self.write_letters(stream, concatenated(self._tables(edge)))
        self._store()

    def _leaves_here(self, answer: StagedAnswer) -> bool:
        if answer.sent is None:
            return self._runs_here(self.program.tasks[answer.task])
        return not answer.route.single or self.bucket == 0

    def _output(self, answer: StagedAnswer, results: Mapping[int, Delta | Pieces]) -> int:
        """This step's changes for the sinks, and the log that snapshots are read from."""
        if answer.sent is not None:
            rows = self._send(answer, answer.sent, results)
            self._append(answer, answer.sent.columns.names, iter(rows.to_batches()))
            return repetitions(rows, answer.sent.slide)
        pieces = (
            self._known_at(answer.group, seen(piece)) for piece in _pieces(results[answer.task])
        )
        if answer.strict:
            (delta,) = pieces
            if answer.share is None or self._due(answer.group) is not None:
                self._write_out(answer, delta)
            if answer.share is None:
                self._log_view(answer, delta)
            else:
                self._log_closed(answer, delta)
            return delta.rows
        columns = payload_names(self._nothing(answer.task).born)
        batches = (batch for piece in pieces for batch in piece.born.to_batches())
        return self._append(answer, columns, batches)

    def _send(
        self, answer: StagedAnswer, sent: Sent, results: Mapping[int, Delta | Pieces]
    ) -> pa.Table:
        """The rows that a stream operator sends."""
        interval = self.task.intervals[answer.group]
        if answer.task in results:
            delta = seen(united(_pieces(results[answer.task]), self._nothing(answer.task)))
        else:
            nothing, edge = seen(self._nothing(answer.task)), f"answer/{answer.query}"
            delta = Delta(
                concatenated([nothing.born, *self._tables(f"born/{edge}")]),
                concatenated([nothing.cut, *self._tables(f"cut/{edge}")]),
            )
        name = f"{SENT}/{answer.query}"
        before = self._load(name, sent.state())
        first = self.task.first[answer.group]
        stretched = self.task.stretched
        after, rows = sent.step(before, delta, interval, first, stretched=stretched)
        if sent.slide is not None and self.bucket == 0:
            some = Refreshes.of(sent.slide, first, interval)
            closed = 0 if some is None else len(some)
            passed = max(0, closed - 1) if stretched else 0
            self.refreshes[answer.query] = [closed - passed, passed]
        self._keep(name, after, answer.group)
        if answer.group in self.task.begins:
            begins = np.array([self.task.begins[answer.group]])
            begins = rounded(begins, sent.slide if sent.is_periodic else None)
            ts = np.maximum(numbers(rows, TS), begins)
            rows = chosen(with_numbers(rows, **{TS: ts}), ts < numbers(rows, EXP))
        return rows

    def _known_at(self, group: int, delta: Delta) -> Delta:
        """Of results that history gives, those of the last closed instant and later."""
        since = self.task.begins.get(group)
        if since is None:
            return delta
        return delta.where(lambda rows: numbers(rows, EXP) >= since)

    def _write_out(self, answer: StagedAnswer, delta: Delta) -> None:
        for kind, rows in ((BORN, delta.born), (CUT, delta.cut)):
            segment = write_segment(self.directory, self._out(answer, kind), rows)
            self.added += [segment] if segment else []

    def _out(self, answer: StagedAnswer, kind: str) -> str:
        return f"{OUT}/{answer.log}/{kind}/{self.bucket}"

    def _append(
        self, answer: StagedAnswer, columns: Sequence[str], batches: Iterator[pa.RecordBatch]
    ) -> int:
        """Log results that are never cut; how many they are. The log is what is delivered, unless
        some of it must go before."""
        name, log = self._result_log(answer, (*columns, TS, EXP))
        old, due = log.segments, self._due(answer.group)
        log = log.compact(self._horizon(answer), self.task.history)
        if due is None:
            log = log.append(batches, self.task.delivery)
            count = sum(
                segment.rows
                for segment in log.segments
                if segment.tags.get(DELIVERY) == self.task.delivery
            )
        else:
            out = ResultLog(self.directory, self._out(answer, BORN), log.columns)
            out = out.append(batches, None)
            self.added += out.segments
            count = sum(segment.rows for segment in out.segments)
            delivered = (
                b for segment in out.segments for b in segment_batches(self.directory, segment)
            )
            log = log.erase_expired(due).append(alive_from(delivered, due), None)
        self._keep_log(answer, name, old, log)
        return count

    def _result_log(self, answer: StagedAnswer, columns: tuple[str, ...]) -> tuple[str, ResultLog]:
        """The log of results that are never cut, under its name."""
        name = f"{LOG}/{answer.log}/{self.bucket}"
        entry = self.task.states.get(name)
        paths = () if entry is None else Stored.from_json(entry).runs["kept"]
        old = tuple(self.task.segments[path] for path in paths)
        return name, ResultLog(self.directory, f"state/{name}/kept", columns, old)

    def _keep_log(
        self, answer: StagedAnswer, name: str, old: tuple[Segment, ...], log: ResultLog
    ) -> None:
        self.added += [segment for segment in log.segments if segment not in old]
        gone = [segment for segment in old if segment not in log.segments]
        check_copied(gone, self._horizon(answer), self.directory)
        self.dropped += [segment.path for segment in gone]
        self.stored[name] = Stored({"kept": tuple(segment.path for segment in log.segments)}, {})

    def _log_closed(self, answer: StagedAnswer, delta: Delta) -> None:
        """Log results of several queries once they are over; those that hold are in the state of
        the task, from which readers take them. So no result is looked for, or written twice: what
        is delivered comes from there, too, unless some of it must go before."""
        columns = (*payload_names(delta.born), TS, EXP)
        ended = chosen(delta.born, numbers(delta.born, EXP) < NEVER)
        cut = with_numbers(delta.cut, **{EXP: numbers(delta.cut, END)})
        over = concatenated([delta.born.slice(0, 0).select(columns), ended.select(columns),
                             cut.select(columns)])  # fmt: skip
        name, log = self._result_log(answer, columns)
        old, due = log.segments, self._due(answer.group)
        log = log.compact(self._horizon(answer), self.task.history)
        delivery = self.task.delivery if due is None else None
        if due is not None:
            log = log.erase_expired(due)
            over = chosen(over, numbers(over, EXP) >= due)
        self._keep_log(answer, name, old, log.append(iter(over.to_batches()), delivery))

    def _log_view(self, answer: StagedAnswer, delta: Delta) -> None:
        """Results that may be cut lie in the log by their identity."""
        log: KeptRows = self._load(f"{LOG}/{answer.log}", KeptRows(Shape(Structure.APPEND)))
        cut = with_numbers(delta.cut, **{CODE: numbers(delta.cut, ID)})
        log = log.cut(clustered(cut)) if cut.num_rows else log
        rows = with_numbers(delta.born, **{CODE: numbers(delta.born, ID)})
        after = log.after(clustered(rows) if rows.num_rows else rows, self._horizon(answer))
        self._keep(f"{LOG}/{answer.log}", after, answer.group)

    def _horizon(self, answer: StagedAnswer) -> int:
        return horizon(self.task.intervals[answer.group].clock, self.task.history)


def _by_reader(results: Delta | Pieces) -> dict[int, int]:
    """How many of the results of several queries each of them has."""
    pieces = [rows for delta in _pieces(results) for rows in (delta.born, delta.cut)]
    readers = np.concatenate([numbers(rows, READER) for rows in pieces])
    return dict(
        zip(*(part.tolist() for part in np.unique(readers, return_counts=True)), strict=True)
    )


def _pieces(results: Delta | Pieces) -> Pieces:
    return iter([results]) if isinstance(results, Delta) else results
