"""Looking into the files: does the directory hold what its manifest says?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import CorruptFile, StorageError
from mayfly.storage.commit import Repository, manifest_name
from mayfly.storage.files import Directory
from mayfly.storage.segment import EXP, TS, Bounds, Segment, open_segment

SORTED_BY = "sorted_by"
"""Tag of a segment whose rows are clustered: the columns it is sorted by, NULLs first."""


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    what: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """``readable_rows`` counts the rows of the segments without a problem."""

    version: int
    segments: int
    readable_rows: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(repository: Repository, version: int | None = None) -> VerifyReport:
    """Check presence, checksum, counts, ranges and sortedness of every segment of a version."""
    wanted = repository.newest() if version is None else version
    try:
        pin = repository.pin(wanted)
    except CorruptFile as error:
        return VerifyReport(wanted, 0, 0, (Problem(manifest_name(wanted), error.message),))
    with pin as manifest:
        problems: list[Problem] = []
        readable = 0
        for segment in manifest.segments.values():
            found = list(_problems(repository.directory, segment))
            problems += (Problem(segment.path, what) for what in found)
            readable += 0 if found else segment.rows
        return VerifyReport(manifest.version, len(manifest.segments), readable, tuple(problems))


def _problems(directory: Directory, segment: Segment) -> Iterator[str]:
    try:
        table = open_segment(directory, segment, check=True)
    except StorageError as error:
        yield error.message
        return
    for name, bounds in ((TS, segment.ts), (EXP, segment.exp)):
        real = pc.min_max(table[name])
        if Bounds(real["min"].as_py(), real["max"].as_py()) != bounds:
            yield f"the range of {name} differs from the manifest"
    if pc.any(pc.greater_equal(table[TS], table[EXP])).as_py():
        yield "a row has exp <= ts"
    columns = segment.tags.get(SORTED_BY)
    if columns and not _is_sorted(table.select(columns)):
        yield f"rows are not sorted by {', '.join(columns)}"


def _is_sorted(table: pa.Table) -> bool:
    """Each row is at least its predecessor, column by column; NULL comes before any value."""
    tied: pa.Array = pa.repeat(True, max(0, table.num_rows - 1))
    for column in table.combine_chunks().columns:
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        falls = pc.or_(
            pc.fill_null(pc.greater(before, after), False),
            pc.and_(pc.is_valid(before), pc.is_null(after)),
        )
        if pc.any(pc.and_(tied, falls)).as_py():
            return False
        same = pc.or_(
            pc.fill_null(pc.equal(before, after), False),
            pc.and_(pc.is_null(before), pc.is_null(after)),
        )
        tied = pc.and_(tied, same)
    return True
