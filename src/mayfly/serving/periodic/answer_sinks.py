"""Where served answers go besides callbacks and HTTP: Parquet files and the console."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.display import encodable, plain
from mayfly.lifetime import format_micros, instant_text
from mayfly.periodic.server import ServedAnswer

TIMESTAMP = pa.timestamp("us", "UTC")
MOST_WAITING = 1000
"""Answers that wait for the next file."""


def with_facts(answer: ServedAnswer) -> pa.Table:
    """The rows of an answer, each with what the answer says of itself."""
    rows = answer.rows
    facts = {
        "_as_of": pa.scalar(answer.as_of, TIMESTAMP),
        "_late_by": pa.scalar(answer.late_by, pa.int64()),
        "_isolation": pa.scalar(answer.isolation),
        "_partial": pa.scalar(answer.partial),
        "_answered": pa.scalar(answer.answered, TIMESTAMP),
    }
    for name, value in facts.items():
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows


def facts_json(answer: ServedAnswer) -> dict[str, object]:
    """What an answer says of itself."""
    return {
        "query": answer.query,
        "as_of": instant_text(answer.as_of),
        "late_by": answer.late_by / 1e6,
        "behind": answer.behind / 1e6,
        "isolation": answer.isolation,
        "level": answer.level.value,
        "partial": answer.partial,
        "attempts": answer.attempts,
        "answered": instant_text(answer.answered),
    }


def answer_json(answer: ServedAnswer) -> bytes:
    """An answer on one line."""
    value = {**facts_json(answer), "rows": plain(answer.rows.to_pylist())}
    return json.dumps(value, ensure_ascii=False).encode()


class AnswerFiles:
    """A folder of Parquet files: written under another name first, so that none is half there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting: list[pa.Table] = []

    def __call__(self, answer: ServedAnswer) -> None:
        if answer.rows.num_rows:
            self._waiting.append(with_facts(answer))
        if len(self._waiting) >= MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Write what waits as one file."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"answers-{uuid.uuid4().hex}"
        unfinished = self.folder / f".{name}.tmp"
        pq.write_table(pa.concat_tables(waiting), unfinished)
        os.replace(unfinished, self.folder / f"{name}.parquet")


class AnswerLines:
    """Answers as lines of text."""

    def __init__(self, echo: Callable[[str], None]) -> None:
        self.echo = echo

    def __call__(self, answer: ServedAnswer) -> None:
        notes = [f"as of {instant_text(answer.as_of)}"]
        if answer.late_by:
            notes.append(f"late by {format_micros(answer.late_by)}")
        if answer.partial:
            notes.append("partial")
        self.echo(encodable(f"{answer.query} {', '.join(notes)} ({answer.isolation})"))
        for row in plain(answer.rows.to_pylist()):
            self.echo(encodable(f"  {json.dumps(row, ensure_ascii=False)}"))

    def flush(self) -> None:
        """Lines are written at once."""
