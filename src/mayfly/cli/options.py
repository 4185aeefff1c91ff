"""What several commands are given: shared options, and those that would say nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from mayfly.errors import InvalidSetting

AllowPython = Annotated[
    bool,
    typer.Option("--allow-python", help="Sources may run Python files of the pipeline's folder."),
]


def refuse_given(context: typer.Context, names: Iterable[str], reason: str, hint: str) -> None:
    """Refuse the command if one of these options stands on the command line."""
    given = sorted(f"--{name.replace('_', '-')}" for name in names if _stands(context, name))
    if given:
        raise InvalidSetting(f"{', '.join(given)} {reason}", hint)


def _stands(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
