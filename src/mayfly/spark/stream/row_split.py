"""The first thing that executors do with input: each row to the tasks that put windows on it.

Rows are split within the streaming plan, before the driver sees the batch: the one pass that reads
a batch also counts it. The driver then learns the clock from the counts, and steps run on what is
already exchanged. What depends on the batch, the limits of lateness, comes as a local property of
Spark's jobs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from mayfly.arrays.order import Int64s
from mayfly.errors import ProtocolError
from mayfly.kernels.delta import taken
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.kernels.predicate_index import MANY_SELECTIONS, PredicateIndex
from mayfly.lifetime import use_zone
from mayfly.physical.stages import Feed, StagedProgram
from mayfly.runtime.max_gap import Limits
from mayfly.spark.stream.arrivals import Arrived, added, counted, encoded
from mayfly.spark.stream.dead_letters import DEAD_LETTERS, LATE, NO_TIME, REASON
from mayfly.spark.stream.parcels import COUNTS, Parcel, batch_of, packed, split
from mayfly.spark.stream.slots import STREAM
from mayfly.storage.segment import TS

PARCEL_BYTES = 16 << 20
LIMITS = "mayfly.limits"
"""Local property: per stream, what its rows are measured by."""
BEYOND = "beyond MAX GAP"
"""Why a row is a dead letter: its time is too far ahead to be true."""


@dataclass(frozen=True)
class Splitter:
    """Input rows of all streams to parcels for the tasks that put windows on them."""

    program: StagedProgram
    streams: tuple[str, ...]
    slots: tuple[Mapping[str, str], ...]
    """Per stream: slot → column."""
    buckets: int
    kept: frozenset[str] = frozenset()
    """Streams whose dead letters are kept."""
    zone: str = "UTC"
    only: frozenset[int] | None = None
    """The feeds that get rows, if these are counted elsewhere."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.split(batches, limits_of_the_batch(len(self.streams)))

    def split(
        self, batches: Iterator[pa.RecordBatch], limits: Sequence[Limits]
    ) -> Iterator[pa.RecordBatch]:
        """Tagged rows as parcels, and one parcel that counts them."""
        use_zone(self.zone)
        counts: list[list[Arrived]] = []
        for table in _tables(batches):
            fed = Counter[int]()
            yield batch_of(self._parcels(table, limits, fed))
            came = counted(table, limits) if self.only is None else [Arrived()] * len(limits)
            counts.append([replace(arrival, fed=fed[n]) for n, arrival in enumerate(came)])
        total = encoded(added(counts, len(self.streams)))
        yield batch_of([Parcel(0, 0, COUNTS, total)])

    def _parcels(
        self, table: pa.Table, limits: Sequence[Limits], fed: Counter[int]
    ) -> Iterator[Parcel]:
        """``fed`` counts the rows of each stream that windows get."""
        which = table.column(STREAM).combine_chunks().to_numpy(zero_copy_only=False)
        for index, stream in enumerate(self.streams):
            if stream in self.kept:
                yield from self._dead_letters(table, which, index, limits[index])
        timed = pc.is_valid(table[TS]).to_numpy()
        if not timed.all():
            table, which = chosen(table, timed).combine_chunks(), which[timed]
        times = table.column(TS).combine_chunks().to_numpy()
        for index in range(len(self.streams)):
            rows = chosen(table, (which == index) & (times <= limits[index].beyond))
            if rows.num_rows:
                yield from self._fed(index, rows, limits[index].late, fed)

    def _fed(self, index: int, rows: pa.Table, late: int, fed: Counter[int]) -> Iterator[Parcel]:
        """The rows of one stream for every window on it."""
        columns = {column: slot for slot, column in self.slots[index].items()}
        mine = [
            (number, feed)
            for number, feed in enumerate(self.program.feeds)
            if feed.source.stream == self.streams[index]
            and (self.only is None or number in self.only)
        ]
        matches = self._matches(mine, lambda name: rows.column(columns[name]), rows.num_rows)
        for number, feed in mine:
            arrays = [rows.column(columns[name]) for name in feed.source.columns]
            own = feed.named(arrays, rows.column(TS))
            if number in matches:
                own = taken(own, matches[number])
            if feed.is_thinned:
                own = chosen(own, numbers(own, TS) >= late)
            own = prepared(feed, own)
            fed[index] += own.num_rows
            yield from sent(feed, number, own, self.program.count(feed.stage, self.buckets))

    def _matches(
        self,
        feeds: Sequence[tuple[int, Feed]],
        column: Callable[[str], pa.ChunkedArray],
        rows: int,
    ) -> dict[int, Int64s]:
        """Where many selections read one stream: the rows each of them has to look at."""
        selected = [(number, feed.selects) for number, feed in feeds if feed.selects is not None]
        if len(selected) < MANY_SELECTIONS:
            return {}
        index = PredicateIndex.of([predicate for _, predicate in selected])
        candidates = index.candidates(column, rows)
        return {
            number: positions
            for (number, _), positions in zip(selected, candidates, strict=True)
            if positions is not None
        }

    def _dead_letters(
        self, table: pa.Table, which: Any, index: int, limit: Limits
    ) -> Iterator[Parcel]:
        """Rows of a stream that are late, too far ahead or without a time, with the reason."""
        times = table.column(TS).combine_chunks()
        untimed = pc.is_null(times).to_numpy(zero_copy_only=False)
        when = pc.fill_null(times, 0).to_numpy(zero_copy_only=False)
        beyond = ~untimed & (when > limit.beyond)
        lost = (which == index) & (untimed | beyond | (when < limit.late))
        if not lost.any():
            return
        rows = chosen(table, lost).combine_chunks()
        reasons = np.where(untimed[lost], NO_TIME, np.where(beyond[lost], BEYOND, LATE))
        columns = [rows.column(slot) for slot in self.slots[index]]
        letters = pa.table(
            [*columns, pc.fill_null(rows.column(TS), 0), pa.array(reasons, pa.string())],
            names=[*(f"{self.streams[index]}.{n}" for n in self.slots[index].values()), TS, REASON],
        )
        yield Parcel(0, 0, f"{DEAD_LETTERS}/{self.streams[index]}", packed(letters))


def limits_of_the_batch(streams: int) -> list[Limits]:
    """What the driver told about the batch whose rows are split."""
    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(LIMITS)
    limits = [Limits(*limit) for limit in json.loads(text)] if text else []
    if len(limits) != streams:
        raise ProtocolError(
            f"limits of {len(limits)} streams for rows of {streams}",
            "nothing was committed; leave spark.sql.adaptive as it is in the stream's session, or "
            "report this with the Spark version and its settings",
        )
    return limits


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Few large tables of many small batches."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= PARCEL_BYTES:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def prepared(feed: Feed, rows: pa.Table) -> pa.Table:
    """Named rows of a stream as the window gets them."""
    for operator in feed.path:
        rows = operator.prepared(rows)
    return rows


def sent(feed: Feed, number: int, rows: pa.Table, count: int) -> Iterator[Parcel]:
    """Rows that are prepared on their way to the ``count`` buckets of a window."""
    where = feed.route.buckets(rows, count)
    yield from split(rows, where, count, feed.stage, f"feed/{number}")


def this_partition() -> int:
    context = TaskContext.get()
    assert context is not None, "a task runs in an executor"
    return context.partitionId()


def rows_of_others(bucket: int) -> ProtocolError:
    return ProtocolError(
        f"rows of other buckets came to the task of bucket {bucket}",
        "nothing was committed; report this with the Spark version and its settings",
    )
