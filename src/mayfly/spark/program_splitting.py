"""The first thing that executors do with input: each row to the tasks that put windows on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.kernels.delta import taken
from mayfly.kernels.predicate_index import MANY_SELECTIONS, PredicateIndex
from mayfly.kernels.rows import chosen
from mayfly.kernels.sorting import Int64s
from mayfly.kernels.stateless import SelectRows
from mayfly.pipeline.staging import Feed, StagedProgram, applied
from mayfly.spark.exchange import STREAM
from mayfly.spark.parcels import Parcel, batch_of, packed, split
from mayfly.spark.tasks import DEAD_LETTERS, LATE, NO_TIME, REASON
from mayfly.storage.segment import TS

PARCEL_BYTES = 16 << 20


@dataclass(frozen=True)
class Splitter:
    """Input rows of all streams to parcels for the tasks that put windows on them."""

    program: StagedProgram
    streams: tuple[str, ...]
    slots: tuple[Mapping[str, str], ...]
    """Per stream: slot → column."""
    buckets: int
    late_before: Mapping[str, int] = field(default_factory=dict)
    """Streams whose dead letters are kept: rows before the instant are late."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= PARCEL_BYTES:
                yield batch_of(self._parcels(pa.Table.from_batches(waiting)))
                waiting, size = [], 0
        if waiting:
            yield batch_of(self._parcels(pa.Table.from_batches(waiting)))

    def _parcels(self, table: pa.Table) -> Iterator[Parcel]:
        table = table.combine_chunks()
        which = table.column(STREAM).combine_chunks().to_numpy(zero_copy_only=False)
        for stream in self.late_before:
            yield from self._dead_letters(table, which, stream)
        timed = pc.is_valid(table[TS]).to_numpy()
        if not timed.all():
            table, which = chosen(table, timed).combine_chunks(), which[timed]
        for at in range(len(self.streams)):
            rows = chosen(table, which == at)
            if rows.num_rows:
                yield from self._fed(at, rows)

    def _fed(self, at: int, rows: pa.Table) -> Iterator[Parcel]:
        """The rows of one stream for every window on it."""
        columns = {column: slot for slot, column in self.slots[at].items()}
        mine = [
            (number, feed)
            for number, feed in enumerate(self.program.feeds)
            if feed.source.stream == self.streams[at]
        ]
        found = self._found(mine, lambda name: rows.column(columns[name]), rows.num_rows)
        for number, feed in mine:
            arrays = [rows.column(columns[name]) for name in feed.source.columns]
            own = feed.named(arrays, rows.column(TS))
            if number in found:
                own = taken(own, found[number])
            yield from fed(feed, number, own, self.program.count(feed.stage, self.buckets))

    def _found(
        self,
        feeds: Sequence[tuple[int, Feed]],
        column: Callable[[str], pa.ChunkedArray],
        rows: int,
    ) -> dict[int, Int64s]:
        """Where many selections read one stream: the rows each of them has to look at."""
        selected = [
            (number, feed.path[0].predicate)
            for number, feed in feeds
            if feed.path and isinstance(feed.path[0], SelectRows)
        ]
        if len(selected) < MANY_SELECTIONS:
            return {}
        index = PredicateIndex.of([predicate for _, predicate in selected])
        candidates = index.candidates(column, rows)
        return {
            number: positions
            for (number, _), positions in zip(selected, candidates, strict=True)
            if positions is not None
        }

    def _dead_letters(self, table: pa.Table, which: Any, stream: str) -> Iterator[Parcel]:
        """Rows of a stream that come too late or have no time, with the reason."""
        at = self.streams.index(stream)
        times = table.column(TS).combine_chunks()
        untimed = pc.is_null(times).to_numpy(zero_copy_only=False)
        late = pc.fill_null(pc.less(times, self.late_before[stream]), False)
        lost = (which == at) & (untimed | late.to_numpy(zero_copy_only=False))
        if not lost.any():
            return
        rows = chosen(table, lost).combine_chunks()
        reasons = np.where(untimed[lost], NO_TIME, LATE)
        columns = [rows.column(slot) for slot in self.slots[at]]
        letters = pa.table(
            [*columns, pc.fill_null(rows.column(TS), 0), pa.array(reasons, pa.string())],
            names=[*self.slots[at].values(), TS, REASON],
        )
        yield Parcel(0, 0, f"{DEAD_LETTERS}/{stream}", packed(letters))


def fed(feed: Feed, number: int, rows: pa.Table, count: int) -> Iterator[Parcel]:
    """Named rows of a stream on their way to the ``count`` buckets of a window."""
    for operator in feed.path:
        rows = applied(operator, rows)
    yield from split(rows, feed.route.codes(rows), count, feed.stage, f"feed/{number}")
