"""The directory a manifest and its data files live in.

All names handed out are relative to the root, so a directory can be moved. The one operation that
needs more than reading and writing is ``put_if_absent``: an exclusive hard link of a fully written
temporary file, atomic on local and shared POSIX file systems. Other stores are refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path

from mayfly.errors import InvalidSetting, StorageError, UnsupportedStore
from mayfly.faults import reach

_URI = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE_URI = re.compile(r"^file:(?://(?:localhost)?)?(?=/(?!/))", re.IGNORECASE)
TEMPORARY = ".tmp-"
SYNCS_AT_ONCE, SYNCS_WAITING = 8, 64
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_HINTS = {
    "free space there or raise the limit; what was committed before is unharmed": (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
    ),
    "give this user access, or make the file system writable": _DENIED,
    "raise the limit on open files": (errno.EMFILE, errno.ENFILE),
}
_HINT_OF = {code: hint for hint, codes in _HINTS.items() for code in codes}


@dataclass(slots=True)
class IoCounters:
    """Files and bytes that really went through this process; claims about I/O rest on these.

    A memory-mapped segment counts with the bytes of the columns handed out, whether or not the
    caller then looks at every page. The look at checksums is not counted: the read that follows
    finds the bytes in the system's memory.
    """

    files_read: int = 0
    bytes_read: int = 0
    files_written: int = 0
    bytes_written: int = 0

    def add(self, other: IoCounters) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def to_json(self) -> dict[str, int]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


def local_root(path: str | os.PathLike[str]) -> Path:
    """The absolute directory behind ``path``; refuses stores without atomic put-if-absent."""
    if not isinstance(path, str | os.PathLike) or not isinstance(text := os.fspath(path), str):
        raise InvalidSetting(f"the path is {path!r}", "give the path of a directory as a text")
    if not text or "\0" in text:
        raise StorageError(f"{text!r} is not a path", "give the path of a directory")
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


def is_plain(name: str) -> bool:
    """A relative name with one spelling: two spellings of a file would confuse vacuum."""
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


@contextlib.contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn what the operating system reports into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise told(doing, path, error) from error


def told(doing: str, path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot {doing} {path}: {error.strerror or error}",
        _HINT_OF.get(error.errno or 0, "check that the file system is in order"),
    )


def is_denied(error: StorageError) -> bool:
    """Whether this user may not write there, or nobody may."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _DENIED


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
class Directory:
    """A root directory with the few operations the storage core needs.

    ``sync=False`` leaves it to the operating system when data reach the disk: a crash of the
    process loses nothing, a power cut may.
    """

    root: Path
    sync: bool = True
    io: IoCounters = field(default_factory=IoCounters, compare=False)
    _syncs: Syncs | None = field(default=None, compare=False)

    @staticmethod
    def at(path: str | os.PathLike[str], *, sync: bool = True) -> Directory:
        return Directory(local_root(path), sync)

    def without_sync(self) -> Directory:
        """The same directory for files that need not survive a power cut."""
        return Directory(self.root, False, self.io)

    def path(self, name: str) -> Path:
        if not is_plain(name):
            raise StorageError(
                f"the stored name {name!r} leaves the directory {self.root} or is not plain",
                "the directory may have been tampered with: restore it from a copy",
            )
        return self.root / name

    def fresh_name(self, folder: str, suffix: str) -> str:
        """A name no attempt has used: tasks may run more than once, so names are never reused."""
        return f"{folder}/{uuid.uuid4().hex}{suffix}"

    def exists(self, name: str) -> bool:
        return self._stat(name) is not None

    def size(self, name: str) -> int | None:
        found = self._stat(name)
        return None if found is None else found.st_size

    def modified_at(self, name: str) -> int | None:
        """When the file was last written, µs."""
        found = self._stat(name)
        return None if found is None else found.st_mtime_ns // 1000

    def _stat(self, name: str) -> os.stat_result | None:
        path = self.path(name)
        with explained("look at", path), contextlib.suppress(FileNotFoundError):
            return path.stat()
        return None

    def read(self, name: str) -> bytes:
        """The content of a file; FileNotFoundError, for the caller to judge, if there is none."""
        path = self.path(name)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise told("read", path, error) from error
        self.io.files_read += 1
        self.io.bytes_read += len(data)
        return data

    def names(self, folder: str) -> list[str]:
        """Names below ``folder`` in order, unfinished temporary files left out."""
        return [name for name in self.all_names(folder) if TEMPORARY not in name]

    def all_names(self, folder: str) -> list[str]:
        base = self.path(folder)
        found: list[str] = []
        with explained("list", base):
            for parent, _, files in os.walk(base, onerror=_unless_missing):
                place = folder + parent[len(str(base)) :]
                found += (f"{place}/{file}" for file in files)
        return sorted(found)

    def remove(self, name: str) -> int:
        """Remove a file if it is there; the bytes it freed."""
        size = self.size(name)
        path = self.path(name)
        with explained("remove", path), contextlib.suppress(FileNotFoundError):
            path.unlink()
        return size or 0

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write ``name`` atomically unless it exists; False if somebody else was first.

        If only the last sync of the folder fails, the error is raised with the file in place: it
        is visible to all, but a power cut might still take it back.
        """
        target = self.path(name)
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
            self.sync_folder(target.parent)
            return True

    def touch(self, name: str) -> None:
        """Make an empty file, whose name says it all; a power cut may take it back."""
        path = self.path(name)
        with explained("write", path):
            path.touch()

    def replace(self, name: str, data: bytes) -> None:
        """Write ``name`` atomically, whatever was there before."""
        target = self.path(name)
        with self._temporary(target) as temporary:
            self._write(temporary, data)
            with explained("replace", target):
                os.replace(temporary, target)
        self.sync_folder(target.parent)

    def make_folder(self, folder: Path) -> None:
        """Create a folder, and with ``sync`` make the entries that lead to it last."""
        missing = [one for one in (folder, *folder.parents) if not one.is_dir()]
        if missing:
            with explained("create", folder):
                folder.mkdir(parents=True, exist_ok=True)
        for one in missing:
            self.sync_folder(one.parent)

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder survive a power cut."""
        if not self.sync:
            return
        with explained("sync", folder):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def syncing_together(self) -> Iterator[Directory]:
        """This directory for writing many files: they last from the end of the block on.

        The disk takes several files in little more than the time of one, if it is asked at once.
        """
        if not self.sync:
            yield self
            return
        with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:
            syncs = Syncs(pool)
            yield Directory(self.root, self.sync, self.io, syncs)
            syncs.finish()

    def sync_file(self, path: Path, descriptor: int) -> None:
        """Make the content of a file survive a power cut, now or when all others do."""
        if not self.sync:
            return
        if self._syncs is not None:
            self._syncs.add(path, descriptor)
        else:
            os.fsync(descriptor)

    def _write(self, path: Path, data: bytes) -> None:
        with explained("write", path), open(path, "xb") as file:
            file.write(data)
            file.flush()
            self.sync_file(path, file.fileno())
        self.io.files_written += 1
        self.io.bytes_written += len(data)

    @contextlib.contextmanager
    def _temporary(self, target: Path) -> Iterator[Path]:
        self.make_folder(target.parent)
        temporary = target.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
        try:
            yield temporary
        finally:
            # Whether the target is in place is decided by now; vacuum removes what stays here.
            with contextlib.suppress(OSError):
                temporary.unlink()


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
            raise told("link", target, error) from error
        raise UnsupportedStore(
            f"cannot create a hard link in {target.parent}: {error.strerror}",
            "use a file system with hard links: commits depend on them",
        ) from error
    return True


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
