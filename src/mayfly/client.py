"""A client of ``mayfly serve``: answers as Arrow tables, changes as they are committed.

client = mayfly.client.Client("http://127.0.0.1:8321", token=…)
client.query("SELECT * FROM busy").rows
for event in client.changes("busy"): …
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import mayfly.errors
from mayfly.display import one_line
from mayfly.errors import InvalidSetting, MayflyError, StorageError
from mayfly.keywords import known_settings, text
from mayfly.lifetime import MIN_TIME, instant
from mayfly.runtime.answer import QueryAnswer
from mayfly.serving.http.media import ARROW, EVENTS, JSON

Moment = int | str | date
PATIENCE = 30.0
"""Seconds for which a server that does not answer is tried again."""
PAUSE = 0.5


@dataclass(frozen=True)
class ReceivedChanges:
    """All changes of a query in the instants from ``since`` on and before ``until``."""

    since: int
    until: int
    version: int
    changes: list[dict[str, Any]]
    """In the order of time: ``op`` (+ begins, - ends), ``ts``, ``exp`` and the ``row``."""

    def __repr__(self) -> str:
        return one_line(self, f"{len(self.changes)} changes until {self.until}")


class Client:
    """One connection to a server, which is made when it is needed; for one thread at a time others
    wait."""

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidSetting(f"{url} is not the address of a server", "write http://HOST:PORT")
        self.url, self._parts, self._timeout = url, parts, timeout
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return one_line(self, self.url)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @known_settings()
    def query(self, sql: str, *, as_of: Moment | None = None) -> QueryAnswer:
        """The answer of a one-time query; its ``rows`` are an Arrow table."""
        body = json.dumps({"sql": text("the query", sql), "at": _micros(as_of)}).encode()
        headers = {"accept": ARROW, "content-type": JSON}
        return _answer(self._call("POST", "/query", headers, body))

    @known_settings()
    def view(
        self, name: str, *, as_of: Moment | None = None, where: Mapping[str, Any] | None = None
    ) -> QueryAnswer:
        """The answer of a query of the pipeline, of the rows that have these values."""
        chosen = {column: _looked_up(column, value) for column, value in (where or {}).items()}
        instants = {} if as_of is None else {"at": str(_micros(as_of))}
        if "at" in chosen:
            raise InvalidSetting("a column with the name at cannot be looked up here", "ask in SQL")
        path = f"/views/{quote(name, safe='')}?{urlencode({**chosen, **instants})}"
        return _answer(self._call("GET", path, {"accept": ARROW}))

    def status(self) -> dict[str, Any]:
        """The pipeline in figures."""
        return cast(dict[str, Any], json.loads(self._call("GET", "/status")))

    def explain(self, query: str) -> str:
        """The plan of a query of the pipeline, by its name, or of a one-time query."""
        is_sql = len(query.split()) > 1
        path = f"/plan?{urlencode({'sql': query})}" if is_sql else f"/plan/{quote(query, safe='')}"
        return str(json.loads(self._call("GET", path))["plan"])

    @known_settings()
    def changes(
        self, name: str, *, since: Moment | None = None, patience: float = PATIENCE
    ) -> Iterator[ReceivedChanges]:
        """What changes, commit by commit, for ever; by default from now on.

        A connection that breaks is made again, and goes on where it broke: nothing is missing and
        nothing comes twice. After ``patience`` seconds without a server it is given up.
        """
        place = None if since is None else str(since)
        position: str | None = None
        lost = time.monotonic()
        while True:
            try:
                for kind, number, data in self._events(name, place, position):
                    lost = time.monotonic()
                    position = number or position
                    if kind == "error":
                        raise _refusal(data)
                    if kind == "changes":
                        yield _received(data, int(number))
                        lost = time.monotonic()
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() - lost > patience:
                    raise self._unreachable(error) from None
            time.sleep(PAUSE)

    def _events(
        self, name: str, since: str | None, position: str | None
    ) -> Iterator[tuple[str, str, bytes]]:
        """Kind, id and data of the events of one connection."""
        headers = {**self._headers, "accept": EVENTS}
        if position is not None:
            headers["last-event-id"] = position
        start = "" if since is None else f"?{urlencode({'since': since})}"
        connection = self._open()
        try:
            connection.request("GET", f"/changes/{quote(name, safe='')}{start}", headers=headers)
            response = connection.getresponse()
            if response.status == 503:
                raise http.client.HTTPException(response.read())
            if response.status != 200:
                raise _refusal(response.read())
            yield from _parsed(response)
        finally:
            connection.close()

    def _call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> bytes:
        with self._lock:
            for last in (False, True):
                fresh = self._connection is None
                connection = self._connection = self._connection or self._open()
                try:
                    connection.request(method, path, body, {**self._headers, **(headers or {})})
                    response = connection.getresponse()
                    content = response.read()
                except (OSError, http.client.HTTPException) as error:
                    self.close()
                    # A connection that was left alone for a while may be closed by the server.
                    if fresh or last:
                        raise self._unreachable(error) from None
                    continue
                if response.status != 200:
                    raise _refusal(content)
                return content
        raise AssertionError("the second attempt ends")

    def _open(self) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=self._timeout)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)

    def _unreachable(self, error: Exception) -> StorageError:
        return StorageError(
            f"{self.url} does not answer: {error}", "is `mayfly serve` running there?"
        )


def _micros(as_of: Moment | None) -> int | None:
    return None if as_of is None else instant(as_of)


def _looked_up(column: str, value: Any) -> str:
    """A value as a text of an address, which the server reads as the column's type."""
    if value is None:
        raise InvalidSetting(
            f"rows without a {column} cannot be looked up here", f"ask in SQL: {column} IS NULL"
        )
    return value.hex() if isinstance(value, bytes) else str(value)


def _parsed(response: http.client.HTTPResponse) -> Iterator[tuple[str, str, bytes]]:
    kind, number, data = "", "", b""
    while line := response.readline():
        name, _, value = line.rstrip(b"\r\n").partition(b": ")
        if name == b"event":
            kind = value.decode()
        elif name == b"id":
            number = value.decode()
        elif name == b"data":
            data = value
        elif not name and kind:
            yield kind, number, data
            kind, number, data = "", "", b""


def _received(data: bytes, until: int) -> ReceivedChanges:
    value = json.loads(data)
    since = MIN_TIME if value["since"] is None else instant(value["since"])
    return ReceivedChanges(since, until, value["version"], value["changes"])


def _answer(content: bytes) -> QueryAnswer:
    import pyarrow as pa

    rows = pa.ipc.open_stream(content).read_all()
    facts = json.loads(rows.schema.metadata[b"mayfly"])
    return QueryAnswer(
        rows.replace_schema_metadata(None), facts["as_of_micros"], tuple(facts["partial"]),
        facts["version"],
    )  # fmt: skip


def _refusal(content: bytes) -> MayflyError:
    """The error that the server tells, of its kind."""
    try:
        error = json.loads(content)["error"]
        kind, message, hint = error["kind"], error["message"], error["hint"]
    except (ValueError, KeyError, TypeError):
        return StorageError(f"the server answered {content[:200]!r}", "is it Mayfly's?")
    declared = getattr(mayfly.errors, str(kind), None)
    if isinstance(declared, type) and issubclass(declared, MayflyError):
        return declared(message, hint)
    return MayflyError(message, hint)
