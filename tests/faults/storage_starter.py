"""Starting the programs of ``storage_program`` and of modules like it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Starter:
    requests: IO[str]
    answers: IO[str]

    def run(self, program: str, **arguments: Any) -> tuple[int, str]:
        """Run a program in its own process: exit code and what it said."""
        ((code, said),) = self.together([{"program": program, **arguments}])
        return code, said

    def together(self, programs: list[dict[str, Any]]) -> list[tuple[int, str]]:
        """Run programs at the same time, each in its own process."""
        self.requests.write(f"{json.dumps(programs)}\n")
        self.requests.flush()
        return [(code, said) for code, said in json.loads(self.answers.readline())]


@contextlib.contextmanager
def starter(module: str = "tests.faults.storage_program") -> Iterator[Starter]:
    command = [sys.executable, "-m", module]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Starter(process.stdin, process.stdout)
