"""The command ``mayfly``: its subcommands, and how errors are told."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from mayfly import __version__
from mayfly.errors import MayflyError

COMMANDS = {
    "demo": "mayfly.demo.command:demo",
    "init": "mayfly.cli.starting:init_command",
    "doctor": "mayfly.cli.doctor:doctor_command",
    "run": "mayfly.cli.run:run_command",
    "migrate": "mayfly.cli.migrate:migrate_command",
    "control": "mayfly.cli.control:app",
    "explain": "mayfly.cli.explain:explain_command",
    "check": "mayfly.cli.explain:check_command",
    "archive": "mayfly.cli.archive:app",
}
"""Name → module and what it declares with typer: a function, or a group of commands."""


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """The subcommand that the arguments name, or all of them, for help and for misspellings.

    The others are not imported: each brings packages that take longer than a small command.
    """
    app = typer.Typer(
        name="mayfly", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    app.callback()(_options)
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    for name in [wanted] if wanted in COMMANDS else COMMANDS:
        module, _, declared = COMMANDS[name].partition(":")
        found = getattr(importlib.import_module(module), declared)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; what Mayfly or the system refuses is told in a message, not a trace."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command_line(given)(args=given, prog_name="mayfly")
    except (MayflyError, OSError) as error:
        sys.exit(f"mayfly: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _print_version(wanted: bool) -> None:
    if wanted:
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
