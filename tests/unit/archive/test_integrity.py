"""Damage in stored files is named by whoever reads them, and never copied into new ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mayfly.archive
from mayfly.archive import Archive
from mayfly.archive.erase.feeds import kept_elsewhere
from mayfly.errors import CorruptFile
from mayfly.storage import Segment, vacuum
from mayfly.storage.commit import head_name, manifest_name

OLD = Path(__file__).parents[2] / "golden/formats/archive-version-1"
DAY = 86_400_000_000
LASTING = {"max_lifetime": "30 days", "lifetime": "30 days"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "wata": {"window": 4, "constituents": 2},
    "rebuild": {**LASTING, "layout": "round-robin 2", "rebuild": True},
    "no rebuild": {**LASTING, "layout": "round-robin 2", "rebuild": False, "fan_in": 2, "young": 2},
}


def rows(day: int, count: int = 400) -> pa.Table:
    times = [(day - 1) * DAY + 1 + at for at in range(count)]
    return pa.table(
        {
            "k": pa.array([f"key {at % 50:02}" for at in range(count)]),
            "v": pa.array(range(count), pa.int64()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def archive_of(path: Path, days: int = 2, **settings: Any) -> Archive:
    columns = "k STRING, v BIGINT, ts TIMESTAMP"
    archive = mayfly.archive.create(path, columns, key="k", parts=1, origin=0, **settings)
    update_days(archive, range(1, days + 1))
    return archive


def update_days(archive: Archive, days: Iterable[int]) -> None:
    for day in days:
        archive.update(rows(day))


def files(archive: Archive) -> list[Segment]:
    return list(archive.version().manifest.segments.values())


def flip(archive: Archive, segment: Segment, at: int) -> None:
    """Flip a bit of a byte."""
    path = archive.repository.directory.path(segment.path)
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


READS: dict[str, Callable[[Archive], object]] = {
    "probe": lambda archive: archive.probe("key 07"),
    "range": lambda archive: archive.probe_range("key 07", "key 09"),
    "scan": lambda archive: archive.scan(),
    "tables": lambda archive: list(archive.read.scan_tables()),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reader_names_the_damaged_file(tmp_path: Path, layout: str, read: str) -> None:
    archive = archive_of(tmp_path / "a", **LAYOUTS[layout])
    for segment in files(archive):
        flip(archive, segment, segment.bytes // 3)
    with pytest.raises(CorruptFile, match=r"data file .*/data/.* differs from its checksum") as got:
        READS[read](archive)
    assert "restore it from a copy" in got.value.hint


def test_a_damaged_footer_is_named(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a", window=4)
    for segment in files(archive):
        assert segment.tail is not None
        flip(archive, segment, segment.bytes - segment.tail.bytes // 2)
    with pytest.raises(CorruptFile, match="differs from its checksum"):
        archive.probe("key 07")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damage_is_not_copied_into_new_files(tmp_path: Path, layout: str) -> None:
    """Even where this process has read the file before, when it was whole."""
    archive = archive_of(tmp_path / "a", **LAYOUTS[layout])
    archive.scan()
    for segment in files(archive):
        flip(archive, segment, segment.bytes // 3)
    with pytest.raises(CorruptFile, match="differs from its checksum"):
        update_days(archive, range(3, 12))
    vacuum(archive.repository, keep_versions=1, grace=0)
    assert not archive.maintain.verify().ok


@pytest.mark.parametrize(("layout", "format"), [("rebuild", "parquet"), ("no rebuild", "arrow")])
def test_row_groups_that_nobody_reads_are_not_checked(
    tmp_path: Path, layout: str, format: str
) -> None:
    archive = archive_of(tmp_path / "a", row_group_bytes=2_000, **LAYOUTS[layout])
    assert format in {one.format for one in files(archive)}
    assert archive.probe("key 00").num_rows == 16
    for segment in (one for one in files(archive) if one.format == format):
        flip(archive, segment, 2 * segment.bytes // 3)
    again = mayfly.archive.open(tmp_path / "a")
    assert again.probe("key 00").num_rows == 16
    with pytest.raises(CorruptFile, match="differs from its checksum"):
        again.scan()


@pytest.mark.parametrize("kind", ["soft", "young"])
def test_files_of_earlier_versions_are_checked_whole(tmp_path: Path, kind: str) -> None:
    shutil.copytree(OLD / kind, tmp_path / "a")
    archive = mayfly.archive.open(tmp_path / "a")
    assert all(one.tail is None for one in files(archive))
    count = archive.scan().num_rows
    assert count
    shutil.move(tmp_path / "a", tmp_path / "b")
    moved = mayfly.archive.open(tmp_path / "b")
    for segment in files(moved):
        flip(moved, segment, segment.bytes // 3)
    with pytest.raises(CorruptFile, match="differs from its checksum"):
        moved.scan()


def test_verify_looks_into_older_versions_and_rollback_refuses_them(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a", 4, window=2, constituents=2, keep_versions=3)
    older = archive.repository.load(archive.repository.versions()[0])
    newest = archive.version().manifest
    gone = [one for path, one in older.segments.items() if path not in newest.segments]
    flip(archive, gone[0], gone[0].bytes // 2)
    assert archive.scan().num_rows == 800
    assert [problem.path for problem in archive.maintain.verify().problems] == [gone[0].path]
    with pytest.raises(CorruptFile, match=f"version {older.version} .* is not whole"):
        archive.maintain.rollback(older.version)
    assert archive.version().manifest == newest


@pytest.mark.parametrize("lifetimes", [False, True])
@pytest.mark.parametrize("mark", [False, True])
def test_verify_lists_a_lost_newest_manifest(tmp_path: Path, lifetimes: bool, mark: bool) -> None:
    settings: dict[str, Any] = {"max_lifetime": "3 us", "lifetime": "3 us", "late": "this update"}
    archive = mayfly.archive.create(
        tmp_path / "a", "k STRING, ts BIGINT", key="k", refresh="1 us", origin=0,
        **({**settings, "contract": "HARD PHYSICAL WITHIN 2 us"} if lifetimes else {"window": 3}),
    )  # fmt: skip
    for at in (1, 2):
        archive.update({"k": ["a"], "ts": [at]})
    last = archive.version().manifest.version
    before = [number for number in archive.repository.versions() if number < last]
    archive.repository.directory.remove(manifest_name(last))
    if mark:
        archive.repository.directory.remove(head_name(last))
    paths = [
        problem.path for problem in mayfly.archive.open(tmp_path / "a").maintain.verify().problems
    ]
    assert paths == [head_name(before[-1]) if mark else manifest_name(last)]
    with pytest.raises(CorruptFile, match="may be too" if mark else "is gone"):
        archive.scan()
    archive.maintain.rollback(before[-1])
    assert archive.scan().num_rows


def test_staged_files_are_compared_before_anybody_looks_into_them(tmp_path: Path) -> None:
    """Where bytes must be gone in time, other bytes than those written say nothing."""
    shutil.copytree(OLD / "array", tmp_path / "a")
    whole = list(kept_elsewhere(f"{tmp_path}/a", 0))
    assert whole
    assert min(file.earliest for file in whole) > 1
    name = min(file.name for file in whole)
    rows = pq.read_table(tmp_path / "a" / name)
    at = rows.schema.get_field_index("_exp")
    rows = rows.set_column(at, "_exp", pa.array([1] * rows.num_rows, pa.int64()))
    pq.write_table(rows, tmp_path / "a" / name)
    assert list(kept_elsewhere(f"{tmp_path}/a", 0)) == whole
    assert [one.path for one in mayfly.archive.open(tmp_path / "a").maintain.verify().problems] == [
        name
    ]
