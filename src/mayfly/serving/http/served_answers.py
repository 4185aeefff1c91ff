"""Served queries over HTTP: their last answers, all that come as server-sent events, questions.

Idea: answers are made by threads of this process; a client's stream waits for the newest answer,
so one that reads slowly misses some, and each says what it is as of. Nothing is queued.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mayfly.cql.messages import suggestion
from mayfly.errors import InvalidSetting
from mayfly.lifetime import instant_text
from mayfly.periodic.server import ServedAnswer
from mayfly.serving.http.answer_form import answer_body
from mayfly.serving.http.change_stream import QUIET, RETRY, STILL_HERE
from mayfly.serving.http.error_status import NotThere
from mayfly.serving.http.media import ARROW, EVENTS, JSON, accepted_media
from mayfly.serving.http.server_limits import ServerLimits
from mayfly.serving.http.worker_pool import Busy
from mayfly.serving.periodic.answer_sinks import answer_json, with_facts
from mayfly.serving.periodic.served_pipeline import ServedPipeline

OFTEN = 0.5
"""Seconds between two looks whether the server stops."""
SAFE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


@dataclass
class ServedAnswers:
    """The endpoints under /served."""

    served: ServedPipeline
    limits: ServerLimits
    stopping: Callable[[], bool] = lambda: False
    followers: int = 0

    async def listing(self, request: Request) -> Response:
        status = self.served.status()
        for row in status["queries"]:
            row["as_of"] = None if row["as_of"] is None else instant_text(row["as_of"])
            row["late_by"] = None if row["late_by"] is None else row["late_by"] / 1e6
        return _json(json.dumps(status, ensure_ascii=False).encode())

    async def answer(self, request: Request) -> Response:
        """The last answer of a query."""
        name = self._named(request)
        answer = self.served.latest.get(name)
        if answer is None:
            raise NotThere(
                self.served.why_unanswered(name), "wait for its next refresh, or see /served"
            )
        if accepted_media(request.headers.get("accept")) == ARROW:
            return _arrow(with_facts(answer))
        return _json(answer_json(answer))

    async def ask(self, sql: str, wait: int, arrow: bool) -> Response | None:
        """A one-time query from panes in memory; None if these do not answer it."""
        answer = await run_in_threadpool(self.served.from_panes, sql, wait)
        if answer is None:
            return None
        media, body = answer_body(answer, arrow, self.limits)
        return Response(body, media_type=media, headers=SAFE)

    async def advice(self, request: Request) -> Response:
        """What a query would do to the load, by what was measured."""
        sql = request.query_params.get("sql")
        if not sql:
            raise InvalidSetting("there is no query", "send it as ?sql=SELECT … SLIDE …")
        advice = await run_in_threadpool(self.served.advise, sql)
        return _json(json.dumps({"advice": advice}, ensure_ascii=False).encode())

    async def follow(self, request: Request) -> Response:
        """Every answer from now on, as server-sent events."""
        name = self._named(request)
        if self.followers >= self.limits.followers:
            raise Busy(f"{self.followers} clients follow answers", "try again later")
        if request.method == "HEAD":
            return Response(media_type=EVENTS, headers=SAFE)
        return StreamingResponse(self._events(name), media_type=EVENTS, headers=SAFE)

    async def _events(self, name: str) -> AsyncIterator[bytes]:
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def notify(_: ServedAnswer) -> None:
            loop.call_soon_threadsafe(news.set)

        unsubscribe = self.served.subscribe(name, notify)
        self.followers += 1
        try:
            yield RETRY
            last, quiet = None, 0.0
            while True:
                answer = self.served.latest.get(name)
                if answer is not None and answer is not last:
                    last = answer
                    head = f"id: {answer.as_of}\nevent: answer\ndata: ".encode()
                    yield head + answer_json(answer) + b"\n\n"
                    quiet = 0.0
                    continue
                if self.stopping() or self.served.stopping:
                    return
                try:
                    await asyncio.wait_for(news.wait(), OFTEN)
                    news.clear()
                except TimeoutError:
                    quiet += OFTEN
                    if quiet >= QUIET:
                        yield STILL_HERE
                        quiet = 0.0
        finally:
            self.followers -= 1
            unsubscribe()

    def _named(self, request: Request) -> str:
        asked, queries = request.path_params["name"], self.served.queries
        for name in queries:
            if name.casefold() == asked.casefold():
                return name
        if asked in self.served.refused:
            raise NotThere(f"{asked} is not served: {self.served.refused[asked]}", "")
        raise NotThere(
            f"no served query is called {asked}", suggestion(asked, queries, "served queries")
        )


def _json(body: bytes) -> Response:
    return Response(body, media_type=JSON, headers=SAFE)


def _arrow(table: pa.Table) -> Response:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW, headers=SAFE)
