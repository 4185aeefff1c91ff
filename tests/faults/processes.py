"""Programs that tests start, kill and outlive, with everything these started in turn."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mayfly.faults import KILL_AT, PAUSE_AT

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
"""Seconds after which something that must happen is taken not to happen."""
FAILED = 3
"""The exit code of a driver after an error."""


def exit_code(drive: Callable[..., None], *arguments: Any) -> int:
    """0 after a driver's work, or FAILED and a message after an error."""
    try:
        drive(*arguments)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    return 0


def wait_for(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience:.0f} s for {what}")
        time.sleep(0.02)


@dataclass(frozen=True)
class Program:
    """A Python program in a session of its own, so that all its processes can be found."""

    process: subprocess.Popen[str]
    errors: Path

    @staticmethod
    def start(
        module: str,
        *arguments: str,
        log: Path,
        kill_at: str | None = None,
        pause_at: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Program:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        chosen = {**os.environ, "PYTHONPATH": path, **(environment or {})}
        faults = {KILL_AT: kill_at, PAUSE_AT: pause_at}
        chosen.update({name: value for name, value in faults.items() if value is not None})
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=chosen,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
                text=True,
            )
        return Program(process, log)

    def wait(self, patience: float = PATIENCE) -> int:
        """Its exit code (-9 after a SIGKILL), once everything it started has ended as well."""
        try:
            code = self.process.wait(patience)
            with contextlib.suppress(AssertionError):
                wait_for(lambda: not self.members(), "its processes to end", patience=30)
        finally:
            self.kill()
        return code

    def kill(self) -> None:
        """SIGKILL for all processes of the session at once."""
        while members := self.members():
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            time.sleep(0.01)
        self.process.wait()

    def members(self) -> list[int]:
        return [one for one in running() if session_of(one) == self.process.pid]

    def said(self) -> str:
        return self.errors.read_text()


def running() -> dict[int, int]:
    """All living processes and their parents, zombies left out."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
        )
        rows = (line.split() for line in listed.stdout.splitlines())
    else:
        rows = (_from_proc(entry) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return {int(row[0]): int(row[1]) for row in rows if row and not row[2].startswith("Z")}


def _from_proc(entry: Path) -> list[str]:
    """Id, parent and state of a process, or nothing if it has gone."""
    try:
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [entry.name, parent, state]


def session_of(process: int) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(process)
    return None


def descendants(process: int) -> list[int]:
    """Everything a process started, directly or not."""
    parents = running()
    found = [process]
    for one in found:
        found += (child for child, parent in parents.items() if parent == one)
    return found[1:]
