"""Checksums of data files (XXH3, 64 bits): they find damage, not tampering.

Idea: a file is hashed while it is written, as a whole and in pieces: the row groups of a Parquet
file one by one, and what follows them, its tail. Readers of a few row groups check just those.
Invariant: bytes are parsed only after they were compared: a parser may die of damaged ones.
Cost: whoever reads a whole file reads it twice, the second time from the system's memory.
"""

from __future__ import annotations

import io
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import xxhash

from mayfly.errors import CorruptFile
from mayfly.storage.files import explained

RESTORE = "restore it from a copy, or run verify to see what is still readable"
CHECKED_AT_ONCE = 1 << 18
REMEMBERED = 1 << 16


class Piece(NamedTuple):
    """A stretch of a file; each begins where the one before it ends."""

    bytes: int
    checksum: str

    def check(self, data: Any, path: str | Path) -> None:
        """Raise CorruptFile unless these are the bytes that were written."""
        if len(data) != self.bytes or xxhash.xxh3_64_hexdigest(data) != self.checksum:
            raise differing(path)


class HashingFile(io.RawIOBase):
    """A write-only file that computes checksum and size on the way to disk."""

    def __init__(self, file: BinaryIO) -> None:
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


def differing(path: str | Path) -> CorruptFile:
    return CorruptFile(f"the data file {path} differs from its checksum", RESTORE)


def check_file(path: str | Path, checksum: str) -> None:
    """Raise CorruptFile unless the whole file is as it was written.

    It is read, not mapped: a bad block is then an error and not the end of the process.
    """
    digest, buffer = xxhash.xxh3_64(), memoryview(bytearray(CHECKED_AT_ONCE))
    with explained("read", Path(path)), open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
    if digest.hexdigest() != checksum:
        raise differing(path)


@lru_cache(maxsize=REMEMBERED)
def check_file_once(path: str, checksum: str) -> None:
    """The same before this process uses the file for the first time; names are never used again."""
    check_file(path, checksum)


def check_tail(path: str | Path, tail: Piece) -> bytes:
    """The last bytes of a file, compared."""
    with explained("read", Path(path)), open(path, "rb") as file:
        file.seek(-tail.bytes, os.SEEK_END)
        data = file.read()
    tail.check(data, path)
    return data
