"""SIGKILL while rows with their own lifetimes are updated, declared void, migrated and erased.

Whatever the moment: what is alive is shown and nothing else, the next process brings the archive to
the same end, and then no byte is left that should be gone.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import mayfly.archive
import mayfly.storage
from mayfly.storage import Repository
from tests.faults.lifetimes_program import LAST, LAYOUTS, check, expected, opened, play, starter
from tests.faults.storage_starter import Starter

SOURCES = [
    Path(mayfly.archive.__path__[0]) / f"{name}.py"
    for name in (
        "updates",
        "write/committer",
        "write/part_writer",
        "change/voids",
        "change/migration",
        "erase/erasure",
    )
] + sorted(Path(mayfly.storage.__path__[0]).rglob("*.py"))
POINTS = sorted(
    {
        point
        for source in SOURCES
        for point in re.findall(r'\breach\("([^"]+)"\)', source.read_text(encoding="utf-8"))
    }
    - {"archive.prepared"}  # nothing is prepared for later here
)


@pytest.fixture(scope="module")
def processes() -> Iterator[Starter]:
    with starter() as running:
        yield running


@pytest.fixture(scope="module")
def reached(
    processes: Starter, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, int]]:
    counts = {}
    for kind in LAYOUTS:
        root = str(tmp_path_factory.mktemp("undisturbed") / "archive")
        code, said = processes.run("lifetimes times_reached", root=root, kind=kind, points=POINTS)
        assert code == 0, said
        counts[kind] = json.loads(said)
    return counts


def test_every_point_is_reached(reached: dict[str, dict[str, int]]) -> None:
    """Where bytes must go, they go before a vacuum could find them unnamed."""
    # Files of versions that were given up go with the update itself: nothing is left to erase but
    # what a killed writer has left, see below.
    elsewhere = {"pin.written", "vacuum.file-removed", "archive.erased"}
    assert set(POINTS) - set(reached["erasing"]) <= elsewhere
    assert "vacuum.file-removed" in reached["plain"]
    assert {"archive.void-written", "archive.moved"} <= set(reached["erasing"])


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(
    processes: Starter, reached: dict[str, dict[str, int]], tmp_path: Path, kind: str, point: str
) -> None:
    """The first time the point is reached and one time later."""
    times = reached[kind].get(point, 0)
    for nth in sorted({1, times * 2 // 3} - {0}) if times else ():
        root = tmp_path / str(nth)
        code, said = processes.run(
            "lifetimes killed", root=str(root), kind=kind, at=f"{point}:{nth}"
        )
        assert code == -signal.SIGKILL, said
        if Repository.exists(root):
            check(opened(root))
        play(str(root), kind)
        assert_ended_well(root)


def test_killed_while_files_of_a_killed_writer_are_erased(
    processes: Starter, tmp_path: Path
) -> None:
    """They are named by no version, and go with the next update."""
    root = tmp_path / "archive"
    for point in ("archive.run-written:3", "archive.erased:1"):
        code, said = processes.run(
            "lifetimes killed", root=str(root), kind="erasing", at=point, tidy=False
        )
        assert code == -signal.SIGKILL, said
        check(opened(root))
    play(str(root), "erasing", tidy=False)
    assert not opened(root).maintain.verify().problems
    assert_ended_well(root)


def assert_ended_well(root: Path) -> None:
    archive = opened(root)
    assert check(archive) == LAST
    assert sorted(archive.scan()["v"].to_pylist()) == sorted(expected(LAST, True).elements())
    archive.maintain.vacuum(keep_versions=1, grace=0)
    needed = set(archive.version().manifest.segments)
    assert set(archive.repository.directory.all_names("data")) == needed
    assert archive.maintain.verify().ok
