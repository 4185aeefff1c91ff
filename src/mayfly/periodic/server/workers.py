"""Threads that let a server work while panes and questions come."""

from __future__ import annotations

from threading import Thread
from types import TracebackType

from mayfly.periodic.server.periodic_server import PeriodicServer


class Workers:
    """``with Workers(server, 2): …`` — at the end everything that is due has been answered.

    What a callback raises stops the workers, and is raised by ``wait`` and at the end.
    """

    def __init__(self, server: PeriodicServer, threads: int = 1) -> None:
        self.server = server
        self.failure: Exception | None = None
        self._stopping = False
        self._threads = [Thread(target=self._work, name="mayfly-worker") for _ in range(threads)]

    def __enter__(self) -> Workers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.wait()
        finally:
            with self.server.changed:
                self._stopping = True
                self.server.changed.notify_all()
            for thread in self._threads:
                thread.join()

    def wait(self) -> None:
        """Wait until nothing is due or being read."""
        with self.server.changed:
            self.server.changed.wait_for(lambda: self.failure is not None or self.server.idle)
        if self.failure is not None:
            raise self.failure

    def _work(self) -> None:
        try:
            while not self._stopping:
                changes = self.server.changes
                if not self.server.step():
                    self._await_change(changes)
        except Exception as error:  # raised where wait or the end of the block is waited for
            with self.server.changed:
                self.failure = self.failure or error
                self._stopping = True
                self.server.changed.notify_all()

    def _await_change(self, changes: int) -> None:
        """Until something has changed since there was nothing to do."""
        server = self.server
        with server.changed:
            server.changed.wait_for(lambda: self._stopping or server.changes != changes)
