"""Where served answers go besides callbacks and HTTP: Parquet files and the console."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Protocol

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
        "_since": pa.scalar(answer.since, TIMESTAMP),
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
        "since": instant_text(answer.since),
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


class AnswerSink(Protocol):
    """Takes answers, and has written them down after ``write_down``."""

    def __call__(self, answer: ServedAnswer) -> None: ...
    def write_down(self) -> None: ...


class AnswerFiles:
    """A folder of Parquet files: written under another name first, so that none is half there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting: list[pa.Table] = []
        self._lock = Lock()

    def __call__(self, answer: ServedAnswer) -> None:
        with self._lock:
            if answer.rows.num_rows:
                self._waiting.append(with_facts(answer))
            full = len(self._waiting) >= MOST_WAITING
        if full:
            self.write_down()

    def write_down(self) -> None:
        """Write what waits as one file."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        if not self._waiting:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"answers-{uuid.uuid4().hex}"
        unfinished = self.folder / f".{name}.tmp"
        pq.write_table(pa.concat_tables(self._waiting), unfinished)
        os.replace(unfinished, self.folder / f"{name}.parquet")
        self._waiting = []


class AnswerFolders:
    """A folder of files for each query."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, AnswerFiles] = {}

    def __call__(self, answer: ServedAnswer) -> None:
        files = self._files.setdefault(answer.query, AnswerFiles(self.folder / answer.query))
        files(answer)

    def write_down(self) -> None:
        for files in list(self._files.values()):
            files.write_down()


class AnswerLines:
    """Answers as lines of text."""

    def __init__(self, echo: Callable[[str], None]) -> None:
        self.echo = echo

    def __call__(self, answer: ServedAnswer) -> None:
        notes = [f"as of {instant_text(answer.as_of)}"]
        if answer.late_by:
            notes.append(f"late by {format_micros(answer.late_by)}")
        if answer.partial:
            notes.append(f"partial, since {instant_text(answer.since)}")
        self.echo(encodable(f"{answer.query} {', '.join(notes)} ({answer.isolation})"))
        for row in plain(answer.rows.to_pylist()):
            self.echo(encodable(f"  {json.dumps(row, ensure_ascii=False)}"))

    def write_down(self) -> None:
        """Lines are written at once."""
