"""No space, no access, damaged files: clear errors, and the archive is as it was."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.archive.archive import Archive
from mayfly.archive.write.local_jobs import InProcess
from mayfly.archive.write.part_writer import WriteJob, write_part
from mayfly.errors import CorruptFile, StorageError
from mayfly.storage.commit import manifest_name
from tests.faults.archive_program import (
    LAYOUTS,
    batch_of,
    expected,
    found,
    large_batch,
    opened,
    settings,
    starter,
)
from tests.faults.storage_starter import Starter
from tests.faults.test_storage_disk import can_mount, small_disk

UPDATES = 6


@pytest.fixture(scope="module")
def processes() -> Iterator[Starter]:
    with starter() as running:
        yield running


def created(root: Path, layout: str) -> Archive:
    archive = Archive.create(root, settings(layout), InProcess(), sync=False)
    for update in range(1, UPDATES + 1):
        archive.update(batch_of(update))
    archive.maintain.vacuum(grace=0)
    return archive


def check_unharmed(root: Path) -> None:
    """As before, without a file too many, and the next update works."""
    archive = opened(root)
    assert archive.version().state.update == UPDATES
    assert found(archive, archive.version()) == expected(UPDATES)
    assert archive.maintain.verify().ok
    named = {path for version in archive.inspect.history() for path in version.manifest.segments}
    assert set(archive.repository.directory.all_names("data")) == named
    archive.update(batch_of(UPDATES + 1))
    assert found(archive, archive.version()) == expected(UPDATES + 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("limit", [8_000, 1_500])
def test_files_that_may_not_grow(
    processes: Starter, tmp_path: Path, layout: str, limit: int
) -> None:
    created(tmp_path / "archive", layout)
    code, said = processes.run(
        "archive with_small_files", root=str(tmp_path / "archive"), limit=limit
    )
    assert code == 0, said
    assert said.startswith(f"StorageError: cannot write {tmp_path}/archive/")
    assert "File too large" in said
    assert "→ free space there or raise the limit" in said
    check_unharmed(tmp_path / "archive")


if can_mount():

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_a_disk_that_fills_up_during_an_update(tmp_path: Path, layout: str) -> None:
        """What was written for nothing is removed at once: the disk is full enough without it."""
        with small_disk(tmp_path, 400) as disk:
            archive = created(disk / "archive", layout)
            with pytest.raises(StorageError, match="No space left on device") as caught:
                archive.update(large_batch(UPDATES + 1, 400_000))
            assert "free space" in caught.value.hint
            check_unharmed(disk / "archive")

    def test_a_full_disk_for_what_does_not_fit_into_memory(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "disk").mkdir()
        with small_disk(tmp_path / "disk", 64) as disk:
            job = WriteJob(str(tmp_path / "archive"), False, settings("DEL"), 1, (), {}, 1_000)
            monkeypatch.setattr(tempfile, "tempdir", str(disk))
            with pytest.raises(StorageError, match="No space left on device"):
                write_part(job, lambda: 0, [large_batch(1)] * 9)
            assert list(disk.iterdir()) == []


@pytest.fixture
def foreign() -> Iterator[Path]:
    """An archive that the child process may read but not change."""
    place = Path(tempfile.mkdtemp(prefix="mayfly-foreign-"))
    created(place / "archive", "REINDEX++")
    locked = [place, *(path for path in (place / "archive").rglob("*") if path.is_dir())]
    for folder in (*locked, place / "archive"):
        folder.chmod(0o555)
    yield place / "archive"
    for folder in (*locked, place / "archive"):
        folder.chmod(0o755)
    shutil.rmtree(place)


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ("update", "cannot write {root}/data/"),
        ("empty update", "cannot write {root}/data/"),
        ("add_column", "cannot write {root}/manifest/"),
        ("vacuum", "cannot remove {root}/manifest/swept"),
    ],
)
def test_an_archive_of_somebody_else_cannot_be_changed(
    processes: Starter, foreign: Path, action: str, what: str
) -> None:
    code, said = processes.run("archive denied", root=str(foreign), action=action)
    assert code == 0, said
    assert said.startswith(f"StorageError: {what.format(root=foreign)}")
    assert "Permission denied\n  → give this user access" in said


def test_an_archive_of_somebody_else_can_be_read(processes: Starter, foreign: Path) -> None:
    for action in ("scan", "probe"):
        assert processes.run("archive denied", root=str(foreign), action=action) == (0, "done")


def test_files_that_may_not_be_read_are_not_called_damaged(
    processes: Starter, foreign: Path
) -> None:
    data = list((foreign / "data").iterdir())
    for path in data:
        path.chmod(0o000)
    for action in ("scan", "probe"):
        code, said = processes.run("archive denied", root=str(foreign), action=action)
        assert code == 0, said
        assert said.startswith(f"StorageError: cannot read {foreign}/data/")
        assert "→ give this user access" in said


def test_a_damaged_manifest_is_named_and_can_be_rolled_back(tmp_path: Path) -> None:
    archive = created(tmp_path / "archive", "DEL")
    archive.update(batch_of(UPDATES + 1))
    newest = archive.version().manifest.version
    path = tmp_path / "archive" / manifest_name(newest)
    path.write_bytes(path.read_bytes()[:-20])
    damaged = opened(tmp_path / "archive")
    with pytest.raises(CorruptFile, match=manifest_name(newest)) as caught:
        damaged.scan()
    assert "roll back to an older version" in caught.value.hint
    with pytest.raises(CorruptFile, match=manifest_name(newest)):
        damaged.update(None)
    assert not damaged.maintain.verify().ok
    damaged.maintain.rollback(newest - 1)
    assert found(damaged, damaged.version()) == expected(UPDATES)
    for update in (UPDATES + 1, UPDATES + 2, UPDATES + 3):
        damaged.update(batch_of(update))
        assert found(damaged, damaged.version()) == expected(update)
    damaged.maintain.vacuum(grace=0)
    assert not path.exists()


def test_all_manifests_lost(tmp_path: Path) -> None:
    created(tmp_path / "archive", "DEL")
    shutil.rmtree(tmp_path / "archive" / "manifest")
    with pytest.raises(StorageError, match="no Mayfly directory at"):
        opened(tmp_path / "archive")
    assert os.listdir(tmp_path / "archive")
