"""Looking into the files: does the directory hold what its manifest says?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from mayfly.errors import StorageError
from mayfly.storage.commit import Repository
from mayfly.storage.files import Directory
from mayfly.storage.segment import EXP, TS, Segment, check_present, file_checksum, open_segment

SORTED_BY = "sorted_by"
"""Tag of a segment whose rows are clustered: the columns it is sorted by."""


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    what: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    version: int
    segments: int
    readable_rows: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(repository: Repository, version: int | None = None) -> VerifyReport:
    """Check presence, checksum, counts, ranges and sortedness of every segment of a version."""
    with repository.pin(version) as manifest:
        problems: list[Problem] = []
        readable = 0
        for segment in manifest.segments.values():
            found = list(_problems(repository.directory, segment))
            problems += (Problem(segment.path, what) for what in found)
            readable += 0 if found else segment.rows
        return VerifyReport(manifest.version, len(manifest.segments), readable, tuple(problems))


def _problems(directory: Directory, segment: Segment) -> list[str]:
    try:
        check_present(directory, segment)
        if file_checksum(directory, segment.path) != segment.checksum:
            return ["the content differs from its checksum"]
        table = open_segment(directory, segment)
    except StorageError as error:
        return [error.message]
    found = []
    if table.num_rows != segment.rows:
        found.append(f"{table.num_rows} rows instead of {segment.rows}")
    for name, bounds in ((TS, segment.ts), (EXP, segment.exp)):
        real = pc.min_max(table[name])
        if (real["min"].as_py(), real["max"].as_py()) != (bounds.low, bounds.high):
            found.append(f"the range of {name} differs from the manifest")
    if pc.any(pc.greater_equal(table[TS], table[EXP])).as_py():
        found.append("a row has exp <= ts")
    columns = segment.tags.get(SORTED_BY)
    if columns and not _is_sorted([table[name].to_numpy() for name in columns]):
        found.append(f"rows are not sorted by {', '.join(columns)}")
    return found


def _is_sorted(columns: list[np.ndarray]) -> bool:
    tied = np.ones(len(columns[0]) - 1, dtype=bool)
    for values in columns:
        before, after = values[:-1], values[1:]
        if np.any(tied & (before > after)):
            return False
        tied &= before == after
    return True
