"""What came of each stream in a batch: counted where rows are split, added up by the driver.

A row's tag is the number of its stream, unless it is one of those that only count: left out on
purpose, wanted by no query, or a punctuation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.arrays.order import Int64s
from mayfly.kernels.lifetime_rows import Bools
from mayfly.lifetime import MIN_TIME
from mayfly.runtime.max_gap import Limits, Spans, spans
from mayfly.spark.stream.slots import STREAM
from mayfly.storage import TS


def left_out(number: int) -> int:
    """The tag of rows of a stream that are left out; HEARTBEAT is -1."""
    return -3 * number - 2


def promise(number: int) -> int:
    """The tag of a stream's punctuations."""
    return -3 * number - 3


def unwanted(number: int) -> int:
    """The tag of rows of a stream that no query selects."""
    return -3 * number - 4


@dataclass(frozen=True, slots=True)
class Arrived:
    """What came of one stream: its largest time, the smallest that is not late, its rows, and those
    of them that are late, have no time or lie beyond MAX GAP; rows left out, the last instant that
    a punctuation closed, and in a replay with MAX GAP the stretches of its times."""

    largest: int | None = None
    smallest: int | None = None
    rows: int = 0
    timeless: int = 0
    late: int = 0
    shed: int = 0
    promised: int | None = None
    beyond: int = 0
    spans: Spans = ()
    promises: Spans = ()
    """Those of its punctuations."""
    fed: int = 0
    """Rows sent to windows, as often as there are windows that they pass to."""

    def __add__(self, other: Arrived) -> Arrived:
        return Arrived(
            _extreme(max, self.largest, other.largest),
            _extreme(min, self.smallest, other.smallest),
            self.rows + other.rows,
            self.timeless + other.timeless,
            self.late + other.late,
            self.shed + other.shed,
            _extreme(max, self.promised, other.promised),
            self.beyond + other.beyond,
            (*self.spans, *other.spans),
            (*self.promises, *other.promises),
            self.fed + other.fed,
        )


def _extreme(which: Callable[[list[int]], int], first: int | None, other: int | None) -> int | None:
    instants = [instant for instant in (first, other) if instant is not None]
    return which(instants) if instants else None


def counted(rows: pa.Table, limits: Sequence[Limits]) -> list[Arrived]:
    """Per stream, what tagged rows say; those before its limit are late."""
    which = rows.column(STREAM).combine_chunks().to_numpy()
    times = rows.column(TS).combine_chunks()
    return counted_groups(which, times, times, np.ones(len(which), np.int64), limits)


def counted_groups(
    which: npt.NDArray[np.int32],
    least: pa.Array,
    largest: pa.Array,
    sizes: Int64s,
    limits: Sequence[Limits],
) -> list[Arrived]:
    """Per stream, what groups of tagged rows say. The rows of a group have one tag and are all
    late, all in time or all beyond the limit; given are their first and last time and number."""
    timed = pc.is_valid(largest).to_numpy(zero_copy_only=False)
    first, last = (
        (pc.fill_null(times, MIN_TIME) if times.null_count else times).to_numpy()
        for times in (least, largest)
    )
    arrivals = []
    for number, limit in enumerate(limits):
        own = (which == number) | (which == unwanted(number))
        near = timed & (last <= limit.beyond)
        timely, promises = own & near, which == promise(number)
        fresh, promised = timely & (first >= limit.late), promises & near
        arrivals.append(
            Arrived(
                largest=int(last[timely].max()) if timely.any() else None,
                smallest=int(first[fresh].min()) if fresh.any() else None,
                rows=int(sizes[own].sum()),
                timeless=int(sizes[own & ~timed].sum()),
                late=int(sizes[timely & ~fresh].sum()),
                shed=int(sizes[which == left_out(number)].sum()),
                promised=int(last[promised].max()) if promised.any() else None,
                beyond=int(sizes[(own | promises) & timed & ~near].sum()),
                spans=_spans(first, last, timely, limit.step),
                promises=_spans(first, last, promised, limit.step),
            )
        )
    return arrivals


def _spans(first: Int64s, last: Int64s, chosen: Bools, step: int | None) -> Spans:
    return () if step is None else spans(np.append(first[chosen], last[chosen]), step)


def added(counts: Iterable[Sequence[Arrived]], streams: int) -> list[Arrived]:
    """Counts of parts of a batch as one."""
    total = [Arrived()] * streams
    for part in counts:
        total = [count + other for count, other in zip(total, part, strict=True)]
    return total


def encoded(counts: Sequence[Arrived]) -> bytes:
    return json.dumps([asdict(count) for count in counts]).encode()


def decoded(stored: bytes) -> list[Arrived]:
    stretches = ("spans", "promises")
    return [
        Arrived(**entry | {name: tuple(map(tuple, entry[name])) for name in stretches})
        for entry in json.loads(stored)
    ]
