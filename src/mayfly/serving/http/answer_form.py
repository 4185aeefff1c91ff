"""An answer as the bytes that a client gets, within what the server gives to one request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mayfly.display import plain
from mayfly.errors import LimitExceeded
from mayfly.runtime.answer import QueryAnswer
from mayfly.serving.http.media import ARROW, JSON
from mayfly.serving.http.server_limits import ServerLimits


def answer_body(answer: QueryAnswer, arrow: bool, limits: ServerLimits) -> tuple[str, bytes]:
    """The media type, and the rows with what the answer says of itself."""
    rows = answer.rows
    check_rows(rows.num_rows, limits)
    facts = {**answer.to_json(), "as_of_micros": answer.as_of}
    if arrow:
        noted = rows.replace_schema_metadata({"mayfly": json.dumps(facts)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, noted.schema) as writer:
            writer.write_table(noted)
        return ARROW, checked_body(sink.getvalue().to_pybytes(), limits)
    columns = {field.name: str(field.type) for field in rows.schema}
    body = json_body({**facts, "columns": columns, "rows": plain(rows.to_pylist())})
    return JSON, checked_body(body, limits)


def json_body(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=plain).encode(errors="replace")


def check_rows(count: int, limits: ServerLimits) -> None:
    """Refuse an answer of more rows than the server gives."""
    if count > limits.rows:
        raise LimitExceeded(
            f"the answer has {count:,} rows, more than the {limits.rows:,} that this "
            "server gives to one request",
            "ask for fewer: WHERE, LIMIT; or start it with a larger --max-rows",
        )


def checked_body(body: bytes, limits: ServerLimits) -> bytes:
    """The body, unless it is longer than the server gives."""
    if len(body) > limits.answer_bytes:
        raise LimitExceeded(
            f"the answer has {len(body):,} bytes, more than the "
            f"{limits.answer_bytes:,} that this server gives to one request",
            "ask for fewer rows or columns",
        )
    return body
