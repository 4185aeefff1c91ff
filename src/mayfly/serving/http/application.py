"""The paths of the server: each checks what came, asks a worker, and passes its answer on.

Nothing here computes or writes: all that a request can do is read one committed version.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mayfly.errors import InvalidSetting, LimitExceeded, MayflyError
from mayfly.lifetime import duration
from mayfly.serving.http.access import AccessRule, Refusal
from mayfly.serving.http.change_stream import ChangeStream
from mayfly.serving.http.error_status import kind_of, status_of
from mayfly.serving.http.index_page import index_page
from mayfly.serving.http.media import ARROW, EVENTS, JSON, accepted_media, error_json
from mayfly.serving.http.openapi import description
from mayfly.serving.http.served_answers import ServedAnswers
from mayfly.serving.http.server_limits import ServerLimits
from mayfly.serving.http.worker_pool import Busy, WorkerPool

PIECE = 1 << 18
"""Bytes that are written at once: a client that reads slowly gets its answer piece by piece."""
SAFE = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
}
T = TypeVar("T")
OWN = ("at",)
"""Parameters of /views/NAME that name no column."""


@dataclass
class Door:
    """The endpoints, over one pipeline."""

    pool: WorkerPool
    stream: ChangeStream
    limits: ServerLimits
    name: str
    """Of the pipeline, as the page shows it."""
    served: ServedAnswers
    followers: int = 0

    async def query(self, request: Request) -> Response:
        arrow = accepted_media(request.headers.get("accept")) == ARROW
        question = await self._question(request)
        return await self._answer(request, {"do": "query", **question, "arrow": arrow})

    async def view(self, request: Request) -> Response:
        arrow = accepted_media(request.headers.get("accept")) == ARROW
        where = {}
        for name, value in request.query_params.multi_items():
            if name in where or (name in OWN and len(request.query_params.getlist(name)) > 1):
                raise InvalidSetting(
                    f"{name} is there twice", "give it once; or ask in SQL: /query"
                )
            where[name] = value
        instant = where.pop("at", None)
        name = request.path_params["name"]
        return await self._answer(
            request, {"do": "view", "name": name, "at": instant, "where": where, "arrow": arrow}
        )

    async def ask(self, request: Request) -> Response:
        """From panes in memory if they answer the query, else as a worker does."""
        sql, wait = request.query_params.get("sql"), request.query_params.get("wait")
        if not sql:
            raise InvalidSetting("there is no query", "send it as ?sql=SELECT …")
        # Who waits holds a thread, or a worker.
        micros = min(duration(wait or 0), int(self.limits.patience * 1e6))
        arrow = accepted_media(request.headers.get("accept")) == ARROW
        answer = await self.served.ask(sql, micros, arrow)
        if answer is not None:
            return answer
        question = {"do": "query", "sql": sql, "wait": micros, "arrow": arrow}
        return await self._answer(request, question)

    async def changes(self, request: Request) -> Response:
        """Server-sent events; a client that comes again says which was its last."""
        if self.followers >= self.limits.followers:
            raise Busy(f"{self.followers} clients follow changes", "try again later")
        since = request.headers.get("last-event-id", request.query_params.get("since"))
        name = request.path_params["name"]
        first = await unless_gone(request, self.stream.first(name, since))
        if first.status != 200:
            return reply(first.head, first.body)

        if request.method == "HEAD":
            return Response(media_type=EVENTS, headers=SAFE)

        async def followed() -> AsyncIterator[bytes]:
            self.followers += 1
            try:
                async for event in self.stream.events(first):
                    yield event
            finally:
                self.followers -= 1

        return StreamingResponse(followed(), media_type=EVENTS, headers=SAFE)

    async def status(self, request: Request) -> Response:
        return await self._answer(request, {"do": "status"})

    async def plan(self, request: Request) -> Response:
        name, sql = request.path_params.get("name"), request.query_params.get("sql")
        return await self._answer(request, {"do": "plan", "name": name, "sql": sql})

    async def views(self, request: Request) -> Response:
        return await self._answer(request, {"do": "tables"})

    async def openapi(self, request: Request) -> Response:
        return Response(json.dumps(description()), media_type=JSON, headers=SAFE)

    async def page(self, request: Request) -> Response:
        head, body = await self.pool.ask({"do": "tables"})
        tables = json.loads(body)["tables"] if head["status"] == 200 else {}
        return HTMLResponse(index_page(self.name, tables), headers=SAFE)

    async def _question(self, request: Request) -> dict[str, Any]:
        """SQL and instant: from the address, or from a body that is SQL or JSON."""
        sql = request.query_params.get("sql")
        instant: str | int | None = request.query_params.get("at")
        if request.method == "POST":
            sql = text = (await self._body(request)).decode(errors="replace")
            media = request.headers.get("content-type", "").partition(";")[0].strip()
            # curl -d names another type; no statement begins with a brace.
            if media == JSON or text.lstrip().startswith("{"):
                sql, instant = _from_json(text)
        if not sql or not sql.strip():
            raise InvalidSetting("there is no query", "send SQL as the body, or as ?sql=SELECT …")
        return {"sql": sql, "at": instant}

    async def _body(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.receipt):
                async for piece in request.stream():
                    body += piece
                    if len(body) > self.limits.body_bytes:
                        raise LimitExceeded(
                            f"the request has more than {self.limits.body_bytes:,} bytes",
                            "send a shorter query",
                        )
        except TimeoutError:
            raise HTTPException(408, "the request did not arrive in time") from None
        return bytes(body)

    async def _answer(self, request: Request, question: Mapping[str, Any]) -> Response:
        return reply(*await unless_gone(request, self.pool.ask(question)))


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives, unless the client hangs up: then it waits for nothing."""
    outcome = asyncio.create_task(work)
    gone = asyncio.create_task(_hang_up(request))
    try:
        await asyncio.wait({outcome, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not outcome.done():
            raise ClientDisconnect
        return outcome.result()
    finally:
        outcome.cancel()
        gone.cancel()


async def _hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _from_json(text: str) -> tuple[str | None, str | int | None]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("sql"), str):
        raise InvalidSetting(
            "the body is not a JSON object with a text sql", 'send {"sql": "SELECT …", "at": "…"}'
        )
    instant = value.get("at")
    if instant is not None and (isinstance(instant, bool) or not isinstance(instant, str | int)):
        raise InvalidSetting(f"at is {instant!r}", "give a text or µs since 1970")
    return value["sql"], instant


def reply(head: Mapping[str, Any], body: bytes) -> Response:
    """A worker's answer; a large one is written piece by piece."""
    headers = {**SAFE, "vary": "accept"}
    if len(body) <= PIECE:
        return Response(body, head["status"], headers, head["media"])
    headers["content-length"] = str(len(body))

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), PIECE):
            yield body[start : start + PIECE]

    return StreamingResponse(
        pieces(), status_code=head["status"], media_type=head["media"], headers=headers
    )


def error_response(
    status: int,
    message: str,
    hint: str = "",
    kind: str = "MayflyError",
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = error_json(kind, message, hint)
    return Response(body, status, {**SAFE, **(headers or {})}, media_type=JSON)


def refused(refusal: Refusal) -> Response:
    more = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
    return error_response(refusal.status, refusal.message, refusal.hint, headers=more)


Endpoint = Callable[[Request], Awaitable[Response]]


def answering(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose refusals are answers: nothing surfaces as a trace."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except MayflyError as error:
            more = {"retry-after": "1"} if isinstance(error, Busy) else {}
            return error_response(
                status_of(error), error.message, error.hint, kind_of(error), headers=more
            )
        except (HTTPException, ClientDisconnect):
            raise
        except Exception as error:  # a fault of ours: the client learns that, the log which
            print(f"mayfly serve: {request.url.path}: {error!r}", file=sys.stderr, flush=True)
            return error_response(500, "an error of the server; its log says which")

    return answer


async def _no_such_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "there is no such path", 405: "not with this method"}
    message = words.get(error.status_code, HTTPStatus(error.status_code).phrase)
    return error_response(
        error.status_code, message, "/ lists what there is", headers=error.headers
    )


class Gate:
    """Lets in what may come in, and notes what was answered if asked to."""

    def __init__(
        self, inner: ASGIApp, access: AccessRule, log: Callable[[str], None] | None
    ) -> None:
        self.inner, self.access, self.log = inner, access, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        headers = Headers(scope=scope)
        refusal = self.access.refusal(
            headers.get("host"), headers.get("origin"), headers.get("authorization", "")
        )
        application = self.inner if refusal is None else refused(refusal)
        try:
            await application(scope, receive, noted)
        except ClientDisconnect:
            return
        finally:
            if self.log is not None:
                spent = 1000 * (time.perf_counter() - began)
                path = scope["path"].encode("unicode_escape").decode()[:80]
                self.log(f"{scope['method']} {path} {status} {spent:.1f} ms")


def application(
    door: Door, access: AccessRule, log: Callable[[str], None] | None = None
) -> ASGIApp:
    """The whole server, but for its connections."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watch = asyncio.create_task(door.stream.watch.run())
        try:
            yield
        finally:
            watch.cancel()
            await door.pool.close()

    endpoints: Mapping[str, tuple[Endpoint, list[str]]] = {
        "/": (door.page, ["GET"]),
        "/query": (door.query, ["GET", "POST"]),
        "/views": (door.views, ["GET"]),
        "/views/{name}": (door.view, ["GET"]),
        "/changes/{name}": (door.changes, ["GET"]),
        "/served": (door.served.listing, ["GET"]),
        "/served/{name}": (door.served.answer, ["GET"]),
        "/served/{name}/answers": (door.served.follow, ["GET"]),
        "/advice": (door.served.advice, ["GET"]),
        "/ask": (door.ask, ["GET"]),
        "/status": (door.status, ["GET"]),
        "/plan": (door.plan, ["GET"]),
        "/plan/{name}": (door.plan, ["GET"]),
        "/openapi.json": (door.openapi, ["GET"]),
    }
    routes = [
        Route(path, answering(endpoint), methods=methods)
        for path, (endpoint, methods) in endpoints.items()
    ]
    inner = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _no_such_path},
    )
    inner.router.redirect_slashes = False
    return Gate(inner, access, log)
