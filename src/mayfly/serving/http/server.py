"""A server over one pipeline, from the bound socket to the clean end."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Thread

import uvicorn

from mayfly.display import counted
from mayfly.errors import InvalidSetting
from mayfly.serving.http.access import AccessRule
from mayfly.serving.http.application import Door, application
from mayfly.serving.http.change_stream import ChangeStream
from mayfly.serving.http.commit_watch import CommitWatch
from mayfly.serving.http.guarded_connections import guarded
from mayfly.serving.http.served_answers import ServedAnswers
from mayfly.serving.http.server_limits import ServerLimits
from mayfly.serving.http.worker_pool import WorkerPool
from mayfly.serving.periodic.answer_sinks import AnswerSink
from mayfly.serving.periodic.ring_memory import DEFAULT_LIMIT
from mayfly.serving.periodic.served_pipeline import ServedPipeline
from mayfly.storage import Repository

LONGEST_HEADERS = 1 << 15
LAST_WORDS = 3
"""Seconds that running requests have when the server is to end."""
ANSWERING = 8.0
"""Seconds in which the last answers are made, where the pipeline beside has ended."""


@dataclass(frozen=True)
class PipelineServer:
    """What is served, where, to whom."""

    place: str
    """A checkpoint, or a pipeline file."""
    host: str = "127.0.0.1"
    port: int = 0
    access: AccessRule = field(default_factory=AccessRule)
    limits: ServerLimits = field(default_factory=ServerLimits)
    archives: Mapping[str, str] = field(default_factory=dict)
    schedule: str = "late-pending"
    """The policy by which served queries run."""
    isolation: str = "ttu"
    early: str = "grid"
    pace: bool = False
    sinks: Mapping[str, Sequence[AnswerSink]] = field(default_factory=dict)
    """Where answers of served queries go besides, by query; those of "" take all."""
    memory: int = DEFAULT_LIMIT
    """Bytes that panes of served queries may take."""

    def run(
        self,
        announce: Callable[[str], None],
        log: Callable[[str], None] | None,
        await_end: Callable[[], object] | None = None,
    ) -> None:
        """Serve until SIGTERM or SIGINT, or until ``await_end`` returns and what is committed by
        then is answered."""
        listener = self._listener()
        try:
            asyncio.run(self._serve(listener, announce, log, await_end))
        finally:
            listener.close()

    async def _serve(
        self,
        listener: socket.socket,
        announce: Callable[[str], None],
        log: Callable[[str], None] | None,
        await_end: Callable[[], object] | None,
    ) -> None:
        pool = WorkerPool(self.place, self.archives, self.limits)
        try:
            await self._serve_with(pool, listener, announce, log, await_end)
        finally:
            await pool.close()

    async def _serve_with(
        self,
        pool: WorkerPool,
        listener: socket.socket,
        announce: Callable[[str], None],
        log: Callable[[str], None] | None,
        await_end: Callable[[], object] | None,
    ) -> None:
        ready = await pool.start()
        watch = CommitWatch(Repository.open(ready["checkpoint"]), lambda: server.should_exit)
        served = ServedPipeline(
            ready["checkpoint"],
            policy=self.schedule,
            isolation=self.isolation,
            early=self.early,
            pace=self.pace,
            note=announce,
            memory=self.memory,
        )
        for name, sinks in self.sinks.items():
            for sink in sinks:
                served.deliver_to(name, sink)
        answers = ServedAnswers(served, self.limits, lambda: server.should_exit)
        door = Door(pool, ChangeStream(pool, watch), self.limits, ready["checkpoint"], answers)
        # What uvicorn would log goes to no one: requests are logged by the gate, faults by workers.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
        config = uvicorn.Config(
            application(door, self.access, log),
            http=guarded(self.limits),
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=LONGEST_HEADERS,
            timeout_graceful_shutdown=LAST_WORDS,
        )
        server = uvicorn.Server(config)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        queries = counted(len(ready["queries"]), "query", "queries")
        with served:
            count = len(served.queries)
            words = f" ({count} by deadline)" if count else ""
            announce(f"serving {queries}{words} of {ready['checkpoint']} at http://{shown}:{port}")

            def end() -> None:
                assert await_end is not None
                await_end()
                served.await_answers(ANSWERING)
                server.should_exit = True

            if await_end is not None:
                Thread(target=end, name="mayfly-end", daemon=True).start()
            await server.serve(sockets=[listener])

    def _listener(self) -> socket.socket:
        if not 0 <= self.port < 1 << 16:
            raise InvalidSetting(f"there is no port {self.port}", "choose one up to 65535")
        try:
            resolved = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            family, _, _, _, address = resolved[0]
            return socket.create_server(address[:2], family=family, backlog=self.limits.connections)
        except OSError as error:
            raise InvalidSetting(
                f"cannot listen at {self.host}:{self.port}: {error}",
                "choose another --port (0 takes a free one) or --host",
            ) from None
