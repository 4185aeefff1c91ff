"""The directory a manifest and its data files live in.

All paths handed out are relative to the root, so a directory can be moved. The one operation that
needs more than reading and writing is ``put_if_absent``: an exclusive hard link of a fully written
temporary file, atomic on local and shared POSIX file systems. Other stores are refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

from mayfly.errors import StorageError, UnsupportedStore

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
TEMPORARY = ".tmp-"


@dataclass(slots=True)
class IoCounters:
    """Files and bytes that really went through this process; claims about I/O rest on these."""

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
    text = os.fspath(path)
    scheme = _SCHEME.match(text)
    if scheme and scheme[1].lower() != "file":
        raise UnsupportedStore(
            f"{text!r} is not on a POSIX file system",
            "use a local or shared POSIX path (NFS, Lustre, …): "
            "commits need an exclusive link, which this store does not offer",
        )
    if scheme:
        text = re.sub(r"^file:(//[^/]*)?", "", text)
    return Path(text).absolute()


@dataclass(frozen=True, slots=True)
class Directory:
    """A root directory with the few operations the storage core needs."""

    root: Path
    sync: bool = True
    io: IoCounters = field(default_factory=IoCounters, compare=False)

    @staticmethod
    def at(path: str | os.PathLike[str], *, sync: bool = True) -> Directory:
        return Directory(local_root(path), sync)

    def path(self, name: str) -> Path:
        if os.path.isabs(name) or ".." in Path(name).parts:
            raise StorageError(f"the stored path {name!r} leaves the directory {self.root}")
        return self.root / name

    def fresh_name(self, folder: str, suffix: str) -> str:
        """A name no attempt has used: tasks may run more than once, so names are never reused."""
        return f"{folder}/{uuid.uuid4().hex}{suffix}"

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def size(self, name: str) -> int | None:
        try:
            return self.path(name).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, name: str) -> bytes:
        data = self.path(name).read_bytes()
        self.io.files_read += 1
        self.io.bytes_read += len(data)
        return data

    def names(self, folder: str) -> list[str]:
        """Names below ``folder`` in order, unfinished temporary files left out."""
        return [name for name in self.all_names(folder) if TEMPORARY not in name]

    def all_names(self, folder: str) -> list[str]:
        base = self.path(folder)
        if not base.is_dir():
            return []
        found = (entry for entry in base.rglob("*") if entry.is_file())
        return sorted(entry.relative_to(self.root).as_posix() for entry in found)

    def remove(self, name: str) -> int:
        """Remove a file if it is there; the bytes it freed."""
        size = self.size(name)
        if size is None:
            return 0
        with contextlib.suppress(FileNotFoundError):
            self.path(name).unlink()
        return size

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write ``name`` atomically unless it exists; False if somebody else was first."""
        target = self.path(name)
        with self._temporary(target) as temporary:
            self._write(temporary, data)
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            except OSError as error:
                raise UnsupportedStore(
                    f"cannot create a hard link in {target.parent}: {error.strerror}",
                    "use a file system with hard links: commits depend on them",
                ) from error
        self._sync_folder(target.parent)
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write ``name`` atomically, whatever was there before."""
        target = self.path(name)
        with self._temporary(target) as temporary:
            self._write(temporary, data)
            os.replace(temporary, target)
        self._sync_folder(target.parent)

    def _write(self, path: Path, data: bytes) -> None:
        with open(path, "xb") as file:
            file.write(data)
            file.flush()
            if self.sync:
                os.fsync(file.fileno())
        self.io.files_written += 1
        self.io.bytes_written += len(data)

    @contextlib.contextmanager
    def _temporary(self, target: Path) -> Iterator[Path]:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def _sync_folder(self, folder: Path) -> None:
        if self.sync:
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
