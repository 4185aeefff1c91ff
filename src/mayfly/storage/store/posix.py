"""Files in a directory of a local or shared POSIX file system.

The one operation that needs more than reading and writing is ``put_if_absent``: an exclusive hard
link of a fully written temporary file, atomic on local and shared file systems.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import uuid
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from mayfly.arrays import arrow as pa
from mayfly.errors import InvalidSetting, StorageError, UnsupportedStore
from mayfly.faults import reach
from mayfly.storage.store.problems import explained, storage_error
from mayfly.storage.store.protocol import TEMPORARY, FileInfo

_URI = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE_URI = re.compile(r"^file:(?://(?:localhost)?)?(?=/(?!/))", re.IGNORECASE)
SYNCS_AT_ONCE, SYNCS_WAITING = 8, 64
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}


def path_text(path: str | os.PathLike[str]) -> str:
    """The path or URI as it was given."""
    if not isinstance(path, str | os.PathLike) or not isinstance(text := os.fspath(path), str):
        raise InvalidSetting(f"the path is {path!r}", "give the path of a directory as a text")
    if not text or "\0" in text:
        raise StorageError(f"{text!r} is not a path", "give the path of a directory")
    return text


def local_root(path: str | os.PathLike[str]) -> Path:
    """The absolute directory behind ``path``; refuses stores without atomic put-if-absent."""
    text = path_text(path)
    if _URI.match(text):
        local = _FILE_URI.sub("", text, count=1)
        if local == text:
            raise UnsupportedStore(
                f"{text!r} is not on a POSIX file system of this machine",
                "use a local or shared POSIX path (NFS, Lustre, …): "
                "commits need an exclusive link, which this store does not offer",
            )
        text = local
    return Path(text).absolute()


@dataclass(slots=True)
class Syncs:
    """Files whose content is on its way to the disk."""

    pool: ThreadPoolExecutor
    waiting: deque[tuple[Path, Future[None]]] = field(default_factory=deque)

    def add(self, path: Path, descriptor: int) -> None:
        self.waiting.append((path, self.pool.submit(_sync_and_close, os.dup(descriptor))))
        if len(self.waiting) > SYNCS_WAITING:
            self._await_first()

    def finish(self) -> None:
        while self.waiting:
            self._await_first()

    def _await_first(self) -> None:
        path, done = self.waiting.popleft()
        with explained("write", path):
            done.result()


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class PosixStore:
    """A directory. ``sync=False`` leaves it to the operating system when data reach the disk: a
    crash of the process loses nothing, a power cut may."""

    address: str
    sync: bool = field(default=True, compare=False)
    _syncs: Syncs | None = field(default=None, compare=False, repr=False)

    def without_sync(self) -> PosixStore:
        return PosixStore(self.address, False)

    @contextlib.contextmanager
    def syncing_together(self) -> Iterator[PosixStore]:
        """The disk takes several files in little more than the time of one, if it is asked at
        once."""
        if not self.sync:
            yield self
            return
        with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:
            syncs = Syncs(pool)
            yield replace(self, _syncs=syncs)
            syncs.finish()

    def info(self, name: str) -> FileInfo | None:
        path = f"{self.address}/{name}"
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error("look at", path, error) from error
        return FileInfo(status.st_size, status.st_mtime_ns // 1000)

    def read(self, name: str) -> bytes:
        path = self._path(name)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise storage_error("read", path, error) from error

    def open(self, name: str, *, mapped: bool = False) -> pa.NativeFile:
        path = f"{self.address}/{name}"
        try:
            return pa.memory_map(path) if mapped else pa.OSFile(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise storage_error("read", path, error) from error

    def names(self, folder: str) -> list[str]:
        base = f"{self.address}/{folder}"
        listed: list[str] = []
        with explained("list", base):
            for parent, _, files in os.walk(base, onerror=_raise_unless_missing):
                place = folder + parent[len(base) :]
                listed += (f"{place}/{file}" for file in files)
        return listed

    def entries(self, folder: str = "") -> list[str]:
        path = self._path(folder)
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise InvalidSetting(f"{path} is a file", "name a folder of its own") from None
        except OSError as error:
            raise storage_error("list", path, error) from error

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """If only the last sync of the folder fails, the error is raised with the file in place:
        it is visible to all, but a power cut might still take it back."""
        target = self._path(name)
        while True:
            with self._temporary(target) as temporary:
                self._write(temporary, data)
                reach("link.before")
                try:
                    if not _link(temporary, target):
                        return False
                except FileNotFoundError:  # a vacuum took the temporary file for a dead writer's
                    continue
                reach("link.after")
            self._sync_folder(target.parent)
            return True

    def put(self, name: str, data: bytes) -> None:
        target = self._path(name)
        with self._temporary(target) as temporary:
            self._write(temporary, data)
            with explained("replace", target):
                os.replace(temporary, target)
        self._sync_folder(target.parent)

    def create(self, name: str) -> PosixFile:
        """Create a file that has its name at once, and is empty: no manifest names it yet."""
        path = self._path(name)
        self._make_folder(path.parent)
        with explained("write", path):
            return PosixFile(self, path, open(path, "xb"))

    def persist(self, folder: str) -> None:
        self._sync_folder(self._path(folder))

    def remove(self, name: str) -> None:
        path = f"{self.address}/{name}"
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_error("remove", path, error) from error

    def remove_folder(self, folder: str) -> None:
        path = self._path(folder)
        with explained("remove", path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_file(self, path: Path, descriptor: int) -> None:
        """Make the content of a file survive a power cut, now or when all others do."""
        if not self.sync:
            return
        if self._syncs is not None:
            self._syncs.add(path, descriptor)
        else:
            os.fsync(descriptor)

    def _path(self, name: str) -> Path:
        return Path(self.address, name)

    def _make_folder(self, folder: Path) -> None:
        """Create a folder, and with ``sync`` make the entries that lead to it last."""
        missing = [path for path in (folder, *folder.parents) if not path.is_dir()]
        if missing:
            with explained("create", folder):
                folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            self._sync_folder(path.parent)

    def _sync_folder(self, folder: Path) -> None:
        """Make the names in a folder survive a power cut."""
        if not self.sync:
            return
        with explained("sync", folder):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _write(self, path: Path, data: bytes) -> None:
        with explained("write", path), open(path, "xb") as file:
            file.write(data)
            file.flush()
            self.sync_file(path, file.fileno())

    @contextlib.contextmanager
    def _temporary(self, target: Path) -> Iterator[Path]:
        self._make_folder(target.parent)
        temporary = target.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
        try:
            yield temporary
        finally:
            # Whether the target is in place is decided by now; vacuum removes what stays here.
            with contextlib.suppress(OSError):
                temporary.unlink()


@dataclass(frozen=True, slots=True)
class PosixFile:
    """A new file in a directory."""

    store: PosixStore
    path: Path
    file: BinaryIO

    def write(self, data: memoryview) -> None:
        try:
            self.file.write(data)
        except OSError as error:
            raise storage_error("write", self.path, error) from error

    def finish(self) -> None:
        with explained("write", self.path):
            self.file.flush()
            self.store.sync_file(self.path, self.file.fileno())
            self.file.close()

    def abandon(self) -> None:
        """Remove the file; a failure to do so must not hide the one before it."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            self.path.unlink()


def _link(temporary: Path, target: Path) -> bool:
    """Give the file its name, unless another has it; FileNotFoundError if the file is gone."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        # Over NFS a repeated request may report the link that its first sending made.
        return temporary.stat().st_nlink == 2
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise storage_error("link", target, error) from error
        raise UnsupportedStore(
            f"cannot create a hard link in {target.parent}: {error.strerror}",
            "use a file system with hard links: commits depend on them",
        ) from error
    return True


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
