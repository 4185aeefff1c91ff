"""A store in the memory of this process: what an object store offers, and nothing more.

There are no folders, no paths, no renames and no partly written files, so whatever runs on it needs
none of them. ``with memory_store() as address`` makes one; its address goes where a path would.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa

from mayfly.errors import StorageError
from mayfly.storage.store import FileInfo, register_scheme

SCHEME = "memory"


@dataclass(slots=True)
class _Space:
    """The files of all stores whose addresses begin alike: data and time of each."""

    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    turn: Lock = field(default_factory=Lock)


_spaces: dict[str, _Space] = {}


@contextlib.contextmanager
def memory_store() -> Iterator[str]:
    """The address of a new store; at the end of the block its files are gone."""
    name = uuid.uuid4().hex
    _spaces[name] = _Space()
    try:
        yield f"{SCHEME}://{name}"
    finally:
        del _spaces[name]


@dataclass(frozen=True, slots=True)
class MemoryStore:
    """The files whose names in a space begin so."""

    address: str
    _space: _Space = field(compare=False, repr=False)
    _beginning: str = field(compare=False, repr=False)
    sync: bool = field(default=True, compare=False)

    @staticmethod
    def at(address: str) -> MemoryStore:
        name, _, folder = address.removeprefix(f"{SCHEME}://").partition("/")
        if name not in _spaces:
            raise StorageError(
                f"there is no store {address} in this process", "make one with memory_store()"
            )
        return MemoryStore(address, _spaces[name], f"{folder}/" if folder else "")

    def without_sync(self) -> MemoryStore:
        return self

    @contextlib.contextmanager
    def syncing_together(self) -> Iterator[MemoryStore]:
        yield self

    def info(self, name: str) -> FileInfo | None:
        stored = self._space.files.get(self._beginning + name)
        return None if stored is None else FileInfo(len(stored[0]), stored[1])

    def read(self, name: str) -> bytes:
        try:
            return self._space.files[self._beginning + name][0]
        except KeyError:
            place = f"{self.address}/{name}"
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place) from None

    def open(self, name: str, *, mapped: bool = False) -> pa.NativeFile:
        return pa.BufferReader(self.read(name))

    def names(self, folder: str) -> list[str]:
        start = len(self._beginning)
        with self._space.turn:
            listed = list(self._space.files)
        return [name[start:] for name in listed if name.startswith(f"{self._beginning}{folder}/")]

    def entries(self, folder: str = "") -> list[str]:
        beginning = f"{self._beginning}{folder}/" if folder else self._beginning
        with self._space.turn:
            listed = [name for name in self._space.files if name.startswith(beginning)]
        return sorted({name[len(beginning) :].partition("/")[0] for name in listed})

    def put_if_absent(self, name: str, data: bytes) -> bool:
        stored = (bytes(data), time.time_ns() // 1000)
        with self._space.turn:
            return self._space.files.setdefault(self._beginning + name, stored) is stored

    def put(self, name: str, data: bytes) -> None:
        with self._space.turn:
            self._space.files[self._beginning + name] = (bytes(data), time.time_ns() // 1000)

    def create(self, name: str) -> MemoryFile:
        return MemoryFile(self, name)

    def persist(self, folder: str) -> None:
        pass

    def remove(self, name: str) -> None:
        with self._space.turn:
            self._space.files.pop(self._beginning + name, None)

    def remove_folder(self, folder: str) -> None:
        for name in self.names(folder):
            self.remove(name)


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A new file, which is not there before it is finished."""

    store: MemoryStore
    name: str
    _data: bytearray = field(default_factory=bytearray)

    def write(self, data: memoryview) -> None:
        self._data.extend(data)

    def finish(self) -> None:
        if not self.store.put_if_absent(self.name, bytes(self._data)):
            raise StorageError(f"{self.store.address}/{self.name} exists", "use a fresh name")

    def abandon(self) -> None:
        pass


register_scheme(SCHEME, MemoryStore.at)
