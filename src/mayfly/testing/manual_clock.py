"""A wall clock that moves only when a test says so."""

from __future__ import annotations

import threading
from datetime import datetime

from mayfly.lifetime import Duration, duration, instant


class ManualClock:
    """Stands in for the wall clock wherever heartbeats or timeouts are read from one.

    The clock is callable, so it fits every place that takes a ``() -> int`` of microseconds.

    >>> clock = ManualClock(1_000)
    >>> clock.advance("2 ms")
    3000
    >>> clock.now(), clock()
    (3000, 3000)
    """

    def __init__(self, start: int | datetime | str = 0) -> None:
        self._now = instant(start)
        self._lock = threading.Lock()

    def now(self) -> int:
        """The instant shown, in microseconds since the epoch."""
        with self._lock:
            return self._now

    __call__ = now

    def advance(self, by: Duration) -> int:
        """Move forward by a duration and return the new instant."""
        step = duration(by)
        with self._lock:
            self._now += step
            return self._now

    def set(self, to: int | datetime | str) -> int:
        """Jump to an instant, also backwards: real wall clocks get corrected too."""
        target = instant(to)
        with self._lock:
            self._now = target
            return self._now
