"""The directory a manifest and its data files live in: a store, with its I/O counted.

All names handed out are relative to the root, so a directory can be moved.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

from mayfly.arrays import arrow as pa
from mayfly.errors import StorageError
from mayfly.storage.store import TEMPORARY, FileInfo, Store, local_root, open_store


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
        for counter in fields(self):
            setattr(self, counter.name, getattr(self, counter.name) + getattr(other, counter.name))

    def to_json(self) -> dict[str, int]:
        return {counter.name: getattr(self, counter.name) for counter in fields(self)}

    def note_written(self, size: int) -> None:
        self.files_written += 1
        self.bytes_written += size


def is_plain(name: str) -> bool:
    """A relative name with one spelling: two spellings of a file would confuse vacuum."""
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


@dataclass(frozen=True, slots=True)
class Directory:
    """A store with the few operations the storage core needs; names are checked to stay inside."""

    store: Store
    io: IoCounters = field(default_factory=IoCounters, compare=False)

    @staticmethod
    def at(path: str | os.PathLike[str], *, sync: bool = True) -> Directory:
        return Directory(open_store(path, sync=sync))

    @property
    def address(self) -> str:
        """By which other processes open the same directory."""
        return self.store.address

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition("/")[2]

    @property
    def root(self) -> Path:
        """The folder itself, for what needs one; refused where the store is not a file system."""
        return local_root(self.address)

    @property
    def sync(self) -> bool:
        return self.store.sync

    def without_sync(self) -> Directory:
        """The same directory for files that need not survive a power cut."""
        return Directory(self.store.without_sync(), self.io)

    @contextlib.contextmanager
    def syncing_together(self) -> Iterator[Directory]:
        """This directory for writing many files: they last from the end of the block on."""
        with self.store.syncing_together() as together:
            yield Directory(together, self.io)

    def path(self, name: str) -> Path:
        """Of a file on a file system, for what needs one."""
        return self.root / self.plain(name)

    def address_of(self, name: str) -> str:
        """How messages name a file, and Spark opens it."""
        return f"{self.address}/{self.plain(name)}"

    def plain(self, name: str) -> str:
        """The name, unless it leaves the directory."""
        if not is_plain(name):
            raise StorageError(
                f"the stored name {name!r} leaves the directory {self.address} or is not plain",
                "the directory may have been tampered with: restore it from a copy",
            )
        return name

    def fresh_name(self, folder: str, suffix: str) -> str:
        """A name no attempt has used: tasks may run more than once, so names are never reused."""
        return f"{folder}/{uuid.uuid4().hex}{suffix}"

    def exists(self, name: str) -> bool:
        return self._info(name) is not None

    def size(self, name: str) -> int | None:
        info = self._info(name)
        return None if info is None else info.size

    def modified_at(self, name: str) -> int | None:
        """When the file was last written, µs."""
        info = self._info(name)
        return None if info is None else info.modified

    def _info(self, name: str) -> FileInfo | None:
        return self.store.info(self.plain(name))

    def read(self, name: str) -> bytes:
        """The content of a file; FileNotFoundError, for the caller to judge, if there is none."""
        data = self.store.read(self.plain(name))
        self.io.files_read += 1
        self.io.bytes_read += len(data)
        return data

    def open(self, name: str, *, mapped: bool = False) -> pa.NativeFile:
        """A file for reading at any place, which counts what it takes (see ``Store.open``)."""
        return self.store.open(self.plain(name), mapped=mapped)

    def names(self, folder: str) -> list[str]:
        """Names below ``folder`` in order, unfinished temporary files left out."""
        return [name for name in self.all_names(folder) if TEMPORARY not in name]

    def all_names(self, folder: str) -> list[str]:
        return sorted(self.store.names(self.plain(folder)))

    def entries(self, folder: str = "") -> list[str]:
        """What lies directly in a folder, files and folders, in order."""
        return self.store.entries(self.plain(folder) if folder else folder)

    def remove(self, name: str) -> int:
        """Remove a file if it is there; the bytes it freed."""
        size = self.size(name)
        self.store.remove(name)
        return size or 0

    def remove_folder(self, folder: str) -> None:
        """Remove what lies below a folder, and it."""
        self.store.remove_folder(self.plain(folder))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write ``name`` atomically unless it exists; False if another writer was first."""
        was_first = self.store.put_if_absent(self.plain(name), data)
        self.io.note_written(len(data))
        return was_first

    def touch(self, name: str) -> None:
        """Make an empty file, whose name says it all; a power cut may take it back."""
        self.store.without_sync().put(self.plain(name), b"")

    def replace(self, name: str, data: bytes) -> None:
        """Write ``name`` atomically, whatever was there before."""
        self.store.put(self.plain(name), data)
        self.io.note_written(len(data))
