"""Checksums of data files (XXH3, 64 bits): they find damage, not tampering.

Idea: a file is hashed while it is written, as a whole and in pieces: the row groups of a Parquet
file one by one, and what follows them, its tail. Readers of a few row groups check just those.
Invariant: bytes are parsed only after they were compared: a parser may die of damaged ones.
Cost: a whole file is read twice, the second time from the system's memory.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any, NamedTuple

import xxhash

from mayfly.arrays import arrow as pa
from mayfly.errors import CorruptFile
from mayfly.storage.store import NewFile, Store
from mayfly.storage.store.problems import explained

RESTORE = "restore it from a copy, or run verify to see what is still readable"
CHECKED_AT_ONCE = 1 << 18
REMEMBERED = 1 << 16


class Piece(NamedTuple):
    """A stretch of a file; each begins where the one before it ends."""

    bytes: int
    checksum: str

    def check(self, data: Any, path: str) -> None:
        """Raise CorruptFile unless these are the bytes that were written."""
        if len(data) != self.bytes or xxhash.xxh3_64_hexdigest(data) != self.checksum:
            raise differing(path)


class HashingFile(io.RawIOBase):
    """A write-only file that computes checksum and size on the way to its store."""

    def __init__(self, file: NewFile) -> None:
        self.file = file
        self.hash = xxhash.xxh3_64()
        self.size = 0
        self._piece = xxhash.xxh3_64()
        self._cut_at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.file.write(view)
        self.hash.update(view)
        self._piece.update(view)
        self.size += len(view)
        return len(view)

    def cut(self) -> Piece:
        """What was written since the last cut."""
        piece = Piece(self.size - self._cut_at, self._piece.hexdigest())
        self._piece, self._cut_at = xxhash.xxh3_64(), self.size
        return piece


def differing(path: str) -> CorruptFile:
    return CorruptFile(f"the data file {path} differs from its checksum", RESTORE)


def check_file(store: Store, name: str, checksum: str) -> None:
    """Raise CorruptFile unless the whole file is as it was written.

    It is read, not mapped: a bad block is then an error and not the end of the process.
    """
    digest, buffer = xxhash.xxh3_64(), memoryview(bytearray(CHECKED_AT_ONCE))
    path = f"{store.address}/{name}"
    with explained("read", path), store.open(name) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
    if digest.hexdigest() != checksum:
        raise differing(path)


@lru_cache(maxsize=REMEMBERED)
def check_file_once(store: Store, name: str, checksum: str) -> None:
    """Compare a file before this process uses it for the first time; names are never used again."""
    check_file(store, name, checksum)


def check_tail(store: Store, name: str, tail: Piece) -> pa.Buffer:
    """The last bytes of a file, compared."""
    path = f"{store.address}/{name}"
    with explained("read", path), store.open(name) as file:
        file.seek(max(0, file.size() - tail.bytes))
        data = file.read_buffer()
    tail.check(data, path)
    return data
