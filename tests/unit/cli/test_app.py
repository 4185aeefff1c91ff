from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import mayfly
from mayfly.cli import main
from mayfly.cli.app import COMMANDS, command_line


def run(*arguments: str) -> int:
    """The exit code of ``mayfly`` with these arguments."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    if isinstance(code, str):
        print(code)
        return 1
    return code or 0


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"mayfly {mayfly.__version__}\n"


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    told = capsys.readouterr().out
    assert all(command in told for command in COMMANDS)
    assert "--version" in told


def test_a_command_imports_neither_the_others_nor_spark() -> None:
    program = """
import sys
from mayfly.cli.app import command_line
command_line(["demo"])
print(*(name for name in ("mayfly.demo.command", "sqlglot", "pyspark") if name in sys.modules))
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["mayfly.demo.command"]


def test_help_and_version_import_no_command() -> None:
    program = """
import sys
from mayfly.cli.app import command_line
for arguments in (["--help"], ["--version"], ["rnu"]):
    command_line(arguments)
print(*(name for name in ("numpy", "pyarrow", "numba", "sqlglot") if name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_its_own(name: str) -> None:
    command: Any = typer.main.get_command(command_line([name])).commands[name]  # type: ignore[attr-defined]
    assert command.help.splitlines()[0] == COMMANDS[name][1]


def test_a_misspelt_command_is_named_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("rnu") == 2
    assert "Did you mean 'run'?" in "".join(capsys.readouterr())


def test_no_command_means_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    assert "Usage: mayfly" in "".join(capsys.readouterr())


def test_help_on_the_demo_names_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("demo", "--help") == 0
    told = capsys.readouterr().out
    for option in ("--seconds", "--rate", "--keep", "--no-kill"):
        assert option in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "nonsense"),
        (["demo", "--speed", "3"], "--speed"),
        (["demo", "--seconds", "1"], "--seconds"),
        (["demo", "--rate", "many"], "--rate"),
    ],
)
def test_a_wrong_call_is_refused_by_name(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert said in capsys.readouterr().err


def test_kept_files_are_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo-run").mkdir()
    assert run("demo", "--keep") == 1
    told = capsys.readouterr().out
    assert told.startswith(f"mayfly: {tmp_path}/demo-run exists already")
    assert "remove it" in told
    assert list((tmp_path / "demo-run").iterdir()) == []
