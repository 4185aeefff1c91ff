"""Fault points: silent unless asked for, exact when asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from mayfly import faults
from mayfly.errors import InvalidSetting

PROGRAM = """
from mayfly.faults import reach
for number in range(3):
    reach("other")
    reach("here")
    print(number, flush=True)
"""


def run_with(setting: str | None) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != faults.KILL_AT}
    if setting is not None:
        env[faults.KILL_AT] = setting
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("setting", "printed", "code"),
    [
        (None, "0 1 2", 0),
        ("elsewhere", "0 1 2", 0),
        ("here", "", -signal.SIGKILL),
        ("here:3", "0 1", -signal.SIGKILL),
        ("here:4", "0 1 2", 0),
    ],
)
def test_the_process_dies_where_it_should(setting: str | None, printed: str, code: int) -> None:
    done = run_with(setting)
    assert done.stdout.split() == printed.split()
    assert done.returncode == code


@pytest.mark.parametrize("setting", ["here:", "here:0", "here:x", ":2"])
def test_a_setting_that_names_no_point_is_refused(setting: str) -> None:
    with pytest.raises(InvalidSetting, match="names no point"):
        faults.kill_at(setting)


def test_an_action_runs_within_its_block_only() -> None:
    seen: list[str] = []
    with faults.on_reach("here", lambda: seen.append("outer")):
        faults.reach("here")
        with faults.on_reach("here", lambda: seen.append("inner")):
            faults.reach("here")
        faults.reach("here")
        faults.reach("elsewhere")
    faults.reach("here")
    assert seen == ["outer", "inner", "outer"]


def test_nothing_is_left_after_an_error() -> None:
    def fail() -> None:
        raise RuntimeError("here")

    with pytest.raises(RuntimeError), faults.on_reach("here", fail):
        faults.reach("here")
    faults.reach("here")
