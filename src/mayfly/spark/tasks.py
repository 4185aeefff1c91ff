"""What runs in executors: one kernel step of one stage in one bucket.

A task reads the bucket's committed state, steps, writes new segments under fresh names and hands
in a receipt. It never changes or removes what is committed, so it may run any number of times.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from mayfly.errors import LimitExceeded, MayflyError, ProtocolError
from mayfly.faults import reach
from mayfly.kernels.interval import Interval
from mayfly.kernels.join import JoinState, SideReport, SideState, Step, step
from mayfly.kernels.rows import CODE, Run
from mayfly.kernels.upkeep import next_due
from mayfly.lifetime import NEVER
from mayfly.pipeline.query import Stage
from mayfly.pipeline.storing import stored_run
from mayfly.spark.receipts import Receipt
from mayfly.storage.files import Directory
from mayfly.storage.merge import plan_merge
from mayfly.storage.segment import (
    EXP,
    TS,
    Segment,
    segment_batches,
    write_segment,
)
from mayfly.storage.verify import SORTED_BY

PLACE, RECEIPT = "_place", "_receipt"
KINDS = 4
"""A row's place is KINDS · bucket + kind."""
LEFT, RIGHT, MARKER, PASSED_ON = range(KINDS)
LOG = "log"
DEAD_LETTERS = "dead"
LOG_FAN_IN, LOG_LIMIT = 16, 96
"""The log is appended to by every batch and read rarely: merge late, rewrite little."""
REASON = "_reason"
LATE, NO_TIME = "late", "no time"


def state_group(stage: int, side: int, bucket: int, waiting: bool) -> str:
    return f"state/{stage}/{side}/{'waiting' if waiting else 'kept'}/{bucket}"


def log_group(bucket: int) -> str:
    return f"{LOG}/{bucket}"


@dataclass(frozen=True, slots=True)
class StageTask:
    """Everything a task needs besides its rows; the same for all buckets of a stage."""

    root: str
    sync: bool
    index: int
    last: bool
    stage: Stage
    slots: tuple[dict[str, str], dict[str, str]]
    """Per side: slot → qualified column."""
    interval: Interval
    segments: tuple[Segment, ...]
    log_span: int
    max_state_bytes: int
    dead_letters: frozenset[str]
    """Streams whose late rows and rows without a time are kept."""
    exchanged: bool = False
    """The partition is the bucket; otherwise marker rows name the buckets to step."""

    def output_schema(self) -> pa.Schema:
        """What the task yields: receipts, and before the last stage also its results."""
        receipt = pa.field(RECEIPT, pa.string())
        return pa.schema([receipt] if self.last else [*self.stage.join.schema, receipt])

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began = time.perf_counter()
        reach(f"stage-{self.index + 1}.begun")
        arrived = _Arrived.of(batches, self.max_state_bytes, self.index)
        yield from (self._receipt_row(text) for text in arrived.passed_on)
        for bucket in [this_partition()] if self.exchanged else arrived.marked:
            try:
                yield from self._step(bucket, arrived.in_bucket(bucket), began)
            except MayflyError as error:
                yield self._receipt_row(Receipt.failure(self.index, bucket, error).encode())

    def _step(
        self, bucket: int, rows: tuple[pa.Table | None, ...], began: float
    ) -> Iterator[pa.RecordBatch]:
        with Directory.at(self.root, sync=self.sync).syncing_together() as directory:
            timeless, delta = zip(*(self._delta(side, rows[side]) for side in (0, 1)), strict=True)
            state = self._state(directory, bucket)
            done = step(
                self.stage.join, state, delta, self.interval, max_state_bytes=self.max_state_bytes
            )
            added, dropped = self._store_state(directory, bucket, state, done.state)
            for side in (0, 1):
                added += self._store_dead(
                    directory, bucket, side, timeless[side], done.reports[side]
                )
            reach("task.state-written")
            changes = 0
            if self.last:
                logged, gone, changes = self._store_log(directory, bucket, done)
                added, dropped = added + logged, dropped + gone
            else:
                for batch in done.changes:
                    changes += batch.num_rows
                    nothing = pa.nulls(batch.num_rows, pa.string())
                    yield pa.RecordBatch.from_arrays(
                        [*batch.columns, nothing], schema=self.output_schema()
                    )
        reach("task.done")
        receipt = Receipt(
            stage=self.index,
            bucket=bucket,
            added=tuple(added),
            dropped=tuple(dropped),
            rows_in=self._per_stream([0 if one is None else one.num_rows for one in rows]),
            late=self._per_stream([one.late.num_rows for one in done.reports]),
            null_keys=self._per_stream([one.null_keys for one in done.reports]),
            changes=changes,
            state_rows=done.state.rows,
            state_bytes=done.state.bytes,
            next_due=next_due(
                tuple(run for side in done.state.sides for run in side.waiting),
                self.interval.clock,
            ),
            seconds=time.perf_counter() - began,
            io=directory.io.to_json(),
        )
        yield self._receipt_row(receipt.encode())

    def _per_stream(self, counts: list[int]) -> dict[str, int]:
        return {
            source.stream: count
            for source, count in zip(self.stage.sources, counts, strict=True)
            if source.stream is not None
        }

    def _receipt_row(self, text: str) -> pa.RecordBatch:
        schema = self.output_schema()
        arrays = [pa.nulls(1, one.type) for one in list(schema)[:-1]]
        return pa.RecordBatch.from_arrays([*arrays, pa.array([text])], schema=schema)

    def _delta(self, side: int, rows: pa.Table | None) -> tuple[pa.Table, pa.Table]:
        """Rows without a time, and the others, under their qualified names."""
        source = self.stage.join.inputs[side]
        slots = {column: slot for slot, column in self.slots[side].items()}
        lifetime = [CODE, TS] if source.window is not None else [CODE, TS, EXP]
        if rows is None:
            times = [(name, pa.int64()) for name in lifetime]
            nothing = pa.schema([*times, *source.schema]).empty_table()
            return nothing, nothing
        named = rows.select([*lifetime, *(slots[name] for name in source.schema.names)])
        named = named.rename_columns([*lifetime, *source.schema.names])
        if rows[TS].null_count == 0:
            return named.slice(0, 0), named
        return named.filter(pc.is_null(named[TS])), named.filter(pc.is_valid(named[TS]))

    def _state(self, directory: Directory, bucket: int) -> JoinState:
        def runs(side: int, waiting: bool) -> tuple[Run, ...]:
            group = state_group(self.index, side, bucket, waiting)
            return tuple(stored_run(directory, one) for one in self._in_order(group))

        left, right = (SideState(runs(side, False), runs(side, True)) for side in (0, 1))
        return JoinState((left, right))

    def _in_order(self, group: str) -> list[Segment]:
        """The group's segments as they were generated; merging relies on neighbours."""
        found = [one for one in self.segments if one.group == group]
        return sorted(found, key=lambda one: (one.ts.low, one.ts.high))

    def _store_state(
        self, directory: Directory, bucket: int, before: JoinState, after: JoinState
    ) -> tuple[list[Segment], list[str]]:
        added: list[Segment] = []
        for side in (0, 1):
            for waiting, runs in (
                (False, after.sides[side].runs),
                (True, after.sides[side].waiting),
            ):
                group = state_group(self.index, side, bucket, waiting)
                fresh = (run for run in runs if run.segment is None)
                added += (_store_run(directory, group, run, clustered=not waiting) for run in fresh)
        kept = {run.segment.path for side in after.sides for run in side if run.segment}
        old = [run.segment.path for side in before.sides for run in side if run.segment]
        return added, [path for path in old if path not in kept]

    def _store_dead(
        self, directory: Directory, bucket: int, side: int, timeless: pa.Table, report: SideReport
    ) -> list[Segment]:
        stream = self.stage.sources[side].stream
        if stream is None or stream not in self.dead_letters:
            return []
        parts = []
        for rows, reason in ((report.late, LATE), (timeless, NO_TIME)):
            if rows.num_rows:
                reasons = pa.array([reason] * rows.num_rows)
                parts.append(rows.drop_columns([CODE]).append_column(REASON, reasons))
        if not parts:
            return []
        rows = pa.concat_tables(parts)
        at = rows.schema.get_field_index(TS)
        rows = rows.set_column(at, TS, pc.fill_null(rows[TS], 0))
        rows = rows.append_column(EXP, pa.array(np.full(rows.num_rows, NEVER)))
        segment = write_segment(directory, f"{DEAD_LETTERS}/{stream}/{bucket}", rows)
        return [segment] if segment else []

    def _store_log(
        self, directory: Directory, bucket: int, done: Step
    ) -> tuple[list[Segment], list[str], int]:
        """Append this batch's results to the log, merging small old pieces on the way."""
        group = log_group(bucket)
        fresh = write_segment(directory, group, done.changes, compression="lz4")
        added = [fresh] if fresh else []
        horizon = self.interval.clock - self.log_span
        older = [one for one in self._in_order(group) if not one.dead_at(horizon)]
        dropped = []
        cap = max(1, self.log_span // 8)
        for level, members in plan_merge(older, cap=cap, fan_in=LOG_FAN_IN, limit=LOG_LIMIT):
            batches = (b for one in members for b in segment_batches(directory, one))
            merged = write_segment(directory, group, batches, level=level, compression="lz4")
            added += [merged] if merged else []
            dropped += [one.path for one in members]
        return added, dropped, fresh.rows if fresh else 0


def _store_run(directory: Directory, group: str, run: Run, *, clustered: bool) -> Segment:
    tags: dict[str, Any] = {} if run.cell is None else {"cell": run.cell}
    if clustered:
        tags[SORTED_BY] = [CODE, TS]
    segment = write_segment(directory, group, run.load(), key=CODE, level=run.level, tags=tags)
    assert segment is not None, "a run is never empty"
    return segment


@dataclass(frozen=True, slots=True)
class _Arrived:
    """What a task was given: stream rows, the buckets marked, and receipts of earlier stages."""

    rows: pa.Table | LimitExceeded | None
    marked: list[int]
    passed_on: list[str]

    @staticmethod
    def of(batches: Iterator[pa.RecordBatch], limit: int, index: int) -> _Arrived:
        kept, size = [], 0
        marked: set[int] = set()
        passed_on: list[str] = []
        for batch in batches:
            places = batch.column(PLACE).to_numpy()
            special = places % KINDS >= MARKER
            if special.any():
                marked.update((places[places % KINDS == MARKER] // KINDS).tolist())
                if RECEIPT in batch.schema.names:
                    told = batch.column(RECEIPT).filter(pa.array(places % KINDS == PASSED_ON))
                    passed_on += told.to_pylist()
                batch = batch.filter(pa.array(~special))
            size += batch.nbytes
            if size <= limit:
                kept.append(batch)
        if size > limit:
            return _Arrived(_batch_too_large(size, limit, index), sorted(marked), passed_on)
        return _Arrived(pa.Table.from_batches(kept) if kept else None, sorted(marked), passed_on)

    def in_bucket(self, bucket: int) -> tuple[pa.Table | None, ...]:
        """The rows of each side; each must be of this bucket."""
        if isinstance(self.rows, LimitExceeded):
            raise self.rows
        if self.rows is None:
            return None, None
        places = self.rows.column(PLACE).to_numpy()
        sides = [places == KINDS * bucket + side for side in (LEFT, RIGHT)]
        if not (sides[0] | sides[1]).all():
            raise rows_of_others(bucket)
        return tuple(self.rows.filter(pa.array(side)) for side in sides)


def this_partition() -> int:
    context = TaskContext.get()
    assert context is not None, "a task runs in an executor"
    return context.partitionId()


def rows_of_others(bucket: int) -> ProtocolError:
    return ProtocolError(
        f"rows of other buckets came to the task of bucket {bucket}",
        "nothing was committed; report this with the Spark version and its settings",
    )


def _batch_too_large(size: int, limit: int, index: int) -> LimitExceeded:
    return LimitExceeded(
        f"one bucket of stage {index + 1} received {size:,} bytes of new rows in one batch, "
        f"more than max_state_bytes = {limit:,}",
        "limit the source's rate (maxFilesPerTrigger, maxOffsetsPerTrigger), or use more buckets",
    )
