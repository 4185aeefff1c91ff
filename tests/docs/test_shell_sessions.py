"""The session that docs/sql-shell.md shows: each line typed gives the lines below it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.cli.sql_prompt import MORE, PROMPT
from mayfly.cli.sql_shell import Leaving, SqlShell
from mayfly.serving.sql_session import SqlSession

DOCUMENT = (Path(__file__).parents[2] / "docs" / "sql-shell.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    assert match is not None
    return match[1]


def typed(session: str) -> Iterator[tuple[str, list[str]]]:
    """Statements, each with the lines that are shown for it."""
    statement, shown = "", list[str]()
    for line in session.splitlines():
        if line.startswith(PROMPT):
            if statement:
                yield statement, shown
            statement, shown = line.removeprefix(PROMPT), []
        elif line.startswith(MORE):
            statement += "\n" + line.removeprefix(MORE)
        elif statement:
            shown.append(line)
    yield statement, shown


def test_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clicks.csv").write_text(block("csv"))
    lines: list[str] = []
    shell = SqlShell(SqlSession.open(), echo=lines.append)
    statements = list(typed(block("console")))
    assert len(statements) > 10
    for statement, shown in statements:
        lines.clear()
        if statement == "\\q":
            with pytest.raises(Leaving):
                shell.run(statement)
        else:
            shell.run(statement)
        assert "\n".join(lines).splitlines() == shown, statement
