"""Answers that are ready and not handed over yet: in order, one at a time."""

from __future__ import annotations

from collections import deque
from threading import Lock

from mayfly.periodic.server.served_answer import Callback, ServedAnswer


class Outbox:
    """Of one server, or of servers that take over from each other: a thread that comes while
    another hands over leaves its answers to that one, so no thread waits for a callback."""

    def __init__(self) -> None:
        self._ready: deque[tuple[Callback, ServedAnswer]] = deque()
        self._handing_over = Lock()

    def put(self, callback: Callback, answer: ServedAnswer) -> None:
        self._ready.append((callback, answer))

    def hand_over(self) -> None:
        """Call back with what is ready. Outside the lock of a server: a callback may take its
        time, or use the server."""
        while self._ready and self._handing_over.acquire(blocking=False):
            try:
                while self._ready:
                    callback, answer = self._ready.popleft()
                    callback(answer)
            finally:
                self._handing_over.release()

    @property
    def idle(self) -> bool:
        """Whether everything is handed over."""
        return not self._ready and not self._handing_over.locked()
