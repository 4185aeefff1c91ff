"""No space, no access: a clear error, nothing half-written is named, and work goes on after."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.errors import StorageError
from mayfly.storage import AddSegments, Repository, SetProperties, vacuum, verify, write_segment
from tests.faults.storage_program import ids_found, lifetimes
from tests.faults.storage_starter import Starter, starter


@pytest.fixture(scope="module")
def processes() -> Iterator[Starter]:
    with starter() as running:
        yield running


def committed(root: Path, ids: list[int]) -> Repository:
    repository = Repository.create(root, {})
    segment = write_segment(repository.directory, "rows", lifetimes(ids))
    assert segment is not None
    repository.commit(repository.current(), [AddSegments((segment,))])
    return repository


def check_unharmed(repository: Repository, ids: list[int]) -> None:
    current = repository.current()
    assert current.version == 1
    assert ids_found(repository, current) == ids
    assert verify(repository).ok


def check_usable(repository: Repository, ids: list[int]) -> None:
    segment = write_segment(repository.directory, "rows", lifetimes([999]))
    assert segment is not None
    after = repository.commit(repository.current(), [AddSegments((segment,))])
    assert ids_found(repository, after) == sorted([*ids, 999])
    vacuum(repository, keep_versions=1, grace=0)
    assert set(repository.directory.all_names("data")) == set(after.segments)


@pytest.mark.parametrize(("limit", "rows", "what"), [(4096, 10_000, "data"), (1024, 1, "manifest")])
def test_a_limit_on_file_size(
    processes: Starter, tmp_path: Path, limit: int, rows: int, what: str
) -> None:
    """The limit of a process on the size of a file stops data files, or (with little data and
    long properties) the manifest."""
    repository = Repository.create(tmp_path / "store", {"long": "x" * 2000})
    segment = write_segment(repository.directory, "rows", lifetimes([1, 2]))
    assert segment is not None
    repository.commit(repository.current(), [AddSegments((segment,))])
    code, said = processes.run(
        "with_small_files", root=str(tmp_path / "store"), limit=limit, rows=rows
    )
    assert code == 0, said
    assert said.startswith(f"StorageError: cannot write {tmp_path / 'store' / what}")
    assert "File too large" in said
    assert "→ free space there or raise the limit" in said
    check_unharmed(repository, [1, 2])
    check_usable(repository, [1, 2])


@contextlib.contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of its own, which only root may mount."""
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", place],
        check=True,
        capture_output=True,
    )
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def can_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    with tempfile.TemporaryDirectory() as place:
        try:
            with small_disk(Path(place), 16):
                return True
        except (subprocess.CalledProcessError, OSError):
            return False


if can_mount():

    @pytest.fixture
    def disk(tmp_path: Path) -> Iterator[Path]:
        with small_disk(tmp_path, 512) as place:
            yield place

    def fill(place: Path) -> Path:
        filler = place / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)
        return filler

    @pytest.mark.parametrize("format", ["arrow", "parquet"])
    def test_a_disk_that_fills_up_while_data_is_written(disk: Path, format: str) -> None:
        repository = committed(disk / "store", [1, 2])
        scattered = lifetimes([(one * 2654435761) % 2**40 for one in range(100_000)])
        with pytest.raises(StorageError, match="No space left on device") as caught:
            write_segment(repository.directory, "rows", scattered.to_batches(1000), format=format)
        assert "free space" in caught.value.hint
        check_unharmed(repository, [1, 2])
        check_usable(repository, [1, 2])

    def test_a_disk_that_is_full_when_the_manifest_is_written(disk: Path) -> None:
        repository = committed(disk / "store", [1, 2])
        segment = write_segment(repository.directory, "rows", lifetimes([3]))
        assert segment is not None
        filler = fill(disk)
        base = repository.current()
        for edits in ([AddSegments((segment,))], [SetProperties({"x": 1})]):
            with pytest.raises(StorageError, match="No space left on device"):
                repository.commit(base, edits)
        assert repository.versions() == [0, 1]
        assert ids_found(repository, repository.load(1)) == [1, 2]
        filler.unlink()
        check_unharmed(repository, [1, 2])
        after = repository.commit(base, [AddSegments((segment,))])
        assert ids_found(repository, after) == [1, 2, 3]

    def test_a_full_disk_can_be_vacuumed(disk: Path) -> None:
        """Raising the oldest version needs a name and no bytes."""
        repository = committed(disk / "store", [1, 2])
        for number in range(3):
            repository.commit(repository.current(), [SetProperties({"n": number})])
        filler = fill(disk)
        vacuum(repository, keep_versions=1, grace=0)
        assert repository.versions() == [4]
        filler.unlink()
        check_usable(repository, [1, 2])

    def test_a_file_system_that_turns_read_only(disk: Path) -> None:
        repository = committed(disk / "store", [1, 2])
        base = repository.current()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(StorageError, match="Read-only file system") as caught:
            repository.commit(base, [SetProperties({"x": 1})])
        assert "make the file system writable" in caught.value.hint
        with pytest.raises(StorageError, match="Read-only file system"):
            write_segment(repository.directory, "rows", lifetimes([3]))
        assert ids_found(repository, repository.current()) == [1, 2]
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        check_unharmed(repository, [1, 2])


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Path]:
    """A directory that the child process may read but not change."""
    place = Path(tempfile.mkdtemp(prefix="mayfly-foreign-"))
    root = place / "store"
    committed(root, [1, 2])
    locked = [place, root, root / "manifest", root / "data"]
    for folder in locked:
        folder.chmod(0o555)
    yield root
    for folder in locked:
        folder.chmod(0o755)
    shutil.rmtree(place)


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ("write", "cannot write {root}/data/"),
        ("commit", "cannot write {root}/manifest/"),
        ("vacuum", "cannot write {root}/manifest/"),
        ("create", "cannot create {root}/inner/manifest"),
    ],
)
def test_a_directory_of_somebody_else(
    processes: Starter, foreign: Path, action: str, what: str
) -> None:
    code, said = processes.run("denied", root=str(foreign), action=action)
    assert code == 0, said
    assert said.startswith(f"StorageError: {what.format(root=foreign)}")
    assert "Permission denied\n  → give this user access" in said
    check_unharmed_unpinned(foreign)


def check_unharmed_unpinned(root: Path) -> None:
    repository = Repository.open(root)
    assert ids_found(repository, repository.current()) == [1, 2]
    assert repository.versions() == [0, 1]


def test_reading_needs_no_write_access(processes: Starter, foreign: Path) -> None:
    assert processes.run("denied", root=str(foreign), action="read") == (0, "done")


def test_a_file_that_may_not_be_read_is_not_called_corrupt(
    processes: Starter, foreign: Path
) -> None:
    (data,) = (foreign / "data").iterdir()
    data.chmod(0o000)
    code, said = processes.run("denied", root=str(foreign), action="read")
    assert code == 0, said
    assert said.startswith(f"StorageError: cannot read {data}: Permission denied")


def test_a_manifest_that_may_not_be_read_is_not_taken_for_missing(
    processes: Starter, foreign: Path
) -> None:
    (foreign / "manifest").chmod(0o000)
    code, said = processes.run("denied", root=str(foreign), action="read")
    (foreign / "manifest").chmod(0o555)
    assert "cannot " in said
    assert "Permission denied" in said
    assert code == 1, "Repository.open itself fails"
