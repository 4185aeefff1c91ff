"""Signals that ask a command to stop: answered at once, obeyed when what is running is finished."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopRequest(threading.Event):
    """Set by Ctrl-C or SIGTERM: Spark's own handler would cancel the job that is running."""

    def __init__(self, running: str) -> None:
        super().__init__()
        self.running = running
        self.number: int | None = None
        self.pass_on: Callable[[], object] = lambda: None
        """Tells those who work that they are to stop, too."""

    @property
    def exit_code(self) -> int:
        """As shells tell an end by this signal."""
        return 128 + (self.number or 0)

    def take(self, number: int, frame: object) -> None:
        """Say so at once, for it may take long; the same signal again ends without waiting.

        Written past Python's files, which may be in the middle of a line.
        """
        if self.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.number = number
        first = f"the running {self.running} is finished first"
        os.write(2, f"\nstopping: {first}; once more to end at once\n".encode())
        self.set()
        self.pass_on()


@contextmanager
def stop_signals(running: str) -> Iterator[StopRequest]:
    """Within the block, signals ask to stop after what is ``running``."""
    asked = StopRequest(running)
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, asked.take) for one in names]
    try:
        yield asked
    finally:
        for one, handler in zip(names, before, strict=True):
            signal.signal(one, handler)
