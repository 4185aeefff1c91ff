"""Signals that ask a command to stop: answered at once, obeyed when what is running is finished."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ONE_REQUEST = 1.0
"""Signals within so many seconds are one: `timeout` sends its own to the command and then to the
group in which the command is."""


class Ended(BaseException):
    """A signal came where nothing has to be finished first."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number
        """The code by which shells report an end by this signal."""


@contextmanager
def ending_signals() -> Iterator[None]:
    """Within the block a signal raises ``Ended``, so that its end is said and files are closed."""

    def end(number: int, frame: object) -> None:
        raise Ended(number)

    with _handled_by(end):
        yield


@contextmanager
def interruptions() -> Iterator[None]:
    """Within the block Ctrl-C raises KeyboardInterrupt: it ends what runs, not the command."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _handled_by(handler: Callable[[int, object], None]) -> Iterator[None]:
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, handler) for number in names]
    try:
        yield
    finally:
        for number, earlier in zip(names, before, strict=True):
            signal.signal(number, earlier)


class StopRequest:
    """Made by Ctrl-C or SIGTERM: Spark's own handler would cancel the job that is running.

    A handler runs in the main thread between any two of its steps, also while that waits here. So
    nothing in it takes a lock, which the main thread may hold: who waits is woken through a pipe.
    """

    def __init__(self, running: str) -> None:
        self.running = running
        self.number: int | None = None
        self.pass_on: Callable[[], object] = lambda: None
        """Tells the threads that work to stop, too; it takes no lock either."""
        self._since = 0.0
        self._woken, self._wake = os.pipe()

    @property
    def answer(self) -> str:
        return f"stopping: the running {self.running} is finished first; once more to end at once"

    @property
    def exit_code(self) -> int:
        """The code by which shells report an end by this signal."""
        return 128 + (self.number or 0)

    def is_set(self) -> bool:
        return self.number is not None

    def wait(self, timeout: float) -> bool:
        """Return when a signal has come, or after so many seconds: whether one has."""
        if not self.is_set():
            select.select([self._woken], [], [], timeout)
        return self.is_set()

    def take(self, number: int, frame: object) -> None:
        """Say so at once, for it may take long; a signal after that ends without waiting.

        Written past Python's files, which may be in the middle of a line.
        """
        if self.is_set():
            if time.monotonic() - self._since < ONE_REQUEST:
                return
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.number, self._since = number, time.monotonic()
        os.write(2, f"\n{self.answer}\n".encode())
        os.write(self._wake, b"!")
        self.pass_on()

    def close(self) -> None:
        os.close(self._woken)
        os.close(self._wake)


@contextmanager
def stop_signals(running: str) -> Iterator[StopRequest]:
    """Within the block, signals ask to stop after what is ``running``."""
    asked = StopRequest(running)
    try:
        with _handled_by(asked.take):
            yield asked
    finally:
        asked.close()
