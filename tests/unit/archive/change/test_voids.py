"""Taking rows back: which rows are meant, and that nothing brings them back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly import faults
from mayfly.archive import Archive
from mayfly.errors import InvalidSetting
from tests.unit.archive.rows_with_lifetimes import ids, made, rows_of, stored_exps, table


def named(path: Path, **more: Any) -> Archive:
    archive = mayfly.archive.create(
        path, "k STRING, ts BIGINT, exp BIGINT, id BIGINT", key="k", max_lifetime="80 us",
        refresh="10 us", origin=0, **more,
    )  # fmt: skip
    archive.update(
        pa.table({"k": ["bob", "b", "o"], "ts": [1] * 3, "exp": [50] * 3, "id": [1, 2, 3]})
    )
    return archive


@pytest.mark.parametrize("key", ["bob", b"bob"])
def test_one_key_is_not_a_list_of_its_letters(tmp_path: Path, key: str | bytes) -> None:
    archive = named(tmp_path / "a")
    with pytest.raises(InvalidSetting, match="in a list"):
        archive.invalidate(key)
    assert ids(archive.scan()) == [1, 2, 3]
    assert archive.invalidate(["bob"]).rows == 1
    assert ids(archive.scan()) == [2, 3]


@pytest.mark.parametrize("layout", ["R-exp4", "Rebuild 2x2", "Rebuild 1x1", "WATA3"])
def test_rows_that_are_returned_late_can_be_taken_back(tmp_path: Path, layout: str) -> None:
    archive = made(tmp_path / "a", layout, "SOFT(3)")
    archive.update(table([(1, 10, 20, 1), (2, 10, 20, 2)]))
    archive.update(None)
    assert ids(archive.scan()) == [1, 2]  # expired, and still returned as SOFT allows
    assert archive.invalidate([1]).rows == 1
    assert ids(archive.scan()) == [2]
    assert archive.probe(1).num_rows == 0
    assert archive.maintain.verify().ok


def test_no_rollback_brings_back_what_must_be_gone(tmp_path: Path) -> None:
    root = tmp_path / "a"
    archive = made(root, "NoRebuild 2x2", "PHYSICAL WITHIN 40 us", keep_versions=9)
    archive.update(table([(1, 10, 90, 1), (2, 10, 90, 2)]))
    archive.update(None)
    before = archive.version().manifest.version
    archive.invalidate([1])
    clean = archive.version().manifest.version
    archive.update(None)
    with pytest.raises(InvalidSetting, match=f"version {clean} or a later one"):
        archive.maintain.rollback(before)
    assert ids(archive.scan()) == [2]
    archive.maintain.rollback(clean)
    for _ in range(5):
        archive.update(None)
    assert ids(archive.scan()) == [2]
    assert len(stored_exps(root)) == 1
    assert archive.maintain.verify().ok


def test_a_list_that_a_crash_left_behind_goes_with_the_next_update(tmp_path: Path) -> None:
    """It names the keys of rows whose bytes must be gone."""
    root = tmp_path / "a"
    archive = named(root, contract="PHYSICAL WITHIN 20 us", compression="none")
    left: dict[Path, bytes] = {}

    def note() -> None:
        left.update({file: file.read_bytes() for file in (root / "data").glob("*.parquet")})

    with faults.on_reach("archive.void-written", note):
        archive.invalidate(["bob"])
    lists = {file: content for file, content in left.items() if not file.exists()}
    for file, content in lists.items():
        file.write_bytes(content)
    for _ in range(2):
        archive.update(None)
    assert not [file for file in root.rglob("*") if file.is_file() and b"bob" in file.read_bytes()]
    assert ids(archive.scan()) == [2, 3]


def test_files_of_void_rows_go_although_their_version_went_before(tmp_path: Path) -> None:
    """As few versions are kept as usual: nothing names the file when it falls due."""
    root = tmp_path / "a"
    archive = named(root, contract="PHYSICAL WITHIN 20 us", compression="none")
    (file,) = (root / "data").iterdir()
    content, written = file.read_bytes(), file.stat().st_mtime
    archive.invalidate(["bob"])
    archive.update(None)
    assert archive.inspect.status().erased_until == 9
    report = archive.update(None)
    assert not [file for file in root.rglob("*") if file.is_file() and b"bob" in file.read_bytes()]
    assert report.erased_until == 30
    assert archive.maintain.verify().ok
    file.write_bytes(content)
    os.utime(file, (written, written))
    (problem,) = archive.maintain.verify().problems
    assert problem.path == f"data/{file.name}"
    assert "void rows that should be gone" in problem.what
    assert archive.inspect.status().erased_until == 9
    archive.update(None)
    assert not file.exists()
    assert archive.maintain.verify().ok


def test_without_the_promise_a_rollback_takes_it_all_back(tmp_path: Path) -> None:
    archive = named(tmp_path / "a")
    before = archive.version().manifest.version
    archive.invalidate(["bob"])
    archive.maintain.rollback(before)
    assert ids(archive.scan()) == [1, 2, 3]


def test_void_rows_are_dead_but_stored(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "NoRebuild 2x2")
    for update in range(1, 6):
        archive.update(table(rows_of(update)))
    archive.invalidate([1, 2])
    status = archive.inspect.status()
    assert status.rows == archive.scan().num_rows
    assert status.dead_rows == archive.scan(soft=True).num_rows - status.rows > 0
