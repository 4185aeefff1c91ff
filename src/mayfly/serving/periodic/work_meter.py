"""What a server can do, measured while it runs: seconds for a read, and between two updates.

Idea: a read includes its share of merging, answering and handing over. Only the last reads and
updates count, so the figures follow the load. Invariant: nothing is assumed about the machine; what
was not measured yet is None. Cost: two additions a read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Lock

REMEMBERED = 4096
"""Reads after which the earlier ones count half."""
COMMITS = 32
"""Commits between which updates are timed."""


@dataclass(frozen=True)
class MeasuredPace:
    """Seconds by the wall clock."""

    read: float
    update: float
    workers: int = 1

    @property
    def capacity(self) -> Fraction:
        """Reads between two updates."""
        return Fraction(self.workers * self.update / self.read).limit_denominator(1000)


@dataclass
class WorkMeter:
    """Of the queries whose panes are updated together."""

    workers: int = 1
    _reads: float = 0.0
    _seconds: float = 0.0
    _commits: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=COMMITS))
    _lock: Lock = field(default_factory=Lock)

    def note_read(self, seconds: float) -> None:
        with self._lock:
            if self._reads >= REMEMBERED:
                self._reads, self._seconds = self._reads / 2, self._seconds / 2
            self._reads += 1
            self._seconds += seconds

    def note_update(self, now: float, update: int) -> None:
        """Panes up to this one were fed at an instant of the wall clock."""
        with self._lock:
            if not self._commits or update > self._commits[-1][1]:
                self._commits.append((now, update))

    def begin_anew(self) -> None:
        """Panes are fed that were there before: they say nothing about the time between two."""
        with self._lock:
            self._commits.clear()

    @property
    def measured(self) -> MeasuredPace | None:
        with self._lock:
            if len(self._commits) < 2 or not self._seconds:
                return None
            (began, first), (ended, last) = self._commits[0], self._commits[-1]
            if ended <= began:
                return None
            update = (ended - began) / (last - first)
            return MeasuredPace(self._seconds / self._reads, update, self.workers)
