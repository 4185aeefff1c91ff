"""Queries that come to a checkpoint: registered together with the history they find there.

Idea: the rows a newcomer needs are read from the states of running queries (see
``checkpoint.history``), and one step of the newcomer's operators closes instants up to its clock.
That step and the registration are one commit, so a crash leaves either neither or both. Results of
the step go to the newcomer's sinks before the next batch; until they are delivered, the checkpoint
says so, and a new start delivers them again under the same number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mayfly.checkpoint.awaited_rows import WHOLE_ROWS, entry_waiting
from mayfly.checkpoint.history import WAITING, Filling, KeptHistory, StoredHistory, history_of
from mayfly.checkpoint.operator_state import Stored, load_state, store_state
from mayfly.checkpoint.reader_history import WindowReading
from mayfly.checkpoint.row_history import counting, counts_of, model_of
from mayfly.checkpoint.source_log import part_of
from mayfly.faults import reach
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.physical.stages import StagedProgram, first_state
from mayfly.runtime.clock import Clocks
from mayfly.runtime.closed_keys import check_newcomer
from mayfly.spark.stream.batch_record import BatchFacts
from mayfly.spark.stream.checkpoint_properties import KNOWN
from mayfly.spark.stream.parcels import Parcel, batch_of
from mayfly.spark.stream.query_checkpoint import WHOLE_FROM, RegisteredQueries, move_sources
from mayfly.spark.stream.receipts import Receipt, collect_receipts
from mayfly.spark.stream.row_split import prepared, sent
from mayfly.spark.stream.runner import Runner
from mayfly.spark.stream.stage_tasks import OUT
from mayfly.storage import (
    TS,
    AddSegments,
    DropSegments,
    Manifest,
    Segment,
    SetProperties,
    segment_batches,
)
from mayfly.storage.directory import Directory
from mayfly.storage.edits import Draft

UNSENT = "unsent"
AT_ONCE = {"0/0": MIN_TIME}
"""What is due after a step of newcomers only: everything, so that all places tell it anew."""


@dataclass(frozen=True)
class FeedPiece:
    """Stored rows for one feed: the names of their columns, and which of them are wanted."""

    segment: Segment
    feed: int
    names: Mapping[str, str]
    """Column of the stream → stored name."""
    since: int


@dataclass(frozen=True)
class HistoryReader:
    """Kept rows to parcels for the windows of newcomers, as input rows would have come."""

    root: str
    program: StagedProgram
    pieces: tuple[FeedPiece, ...]
    counts: tuple[int, ...]
    """Buckets per stage."""
    times: Mapping[str, pa.DataType]
    """Per stream: the type of its time."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.at(self.root)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                piece = self.pieces[number]
                for rows in segment_batches(directory, piece.segment):
                    yield batch_of(self._parcels(piece, pa.Table.from_batches([rows])))

    def _parcels(self, piece: FeedPiece, rows: pa.Table) -> Iterator[Parcel]:
        feed = self.program.feeds[piece.feed]
        rows = chosen(rows, numbers(rows, TS) >= piece.since)
        time = rows.column(TS).cast(self.times[feed.source.stream])
        arrays = [
            time if piece.names[name] == TS else rows.column(piece.names[name])
            for name in feed.source.columns
        ]
        named = feed.named(arrays, rows.column(TS))
        yield from sent(feed, piece.feed, prepared(feed, named), self.counts[feed.stage])


def settle(
    runner: Runner, register: RegisteredQueries, remembered: Mapping[str, Any] | None = None
) -> None:
    """Write down which queries there are now, and what else is to be remembered; newcomers get
    to know what is kept."""
    base = runner.repository.current()
    more = {k: v for k, v in (remembered or {}).items() if base.properties.get(k) != v}
    if register.move is not None:
        register.move.remove_others(part_of(base))
    moved = move_sources(register, base)
    if not register.added and not register.dropped and not moved:
        if more:
            runner.repository.commit(base, [SetProperties(more)])
        return
    edits = [SetProperties(moved), *register.edits(base, runner.dataflow.stages)]
    came = frozenset(name for name in register.added if register.since[name] is not None)
    for name in sorted(came):
        for stream in runner.dataflow.streams:
            if stream.name in register.queries[name].get("streams", ()):
                check_newcomer(name, stream.name, stream)
    if came and base.properties["batch"] >= 0:
        edited = _edited(base, edits)
        edits += _fill(runner, edited, _history(runner, register, edited, came))
    edits.append(SetProperties({"due": AT_ONCE, **more}))
    settled = runner.repository.commit(base, edits)
    reach("queries.settled")
    if moved and register.move is not None:
        register.move.remove_others(part_of(settled))


def deliver_history(runner: Runner) -> None:
    """Give newcomers' first results to their sinks, once for certain."""
    base = runner.repository.current()
    unsent: Mapping[str, int] = base.properties.get(UNSENT, {})
    if not unsent:
        return
    for name, number in unsent.items():
        for sink in runner.sinks_of.get(name, ()):
            delivery = runner.results[name].delivery(
                runner.spark, runner.repository.directory, base, number
            )
            if delivery.rows or getattr(sink, "wants_every_batch", False):
                sink.deliver(delivery)
    reach("history.delivered")
    gone = [segment.path for name in unsent for segment in base.in_group(f"{OUT}/{name}")]
    runner.repository.commit(base, [DropSegments(tuple(gone)), SetProperties({UNSENT: {}})])


def _history(
    runner: Runner, register: RegisteredQueries, base: Manifest, came: frozenset[str]
) -> StoredHistory:
    stored = base.properties
    names = [query for query in register.queries if query not in register.added]
    stages, clocks = runner.dataflow.stages, Clocks.from_json(stored["clocks"])
    kept = KeptHistory(
        clocks,
        stored["totals"]["late"],
        stored["totals"].get("shed", {}),
        {name: stored["kept_from"].get(name, MIN_TIME) for name in names},
        stored.get(KNOWN, {}),
        {stream.name: stream.time for stream in runner.dataflow.streams},
        counts_of(stages, stored["state"], clocks.largest, stored.get(KNOWN, {})),
    )
    return history_of(stages, came, kept)


def _fill(runner: Runner, base: Manifest, history: StoredHistory) -> list[Any]:
    """Step the newcomers' operators once over what is kept; the edits."""
    stages = runner.dataflow.stages
    keys = {task.name for task in stages.tasks} | {r.key for r in WindowReading.all_of(stages)}
    knowledge = {k: v for k, v in base.properties.get(KNOWN, {}).items() if k in keys}
    queries = {name: dict(query) for name, query in base.properties["queries"].items()}
    for name, whole in history.whole_from.items():
        rows = history.awaited.get(name, ())
        queries[name] |= {WHOLE_FROM: NEVER if rows else whole}
        queries[name] |= {WHOLE_ROWS: entry_waiting(rows, whole)} if rows else {}
    edits: list[Any] = [
        SetProperties({KNOWN: knowledge | dict(history.known_from), "queries": queries}),
        *_counts_of_others(runner, base),
    ]
    if not history.began:
        return edits
    base = replace(_edited(base, edits), version=base.version)  # the same commit
    receipts, relations = _step(runner, base, history)
    state = {k: v for receipt in receipts for k, v in receipt.stored.items()}
    answers = dict(base.properties["answers"])
    for receipt in receipts:
        for name, count in receipt.answers.items():
            answers[name] = answers.get(name, 0) + count
    groups = history.began
    filled = [answer.query for answer in stages.answers if answer.group in groups]
    return [
        *edits,
        AddSegments(tuple(segment for receipt in receipts for segment in receipt.added)),
        SetProperties({
            "state": {**base.properties["state"], **state},
            "relations": {**base.properties["relations"], **relations},
            "read": runner.reads.digests(
                {**dict.fromkeys((t.name for t in runner.reads.tasks()), ()),
                 **base.properties["relations"], **relations}
            ),
            "answers": answers,
            UNSENT: dict.fromkeys(filled, base.version),
        }),
    ]  # fmt: skip


def _counts_of_others(runner: Runner, base: Manifest) -> list[Any]:
    """States of panes of rows that begin: they number rows as another of their stream does."""
    stages, directory = runner.dataflow.stages, runner.repository.directory
    stored, states, edits = base.properties["state"], {}, list[Any]()
    for task in counting(stages):
        model = model_of(stages, task, stored)
        if model is None or f"task/{task.name}/0" in stored:
            continue
        blank = first_state(task.operator, 0)
        entry = Stored.from_json(stored[f"task/{model}/0"])
        state = load_state(blank, entry, base.segments, directory).begun_beside()
        name = f"task/{task.name}/0"
        own, added, _ = store_state(state, f"state/{name}", directory)
        states[name] = own.to_json()
        edits.append(AddSegments(tuple(added)))
    return [*edits, SetProperties({"state": {**stored, **states}})] if states else []


def _step(
    runner: Runner, base: Manifest, history: StoredHistory
) -> tuple[list[Receipt], dict[str, list[int]]]:
    stages, clocks = runner.dataflow.stages, Clocks.from_json(base.properties["clocks"])
    nothing = dict.fromkeys(clocks.streams, 0)
    facts = BatchFacts(clocks, nothing, nothing, first=base.properties["first"])
    intervals, begins = [], {}
    for number, group in enumerate(stages.groups):
        clock = clocks.of(group.streams).query
        if number in history.began:
            begins[number] = clock
        intervals.append(Interval(min(history.began.get(number, clock), clock), clock))
    changed = runner.reads.changes(
        base,
        [interval if index in begins else Interval() for index, interval in enumerate(intervals)],
    )
    tasks = [
        replace(
            runner.task_of(base, stage, tuple(intervals), facts, changed),
            begins=begins,
            delivery=base.version,
            knows_from=history.known_from,
            entering=history.entering,
        )
        for stage in range(stages.stages)
    ]
    counts = stages.counts(runner.settings.buckets)
    due = [list(range(count)) for count in counts]
    times = {s.name: s.schema.field(s.time).type for s in runner.dataflow.streams}
    pieces = tuple(_pieces(base, history.fillings))
    reader = HistoryReader(runner.repository.directory.address, stages, pieces, counts, times)
    moving = runner.dataflow.kept_rows(runner.spark, reader, len(reader.pieces))
    frame = runner.dataflow.stepped(moving, tasks, due)
    receipts = collect_receipts(frame, due)
    seen = {
        task.name: list(changed[task.name][1])
        for task in runner.reads.tasks()
        if task.group in begins
    }
    return receipts, seen


def _pieces(base: Manifest, fillings: Sequence[Filling]) -> Iterator[FeedPiece]:
    for filling in fillings:
        for (name, part), columns in filling.keeping.places.items():
            since = max(filling.since, filling.keeping.clock) if part == WAITING else filling.since
            for state, stored in base.properties["state"].items():
                if state.rpartition("/")[0] != name:
                    continue
                for path in stored["runs"].get(part, ()):
                    segment = base.segments[path]
                    if segment.ts.high >= since:
                        yield FeedPiece(segment, filling.access.feed, columns, since)


def _edited(base: Manifest, edits: Sequence[Any]) -> Manifest:
    """The version that the edits would make."""
    draft = Draft.of(base)
    for edit in edits:
        edit.apply(draft)
    return base.followed_by(segments=draft.segments, properties=draft.properties)
