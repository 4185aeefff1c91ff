"""The command ``mayfly``: its subcommands, and how errors are reported."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from mayfly import __version__
from mayfly.cli.signals import Ended, ending_signals
from mayfly.errors import MayflyError

COMMANDS = {
    "demo": (
        "mayfly.demo.command:demo",
        "Join two streams on local Spark, kill the driver in the middle, and check every result.",
    ),
    "init": (
        "mayfly.cli.init_command:init_command",
        "Write a commented example pipeline with data; it runs as it is.",
    ),
    "doctor": (
        "mayfly.cli.doctor_command:doctor_command",
        "Check Java, Spark, packages, memory, disk and permissions; exit code 1 if one fails.",
    ),
    "run": (
        "mayfly.cli.run_command:run_command",
        "Run the queries of a file over its streams; Ctrl-C stops, a second run continues.",
    ),
    "migrate": (
        "mayfly.cli.migrate_command:migrate_command",
        "Move the checkpoint of a stopped pipeline to another number of buckets.",
    ),
    "status": (
        "mayfly.cli.status_command:status_command",
        "Show a pipeline in figures, running or stopped; starts no Spark.",
    ),
    "query": (
        "mayfly.cli.query_command:query_command",
        "Answer SQL over the views, relations and archives of a pipeline; starts no Spark.",
    ),
    "sql": (
        "mayfly.cli.sql_command:sql_command",
        "Ask a pipeline, an archive or files in SQL; starts no Spark.",
    ),
    "serve": (
        "mayfly.cli.serve_command:serve_command",
        "Answer over HTTP what a pipeline has: SQL, views, changes, status; starts no Spark.",
    ),
    "control": ("mayfly.cli.control_command:app", "Tell a running pipeline something."),
    "explain": (
        "mayfly.cli.explain_command:explain_command",
        "Show the plan of every query in a file: update patterns, state, cost, warnings.",
    ),
    "check": (
        "mayfly.cli.check_command:check_command",
        "Check a file: its statements, names, types, sources and sinks, and whether it can run.",
    ),
    "archive": (
        "mayfly.cli.archive_command:app",
        "Archives: the last W intervals of rows, by key, on disk.",
    ),
}
"""Name → module and what it declares with typer (a function, or a group of commands); summary."""
ANSWERING = ("query", "sql")
"""Commands that answer and end: whatever takes long to load is left out as long as possible."""
FEW = 5_000
"""Elements that are gone through faster than numba is loaded."""
COMPLETE = "_MAYFLY_COMPLETE"
"""Set by the scripts of shells that want a line completed."""


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """The subcommand that the arguments name, or only the summaries of all, for help and for
    misspellings: each command imports packages that take longer than to print a page of help.
    """
    name = next((word for word in arguments if not word.startswith("-")), None)
    app = typer.Typer(
        name="mayfly",
        no_args_is_help=True,
        add_completion=name not in COMMANDS or COMPLETE in os.environ,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    if name not in COMMANDS:
        for other, (_, summary) in COMMANDS.items():
            app.command(other, help=summary)(_summarized)
        return app
    module, _, attribute = COMMANDS[name][0].partition(":")
    declared = getattr(importlib.import_module(module), attribute)
    if isinstance(declared, typer.Typer):
        app.add_typer(declared, name=name)
    else:
        app.command(name)(declared)
    return app


def _summarized() -> None:
    """Stands for a command in the list of all; a named command is never run by it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; what Mayfly or the system refuses is reported in a message, not a trace."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with ending_signals():
            named = _typed_words() if COMPLETE in os.environ else words
            with _lasting(is_whole_process=arguments is None):
                if arguments is None and named[:1] and named[0] in ANSWERING:
                    load_little()
                command = command_line(named)
            command(args=words, prog_name="mayfly")
    except (MayflyError, OSError) as error:
        sys.exit(f"mayfly: {error}")
    except Ended as ended:
        typer.echo(f"mayfly: {ended}", err=True)
        sys.exit(ended.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def load_little() -> None:
    """For a process that gives few answers, of few rows mostly: neither pandas nor numba."""
    from mayfly.arrays.compilation import interpret_first
    from mayfly.arrays.pandas_use import leave_pandas_out

    leave_pandas_out()
    interpret_first(FEW)
    gc.set_threshold(50_000)


@contextmanager
def _lasting(is_whole_process: bool) -> Iterator[None]:
    """What imports make stays: to look for garbage in it takes a fifth of the time of a check."""
    gc.disable()
    try:
        yield
    finally:
        if is_whole_process:
            gc.freeze()
        gc.enable()


def _typed_words() -> list[str]:
    """What stands on the line that a shell completes, behind the name of the program."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"mayfly {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Continuous queries over sliding windows, and archives of rows with lifetimes."""
