"""Plants known mistakes one at a time; the tests named for each must turn red.

Mutants are listed in the ``*.toml`` files beside this one:

    [[mutant]]
    name = "alive-at-exp"                 # unique
    file = "src/mayfly/lifetime.py"       # relative to the project
    old = "self.ts <= at < self.exp"      # occurs exactly once in the file
    new = "self.ts <= at <= self.exp"
    tests = ["tests/unit/test_lifetime.py::test_…"]   # a small selection that must fail

Everything happens in a copy of src and tests. The selections must first pass on the unchanged
copy, and red means failed tests: a mutant that does not even import, or hangs, proves nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
RED, GREEN = 1, 0
"""The exit codes of pytest for failed and for passed tests."""
COMPILED = ("src/mayfly/kernels", "src/mayfly/windows")
"""Where functions are compiled that call each other."""


class MutantError(Exception):
    """The list of mutants does not fit the project."""


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied_to(self, text: str) -> str:
        """The mutated text of the file."""
        count = text.count(self.old)
        if count != 1:
            raise MutantError(
                f"{self.name}: its old text occurs {count} times in {self.file}; "
                f"bring the mutant up to date: {self.old!r}"
            )
        if self.new == self.old:
            raise MutantError(f"{self.name}: old and new text are the same")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Trial:
    """How a selection ended; ``code`` is None if it ran out of time."""

    code: int | None
    seconds: float
    output: str

    @property
    def verdict(self) -> str:
        if self.code is None:
            return "OUT OF TIME"
        return {RED: "killed", GREEN: "SURVIVED"}.get(self.code, f"BROKEN (exit {self.code})")

    @property
    def killer(self) -> str:
        found = re.search(r"^FAILED \S*?([^/\s]+::.*?)(?: - |$)", self.output, re.MULTILINE)
        return found[1] if found else ""


def read_mutants(folder: Path) -> list[Mutant]:
    mutants = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", []):
            try:
                mutants.append(Mutant(**entry | {"tests": tuple(entry["tests"])}))
            except (KeyError, TypeError) as error:
                raise MutantError(f"{path.name}: a mutant lacks or misspells {error}") from None
    names = [mutant.name for mutant in mutants]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise MutantError(f"mutants of one name: {', '.join(sorted(repeated))}")
    return mutants


class Copy:
    """A copy of the project's sources and tests in which mistakes can be planted."""

    def __init__(self, project: Path, at: Path, timeout: float) -> None:
        self._at, self._timeout = at, timeout
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis")
        for folder in ("src", "tests"):
            shutil.copytree(project / folder, at / folder, ignore=unwanted)
        for name in ("pyproject.toml", "README.md"):
            if (project / name).exists():
                shutil.copy(project / name, at / name)

    def check_imports(self) -> None:
        """An installed package must not shadow the copy, or every mutant would survive."""
        for package in sorted(path.parent.name for path in self._at.glob("src/*/__init__.py")):
            where = subprocess.run(
                [sys.executable, "-c", f"import {package}; print({package}.__file__)"],
                env=self._environment(),
                cwd=self._at,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            if not Path(where).is_relative_to(self._at):
                raise MutantError(f"{package} is imported from {where}, not from the copy")

    def mutated(self, mutant: Mutant) -> str:
        path = self._at / mutant.file
        if not path.exists():
            raise MutantError(f"{mutant.name}: there is no file {mutant.file}")
        return mutant.applied_to(path.read_text(encoding="utf-8"))

    def try_mutant(self, mutant: Mutant) -> Trial:
        path = self._at / mutant.file
        original, changed = path.read_text(encoding="utf-8"), self.mutated(mutant)
        path.write_text(changed, encoding="utf-8")
        try:
            return self.run(mutant.tests, recompile=mutant.file.startswith(COMPILED))
        finally:
            path.write_text(original, encoding="utf-8")

    def run(self, tests: Sequence[str], *, recompile: bool = False, patience: int = 1) -> Trial:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "quick_examples", *tests]
        begin = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self._at,
            env=self._environment(recompile),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=patience * self._timeout)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            # The whole group: a test may have started workers of its own.
            os.killpg(process.pid, signal.SIGKILL)
            output, code = process.communicate()[0], None
        return Trial(code, time.monotonic() - begin, output)

    def _environment(self, recompile: bool = False) -> dict[str, str]:
        # Compiled code of an earlier mutant must never stand in for this one's; what no mutant
        # touches is compiled once.
        caches = tempfile.mkdtemp(dir=self._at) if recompile else str(self._at / "compiled")
        return {
            **{k: v for k, v in os.environ.items() if k != "MAYFLY_EXAMPLES"},
            "PYTHONPATH": os.pathsep.join([str(self._at / "src"), str(HERE)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": caches,
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
        }


def run_mutants(project: Path, mutants: Sequence[Mutant], timeout: float) -> int:
    """Try all mutants, print a line for each, and return how many were not killed."""
    if not mutants:
        raise MutantError("there is no mutant to try")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(project, Path(folder).resolve(), timeout)
        for mutant in mutants:
            copy.mutated(mutant)
        copy.check_imports()
        selections = sorted({test for mutant in mutants for test in mutant.tests})
        untouched = copy.run(selections, patience=len(selections))
        if untouched.code is None:
            raise MutantError(f"without any mutant the tests take over {untouched.seconds:.0f} s")
        if untouched.code != GREEN:
            raise MutantError(f"the tests fail without any mutant:\n{untouched.output}")
        print(f"{len(selections)} selections pass without a mutant, {untouched.seconds:.1f} s")
        width = max(len(mutant.name) for mutant in mutants)
        survivors = 0
        for mutant in mutants:
            trial = copy.try_mutant(mutant)
            line = f"{mutant.name:{width}}  {trial.verdict:11}  {trial.seconds:5.1f} s"
            print(f"{line}  {trial.killer}".rstrip(), flush=True)
            survivors += trial.code != RED
            if trial.code not in (RED, GREEN):
                print(trial.output[-2_000:])
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants killed")
    return survivors


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Plant known mistakes; the tests must notice.")
    parser.add_argument("names", nargs="*", help="mutants to try (default: all)")
    parser.add_argument("--list", action="store_true", help="list the mutants and stop")
    parser.add_argument("--timeout", type=float, default=180, help="seconds for one selection")
    parser.add_argument("--project", type=Path, default=PROJECT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        mutants = read_mutants(options.project / "tests" / "mutants")
        unknown = set(options.names) - {mutant.name for mutant in mutants}
        if unknown:
            raise MutantError(f"no mutants named {', '.join(sorted(unknown))}; see --list")
        chosen = [m for m in mutants if m.name in options.names or not options.names]
        if options.list:
            print("\n".join(f"{m.name}: {m.file}" for m in chosen))
            return 0
        return 1 if run_mutants(options.project, chosen, options.timeout) else 0
    except MutantError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
