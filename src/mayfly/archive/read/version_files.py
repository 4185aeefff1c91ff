"""The files of one version: found, opened and decoded, or the reason why that cannot be done.

Files are immutable, so their directories (footers) are cached by path. A file that is missing
because the version was given up is another error than one that is damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from mayfly.archive.model.settings import ArchiveSettings, with_added_columns
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.key_places import Hashes, KeyPlaces, file_hashes
from mayfly.archive.read.stored_files import FileDirectory, file_directory, read_row_groups
from mayfly.errors import CorruptFile
from mayfly.storage.commit import reading_version
from mayfly.storage.directory import Directory
from mayfly.storage.segment import Segment, check_present
from mayfly.storage.store.problems import storage_error


@dataclass(frozen=True)
class VersionFiles:
    """Opens the files that a version names."""

    directory: Directory
    version: ArchiveVersion

    @property
    def settings(self) -> ArchiveSettings:
        return self.version.settings

    def places(self, part: int) -> KeyPlaces:
        """Where the keys of a part lie, found out by the first two probes of a version."""
        cache = self.version.key_places
        if part not in cache or not cache[part].complete:
            files = self.version.files_by_part.get(part, ())
            cache[part] = KeyPlaces.of(files, self._hashes)
        key_places: KeyPlaces = cache[part]
        return key_places

    def _hashes(self, segment: Segment) -> Hashes | None:
        self._require(segment)
        key = self.settings.sort_columns[0]
        try:
            return file_hashes(self.directory.store, segment.path, segment.checksum, key)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(segment, error) from error

    def directory_of(self, segment: Segment) -> FileDirectory:
        self._require(segment)
        key = self.settings.sort_columns[0]
        floating = pa.types.is_floating(self.settings.stored.field(key).type)
        ordered = self.settings.family.clustered and (not floating or segment.key is not None)
        try:
            return file_directory(
                self.directory.store,
                segment.path,
                segment.bytes,
                segment.checksum,
                segment.tail,
                key,
                ordered,
            )
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(segment, error) from error

    def _require(self, segment: Segment) -> None:
        info = self.directory.store.info(segment.path)
        if info is not None and info.size == segment.bytes:
            return
        with reading_version(self.directory, self.version.manifest.version):
            check_present(self.directory, segment)

    def decoded(
        self,
        segment: Segment,
        directory: FileDirectory,
        groups: Sequence[int],
        schema: pa.Schema,
        *,
        again: bool = False,
    ) -> pa.Table:
        present = [name for name in schema.names if name in directory.names]
        try:
            rows = read_row_groups(
                self.directory.store, segment.path, directory, groups, present, again=again
            )
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(segment, error) from error
        return with_added_columns(rows, schema)

    def _unreadable(self, segment: Segment, error: Exception) -> Exception:
        path = f"{self.directory.address}/{segment.path}"
        if isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError):
            return storage_error("read", path, error)
        return CorruptFile(
            f"the data file {path} cannot be read: {error}",
            "restore it from a copy, or run verify to see what is still readable",
        )
