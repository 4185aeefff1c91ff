"""What several commands are given: shared options, and those that would say nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from mayfly.errors import InvalidSetting

AllowPython = Annotated[
    bool,
    typer.Option("--allow-python", help="Sources may run Python files of the pipeline's folder."),
]

Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", help="A setting of Spark, NAME=VALUE; may be repeated."),
]

Archives = Annotated[
    list[str] | None,
    typer.Option("--archive", help="A further archive, NAME=FOLDER; may be repeated."),
]


def archives_by_name(listed: Iterable[str] | None) -> dict[str, Path]:
    """Folders of archives as they were given, NAME=FOLDER each."""
    pairs = [pair.partition("=") for pair in listed or ()]
    for name, sign, folder in pairs:
        if not (name and sign and folder):
            raise InvalidSetting(f"--archive {name} names no folder", "write --archive NAME=FOLDER")
    return {name: Path(folder) for name, _, folder in pairs}


def spark_settings(listed: Iterable[str] | None) -> dict[str, str]:
    """Settings of Spark as they were given, NAME=VALUE each."""
    pairs = [setting.partition("=") for setting in listed or ()]
    for name, sign, _ in pairs:
        if not sign or not name:
            raise InvalidSetting(
                f"--conf {name} sets nothing", "write --conf spark.driver.memory=4g"
            )
    return {name: value for name, _, value in pairs}


def refuse_given(context: typer.Context, names: Iterable[str], reason: str, hint: str) -> None:
    """Refuse the command if one of these options stands on the command line."""
    options = sorted(f"--{name.replace('_', '-')}" for name in names if _stands(context, name))
    if options:
        raise InvalidSetting(f"{', '.join(options)} {reason}", hint)


def _stands(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
