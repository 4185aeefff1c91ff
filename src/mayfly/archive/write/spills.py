"""Sorted stretches of rows that do not fit memory.

They lie in a temporary folder of the machine that sorts, and go with its task: no store is needed,
and none would be as fast.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from mayfly.errors import StorageError
from mayfly.storage.store.problems import explained


@dataclass(frozen=True)
class Spills:
    """The stretches of one task, each a file; rows that fit memory need no folder."""

    paths: list[str] = field(default_factory=list)
    _room: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @staticmethod
    @contextlib.contextmanager
    def begin() -> Iterator[Spills]:
        """Room for stretches until the end of the block."""
        spills = Spills()
        with spills._room:
            yield spills

    @cached_property
    def _folder(self) -> str:
        try:
            return self._room.enter_context(tempfile.TemporaryDirectory(prefix="mayfly-sort-"))
        except OSError as error:
            raise StorageError(
                f"rows that do not fit memory cannot be set aside: {error.strerror}",
                "set TMPDIR to a folder with room that this user may write to",
            ) from error

    def add(self, stretch: pa.Table, rows_at_once: int) -> None:
        """Set a stretch aside; it will be read back in tables of so many rows."""
        path = f"{self._folder}/{len(self.paths)}.arrow"
        with explained("write", path), pa.OSFile(path, "wb") as file:
            writer = pa.ipc.new_file(file, stretch.schema)
            writer.write_table(stretch, max_chunksize=rows_at_once)
            writer.close()
        self.paths.append(path)

    def stretches(self) -> list[Iterator[pa.Table]]:
        return [_tables(path) for path in self.paths]


def _tables(path: str) -> Iterator[pa.Table]:
    with pa.memory_map(path) as source:
        reader = pa.ipc.open_file(source)
        for index in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(index)])
