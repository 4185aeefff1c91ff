"""Checksums of data files (XXH3, 64 bits): they find damage, not tampering."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import xxhash

from mayfly.storage.files import Directory, explained


class HashingFile(io.RawIOBase):
    """A write-only file that computes checksum and size on the way to disk."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.hash = xxhash.xxh3_64()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.file.write(view)
        self.hash.update(view)
        self.size += len(view)
        return len(view)


def file_checksum(directory: Directory, name: str) -> str:
    digest = xxhash.xxh3_64()
    path = directory.path(name)
    with explained("read", path), open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            directory.io.bytes_read += len(chunk)
    directory.io.files_read += 1
    return digest.hexdigest()
