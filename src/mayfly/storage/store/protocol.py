"""What the storage core asks of the place where its files lie.

Idea: what object stores with conditional writes offer, and no more: whole files under plain names,
put, read and removed. No rename, no append, no lock, no empty folder.
Invariant: a file that was put is there whole for everybody, from the return of the call on, and in
every listing that begins later. No file is changed in place.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from mayfly.arrays import arrow as pa

TEMPORARY = ".tmp-"
"""In the names of files that a put which was cut short has left, for vacuum to remove."""


class FileInfo(NamedTuple):
    size: int
    modified: int
    """When it was written, µs by the clock of the store."""


class NewFile(Protocol):
    """A file that is written piece by piece; it is not looked for before it is finished."""

    def write(self, data: memoryview) -> None: ...

    def finish(self) -> None:
        """Say that all is written: from now on it can be read."""

    def abandon(self) -> None:
        """Give it up; what is left of it is not seen, or removed by vacuum."""


class Store(Protocol):
    """Files under one address. Names are plain (``files.is_plain``); stores are equal where their
    addresses are. What goes wrong is a StorageError that names the file, but a file that is not
    there is None or a FileNotFoundError, for the caller to judge."""

    def __hash__(self) -> int: ...

    @property
    def address(self) -> str:
        """By which other processes open the same store: an absolute path or a URI."""

    @property
    def sync(self) -> bool:
        """Whether what was put survives a power cut."""

    def without_sync(self) -> Store:
        """This store, for files that need not survive one; itself where that saves nothing."""

    def syncing_together(self) -> AbstractContextManager[Store]:
        """This store, for many new files: they survive one from the end of the block on."""

    def info(self, name: str) -> FileInfo | None: ...

    def read(self, name: str) -> bytes: ...

    def open(self, name: str, *, mapped: bool = False) -> pa.NativeFile:
        """For reading at any place. ``mapped`` where the file stays in use: its bytes are then
        shared with the store if it can do that, and what is read from them is not copied."""

    def names(self, folder: str) -> list[str]:
        """All files below a folder, those that a crash left (TEMPORARY) too, in any order."""

    def entries(self, folder: str = "") -> list[str]:
        """The first parts of the names below a folder, in order, without those of files below."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Put a file unless it exists; of all who try at once, one gets True."""

    def put(self, name: str, data: bytes) -> None:
        """Put a file, whatever was there before: readers see the old one or the new one."""

    def create(self, name: str) -> NewFile:
        """Begin a file under an unused name."""

    def persist(self, folder: str) -> None:
        """Make the names of finished new files in a folder survive a power cut, too."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def remove_folder(self, folder: str) -> None:
        """Remove all files below a folder, and it."""
