"""SIGKILL at every point the storage core names, the first times it is reached and later ones.

The killed process plays a history whose content follows from its version number alone. Whatever
the moment: retained versions read back in full, the next process carries on as if nothing had
happened, and after a vacuum there is not one file too many.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import mayfly.storage
from mayfly.faults import KILL_AT
from mayfly.storage import Repository, vacuum, verify
from tests.faults.storage_program import LAST_VERSION, ids_expected, ids_found, play_history
from tests.faults.storage_starter import ROOT, Starter, starter

SOURCES = Path(mayfly.storage.__file__).parent
POINTS = sorted(
    {
        point
        for source in SOURCES.rglob("*.py")
        for point in re.findall(r'\breach\("([^"]+)"\)', source.read_text(encoding="utf-8"))
    }
)


@pytest.fixture(scope="module")
def processes() -> Iterator[Starter]:
    with starter() as running:
        yield running


def test_the_points_are_found() -> None:
    assert {"link.before", "link.after", "commit.published", "vacuum.file-removed"} <= set(POINTS)
    assert len(POINTS) >= 10


def check_readable(root: Path | str) -> None:
    if not Repository.exists(root):
        return
    repository = Repository.open(root)
    versions = repository.versions()
    assert versions == list(range(versions[0], versions[-1] + 1))
    for version in versions:
        report = verify(repository, version)
        assert report.ok, report
        assert ids_found(repository, repository.load(version)) == ids_expected(version)


def check_carries_on(root: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    play_history(str(root))
    repository = Repository.open(root)
    assert repository.current().version == LAST_VERSION
    assert ids_found(repository, repository.current()) == ids_expected(LAST_VERSION)
    two_hours_later = time.time_ns() + 7_200_000_000_000
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: two_hours_later)
        vacuum(repository, keep_versions=1)
    directory = repository.directory
    files = {name for entry in directory.entries() for name in directory.all_names(entry)}
    number = f"{LAST_VERSION:020d}"
    names = (f"{number}.json", f"{number}.oldest", f"head-{number}", "swept")
    bookkeeping = {f"manifest/{name}" for name in names}
    assert files == bookkeeping | set(repository.current().segments)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at(
    point: str, processes: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, time_reached = 0, 1
    while True:
        root = tmp_path / str(time_reached)
        code, said = processes.run("killed", root=str(root), at=f"{point}:{time_reached}")
        assert code in (-signal.SIGKILL, 0), said
        check_readable(root)
        check_carries_on(root, monkeypatch)
        if code == 0:
            break
        killed += 1
        time_reached += 1 if killed < 3 else 4
    assert killed > 0


def test_killed_again_and_again(
    processes: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One directory, each process killed at another point: the damage must not add up."""
    random = Random(7)
    root = tmp_path / "store"
    for _ in range(25):
        at = f"{random.choice(POINTS)}:{random.randint(1, 3)}"
        code, said = processes.run("killed", root=str(root), at=at)
        assert code in (-signal.SIGKILL, 0), said
        check_readable(root)
        if code == 0:
            break
    check_carries_on(root, monkeypatch)


def test_the_environment_variable_reaches_a_new_process(tmp_path: Path) -> None:
    root = tmp_path / "store"
    program = f"from tests.faults.storage_program import play_history; play_history({str(root)!r})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, KILL_AT: "commit.published:2"},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert Repository.open(root).versions() == [0, 1, 2]
    check_readable(root)


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(11)
    root = tmp_path / "store"
    killed = finished = 0
    while killed < 40:
        program = (
            "from tests.faults.storage_program import play_history\n"
            f"print('on', flush=True)\nplay_history({str(root)!r})"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(random.random() * 0.1)
            process.kill()
        killed += process.returncode == -signal.SIGKILL
        check_readable(root)
        if process.returncode == 0:
            check_carries_on(root, monkeypatch)
            finished += 1
            root = tmp_path / f"store-{finished}"
    check_carries_on(root, monkeypatch)
