"""An archive as a table of one-time queries; loaded where there is one, for archives are large."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from mayfly.archive.model.ledger import Ledger
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.questions import Reading, selection
from mayfly.archive.read.version_reader import Reader
from mayfly.errors import StorageError
from mayfly.lifetime import instant_text
from mayfly.plan.catalog import ColumnDefinition
from mayfly.plan.types import parse_type
from mayfly.runtime.table_sources import Keys, access_words
from mayfly.storage import Repository


@dataclass(frozen=True)
class StoredArchive:
    """An archive as one of its versions shows it."""

    name: str
    reading: Reading
    version: ArchiveVersion

    kind = "archive"
    streams = ()

    @staticmethod
    def open(name: str, path: str | os.PathLike[str]) -> StoredArchive:
        repository = Repository.open(path)
        if repository.current().properties.get("kind") != "archive":
            raise StorageError(
                f"{repository.directory.address} is not an archive", "name the folder of an archive"
            )
        reading = Reading(Ledger(repository))
        return StoredArchive(name, reading, reading.version())

    def latest_version(self) -> StoredArchive:
        """The same archive as it is now."""
        return StoredArchive.open(self.name, self.reading.repository.directory.address)

    @cached_property
    def columns(self) -> tuple[ColumnDefinition, ...]:
        listed = self.version.settings.all_columns.items()
        return tuple(ColumnDefinition(name, parse_type(kind)) for name, kind in listed)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.version.settings.key)

    def latest(self) -> int:
        return self.version.time

    def rows(self, instant: int, columns: Sequence[str], keys: Keys) -> pa.Table:
        directory = self.reading.repository.directory
        reader = Reader(directory, self._version_at(instant))
        chosen = selection(reader.settings, instant)
        if probed := self._probed(keys):
            return reader.probe(keys[probed], chosen, list(columns))
        return reader.scan(chosen, list(columns))

    def access(self, keys: Keys) -> str:
        return access_words([name for name in keys if name == self._probed(keys)])

    def _probed(self, keys: Keys) -> str:
        """The key column, if its values are looked for."""
        settings = self.version.settings
        single = len(self.key) == 1 and not settings.array_key
        return self.key[0] if single and self.key[0] in keys else ""

    def missing(self, instant: int) -> Iterator[str]:
        if self.version.time < instant:
            yield f"archive {self.name} was last updated at {instant_text(self.version.time)}"

    def _version_at(self, instant: int) -> ArchiveVersion:
        return self.version if self.version.time <= instant else self.reading.version_at(instant)
