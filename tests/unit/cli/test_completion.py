"""Tab in a shell: commands, their options, and the scripts that ask for them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from mayfly.cli.app import COMMANDS

SHELL = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"
"""Lets --show-completion take the name of a shell, which it finds out otherwise."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a command ``mayfly`` on the path, and a home of its own."""
    program = tmp_path / "bin" / "mayfly"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m mayfly "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(tmp_path)}


def output(command: list[str], environment: dict[str, str]) -> str:
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return run.stdout


def in_bash(line: str, environment: dict[str, str]) -> set[str]:
    """What bash offers for a line, with the script that the command has printed."""
    words = line.split(" ")
    script = f"""
        eval "$(mayfly --show-completion)"
        complete -p mayfly > /dev/null || exit 3
        COMP_WORDS=({" ".join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}
        _mayfly_completion mayfly
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return set(output(["bash", "--norc", "-c", script], environment).split())


def test_bash_completes_commands_and_options(environment: dict[str, str]) -> None:
    assert in_bash("mayfly s", environment) == {"serve", "sql", "status"}
    options = in_bash("mayfly status --", environment)
    assert {"--json", "--watch", "--help"} <= options
    assert in_bash("mayfly control a", environment) == {"add"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_and_answers(shell: str, environment: dict[str, str]) -> None:
    script = output(["mayfly", "--show-completion", shell], {**environment, SHELL: "1"})
    assert f"_MAYFLY_COMPLETE=complete_{shell}" in script
    asked = {**environment, "_MAYFLY_COMPLETE": f"complete_{shell}"}
    asked |= {"_TYPER_COMPLETE_ARGS": "mayfly st", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    answer = output(["mayfly"], asked)
    assert "status" in answer
    assert COMMANDS["status"][1][:20] in answer, "with its summary"
    assert "query" not in answer


def test_scripts_are_installed_in_the_home_of_the_user(environment: dict[str, str]) -> None:
    output(["mayfly", "--install-completion", "bash"], {**environment, SHELL: "1"})
    home = Path(environment["HOME"])
    assert "mayfly.sh" in (home / ".bashrc").read_text()
    assert "complete_bash" in (home / ".bash_completions" / "mayfly.sh").read_text()


def required(shell: str) -> str:
    """Where a shell is: these tests are slow ones, so that others need none but bash."""
    place = shutil.which(shell)
    assert place is not None, f"install {shell} to run this test: apt-get install {shell}"
    return place


@pytest.mark.slow
def test_fish_completes_with_summaries(environment: dict[str, str]) -> None:
    script = 'mayfly --show-completion | source; complete -C "mayfly st"; complete -C "mayfly q"'
    offered = output([required("fish"), "--no-config", "-c", script], environment).splitlines()
    assert [line.split("\t")[0] for line in offered] == ["status", "query"]
    assert COMMANDS["status"][1][:20] in offered[0]


@pytest.mark.slow
def test_zsh_completes_at_its_prompt(environment: dict[str, str]) -> None:
    shell = pexpect.spawn(
        required("zsh"), ["-f", "-i"], env={**environment, "TERM": "dumb"}, encoding="utf-8",
        timeout=120, dimensions=(40, 200),
    )  # fmt: skip
    try:
        shell.sendline("PROMPT='? '; autoload -Uz compinit; compinit -u -D; echo be''gun")
        shell.expect("begun\r")
        shell.sendline('eval "$(mayfly --show-completion)"; echo do""ne')
        shell.expect("done\r")
        shell.send("mayfly stat\t")
        shell.expect("mayfly status ")
        shell.send("--wat\t")
        shell.expect("--watch ")  # zsh draws what is new
    finally:
        shell.close(force=True)
