"""What commands print: tables drawn on a terminal and plain in a pipe, figures, refusals."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from mayfly.display import on_one_line, plain
from mayfly.errors import MayflyError
from mayfly.lifetime import format_micros

if TYPE_CHECKING:
    from rich.text import Text

LONG = 600.0
"""Seconds beyond which minutes are exact enough."""
REFUSED = 2
"""The exit code when a call makes no sense or cannot be carried out."""
LIKE_A_TERMINAL = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables by which rich draws for a terminal where there is none."""
USEFUL, BETWEEN = 12, 3
"""Letters of a column that say something, and those between two columns of a drawn table."""
_SPARK = ("pyspark.", "py4j.")


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """What cannot be done is reported in one message, without a stack trace."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of a pipe has seen enough
    except (MayflyError, OSError) as error:
        _refuse(str(error))
    except Exception as error:
        if not type(error).__module__.startswith(_SPARK):
            raise
        from mayfly.spark.cluster.causes import said

        _refuse(f"Spark failed: {said(error)}")


def _refuse(message: str) -> None:
    typer.echo(f"mayfly: {message}", err=True)
    raise typer.Exit(REFUSED) from None


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=plain))


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str | Text]], right: Sequence[str] = ()
) -> None:
    """Print a table as wide as the terminal; in a pipe, or on a terminal that is too narrow for its
    columns, two blanks between columns, nothing cut."""
    rows = [[on_one_line(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    header = list(map(on_one_line, header))
    plain_rows = [[str(cell) for cell in row] for row in rows]
    drawn = on_terminal() or any(name in os.environ for name in LIKE_A_TERMINAL)
    least = _least_width([list(header), *plain_rows], [name in right for name in header])
    if not drawn or least > shutil.get_terminal_size().columns:
        for line in aligned(header, plain_rows, right):
            typer.echo(line)
        return
    # Here: a pipe is written to without it.
    from rich import box
    from rich.console import Console
    from rich.table import Table

    # What stands in brackets or between colons is data, not a style or a picture.
    console = Console(markup=False, emoji=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in header:
        table.add_column(
            name, justify="right" if name in right else "left", no_wrap=name in right,
            overflow="ellipsis",
        )  # fmt: skip
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _least_width(rows: Sequence[Sequence[str]], whole: Sequence[bool]) -> int:
    """Of a drawn table, in which columns that are not shown whole are still of use."""
    widths = [max(map(_cells_of, column)) for column in zip(*rows, strict=True)]
    shown = (width if own else min(width, USEFUL) for width, own in zip(widths, whole, strict=True))
    return sum(shown) + BETWEEN * (len(widths) - 1)


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()
) -> Iterator[str]:
    """The lines of a plain table."""
    table = [list(map(on_one_line, row)) for row in (header, *rows)]
    widths = [max(_cells_of(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        cells = []
        for name, cell, width in zip(header, row, widths, strict=True):
            blanks = " " * (width - _cells_of(cell))
            cells.append(blanks + cell if name in right else cell + blanks)
        yield "  ".join(cells).rstrip()


def _cells_of(text: str) -> int:
    """How wide a text is on a terminal, where letters of some scripts take two cells or none.

    >>> _cells_of("Kiel"), _cells_of("\u6771\u4eac"), _cells_of("e\u0301")
    (4, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "FW")
        for letter in text
    )


def on_terminal() -> bool:
    return sys.stdout.isatty()


def count(number: int) -> str:
    return f"{number:,}"


def seconds(value: float | None) -> str:
    """
    >>> seconds(None), seconds(0.0123), seconds(4.56), seconds(321), seconds(809_011)
    ('–', '0.012 s', '4.6 s', '321 s', '9 d 8 h 43 min')
    """
    if value is None:
        return "–"
    if value >= LONG:
        return format_micros(int(value) // 60 * 60_000_000)
    if value < 1:
        return f"{value:.3f} s"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def cell(value: Any) -> str:
    """A stored value in a table."""
    if value is None:
        return "NULL"
    plain_value = plain(value)
    if isinstance(value, datetime):
        return str(value).removesuffix("+00:00")
    if isinstance(plain_value, list | dict | bool):
        return json.dumps(plain_value, ensure_ascii=False)
    return str(plain_value)
