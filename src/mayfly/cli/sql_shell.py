"""What the SQL shell does with a line: statements, and commands that begin with a backslash."""

from __future__ import annotations

import itertools
import json
import pydoc
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import typer

from mayfly.cli.output import aligned, cell, count
from mayfly.cli.row_output import csv_lines, rows_of
from mayfly.cql.messages import suggestion
from mayfly.cql.tokens import statement_texts
from mayfly.display import plain
from mayfly.errors import InvalidSetting, MayflyError, VersionExpired
from mayfly.lifetime import instant, instant_text
from mayfly.physical.explain.explanation import Explanation
from mayfly.runtime.answer import QueryAnswer
from mayfly.runtime.one_time_explanation import OneTimeExplanation
from mayfly.serving.sql_session import Outcome, SqlSession

FORMATS = ("table", "json", "csv")
HELP = """\
SELECT …;               answer a query over views, relations, archives and files
EXPLAIN SELECT …;       its plan; EXPLAIN name; the plan of a query of the pipeline
EXPLAIN SHARING;        what the queries of the pipeline share of panes, and what that saves
SHOW QUERIES;           what there is: STREAMS, RELATIONS, QUERIES, ARCHIVES
CREATE …; INSERT …;     declare streams over files and relations, for this session only
\\d [NAME]               what there is, or the columns of NAME
\\asof [INSTANT]         answer as of an instant (2026-03-01T09:00:00); without one, the latest
\\watch [SECONDS] [N]    repeat the last query until Ctrl-C, or N times
\\format [FORM]          table, json or csv
\\timing                 show how long statements take, or no longer
\\?                      this list
\\q                      leave, as Ctrl-D does"""
WORDS = {"help": "\\?", "exit": "\\q", "quit": "\\q"}
"""What others call some commands."""


class Leaving(Exception):
    """The user has had enough."""


@dataclass
class SqlShell:
    """Carries out what is typed and prints what comes of it."""

    session: SqlSession
    echo: Callable[[str], object] = typer.echo
    warn: Callable[[str], object] | None = None
    """Takes what belongs to no answer: refusals, what may be missing; by default ``echo`` does."""
    format: str = "table"
    timing: bool = False
    pages: bool = False
    """Whether what is taller than the terminal goes through a pager."""
    _last: str = field(default="", init=False)

    def run(self, text: str) -> bool:
        """Carry out a line or statement; False if it was refused, which is said."""
        text = text.strip()
        text = WORDS.get(text.rstrip(";").casefold(), text)
        if not text:
            return True
        began = time.perf_counter()
        try:
            # What stands behind a command belongs to it.
            for statement in [text] if text.startswith("\\") else statement_texts(text):
                if statement.startswith("\\"):
                    self._run_command(*statement[1:].rstrip(";").split(maxsplit=1))
                else:
                    self._run_statement(statement)
        except (MayflyError, OSError) as error:
            (self.warn or self.echo)(str(error))
            return False
        if self.timing and not text.startswith("\\timing"):
            self.echo(f"{(time.perf_counter() - began) * 1000:.1f} ms")
        return True

    def _run_statement(self, text: str) -> None:
        self.session.refresh()
        try:
            outcome = self.session.execute(text)
        except VersionExpired:  # it was vacuumed away in this moment
            self.session.refresh()
            outcome = self.session.execute(text)
        self._show(outcome)
        if isinstance(outcome, QueryAnswer):
            self._last = text
            for reason in outcome.partial:
                (self.warn or self.echo)(f"partial: {reason}")

    def _show(self, outcome: Outcome) -> None:
        lines = list(self._lines(outcome))
        columns, height = shutil.get_terminal_size()
        if self.pages and sum(1 + max(0, len(line) - 1) // columns for line in lines) > height:
            pydoc.pager("\n".join(lines))
        else:
            for line in lines:
                self.echo(line)

    def _lines(self, outcome: Outcome) -> Iterator[str]:
        match outcome:
            case str():
                yield from [outcome] if outcome else []
            case Explanation() | OneTimeExplanation():
                yield from outcome.text().splitlines()
            case pa.Table():
                yield from _table_lines(outcome, "table")
            case QueryAnswer():
                yield from _table_lines(outcome.rows, self.format)
                if self.format == "table":
                    size = outcome.rows.num_rows
                    rows = "1 row" if size == 1 else f"{count(size)} rows"
                    yield f"{rows}, as of {instant_text(outcome.as_of)} UTC"

    # ── commands ──────────────────────────────────────────────────────────────────────────

    def _run_command(self, name: str = "?", rest: str = "") -> None:
        commands: dict[str, Callable[..., None]] = {
            "d": self._describe, "asof": self._set_as_of, "watch": self._watch,
            "format": self._set_format, "timing": self._set_timing, "?": self._help,
            "q": self._leave,
        }  # fmt: skip
        if name not in commands:
            names = [f"\\{command}" for command in commands]
            raise InvalidSetting(
                f"there is no command \\{name}", suggestion(f"\\{name}", names, "commands")
            )
        # A name, and perhaps an instant, has blanks.
        words = [rest.strip()] if name == "d" and rest.strip() else rest.split()
        try:
            commands[name](*words)
        except TypeError:
            raise InvalidSetting(f"\\{name} was given {rest}", "\\? shows how") from None

    def _describe(self, name: str | None = None) -> None:
        self.session.refresh()
        self._show(self.session.listing() if name is None else self.session.described(name))

    def _set_as_of(self, *words: str) -> None:
        self.session.as_of = instant(" ".join(words)) if words else None
        self.echo(f"answers as of {' '.join(words) or 'the latest closed instant'}")

    def _watch(self, seconds: str = "2", times: str = "") -> None:
        if not self._last:
            raise InvalidSetting("there is no query to repeat", "run a SELECT first")
        pause, rounds = _number(seconds), _number(times) if times else None
        try:
            for done in itertools.count(1):
                self._run_statement(self._last)
                if rounds is not None and done >= rounds:
                    return
                time.sleep(pause)
        except KeyboardInterrupt:
            self.echo("")

    def _set_format(self, name: str | None = None) -> None:
        if name is not None:
            if name not in FORMATS:
                raise InvalidSetting(f"there is no format {name}", f"use {', '.join(FORMATS)}")
            self.format = name
        self.echo(f"format {self.format}")

    def _set_timing(self) -> None:
        self.timing = not self.timing
        self.echo(f"timing {'on' if self.timing else 'off'}")

    def _help(self) -> None:
        self.echo(HELP)

    def _leave(self) -> None:
        raise Leaving


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value < float("inf"):
        raise InvalidSetting(f"{text} is not a number larger than 0", "write \\watch 2")
    return value


def _table_lines(rows: pa.Table, form: str) -> Iterator[str]:
    if form == "json":
        for row in rows.to_pylist():
            yield json.dumps(plain(row), ensure_ascii=False)
        return
    names = rows.column_names
    if form == "csv":
        yield from csv_lines(names, rows_of(rows))
        return
    cells = [[cell(value) for value in row] for row in rows_of(rows)]
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    right = [field.name for field in rows.schema if any(check(field.type) for check in numeric)]
    yield from aligned(names, cells, right)


def read_script(lines: Iterator[str]) -> Iterator[str]:
    """The statements and commands of a text: a statement ends with a semicolon at a line's end."""
    waiting = ""
    for line in lines:
        waiting += line
        if is_complete(waiting):
            yield waiting
            waiting = ""
    if waiting.strip():
        yield waiting


def is_complete(text: str) -> bool:
    """Whether what is typed can be carried out, or more lines are to come."""
    text = text.strip()
    return not text or text.startswith("\\") or text.endswith(";") or text.casefold() in WORDS
