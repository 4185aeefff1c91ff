"""The last batches of a pipeline: how fast rows come, and when the clock will have caught up.

The manifest holds them, so any process that can read the checkpoint knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mayfly.lifetime import MIN_TIME
from mayfly.runtime.clock import Clocks
from mayfly.storage import Manifest

RECENT = "recent"
"""Property: the last batches in figures."""
REMEMBERED = 20
FAST = 2.0
"""A clock that moves so many times as fast as time is catching up; a little more is chance."""


@dataclass(frozen=True)
class Batch:
    """One batch in figures."""

    ended: int
    """The wall clock at its commit, µs."""
    seconds: float
    rows: Mapping[str, int]
    clocks: Mapping[str, int | None]
    """Of the streams, after it."""

    def to_json(self) -> list[Any]:
        return [self.ended, round(self.seconds, 3), dict(self.rows), dict(self.clocks)]


def with_batch(before: Manifest, batch: Batch) -> list[Any]:
    """The property after one batch more."""
    return [*before.properties.get(RECENT, []), batch.to_json()][-REMEMBERED:]


@dataclass(frozen=True)
class Progress:
    """The last batches as the queries over some streams see them."""

    batches: tuple[Batch, ...] = ()
    streams: tuple[str, ...] = ()

    @staticmethod
    def of(manifest: Manifest, streams: Iterable[str]) -> Progress:
        batches = (Batch(*entry) for entry in manifest.properties.get(RECENT, []))
        return Progress(tuple(batches), tuple(streams))

    @property
    def rate(self) -> float:
        """Rows a second that came to these streams, over the last batches."""
        rows = [sum(batch.rows.get(name, 0) for name in self.streams) for batch in self.batches]
        if len(rows) < 2:
            seconds = self.batches[0].seconds if rows else 0.0
            return sum(rows) / seconds if seconds else 0.0
        return sum(rows[1:]) / max(self._elapsed / 1e6, 1e-6)

    @property
    def catch_up(self) -> float | None:
        """Seconds until the clock is where time is, if it goes on as in the last batches; None
        while it does not move much faster than time."""
        clocks = [clock for clock in map(self._clock, self.batches) if clock != MIN_TIME]
        if len(clocks) < 2 or len(clocks) < len(self.batches):
            return None
        behind = self.batches[-1].ended - clocks[-1]
        speed = (clocks[-1] - clocks[0]) / max(self._elapsed, 1)
        return behind / (speed - 1) / 1e6 if speed >= FAST and behind > 0 else None

    @property
    def _elapsed(self) -> int:
        return self.batches[-1].ended - self.batches[0].ended

    def _clock(self, batch: Batch) -> int:
        return Clocks(batch.clocks).of(self.streams).query
