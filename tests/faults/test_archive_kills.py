"""SIGKILL while an archive is updated and vacuumed, at every point that is named on the way.

Whatever the moment: the retained versions are whole, the next process brings the archive to the
same end as if nothing had happened, and after a vacuum there is not one file too many.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import mayfly.archive
import mayfly.storage
from mayfly.storage import Repository, verify
from tests.faults.archive_program import (
    LAST,
    LAYOUTS,
    expected,
    found,
    opened,
    play,
    settings,
    starter,
)
from tests.faults.storage_starter import Starter

SOURCES = [
    Path(mayfly.archive.__path__[0]) / name
    for name in ("updates.py", "write/committer.py", "write/part_writer.py")
] + sorted(Path(mayfly.storage.__path__[0]).rglob("*.py"))
POINTS = sorted(
    {
        point
        for source in SOURCES
        for point in re.findall(r'\breach\("([^"]+)"\)', source.read_text(encoding="utf-8"))
    }
    - {"pin.written"}  # updates do not pin
)


@pytest.fixture(scope="module")
def processes() -> Iterator[Starter]:
    with starter() as running:
        yield running


def test_the_points_are_found() -> None:
    assert {"archive.written", "archive.committed", "archive.prepared"} <= set(POINTS)
    assert {"archive.run-written", "segment.closed", "commit.published"} <= set(POINTS)


def check_readable(root: Path) -> int:
    """Every retained version is whole; the number of the last update."""
    if not Repository.exists(root):
        return 0
    archive = opened(root)
    for version in archive.inspect.history():
        report = verify(archive.repository, version.manifest.version)
        assert report.ok, report
        assert found(archive, version) == expected(version.state.update)
    state = archive.version().state
    assert state.wave == archive.settings.wave.state_after(state.update) or not state.prepared
    return state.update


def check_carries_on(root: Path, layout: str) -> None:
    play(str(root), layout)
    archive = opened(root)
    assert check_readable(root) == LAST
    assert archive.version().state.wave == settings(layout).wave.state_after(LAST)
    archive.maintain.vacuum(keep_versions=1, grace=0)
    needed = {path for version in archive.inspect.history() for path in version.manifest.segments}
    assert set(archive.repository.directory.all_names("data")) == needed
    assert not [
        name for name in archive.repository.directory.all_names("manifest") if ".tmp" in name
    ]


def kill(processes: Starter, root: Path, layout: str, at: str) -> int:
    before = check_readable(root)
    code, said = processes.run("archive killed", root=str(root), layout=layout, at=at)
    assert code in (-signal.SIGKILL, 0), said
    assert check_readable(root) >= before
    return code


@pytest.fixture(scope="module")
def reached(
    processes: Starter, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, int]]:
    """How often each layout reaches each point."""
    counts = {}
    for layout in LAYOUTS:
        root = str(tmp_path_factory.mktemp("undisturbed") / "archive")
        code, said = processes.run("archive times_reached", root=root, layout=layout, points=POINTS)
        assert code == 0, said
        counts[layout] = json.loads(said)
    return counts


def test_every_point_is_reached(reached: dict[str, dict[str, int]]) -> None:
    assert set(reached["REINDEX++"]) == set(POINTS)
    # DEL has no work for later days.
    assert set(POINTS) - set(reached["DEL"]) == {"archive.prepared"}


@pytest.mark.parametrize("point", POINTS)
def test_killed_at(
    processes: Starter, reached: dict[str, dict[str, int]], tmp_path: Path, point: str
) -> None:
    """The first time the point is reached and one time later, another layout each time."""
    for nth, layout in ((1, "RATA"), (reached["REINDEX++"][point] * 2 // 3, "REINDEX++")):
        root = tmp_path / layout
        assert kill(processes, root, layout, f"{point}:{max(nth, 1)}") == -signal.SIGKILL
        check_carries_on(root, layout)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("point", POINTS)
def test_killed_each_time(
    processes: Starter,
    reached: dict[str, dict[str, int]],
    tmp_path: Path,
    layout: str,
    point: str,
) -> None:
    for nth in range(1, reached[layout].get(point, 0) + 1):
        root = tmp_path / str(nth)
        assert kill(processes, root, layout, f"{point}:{nth}") == -signal.SIGKILL
        check_carries_on(root, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_killed_again_and_again(processes: Starter, tmp_path: Path, layout: str) -> None:
    """One archive, each process killed at another point: the damage must not add up."""
    chance = Random(layout)
    root = tmp_path / "archive"
    for _ in range(40):
        if kill(processes, root, layout, f"{chance.choice(POINTS)}:{chance.randint(1, 4)}") == 0:
            break
    check_carries_on(root, layout)
