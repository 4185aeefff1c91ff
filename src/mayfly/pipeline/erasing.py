"""What a query must forget because an archive it feeds promises PHYSICAL WITHIN.

Idea: operators drop dead rows when that is cheap, so some linger in runs with living ones. Where an
archive promises that bytes go, rows that expired before ``Promise.due_at`` are left out of whatever
a step stores. Invariant: ``due_at`` is not before the instant up to which the archive itself erases
with the updates that the same batch brings, and not beyond the clock, so no operator misses the
rows. Cost: runs with such rows are written anew, once per update where d is two intervals or more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from mayfly.kernels.kept import Kept
from mayfly.kernels.rows import Run, chosen, numbers
from mayfly.lifetime import MIN_TIME
from mayfly.pipeline.storing import parts_of
from mayfly.storage.segment import EXP

COVERS = "covers"
"""Of a negation: when which hash of a key was covered. It holds nothing of any row."""


@dataclass(frozen=True)
class Promise:
    """Bytes are gone ``within`` so many µs of an expiration; updates come every ``interval``."""

    within: int
    interval: int

    def due_at(self, clock: int) -> int:
        """Rows that expired before this instant must be gone when the clock is there."""
        if clock == MIN_TIME:
            return MIN_TIME
        # The archive looks ahead to its next update, which is less than an interval away; rounded
        # up, so that runs are written anew once per interval and not with every batch.
        ahead = (clock // self.interval + 2) * self.interval
        return min(clock, ahead - self.within)

    @property
    def history(self) -> int:
        """How long dead results may be kept at most; the last closed instant is always known."""
        return max(1, self.within - 2 * self.interval)


def due_at(promises: Iterable[Promise], clock: int) -> int | None:
    """What all promises together ask for; None if there are none."""
    return max((one.due_at(clock) for one in promises), default=None)


def without_expired(state: Any, before: int) -> Any:
    """A state without the bytes of rows that expired before an instant."""
    if isinstance(state, Kept):
        return _kept_from(state, before)
    changed = {
        name: _kept_from(part, before)
        for name, part in parts_of(state).items()
        if isinstance(part, Kept) and name != COVERS
    }
    return replace(state, **changed) if changed else state


def _kept_from(kept: Kept, before: int) -> Kept:
    if all(run.exp.low >= before for run in kept.runs):
        return kept
    living = (_living(run, before) for run in kept.runs if run.exp.high >= before)
    return replace(kept, runs=tuple(living))


def _living(run: Run, before: int) -> Run:
    if run.exp.low >= before:
        return run
    rows = run.load()
    rest = chosen(rows, numbers(rows, EXP) >= before).combine_chunks()
    return Run.of(rest, level=run.level, cell=run.cell)
