"""Refreshes: the instants at which windows with SLIDE move.

A run of refreshes with one unchanged answer is kept as its rows with the first and the last of
them, and expanded by its readers: silence of centuries costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.errors import LimitExceeded
from mayfly.kernels.delta import with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import numbers
from mayfly.lifetime import MIN_TIME, NEVER, instant_text
from mayfly.plan.window_kinds import Slide
from mayfly.storage.segment import EXP, TS

PIECE = 1 << 16
MOST_LISTED = 10_000_000


def rounded(times: Int64s, slide: Slide | None) -> Int64s:
    """Instants rounded up to the next refresh; "never" stays."""
    if slide is None or not slide.period:
        return times
    period, origin = np.int64(slide.period), np.int64(slide.origin)
    up = -((origin - times) // period) * period + origin
    never = times == NEVER
    return np.where(never, NEVER, up) if never.any() else up


@dataclass(frozen=True, slots=True)
class Refreshes:
    """The multiples of a slide in a step, from the first row on: never listed one by one."""

    first: int
    last: int
    period: int

    @staticmethod
    def of(slide: Slide, first: int | None, interval: Interval) -> Refreshes | None:
        """None if there is none."""
        period = slide.period or 1
        if first is None:
            return None
        start = slide.at_or_after(max(first, interval.began))
        last = start + (interval.clock - 1 - start) // period * period
        return Refreshes(start, last, period) if start <= last else None

    def __len__(self) -> int:
        return (self.last - self.first) // self.period + 1


def listed(some: Refreshes | None, what: str, times: int = 1) -> Int64s:
    """One by one, where each has a result of its own; refused where that would fill memory."""
    if some is None:
        return np.empty(0, np.int64)
    if len(some) * times > MOST_LISTED:
        raise LimitExceeded(
            f"{what} has {len(some):,} refreshes between {instant_text(some.first)} and "
            f"{instant_text(some.last)}, each with results of its own",
            "declare the stream with MAX GAP if a time is wrong, or use a longer SLIDE",
        )
    return np.arange(some.first, some.last + 1, some.period, dtype=np.int64)


def repeated(rows: pa.Table, slide: Slide, since: int, until: int) -> Iterator[pa.Table]:
    """Rows that stand for a run of refreshes, ``_ts`` to ``_exp``, once for each of those in
    [since, until): in pieces, as they are read."""
    period = slide.period or 1
    ts, exp = numbers(rows, TS), np.minimum(numbers(rows, EXP), until)
    start = np.maximum(ts, slide.at_or_after(max(since, MIN_TIME + period)))
    count = np.maximum((exp - 1 - start) // period + 1, 0)
    new = (start[1:] != start[:-1]) | (count[1:] != count[:-1])
    heads = np.append(0, np.flatnonzero(new) + 1)
    for low, high in zip(heads, np.append(heads[1:], len(ts)), strict=True):
        if low == high:
            return
        size, times = int(high - low), int(count[low])
        block, step = rows.slice(low, size), max(1, PIECE // size)
        for done in range(0, times, step):
            part = min(step, times - done)
            instants = int(start[low]) + (done + np.arange(part, dtype=np.int64)) * period
            stamps = np.repeat(instants, size)
            again = block if part == 1 else block.take(pa.array(np.tile(np.arange(size), part)))
            yield with_numbers(again, **{TS: stamps, EXP: stamps + 1})


def repetitions(rows: pa.Table, slide: Slide | None) -> int:
    """How many rows they stand for."""
    if slide is None or not slide.period:
        return int(rows.num_rows)
    return int(((numbers(rows, EXP) - 1 - numbers(rows, TS)) // slide.period + 1).sum())
