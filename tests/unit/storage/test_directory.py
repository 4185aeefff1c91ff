"""The directory: which paths are accepted, atomic writes, honest counters, clear errors."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mayfly.errors import StorageError, UnsupportedStore
from mayfly.faults import on_reach
from mayfly.storage import Directory, IoCounters, write_segment
from mayfly.storage.directory import is_plain
from mayfly.storage.store import local_root
from mayfly.storage.store.posix import SYNCS_WAITING


@pytest.mark.parametrize(
    "path",
    [
        "s3://bucket/dir",
        "s3a://bucket/dir",
        "hdfs://node:8020/dir",
        "hdfs:/dir",
        "gs://bucket/dir",
        "abfss://box@account/dir",
        "dbfs:/dir",
        "memory://dir",
        "file://another-host/dir",
        "HTTPS://host/dir",
    ],
)
def test_other_stores_are_refused(path: str) -> None:
    with pytest.raises(UnsupportedStore, match="not on a POSIX file system") as caught:
        local_root(path)
    assert "exclusive link" in caught.value.hint


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("FILE://localhost/a/b", "/a/b"),
        ("/runs/at 12:30/ä", "/runs/at 12:30/ä"),
    ],
)
def test_local_paths_are_taken(path: str, root: str) -> None:
    assert local_root(path) == Path(root)


def test_a_relative_path_with_a_colon_is_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert local_root("run:1/state") == Path("/run:1/state")


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(StorageError, match="is not a path"):
        local_root(path)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "a//b", "./a", "a/", "", "."])
def test_names_that_leave_the_directory_or_have_two_spellings_are_refused(
    name: str, directory: Directory
) -> None:
    assert not is_plain(name)
    with pytest.raises(StorageError, match="leaves the directory"):
        directory.read(name)


def test_put_if_absent_keeps_what_is_there(directory: Directory) -> None:
    assert directory.put_if_absent("a/b", b"first")
    assert not directory.put_if_absent("a/b", b"second")
    assert directory.read("a/b") == b"first"
    assert directory.all_names("a") == ["a/b"]


def test_a_file_under_way_is_not_listed(directory: Directory) -> None:
    seen: list[tuple[list[str], list[str]]] = []

    def look() -> None:
        seen.append((directory.names("a"), directory.all_names("a")))

    with on_reach("link.before", look):
        directory.put_if_absent("a/b", b"content")
    ((finished, everything),) = seen
    assert finished == []
    assert len(everything) == 1


def test_a_link_reported_as_failed_counts_if_it_was_made(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS: the first request links, its answer is lost, the repeated one finds the name taken."""
    link = os.link

    def link_twice(source: Any, target: Any) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    assert directory.put_if_absent("a", b"mine")
    monkeypatch.undo()
    assert not directory.put_if_absent("a", b"other")
    assert directory.read("a") == b"mine"


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_a_file_system_without_links_is_named(
    code: int, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: Any, target: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(UnsupportedStore, match="cannot create a hard link"):
        directory.put_if_absent("a/b", b"")
    assert directory.all_names("a") == []


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EDQUOT, "free space"),
        (errno.EROFS, "give this user access"),
        (errno.EMFILE, "open files"),
        (errno.EIO, "file system is in order"),
    ],
)
def test_a_failed_link_says_what_to_do(
    code: int, hint: str, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: Any, target: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(StorageError, match=os.strerror(code)) as caught:
        directory.put_if_absent("a", b"")
    assert not isinstance(caught.value, UnsupportedStore)
    assert hint in caught.value.hint
    assert str(directory.root / "a") in caught.value.message


def test_a_failed_clean_up_does_not_turn_success_into_failure(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(self: Path) -> None:
        raise PermissionError(errno.EACCES, "no")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", cannot)
        assert directory.put_if_absent("a", b"content")
    assert directory.read("a") == b"content"


def test_replace_is_all_or_nothing(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.replace("a", b"old")

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    syncing = Directory.at(directory.root, sync=True)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="Input/output error"):
        syncing.replace("a", b"new")
    assert directory.read("a") == b"old"
    assert os.listdir(directory.root) == ["a"]


def test_folders_are_synced_up_to_the_first_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    Directory.at(tmp_path / "new/store").put_if_absent("folder/name", b"x")
    folders = [path for path in synced if os.path.isdir(path)]
    assert set(folders) == {
        str(tmp_path),
        str(tmp_path / "new"),
        str(tmp_path / "new/store"),
        str(tmp_path / "new/store/folder"),
    }
    assert folders[-1] == str(tmp_path / "new/store/folder")


def written_together(directory: Directory, count: int) -> None:
    with directory.syncing_together() as together:
        for number in range(count):
            segment = write_segment(together, "g", pa.table({"_ts": [number], "_exp": [9]}))
            assert segment is not None


@pytest.mark.parametrize("count", [0, 1, SYNCS_WAITING + 3])
def test_files_written_together_last_when_all_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda one: synced.append(os.readlink(f"/proc/self/fd/{one}")))
    opened = len(os.listdir("/proc/self/fd"))
    written_together(Directory.at(tmp_path), count)
    files = {str(path) for path in tmp_path.rglob("*") if path.is_file()}
    assert len(files) == count
    assert files <= set(synced)
    assert len(os.listdir("/proc/self/fd")) == opened


def test_a_disk_that_fails_later_fails_the_files_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        if not os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="Input/output error"):
        written_together(Directory.at(tmp_path), 3)


def test_without_sync_nothing_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("the disk was waited for"))
    written_together(Directory.at(tmp_path, sync=False), 2)


def test_a_missing_file_is_left_to_the_caller(directory: Directory) -> None:
    with pytest.raises(FileNotFoundError):
        directory.read("nothing")
    assert directory.size("nothing") is None
    assert directory.modified_at("nothing") is None
    assert not directory.exists("nothing")
    assert directory.remove("nothing") == 0
    assert directory.names("nowhere") == []


def test_a_file_where_a_folder_should_be_is_reported(directory: Directory) -> None:
    directory.put_if_absent("a", b"")
    with pytest.raises(StorageError, match="cannot create"):
        directory.put_if_absent("a/b", b"")
    with pytest.raises(StorageError, match="cannot look at"):
        directory.size("a/b")


def test_a_link_in_the_directory_is_removed_without_its_target(
    directory: Directory, tmp_path: Path
) -> None:
    outside = tmp_path / "precious"
    outside.write_bytes(b"keep me")
    (directory.root / "data").mkdir(parents=True)
    (directory.root / "data/link").symlink_to(outside)
    (directory.root / "data/folder").symlink_to(tmp_path, target_is_directory=True)
    assert directory.all_names("data") == ["data/link"]
    directory.remove("data/link")
    assert outside.read_bytes() == b"keep me"


def test_counters_count_what_went_through(directory: Directory) -> None:
    directory.put_if_absent("a", b"12345")
    directory.put_if_absent("a", b"123")
    directory.replace("b", b"1")
    directory.read("a")
    assert directory.io.to_json() == {
        "files_read": 1,
        "bytes_read": 5,
        "files_written": 3,
        "bytes_written": 9,
    }
    total = IoCounters(files_read=1, bytes_written=1)
    total.add(directory.io)
    assert total == IoCounters(2, 5, 3, 10)


def test_the_unsynced_view_shares_the_counters(tmp_path: Path) -> None:
    directory = Directory.at(tmp_path)
    directory.without_sync().put_if_absent("a", b"123")
    assert directory.io.bytes_written == 3
    assert not directory.without_sync().sync


def test_a_vacuum_that_takes_the_temporary_file_only_delays(directory: Directory) -> None:
    """At grace 0 a temporary file may go while its writer is about to link it."""
    taken: list[Path] = []

    def take() -> None:
        if len(taken) < 3:
            taken.extend(directory.root.glob("**/.tmp-*"))
            taken[-1].unlink()

    with on_reach("link.before", take):
        assert directory.put_if_absent("f/a", b"1")
        assert not directory.put_if_absent("f/a", b"2")
    assert len(taken) == 3
    assert directory.read("f/a") == b"1"
