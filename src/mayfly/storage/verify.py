"""Looking into the files: does the directory hold what its manifest says?"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from mayfly.arrays import arrow as pa
from mayfly.arrays import compute as pc
from mayfly.display import Facts
from mayfly.errors import CorruptFile, StorageError, VersionExpired
from mayfly.storage.bounds import Bounds
from mayfly.storage.commit import Repository, head_name, manifest_name
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, Segment, open_segment

SORTED_BY = "sorted_by"
"""Tag of a segment whose rows are clustered: the columns it is sorted by, NULLs first."""


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    what: str


@dataclass(frozen=True, slots=True, repr=False)
class VerifyReport(Facts):
    """``segments`` and ``readable_rows`` are those of ``version``, the newest that was looked at;
    the rows are of its segments without a problem."""

    version: int
    segments: int
    readable_rows: int
    problems: tuple[Problem, ...]
    versions: int = 1
    """How many versions were looked at, the problems of all of them included."""

    @property
    def ok(self) -> bool:
        return not self.problems

    def facts(self) -> Mapping[str, object]:
        """In words: all figures, and the first problem."""
        problems = str(len(self.problems))
        if self.problems:
            problems += f", the first in {self.problems[0].path}: {self.problems[0].what}"
        return {
            "problems": problems, "version": self.version, "segments": self.segments,
            "readable rows": self.readable_rows, "versions": self.versions,
        }  # fmt: skip


def verify(repository: Repository, version: int | None = None) -> VerifyReport:
    """Check presence, checksum, counts, ranges and sortedness of every segment of every retained
    version, or of one; each file is read once."""
    numbers = repository.versions() if version is None else [version]
    if not numbers:
        repository.newest()  # says what has become of them
    files: dict[str, list[str]] = {}
    reports: list[VerifyReport] = []
    for number in reversed(numbers):
        with contextlib.suppress(*([VersionExpired] if reports else [])):  # vacuumed meanwhile
            reports.append(_verify(repository, number, files, newest=not reports))
    problems = [problem for report in reports for problem in report.problems]
    if version is None:
        problems += _missing_versions(repository, {problem.path for problem in problems})
    return replace(reports[0], problems=tuple(problems), versions=len(reports))


def _missing_versions(repository: Repository, damaged: Collection[str]) -> Iterator[Problem]:
    """Versions from the oldest retained to the last committed whose manifests are gone, and the
    mark of the newest, without which it is unknown which that was."""
    stored, last = set(repository.stored_versions()), repository.last()
    if last in stored and manifest_name(last) not in damaged:
        try:
            repository.current()
        except CorruptFile as error:
            yield Problem(head_name(last), error.message)
    given_up = _given_up(repository, stored)
    for number in range(repository.oldest(), last + 1):
        lost = number not in stored and number not in given_up
        if lost and not repository.directory.exists(manifest_name(number)):
            yield Problem(manifest_name(number), f"the manifest of version {number} is missing")


def _given_up(repository: Repository, stored: Collection[int]) -> set[int]:
    """Numbers of versions that were lost, and that a rollback went on without."""
    numbers: set[int] = set()
    for number in stored:
        with contextlib.suppress(CorruptFile, VersionExpired):
            if (before := repository.load(number).after) is not None:
                numbers.update(range(before + 1, number))
    return numbers


def _verify(
    repository: Repository, number: int, files: dict[str, list[str]], *, newest: bool
) -> VerifyReport:
    """What is wrong with a version, without what newer ones have in ``files``."""
    try:
        pin = repository.pin(number)
    except CorruptFile as error:
        return VerifyReport(number, 0, 0, (Problem(manifest_name(number), error.message),))
    problems: list[Problem] = []
    readable = 0
    with pin as manifest:
        for path, segment in manifest.segments.items():
            if path not in files:
                files[path] = list(_problems(repository.directory, segment))
                where = "" if newest else f" (the newest version that needs it is {number})"
                problems += (Problem(path, f"{what}{where}") for what in files[path])
            readable += 0 if files[path] else segment.rows
        return VerifyReport(number, len(manifest.segments), readable, tuple(problems))


def _problems(directory: Directory, segment: Segment) -> Iterator[str]:
    try:
        table = open_segment(directory, segment, again=True)
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
