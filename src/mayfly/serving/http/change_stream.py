"""The changes of a query as server-sent events, for as long as a client reads.

Idea: a client's place in the stream is an instant, and the log holds what came since; so nothing is
queued for a client. One that reads slowly gets fewer, larger events, and one that does not read is
cut off by its connection. Invariant: the id of an event is the instant before which the client has
all changes; a client that comes back with it misses nothing and gets nothing twice, though the
pipeline, the server or both were started anew. Cost: of clients at the same place, one reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from mayfly.errors import InvalidSetting, LimitExceeded
from mayfly.lifetime import MIN_TIME, instant_text
from mayfly.serving.http.commit_watch import CommitWatch
from mayfly.serving.http.media import JSON
from mayfly.serving.http.worker_pool import WorkerPool

QUIET = 15.0
"""Seconds after which a comment is sent, so that neither side takes the other for gone."""
RETRY = b"retry: 1000\n\n"
STILL_HERE = b": still here\n\n"


@dataclass(frozen=True)
class SentChanges:
    """What a worker said: the changes since a place, and the place after them."""

    head: dict[str, Any]
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head["status"])

    @property
    def position(self) -> int:
        return int(self.head["position"])

    def event(self) -> bytes:
        return _event("changes", self.position, self.body)


@dataclass
class ChangeStream:
    """Follows the queries of one pipeline."""

    pool: WorkerPool
    watch: CommitWatch
    _shared: dict[str, tuple[int, int, asyncio.Task[SentChanges]]] = field(default_factory=dict)
    """Per query: place, version, and what was read for them last."""

    async def first(self, name: str, since: str | None) -> SentChanges:
        """What a new client gets first, or why it gets nothing."""
        if since is not None and len(since) > 64:
            raise InvalidSetting("the place in the changes is too long", "send the id of an event")
        return await self._read({"do": "changes", "name": name, "since": since}, patient=False)

    async def events(self, first: SentChanges) -> AsyncIterator[bytes]:
        """The stream, from its first answer on; it ends with the server, or with an error."""
        name = first.head["name"]
        yield RETRY
        changes, position = first, first.head.get("since", first.position)
        since = None if position == MIN_TIME else instant_text(position)
        yield _event("start", position, json.dumps({"since": since}).encode())
        while True:
            if changes.status != 200:
                yield _event("error", None, changes.body)
                return
            if changes.body:
                yield changes.event()
            if not changes.head["more"]:
                while not await self.watch.other_than(changes.head["seen"], QUIET):
                    yield STILL_HERE
                if self.watch.stopping():
                    return
            changes = await self._next(name, changes.position)

    async def _next(self, name: str, position: int) -> SentChanges:
        """Read once for all clients at one place."""
        place, version, task = self._shared.get(name, (None, None, None))
        if task is None or (place, version) != (position, self.watch.version):
            request = {"do": "changes", "name": name, "since": position}
            task = asyncio.ensure_future(self._read(request))
            self._shared[name] = (position, self.watch.version, task)
        return await asyncio.shield(task)

    async def _read(self, request: dict[str, Any], *, patient: bool = True) -> SentChanges:
        try:
            return SentChanges(*await self.pool.ask(request, patient=patient))
        except LimitExceeded as error:
            value = {"kind": "LimitExceeded", "message": error.message, "hint": error.hint}
            return SentChanges(
                {"status": 422, "media": JSON}, json.dumps({"error": value}).encode()
            )


def _event(kind: str, position: int | None, data: bytes) -> bytes:
    place = b"" if position is None else f"id: {position}\n".encode()
    return place + f"event: {kind}\n".encode() + b"data: " + data + b"\n\n"
