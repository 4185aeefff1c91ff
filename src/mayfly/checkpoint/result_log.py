"""The log of results that are never cut: appended as they come, merged late, dropped when dead.

Idea: a result whose lifetime is final is never looked for, so it is logged without identity,
in the order in which results are made, and in bounded batches: no process holds those of one hot
key. What a batch has to deliver is the segment with the number of its delivery.
Invariant: segments are in the order of their batches; a merge keeps the order of rows.
Cost: a result is written on arrival and once per FAN_IN-fold of batches; dead ones go unread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.lifetime import MIN_TIME
from mayfly.storage.directory import Directory
from mayfly.storage.merge import plan_merge
from mayfly.storage.segment import EXP, Segment, segment_batches, write_segment

LOG = "log"
"""The folder of logs among the states of a checkpoint."""
SHARES = "shared_results"
"""Property: of queries whose results lie among those of others, the name of the log, their number
there, and what their columns are called."""
DELIVERY = "delivery"
"""Tag: the number under which the results of a segment are delivered."""
BEGAN = "began"
"""Property: of logs that are delivered with the results that still hold, when the batch began."""
COMPRESSION = "lz4"
FAN_IN, LIMIT = 16, 96
"""Every batch appends, few readers come: merge late, rewrite little."""
RANGES_PER_HISTORY = 8
"""A merged segment expires within this part of the history."""


@dataclass(frozen=True, slots=True)
class ResultLog:
    """The results of one query in one bucket, on disk."""

    directory: Directory
    group: str
    columns: tuple[str, ...]
    """What is kept of a result."""
    segments: tuple[Segment, ...] = ()

    def append(self, fresh: Iterable[pa.RecordBatch], delivery: int | None) -> ResultLog:
        """Write the results of a batch, piece by piece; the log with them."""
        tags = {} if delivery is None else {DELIVERY: delivery}
        return replace(self, segments=(*self.segments, *self._write(fresh, tags=tags)))

    def compact(self, horizon: int, history: int) -> ResultLog:
        """Leave out segments that are dead at the horizon and merge small ones."""
        living = [segment for segment in self.segments if not segment.dead_at(horizon)]
        cap = max(1, history // RANGES_PER_HISTORY)
        for level, members in plan_merge(living, cap=cap, fan_in=FAN_IN, limit=LIMIT):
            position = living.index(members[0])
            batches = (batch for segment in members for batch in self._batches(segment))
            living[position : position + len(members)] = self._write(batches, level=level)
        return replace(self, segments=tuple(living))

    def erase_expired(self, before: int) -> ResultLog:
        """Write anew what holds results that expired before an instant, without their bytes."""

        def rest(segment: Segment) -> Iterator[Segment]:
            if segment.exp.low >= before:
                yield segment
            elif segment.exp.high >= before:
                living = alive_from(self._batches(segment), before)
                yield from self._write(living, level=segment.level)

        kept = tuple(part for candidate in self.segments for part in rest(candidate))
        return replace(self, segments=kept)

    def _batches(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        return segment_batches(self.directory, segment)

    def _write(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        level: int = 0,
        tags: Mapping[str, int] | None = None,
    ) -> list[Segment]:
        listed = (batch.select(self.columns) for batch in batches if batch.num_rows)
        written = write_segment(
            self.directory, self.group, listed, compression=COMPRESSION, level=level, tags=tags
        )
        return [] if written is None else [written]


def alive_from(batches: Iterable[pa.RecordBatch], before: int) -> Iterator[pa.RecordBatch]:
    """The rows that do not expire before an instant."""
    for batch in batches:
        yield batch.filter(pc.greater_equal(batch.column(EXP), before))


def horizon(clock: int, history: int) -> int:
    """Results that have expired at this instant are not kept."""
    return max(clock - max(1, history), MIN_TIME + 1) - 1
