"""Two writers of one archive: one wins, the other hears of it, loses nothing and can go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mayfly.archive.archive import Archive
from mayfly.archive.write.local_jobs import InProcess
from mayfly.errors import BadInput, CommitConflict
from mayfly.faults import on_reach
from tests.faults.archive_program import (
    LAYOUTS,
    batch_of,
    expected,
    found,
    opened,
    settings,
    starter,
)
from tests.faults.storage_starter import Starter


@pytest.fixture(scope="module")
def processes() -> Iterator[Starter]:
    with starter() as running:
        yield running


def created(root: Path, layout: str, updates: int = 0) -> Archive:
    archive = Archive.create(root, settings(layout), InProcess(), sync=False)
    for update in range(1, updates + 1):
        archive.update(batch_of(update), batch_id=f"batch {update}")
    return archive


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_slower_of_two_writers(tmp_path: Path, layout: str) -> None:
    """It has written its files when the other commits."""
    slow = created(tmp_path / "archive", layout, updates=6)
    fast = opened(tmp_path / "archive")
    with (
        on_reach("archive.written", overtaking(fast, 7)),
        pytest.raises(CommitConflict, match="another writer committed version"),
    ):
        slow.update(batch_of(7), batch_id="batch 7")
    assert found(slow, slow.version()) == expected(7)
    assert slow.update(batch_of(7), batch_id="batch 7").repeated
    assert slow.update(batch_of(8), batch_id="batch 8").update == 8
    assert found(fast, fast.version()) == expected(8)
    slow.maintain.vacuum(keep_versions=1, grace=0)
    named = {path for version in slow.inspect.history() for path in version.manifest.segments}
    assert set(slow.repository.directory.all_names("data")) == named
    assert slow.maintain.verify().ok


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_writer_whose_sources_are_vacuumed_has_lost(tmp_path: Path, layout: str) -> None:
    """It still reads its base when others commit and remove it."""
    slow = created(tmp_path / "archive", layout, updates=6)
    fast = opened(tmp_path / "archive")
    overtaken: list[int] = []

    def overtake() -> None:
        if not overtaken:
            overtaken.append(7)
            for update in (7, 8, 9):
                fast.update(batch_of(update), batch_id=f"batch {update}")
            fast.maintain.vacuum(keep_versions=1, grace=0)

    with on_reach("archive.run-written", overtake), pytest.raises(CommitConflict):
        slow.update(batch_of(7), batch_id="other")
    assert overtaken
    assert found(slow, slow.version()) == expected(9)
    assert slow.maintain.verify().ok


def overtaking(archive: Archive, update: int) -> Callable[[], None]:
    """Commits the update the first time it is called (its own way leads past there, too)."""
    left = iter([update])

    def overtake() -> None:
        if number := next(left, None):
            archive.update(batch_of(number), batch_id=f"batch {number}")

    return overtake


def test_the_slower_writer_of_other_rows_is_told_that_they_are_late(tmp_path: Path) -> None:
    """A different batch for the same update is not taken for the one that is in."""
    slow = created(tmp_path / "archive", "DEL", updates=6)
    fast = opened(tmp_path / "archive")
    with on_reach("archive.written", overtaking(fast, 7)), pytest.raises(CommitConflict):
        slow.update(batch_of(7), batch_id="mine")
    with pytest.raises(BadInput, match="update 7, but update 7 is already committed"):
        slow.update(batch_of(7), update=7, batch_id="mine")
    report = slow.update(batch_of(7), batch_id="mine")
    assert (report.update, report.late) == (8, len(batch_of(7) or ()))


def test_a_column_is_added_while_an_update_runs(tmp_path: Path) -> None:
    slow = created(tmp_path / "archive", "DEL", updates=6)
    fast = opened(tmp_path / "archive")

    def add_once() -> None:
        if "extra" not in fast.settings.added:
            fast.maintain.add_column("extra", "int")

    with on_reach("archive.written", add_once), pytest.raises(CommitConflict):
        slow.update(batch_of(7), batch_id="batch 7")
    slow.update(batch_of(7), batch_id="batch 7")
    assert slow.scan()["extra"].null_count == slow.scan().num_rows
    assert Counter(slow.scan()["v"].to_pylist()) == expected(7)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_writers_readers_and_a_vacuum_at_once(
    processes: Starter, tmp_path: Path, layout: str
) -> None:
    """Two writers send the same updates; readers see one update after the other, each whole."""
    until = 14
    root = str(tmp_path / "archive")
    created(tmp_path / "archive", layout)
    writers = [{"program": "archive write_days", "root": root, "until": until} for _ in range(2)]
    others = [
        {"program": f"archive {one}", "root": root, "until": until}
        for one in ("read_days", "read_days", "vacuum_days")
    ]
    answers = processes.together([*writers, *others])
    assert [code for code, _ in answers] == [0] * 5, answers
    archive = opened(root)
    assert archive.version().state.update == until
    assert found(archive, archive.version()) == expected(until)
    assert archive.version().state.wave == settings(layout).wave.state_after(until)
    archive.maintain.vacuum(keep_versions=1, grace=0)
    assert archive.maintain.verify().ok
    assert set(archive.repository.directory.all_names("data")) == {
        path for version in archive.inspect.history() for path in version.manifest.segments
    }
