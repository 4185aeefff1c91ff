"""Verify finds each kind of damage, names the file, and counts what is still readable."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    Bounds,
    DropSegments,
    Repository,
    Segment,
    vacuum,
    verify,
    write_segment,
)
from mayfly.storage.commit import manifest_name
from mayfly.storage.verify import SORTED_BY
from tests.unit.storage.rows import flip_a_byte, segment, table


def with_two(repository: Repository) -> tuple[Segment, Segment]:
    one, two = segment(repository, [1, 2, 3]), segment(repository, [4, 5], format="parquet")
    repository.commit(repository.current(), [AddSegments((one, two))])
    return one, two


def test_an_intact_directory_has_no_problems(repository: Repository) -> None:
    with_two(repository)
    report = verify(repository)
    assert report.ok
    assert (report.version, report.segments, report.readable_rows) == (1, 2, 5)
    assert repository.pinned_versions() == {}


def test_an_older_version_can_be_verified(repository: Repository) -> None:
    with_two(repository)
    assert verify(repository, 0).segments == 0


def test_files_of_every_retained_version_are_looked_at(repository: Repository) -> None:
    one, two = with_two(repository)
    repository.commit(repository.current(), [DropSegments.of([one])])
    assert verify(repository).versions == 3
    flip_a_byte(repository.directory.root / one.path, one.bytes // 2)
    report = verify(repository)
    (problem,) = report.problems
    assert problem.path == one.path
    assert "(the newest version that needs it is 1)" in problem.what
    assert (report.version, report.segments, report.readable_rows) == (2, 1, two.rows)
    assert verify(repository, 2).ok
    vacuum(repository, keep_versions=1, grace=0)
    assert verify(repository).ok


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_manifest_that_is_gone_is_noticed(repository: Repository, gone: int) -> None:
    with_two(repository)
    repository.commit(repository.current(), [])
    repository.directory.remove(manifest_name(gone))
    (problem,) = verify(repository).problems
    assert problem.path == manifest_name(gone)


DAMAGE: dict[str, Callable[[Repository, Segment], object]] = {
    "is missing": lambda r, s: r.directory.remove(s.path),
    "bytes instead of": lambda r, s: os.truncate(r.directory.root / s.path, 10),
    "differs from its checksum": lambda r, s: flip_a_byte(r.directory.root / s.path, s.bytes // 2),
}


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("which", [0, 1])
def test_damage_is_named_and_the_rest_counted(
    repository: Repository, what: str, which: int
) -> None:
    segments = with_two(repository)
    DAMAGE[what](repository, segments[which])
    report = verify(repository)
    (problem,) = report.problems
    assert problem.path == segments[which].path
    assert what in problem.what
    assert report.readable_rows == segments[1 - which].rows
    assert not report.ok


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"rows": 4}, "3 rows instead of 4"),
        ({"ts": Bounds(1, 4)}, "the range of _ts differs"),
        ({"exp": Bounds(10, 13)}, "the range of _exp differs"),
        ({"checksum": "0" * 16}, "differs from its checksum"),
        ({"tags": {SORTED_BY: ["down"]}}, "rows are not sorted by down"),
    ],
)
def test_a_manifest_that_lies_is_found(
    repository: Repository, lie: dict[str, object], message: str
) -> None:
    rows = table([1, 2, 3]).append_column("down", pa.array([3, 2, 1]))
    honest = write_segment(repository.directory, "g", rows, tags={SORTED_BY: ["id", "down"]})
    assert honest is not None
    lying = replace(honest, **lie)  # type: ignore[arg-type]
    repository.commit(repository.current(), [AddSegments((lying,))])
    (problem,) = verify(repository).problems
    assert message in problem.what


def test_rows_that_never_live_are_found(repository: Repository) -> None:
    rows = pa.table({TS: pa.array([1, 5], pa.int64()), EXP: pa.array([9, 5], pa.int64())})
    one = write_segment(repository.directory, "g", rows)
    assert one is not None
    repository.commit(repository.current(), [AddSegments((one,))])
    (problem,) = verify(repository).problems
    assert problem.what == "a row has exp <= ts"


@pytest.mark.parametrize(
    ("columns", "fine"),
    [
        ({"a": [1, 1, 2]}, True),
        ({"a": [1, 2, 1]}, False),
        ({"a": [None, None, "x"]}, True),
        ({"a": ["x", None, "y"]}, False),
        ({"a": [1, 1, 2], "b": ["b", "c", "a"]}, True),
        ({"a": [1, 1, 2], "b": ["c", "b", "d"]}, False),
        ({"a": [None, None, 1], "b": [2, 1, 3]}, False),
        ({"a": [None, None, 1], "b": [1, 2, 0]}, True),
    ],
)
def test_sortedness_is_lexicographic_with_nulls_first(
    repository: Repository, columns: dict[str, list[object]], fine: bool
) -> None:
    rows = table([1, 2, 3])
    for name, values in columns.items():
        rows = rows.append_column(name, pa.array(values))
    one = write_segment(repository.directory, "g", rows, tags={SORTED_BY: list(columns)})
    assert one is not None
    repository.commit(repository.current(), [AddSegments((one,))])
    assert verify(repository).ok is fine


def test_a_single_row_is_sorted(repository: Repository) -> None:
    one = segment(repository, [1], tags={SORTED_BY: ["id"]})
    repository.commit(repository.current(), [AddSegments((one,))])
    assert verify(repository).ok
