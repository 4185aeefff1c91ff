"""Every ``mayfly …`` line that a document shows is a call that the command line understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from mayfly.cli.app import command_line

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(?:sh|bash)\n(.*?)```", re.DOTALL)


def calls(text: str) -> Iterator[list[str]]:
    """The words behind ``mayfly``; a call may go over several lines, inside quotes or by ``\\``."""
    for block in BLOCK.findall(text):
        begun = ""
        for line in block.replace("\\\n", " ").splitlines():
            begun = f"{begun}\n{line}" if begun else line
            try:
                words = shlex.split(begun, comments=True)
            except ValueError:
                continue  # a quote is still open
            begun = ""
            if words[:1] == ["mayfly"] and "--help" not in words:
                yield words[1:]


SHOWN = [
    pytest.param(words, id=f"{file.name}: {' '.join(words[:3])}")
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for words in calls(file.read_text())
]


@pytest.mark.parametrize("words", SHOWN)
def test_a_command_is_understood(words: list[str]) -> None:
    command: Any = typer.main.get_command(command_line(words))
    context: Any = None
    while True:
        context = command.make_context(command.name, list(words), parent=context)
        if not hasattr(command, "resolve_command"):
            return
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        _, command, words = command.resolve_command(context, rest)


def test_calls_are_found_and_wrong_ones_are_noticed() -> None:
    text = '```sh\nmayfly control p.state add q "SELECT 1\n  FROM s" \\\n  --wait 3\n```'
    (words,) = calls(text)
    assert words == ["control", "p.state", "add", "q", "SELECT 1\n  FROM s", "--wait", "3"]
    assert len(SHOWN) > 15
    with pytest.raises(Exception, match="No such command"):
        test_a_command_is_understood(words)
