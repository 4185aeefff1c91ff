"""Replaying recorded streams at a chosen speed.

A batch waits until the time that its clock has moved since the first one, divided by the speed,
has passed. Rows of one batch come at once, so small batches (few files per trigger) follow the
recorded times more closely. Nothing about the answers depends on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME


@dataclass
class Pace:
    """``speed`` is seconds of the stream per second: 1 is as it was, 60 a minute per second."""

    speed: float
    now: Callable[[], float] = time.monotonic
    _began: tuple[int, float] | None = field(default=None, init=False)
    _stopped: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise InvalidSetting(f"a speed of {self.speed}", "use a number above 0, such as 60")

    def wait_for(self, clock: int) -> float:
        """Return when a batch with this clock is due; how many seconds were waited for."""
        if clock == MIN_TIME:
            return 0.0
        if self._began is None:
            self._began = clock, self.now()
        first, began = self._began
        rest = began + (clock - first) / 1e6 / self.speed - self.now()
        if rest > 0:
            self._stopped.wait(rest)
        return max(rest, 0.0)

    def stop(self) -> None:
        """Wait no more."""
        self._stopped.set()
