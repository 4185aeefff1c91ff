"""Archives that earlier versions wrote are still read, updated, and fed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import mayfly.archive
from mayfly.archive import Archive
from mayfly.archive.write.staged_rows import Staging, brought, days_of
from mayfly.testing import assert_same_rows
from tests.golden.formats.archive_content import (
    ADDED,
    ADDED_AFTER,
    ARCHIVES,
    STAGED_HOURS,
    rows,
    table,
)

WRITTEN = sorted(Path(__file__).parent.glob("archive-version-*"))
CASES = [(path, name) for path in WRITTEN for name in ARCHIVES]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].name} {case[1]}")
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Archive, str]:
    """A copy, since even readers leave traces (pins) in a directory."""
    path, name = request.param
    return mayfly.archive.open(shutil.copytree(path / name, tmp_path / "copy")), name


def test_there_are_golden_archives() -> None:
    assert [path.name for path in WRITTEN][:1] == ["archive-version-1"]


def expected(name: str, days: Iterable[int], wide: bool = True) -> list[dict[str, Any]]:
    """The rows of these days, with NULL in a column that came later."""
    extra = {ADDED: None} if name == "in-place" and wide else {}
    return [{**extra, **row} for day in days for row in rows(name, day)]


def test_they_are_scanned_and_probed(case: tuple[Archive, str]) -> None:
    archive, name = case
    golden = ARCHIVES[name]
    alive = expected(name, golden.alive)
    assert_same_rows(archive.scan(), alive)
    assert_same_rows(archive.scan(soft=True), expected(name, golden.stored))
    for at in range(3):
        key = alive[at]["k"]
        wanted = tuple(alive[at][one] for one in archive.settings.key)
        keys = [(one,) for one in set(key)] if name == "array" else [wanted]
        for one in keys:
            found = [
                row for row in alive
                if (one[0] in row["k"] if name == "array"
                    else tuple(row[part] for part in archive.settings.key) == one)
            ]  # fmt: skip
            assert_same_rows(archive.probe(one if len(one) > 1 else one[0]), found)
    assert archive.maintain.verify().ok


def test_earlier_versions_are_read(case: tuple[Archive, str]) -> None:
    archive, name = case
    for version in archive.inspect.history():
        last = version.state.update
        days = range(max(1, last - archive.settings.window + 1), last + 1)
        wide = ADDED in version.settings.all_columns
        found = archive.scan(as_of=version.time)
        newest = archive.read.shown_at(version.time)[0]
        if newest.manifest.version == version.manifest.version:
            assert_same_rows(found, expected(name, days, wide))


def test_their_figures_are_known(case: tuple[Archive, str]) -> None:
    archive, name = case
    golden, status = ARCHIVES[name], archive.inspect.status()
    assert (status.update, status.rows) == (golden.updates, 6 * len(golden.alive))
    assert status.prepared == (name != "unprepared")
    assert [one["update"] for one in archive.inspect.reports()] == list(
        range(1, golden.updates + 1)
    )
    assert status.last["stored"] == 6


def test_they_are_updated(case: tuple[Archive, str]) -> None:
    archive, name = case
    for day in range(ARCHIVES[name].updates + 1, ARCHIVES[name].updates + 10):
        archive.update(table(name, day))
        alive = range(day - archive.settings.window + 1, day + 1)
        assert_same_rows(archive.scan(), expected(name, alive, wide=day > ADDED_AFTER))
        assert archive.maintain.verify().ok


def test_late_rows_find_their_runs(case: tuple[Archive, str]) -> None:
    archive, name = case
    if archive.settings.late != "own day":
        return
    day = ARCHIVES[name].updates
    late = table(name, day)
    archive.update(late, update=day + 1)
    alive = [*expected(name, range(day - 1, day + 1)), *expected(name, [day])]
    assert_same_rows(archive.scan(), alive)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_staged_rows_are_read(path: Path, tmp_path: Path) -> None:
    staging = Staging.at(shutil.copytree(path / "array", tmp_path / "copy"), "stream")
    manifest = staging.current()
    now = brought(manifest)
    assert (now.batch, now.source, now.rows, now.late, now.dead) == (3, "golden", 40, 2, 1)
    assert now.clock == 5 * 3_600_000_000
    assert {
        day: sum(one.rows for one in held) for day, held in days_of(manifest).items()
    } == dict.fromkeys(STAGED_HOURS, 2)
    status = mayfly.archive.open(tmp_path / "copy").inspect.status()
    assert status.sinks["stream"]["staged_rows"] == 4
