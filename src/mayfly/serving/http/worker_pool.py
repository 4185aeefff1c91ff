"""The worker processes of a server: who answers next, who took too long, who takes their place.

Invariant: a request has a worker of its own while it is answered, and a worker that did not answer
in time is ended, with whatever it was doing: no request holds another up for longer than the limit.
A request is refused for want of memory only by a worker that has answered nothing before: what
earlier answers left in memory is not its own.
Cost: a worker that is ended takes about a second of CPU to replace.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mayfly.errors import LimitExceeded, MayflyError, StorageError
from mayfly.serving.http.server_limits import ServerLimits
from mayfly.serving.http.worker_messages import Message, message_bytes, receive_message

PROGRAM = "mayfly.serving.http.request_worker"
T = TypeVar("T")
AGAIN = 2.0
"""Seconds until a worker that did not start is started again."""


class Busy(MayflyError):
    """More requests than the server takes at once."""


@dataclass
class WorkerPool:
    """Worker processes over one pipeline."""

    place: str
    archives: Mapping[str, str]
    limits: ServerLimits
    waiting: int = 0
    _idle: asyncio.Queue[Process] = field(default_factory=asyncio.Queue)
    _alive: set[Process] = field(default_factory=set)
    _used: set[Process] = field(default_factory=set)
    """Those that have answered something."""
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _closing: bool = False

    async def start(self) -> dict[str, Any]:
        """Start all; what the first of them says about the pipeline."""
        started = [self._spawn() for _ in range(self.limits.workers)]
        ready = await asyncio.gather(*started, return_exceptions=True)
        for outcome in ready:
            if isinstance(outcome, BaseException):
                await self.close()
                raise outcome
        assert isinstance(ready[0], dict)
        return ready[0]

    async def ask(self, request: Mapping[str, Any], *, patient: bool = False) -> Message:
        """The answer of a worker; one that is not patient is refused if too many wait."""
        if not patient and self.waiting >= self.limits.waiting:
            raise self._busy()
        self.waiting += not patient
        try:
            worker = await self._free_worker(None if patient else self.limits.patience)
        finally:
            self.waiting -= not patient
        # The client may hang up meanwhile: the worker is free again only when it has answered.
        return await asyncio.shield(self._background(self._answer(worker, request)))

    async def close(self) -> None:
        """End all workers."""
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        # Before the workers: a task may have begun to start one.
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*map(_end, self._alive), return_exceptions=True)
        self._alive.clear()

    async def _free_worker(self, limit: float | None) -> Process:
        try:
            async with asyncio.timeout(limit):
                return await self._idle.get()
        except TimeoutError:
            raise self._busy() from None

    async def _answer(self, worker: Process, request: Mapping[str, Any]) -> Message:
        """Of this worker, or of a new one if that has run out of memory."""
        for _ in range(self.limits.workers):
            if worker not in self._used:
                break
            reply = await self._exchange(worker, request)
            if reply is not None and not reply[0].pop("last", False):
                return reply
            worker = await self._free_worker(self.limits.patience)
        reply = await self._exchange(worker, request)
        if reply is None:
            raise LimitExceeded(
                "the process that made the answer was ended: it took too much memory, or failed",
                "ask for less; the log of the server may say more",
            )
        reply[0].pop("last", False)
        return reply

    async def _exchange(self, worker: Process, request: Mapping[str, Any]) -> Message | None:
        """What a worker says; None if it has ended instead."""
        assert worker.stdin is not None
        assert worker.stdout is not None
        lasts = False
        try:
            worker.stdin.write(message_bytes(request))
            async with asyncio.timeout(self.limits.seconds):
                reply = await receive_message(worker.stdout)
            lasts = not reply[0].get("last", False)
            return reply
        except TimeoutError:
            raise LimitExceeded(
                f"the answer was not ready in {self.limits.seconds:g} s, the limit of this server",
                "ask for less: WHERE, fewer joins; or start it with a larger --max-seconds",
            ) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        finally:
            if lasts:
                self._used.add(worker)
                self._idle.put_nowait(worker)
            elif not self._closing:
                self._background(self._replace(worker))

    async def _replace(self, worker: Process) -> None:
        await self._drop(worker)
        while True:
            try:
                await self._spawn()
                return
            except (MayflyError, OSError) as error:  # OSError: no memory for a process, say
                why = error.message if isinstance(error, MayflyError) else error
                print(f"mayfly serve: no worker: {why}", file=sys.stderr, flush=True)
                await asyncio.sleep(AGAIN)

    async def _spawn(self) -> dict[str, Any]:
        settings = {"place": self.place, "archives": dict(self.archives)}
        settings |= {"limits": self.limits.to_json()}
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", PROGRAM, json.dumps(settings), stdin=PIPE, stdout=PIPE,
            start_new_session=True,
        )  # fmt: skip
        self._alive.add(worker)
        assert worker.stdout is not None
        try:
            head, body = await receive_message(worker.stdout)
        except asyncio.IncompleteReadError:
            await self._drop(worker)
            raise StorageError(
                f"a worker for {self.place} ended while it started",
                "what it printed above may say why",
            ) from None
        if head["status"] != 200:
            await self._drop(worker)
            error = json.loads(body)["error"]
            raise StorageError(error["message"], error["hint"])
        self._idle.put_nowait(worker)
        return head

    async def _drop(self, worker: Process) -> None:
        await _end(worker)
        self._alive.discard(worker)
        self._used.discard(worker)

    def _background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # of a client that has hung up: there is no one to hear it

    def _busy(self) -> Busy:
        return Busy(
            f"{self.limits.workers} requests are worked on and {self.waiting} wait",
            "try again in a second",
        )


async def _end(worker: Process) -> None:
    """Kill it, and wait until its pipes are closed too."""
    # Process.kill would reap one that has just ended, and asyncio then wonders where it is.
    if worker.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)
    await worker.communicate()
