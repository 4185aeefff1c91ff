"""``mayfly sql``: a shell over a pipeline, an archive, or files that are declared in it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.output import refusals
from mayfly.cli.sql_shell import FORMATS, Leaving, SqlShell, read_script
from mayfly.errors import InvalidSetting
from mayfly.serving.sql_session import SqlSession

HISTORY = ".mayfly_history"


def sql_command(
    place: Annotated[
        Path | None,
        typer.Argument(help="A checkpoint, a pipeline file or an archive.", metavar="[PLACE]"),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", help="Carry this out and end; may be repeated."),
    ] = None,
    format: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    history: Annotated[
        Path | None, typer.Option("--history", help="Where lines are remembered (default: home).")
    ] = None,
) -> None:
    """Ask a pipeline, an archive or files in SQL; starts no Spark.

    Statements end with a semicolon; `\\?` lists the commands. Statements that come through a pipe
    are carried out one by one. Nothing is written but the history of lines.
    """
    with refusals():
        if format not in FORMATS:
            raise InvalidSetting(f"there is no format {format}", f"use {', '.join(FORMATS)}")
        shell = SqlShell(SqlSession.open(place), format=format)
        if command or not sys.stdin.isatty():
            statements = iter(command) if command else read_script(iter(sys.stdin))
            shell.warn = partial(typer.echo, err=True)
            _carry_out(shell, statements)
            return
        from mayfly.cli.sql_prompt import talk

        shell.pages = True
        typer.echo("Statements end with ; and \\? lists the commands.")
        talk(shell, history or Path.home() / HISTORY)


def _carry_out(shell: SqlShell, statements: Iterable[str]) -> None:
    """All of them; the exit code is 1 if one was refused."""
    refused = False
    with suppress(Leaving):
        for statement in statements:
            refused |= not shell.run(statement)
    if refused:
        raise typer.Exit(1)
