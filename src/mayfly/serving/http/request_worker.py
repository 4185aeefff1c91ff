"""The process that answers requests: it can be ended at any time, and may take only so much memory.

Idea: an engine in a thread cannot be stopped, a process can. A worker keeps one reader of the
pipeline, looks before every request whether there is a newer version, and gives back the whole
answer in bytes, so that the server itself computes nothing.
Invariant: a request is answered from one committed version; what Mayfly refuses is an answer, too.
"""

from __future__ import annotations

import json
import os
import re
import resource
import select
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, BinaryIO

import pyarrow as pa

from mayfly.arrays.pandas_use import leave_pandas_out
from mayfly.cql.messages import suggestion
from mayfly.errors import InvalidSetting, LimitExceeded, MayflyError
from mayfly.lifetime import MIN_TIME, instant
from mayfly.plan.types import arrow_type
from mayfly.runtime.answer import QueryAnswer
from mayfly.serving.http.answer_form import answer_body, check_rows, checked_body, json_body
from mayfly.serving.http.change_events import next_event
from mayfly.serving.http.error_status import NotThere, kind_of, status_of
from mayfly.serving.http.media import JSON, error_json
from mayfly.serving.http.server_limits import ServerLimits
from mayfly.serving.http.worker_messages import message_bytes, read_message
from mayfly.serving.pipeline_places import open as open_place
from mayfly.serving.pipeline_reader import Moment, PipelineReader, read_newest
from mayfly.serving.tables import View

OUT_OF_MEMORY = LimitExceeded(
    "the answer takes more memory than this server gives to one request",
    "ask for fewer rows or columns; or start it with a larger --max-memory",
)
MICROS = re.compile(r"-?\d{1,19}")
Reply = tuple[dict[str, Any], bytes]


@dataclass
class RequestWorker:
    """Answers requests from the newest committed version."""

    reader: PipelineReader
    limits: ServerLimits

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """The head and the body of an answer; after the ``last`` one the process is of no use."""
        work = _WORK[request["do"]]
        try:
            self.reader = refreshed(self.reader)
            return read_newest(self.reader, lambda reader: work(self, reader, request))
        except MayflyError as error:
            return error_reply(error)
        except (MemoryError, SystemError):  # compiled code without memory may fail without a word
            head, body = error_reply(OUT_OF_MEMORY)
            return {**head, "last": True}, body

    def query(self, reader: PipelineReader, request: Mapping[str, Any]) -> Reply:
        wait = timedelta(microseconds=request.get("wait", 0))
        answer = reader.query(request["sql"], as_of=_moment(request), wait=wait)
        return self._answer(answer, request)

    def view(self, reader: PipelineReader, request: Mapping[str, Any]) -> Reply:
        view = view_of(reader, request["name"])
        values = {column: _value(view, column, text) for column, text in request["where"].items()}
        return self._answer(reader.view(view.name, as_of=_moment(request), where=values), request)

    def changes(self, reader: PipelineReader, request: Mapping[str, Any]) -> Reply:
        view = view_of(reader, request["name"])
        since = request["since"]
        start = _position(view, since) if not isinstance(since, int) else since
        event = next_event(view, start, self.limits.event_rows)
        head: dict[str, Any] = {"name": view.name, "position": start, "seen": reader.version}
        head |= {"more": False}
        if event is None:
            return _head(200, **head), b""
        check_rows(len(event.changes) // 2, self.limits)
        head |= {"position": event.until, "since": event.since, "more": event.until < view.clock}
        return _head(200, **head), checked_body(event.to_json(), self.limits)

    def status(self, reader: PipelineReader, request: Mapping[str, Any]) -> Reply:
        return _head(200), json_body(reader.status().to_json())

    def plan(self, reader: PipelineReader, request: Mapping[str, Any]) -> Reply:
        if (sql := request.get("sql")) is not None:
            return _head(200), json_body({"plan": reader.explain(sql).text()})
        if (name := request.get("name")) is not None:
            view = view_of(reader, name)
            return _head(200), json_body(
                {"sql": view.text, "plan": reader.explain(view.name).text()}
            )
        plans = {name: reader.explain(name).text() for name in reader.views}
        return _head(200), json_body({"plans": plans})

    def tables(self, reader: PipelineReader, request: Mapping[str, Any]) -> Reply:
        sent = [view for view in reader.views.values() if view.sends]
        kinds = [*((table, table.kind) for table in reader.tables()), *((v, "log") for v in sent)]
        tables = {
            table.name: {
                "kind": kind,
                "columns": {column.name: column.type.sql() for column in table.columns},
            }
            for table, kind in kinds
        }
        return _head(200), json_body({"version": reader.version, "tables": tables})

    def _answer(self, answer: QueryAnswer, request: Mapping[str, Any]) -> Reply:
        media, body = answer_body(answer, bool(request.get("arrow")), self.limits)
        return _head(200, media), body


_WORK: dict[str, Callable[[RequestWorker, PipelineReader, Mapping[str, Any]], Reply]] = {
    "query": RequestWorker.query,
    "view": RequestWorker.view,
    "changes": RequestWorker.changes,
    "status": RequestWorker.status,
    "plan": RequestWorker.plan,
    "tables": RequestWorker.tables,
}


def refreshed(reader: PipelineReader) -> PipelineReader:
    """A reader of the newest version; the same one, with what it has read, if that is its own."""
    repositories = [
        (reader.repository, reader.version),
        *(
            (archive.reading.repository, archive.version.manifest.version)
            for archive in reader.archives.values()
        ),
    ]
    if all(repository.newest() == version for repository, version in repositories):
        return reader
    return reader.latest()


def view_of(reader: PipelineReader, name: str) -> View:
    """The query of a name, in whatever case."""
    for view in reader.views.values():
        if view.name.casefold() == name.casefold():
            return view
    raise NotThere(
        f"the pipeline has no query {name}", suggestion(name, reader.views, "its queries")
    )


def error_reply(error: Exception) -> Reply:
    """An error as an answer: its kind, what was wrong, and what to do."""
    message = getattr(error, "message", str(error))
    body = error_json(kind_of(error), message, getattr(error, "hint", ""))
    return _head(status_of(error)), body


def _head(status: int, media: str = JSON, **facts: Any) -> dict[str, Any]:
    return {"status": status, "media": media, **facts}


def _moment(request: Mapping[str, Any]) -> Moment | None:
    """The instant that a request names: a text, or µs since 1970."""
    value = request.get("at")
    if isinstance(value, str) and MICROS.fullmatch(value):
        return int(value)
    return value if value is None or isinstance(value, str) else int(value)


def _position(view: View, since: str | None) -> int:
    """Where a reader of changes begins: at an instant, or with what is not closed yet."""
    if since is None:
        return view.clock
    if since == "beginning":
        kept: int = view.manifest.properties["kept_from"].get(view.name, MIN_TIME)
        return kept
    return instant(int(since) if MICROS.fullmatch(since) else since)


def _value(view: View, column: str, text: str) -> Any:
    """A text of an address as a value of a column."""
    kinds = {entry.name: arrow_type(entry.type) for entry in view.columns}
    if column not in kinds:
        raise InvalidSetting(
            f"{view.name} has no column {column}", suggestion(column, kinds, "its columns")
        )
    kind = kinds[column]
    try:
        return bytes.fromhex(text) if kind == pa.binary() else pa.scalar(text).cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise InvalidSetting(
            f"{text!r} is not {kind}, the type of the column {column} of {view.name}",
            "write the value as answers in JSON have it; or ask in SQL: /query",
        ) from None


def limit_memory(more: int) -> None:
    """From here on this process may take so many bytes more; files that it maps do not count."""
    with open("/proc/self/status") as file:
        sizes = dict(line.split(":", 1) for line in file)
    taken = int(sizes["VmData"].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (taken + more, taken + more))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def own_channel() -> tuple[BinaryIO, BinaryIO]:
    """The input and output this process was started with; what is printed goes to stderr."""
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return source, target


def end_with(source: BinaryIO) -> None:
    """Wait until the server has gone; then this process ends at once, whatever it is computing."""
    closed = select.poll()
    closed.register(source, 0)
    closed.poll()
    os._exit(0)


def main() -> None:
    """Answer until the server has gone."""
    leave_pandas_out()
    source, target = own_channel()

    def send(reply: Reply) -> None:
        target.write(message_bytes(*reply))
        target.flush()

    settings = json.loads(sys.argv[1])
    limits = ServerLimits(**settings["limits"])
    try:
        reader = open_place(settings["place"], archives=settings["archives"])
        worker = RequestWorker(reader, limits)
        worker.tables(reader, {})
    except (MayflyError, OSError) as error:
        send(error_reply(error))
        return
    limit_memory(limits.memory)
    send(({"status": 200, "checkpoint": reader.checkpoint, "queries": list(reader.views)}, b""))
    threading.Thread(target=end_with, args=(source,), daemon=True).start()
    while (message := read_message(source)) is not None:
        request, _ = message
        try:
            reply = worker.reply(request)
        except Exception as error:  # a fault of ours: the client learns that, the log which
            print(f"mayfly serve: {request['do']}: {error!r}", file=sys.stderr, flush=True)
            reply = error_reply(RuntimeError("an error of the server; its log says which"))
        send(reply)


if __name__ == "__main__":
    main()
