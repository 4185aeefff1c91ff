"""Reads an archive in every way in a process in which nothing can be written.

The audit hook stands for a read-only machine: it refuses every file that is opened for writing and
every folder, link, name and removal. Usage: read_only_program.py <archive>
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

CHANGES = {"os.mkdir", "os.link", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def refuse_writing(event: str, arguments: tuple[Any, ...]) -> None:
    changes = event in CHANGES
    if event == "open":
        path, _, flags = arguments
        changes = bool(flags & WRITING) and path != os.devnull
    if changes:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(arguments[0]))


sys.dont_write_bytecode = True
sys.addaudithook(refuse_writing)

import mayfly  # noqa: E402 - nothing is writable from its first line on
import mayfly.archive  # noqa: E402
import mayfly.arrays.order  # noqa: E402
import mayfly.kernels.join_pairs  # noqa: E402
from mayfly.arrays.compilation import can_keep  # noqa: E402
from mayfly.errors import StorageError  # noqa: E402

assert not can_keep()
archive = mayfly.archive.open(sys.argv[1])
everything = archive.scan()
print(everything.num_rows, archive.probe("ann").num_rows, archive.probe_range("a", "b").num_rows)
print(sum(table.num_rows for table in archive.read.scan_tables()))
report = archive.maintain.verify()
print(report.ok, report.readable_rows)
with archive.read.pin() as manifest:
    print(manifest.rows)
pin = archive.read.pin(archive.repository.versions()[0])
print(pin.held, len(archive.inspect.history()), archive.inspect.status().rows)
pin.release()
print(archive.scan(as_of=archive.inspect.history()[0].time).num_rows)
try:
    archive.update(None)
except StorageError as error:
    print("Read-only file system" in str(error), "make the file system writable" in error.hint)
