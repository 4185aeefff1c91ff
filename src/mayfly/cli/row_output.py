"""Rows on the terminal, as JSON lines or as CSV."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import typer

from mayfly.cli.output import cell, count, print_table
from mayfly.display import counted, plain, size

if TYPE_CHECKING:
    from mayfly.archive import ReadReport

SHOWN = 20
"""Rows of a table that are printed unless a limit is given."""
_MANY = 10_000
_TO_QUOTE = re.compile('[",\r\n]')


@dataclass(frozen=True)
class Form:
    """How rows are printed."""

    json: bool = False
    csv: bool = False
    limit: int | None = None
    report: bool = False

    @property
    def most(self) -> int | None:
        """So many rows at most; None for all."""
        if self.limit is None:
            return None if self.json or self.csv else SHOWN
        return self.limit or None


def print_rows(tables: Iterator[pa.Table], form: Form, report: ReadReport | None = None) -> None:
    """Print the rows as they come, up to the limit, and what the read touched if asked.

    The first table tells the columns; there is one.
    """
    first = next(tables)
    names, rows = first.column_names, _up_to(itertools.chain([first], tables), form.most)
    if form.json:
        for table in rows:
            for row in table.to_pylist():
                typer.echo(json.dumps(plain(row), ensure_ascii=False))
    elif form.csv:
        values = (row for table in rows for row in rows_of(table))
        for line in csv_lines(names, values):
            typer.echo(line)
    else:
        _print_page(rows, names, form)
    if form.report and report is not None:
        typer.echo(
            f"read {counted(report.row_groups, 'row group')} of {counted(report.files, 'file')} in "
            f"{count(report.constituents)} constituents, {size(report.bytes)}",
            err=True,
        )


def rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples of values."""
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def csv_lines(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """A line of names, then the rows; NULL is nothing, an empty text a pair of quotes."""
    for row in itertools.chain([names], rows):
        yield ",".join("" if value is None else _quoted(cell(value)) for value in row)


def _quoted(text: str) -> str:
    if text and not _TO_QUOTE.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _print_page(rows: Iterator[pa.Table], names: list[str], form: Form) -> None:
    shown = [[cell(value) for value in values] for table in rows for values in rows_of(table)]
    print_table(names, shown)
    full = form.most is not None and len(shown) == form.most
    more = " shown; --limit 0 for all" if full else ""
    typer.echo(f"{counted(len(shown), 'row')}{more}", err=True)


def _up_to(tables: Iterable[pa.Table], most: int | None) -> Iterator[pa.Table]:
    left = most
    for table in tables:
        for start in range(0, table.num_rows, _MANY):
            piece = table.slice(start, _MANY if left is None else min(_MANY, left))
            if left is not None:
                left -= piece.num_rows
            yield piece
            if left == 0:
                return
