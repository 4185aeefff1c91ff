"""MAX GAP: one row with a wrong year must not end a stream.

Idea: a live stream has the wall clock to compare with: a row later than the wall clock at planning
plus d is set aside. A replay has none: its time moves on from row to row in steps of d at most, and
a larger jump counts only if the next batch confirms it; until then its rows wait.
Invariant: what is decided for a batch is recorded with its clock; run again, it is the same.
Cost: one pass over the times of a batch; one span per gap larger than d is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mayfly.lifetime import MIN_TIME, NEVER, last_likely

if TYPE_CHECKING:  # looking at a checkpoint needs no kernels
    from mayfly.arrays.order import Int64s

Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Stretches of time without a gap larger than d, in order."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch of a stream is measured by."""

    late: int = MIN_TIME
    """Rows before this instant are late."""
    beyond: int = NEVER
    """Rows after this instant are set aside: the wall clock is too far behind."""
    step: int | None = None
    """In a replay, the largest step in time that counts at once."""


def limits(late: int, max_gap: int | None, *, live: bool, now: int) -> Limits:
    """The limits of a batch that is planned ``now``; NEVER as ``max_gap`` switches them off."""
    if max_gap == NEVER:
        return Limits(late)
    if live:
        return Limits(late, last_likely(now, max_gap))
    return Limits(late, step=max_gap)


def spans(times: Int64s, step: int) -> Spans:
    """Times as stretches between which there is more than a step."""
    if not len(times):
        return ()
    ordered = np.sort(times)
    # Differences of extreme times leave 64 bits: as unsigned numbers they are right.
    gaps = ordered[1:].view(np.uint64) - ordered[:-1].view(np.uint64)
    ends = np.flatnonzero(gaps > np.uint64(step))
    lows = ordered[np.append(0, ends + 1)].tolist()
    highs = ordered[np.append(ends, len(ordered) - 1)].tolist()
    return tuple(zip(lows, highs, strict=True))


def joined(parts: Iterable[Sequence[int]], step: int) -> Spans:
    """Stretches of several parts of a batch as those of the whole."""
    stretches: list[tuple[int, int]] = []
    for low, high in sorted((low, high) for low, high in parts):
        if stretches and low - stretches[-1][1] <= step:
            stretches[-1] = stretches[-1][0], max(stretches[-1][1], high)
        else:
            stretches.append((low, high))
    return tuple(stretches)


def last_promise(promises: Iterable[Sequence[int]], reached: int | None) -> int | None:
    """The last of the promises, given as stretches, to which a replay has come."""
    kept = [high for _, high in promises if reached is not None and high <= reached]
    return max(kept, default=None)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a stream has come, and the jump that the next batch has to confirm."""

    largest: int | None
    jump: Spans = ()

    def after(self, batch: Spans, step: int) -> Reach:
        """After a batch; one without rows leaves everything as it is."""
        if not batch:
            return self
        both = joined([*batch, *self.jump], step)
        start = both[0][0] if self.largest is None else self.largest
        reached, rest = _walk(start, both, step)
        certain = [
            stretch for stretch in rest if _holds(stretch, batch) and _holds(stretch, self.jump)
        ]
        if certain:
            later = tuple(stretch for stretch in rest if stretch > certain[0])
            reached, rest = _walk(certain[0][1], later, step)
        return Reach(reached, tuple(stretch for stretch in rest if _holds(stretch, batch)))


def _walk(reached: int, stretches: Spans, step: int) -> tuple[int, Spans]:
    """How far steps lead, and what lies beyond a larger one."""
    for index, (low, high) in enumerate(stretches):
        if low - reached > step:
            return reached, stretches[index:]
        reached = max(reached, high)
    return reached, ()


def _holds(stretch: tuple[int, int], parts: Spans) -> bool:
    return any(stretch[0] <= low and high <= stretch[1] for low, high in parts)
