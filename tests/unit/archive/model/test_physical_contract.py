"""PHYSICAL WITHIN: when the bytes of dead rows are gone, wherever they lie."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive.erase import feeds
from mayfly.archive.write.staged_rows import Brought, Staging, brought, day_group
from mayfly.errors import VersionExpired
from mayfly.lifetime import MIN_TIME
from mayfly.runtime.clock import Clocks
from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    Directory,
    Repository,
    Segment,
    vacuum,
    write_segment,
)
from mayfly.storage.sealed_files import seal_table
from tests.unit.archive.rows_with_lifetimes import (
    LAYOUTS,
    P,
    ids,
    made,
    rows_of,
    stored_exps,
    table,
)


@pytest.mark.parametrize("within", [10, pytest.param(14, marks=pytest.mark.slow), 25])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_are_gone_in_time(tmp_path: Path, layout: str | None, within: int) -> None:
    root = tmp_path / "a"
    archive = made(root, layout, f"PHYSICAL WITHIN {within} us", keep_versions=5)
    given: list[tuple[int, int, int, int]] = []
    for update in range(1, 22):
        batch = rows_of(update) if update % 4 else []
        given += batch
        report = archive.update(table(batch) if batch else None)
        # Nothing happens before the next update: what falls due until then must be gone.
        due = 10 * (update + 1) - within
        assert all(exp >= due for exp in stored_exps(root))
        assert archive.maintain.verify().ok
        assert report.erased_until is not None
        assert due - 1 <= report.erased_until <= 10 * update == report.hidden_until
        assert all(exp > report.erased_until for exp in stored_exps(root))
        assert ids(archive.scan()) == sorted(r[3] for r in given if r[2] > 10 * update)


def test_every_report_says_what_is_hidden_and_what_is_gone(tmp_path: Path) -> None:
    """Those of earlier updates too, as they were when the next one came."""
    archive = made(tmp_path / "a", "Rebuild 2x2", "SOFT(1) PHYSICAL WITHIN 20 us")
    told = []
    for update in range(1, 6):
        report = archive.update(table(rows_of(update)))
        told.append((report.update, report.hidden_until, report.erased_until))
        assert archive.inspect.status().last["erased_until"] == report.erased_until
    again = mayfly.archive.open(tmp_path / "a")
    kept = [
        (one["update"], one["hidden_until"], one["erased_until"]) for one in again.inspect.reports()
    ]
    assert kept == told
    assert [hidden for _, hidden, _ in told] == [0, 10, 20, 30, 40]
    hard = made(tmp_path / "h")
    hard.update(table(rows_of(1)))
    assert hard.inspect.reports()[0]["hidden_until"] == 10  # and of bytes nothing was promised
    assert hard.inspect.reports()[0]["erased_until"] is None


def test_without_the_promise_bytes_linger(tmp_path: Path) -> None:
    """The check above can fail: WATA keeps rows until the whole group has expired."""
    root = tmp_path / "a"
    archive = made(root, "WATA3")
    for update in range(1, 14):
        archive.update(table(rows_of(update)))
    assert min(stored_exps(root)) < 10 * 13 - 10


@pytest.mark.parametrize("young", [0, 1])
def test_verify_finds_bytes_that_should_be_gone(tmp_path: Path, young: int) -> None:
    root = tmp_path / "a"
    archive = made(root, "NoRebuild 2x2", "PHYSICAL WITHIN 10 us", young=young)
    archive.update(table(rows_of(1)))
    kept = sorted((root / "data").glob("*.arrow" if young else "*.parquet"))[0]
    content, written = kept.read_bytes(), kept.stat().st_mtime
    for _ in range(P + 1):
        archive.update(None)
    assert archive.maintain.verify().ok
    kept.write_bytes(content)
    os.utime(kept, (written, written))
    (problem,) = archive.maintain.verify().problems
    assert "should be gone" in problem.what
    assert problem.path == f"data/{kept.name}"
    archive.update(None)  # what a crash left behind goes with the next update
    assert archive.maintain.verify().ok


@pytest.mark.parametrize("layout", [None, "Rebuild 2x2", "WATA3"])
def test_no_byte_of_an_erased_key_is_left(tmp_path: Path, layout: str | None) -> None:
    """Looked for in the raw content of every file: data, manifests with their key bounds, lists."""
    root = tmp_path / "a"
    archive = mayfly.archive.create(
        root, "k STRING, ts BIGINT, exp BIGINT", key="k", max_lifetime=f"{P * 10} us",
        refresh="10 us", origin=0,
        layout=layout, contract="PHYSICAL WITHIN 20 us", compression="none", keep_versions=9,
    )  # fmt: skip
    ends: dict[str, int] = {}
    for update in range(1, 16):
        rows = [(f"key-{id:04}-", ts, exp) for _, ts, exp, id in rows_of(update)]
        ends |= {key: exp for key, _, exp in rows}
        names = ("k", "ts", "exp")
        archive.update(pa.table({n: [row[at] for row in rows] for at, n in enumerate(names)}))
        if update % 5 == 0:
            taken_back = archive.scan()["k"][0].as_py()
            archive.invalidate([taken_back])
            ends[taken_back] = 10 * update
        content = b"".join(file.read_bytes() for file in root.rglob("*") if file.is_file())
        left = {key for key in ends if key.encode() in content}
        due = 10 * (update + 1) - 20
        assert {key for key, exp in ends.items() if exp > 10 * update} <= left
        assert not {key for key in left if ends[key] < due}


@pytest.mark.parametrize("whole", [True, False])
def test_files_that_no_version_names_are_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """Nobody knows their checksums: they go with the next update, whatever they hold."""
    archive = made(tmp_path / "a", "NoRebuild 2x2", "PHYSICAL WITHIN 20 us")
    archive.update(table([(1, 10, 90, 1)]))
    archive.update(table([(1, 20, 90, 2)]))
    assert archive.inspect.status().erased_until == 20
    directory = archive.repository.directory
    rows = pa.table({TS: pa.array([1], pa.int64()), EXP: pa.array([15], pa.int64())})
    left, under_way = (write_segment(directory, "g", rows) for _ in range(2))
    assert left is not None
    assert under_way is not None
    files = {one.path: tmp_path / "a" / one.path for one in (left, under_way)}
    if not whole:
        for file in files.values():
            invert(file)
    os.utime(files[left.path], (1, 1))
    later = time.time() + 60
    os.utime(files[under_way.path], (later, later))
    opened: list[str] = []
    looked = Directory.open

    def look(self: Directory, name: str, *, mapped: bool = False) -> Any:
        opened.append(name)
        return looked(self, name, mapped=mapped)

    monkeypatch.setattr(Directory, "open", look)
    (problem,) = archive.maintain.verify().problems
    assert (problem.path, "left behind" in problem.what) == (left.path, True)
    assert archive.inspect.status().erased_until == 10
    assert archive.update(None).erased_until == 30
    assert [path for path in files if directory.exists(path)] == [under_way.path]
    assert archive.maintain.verify().ok
    assert opened
    assert not set(opened) & files.keys()


def test_void_rows_leave_older_versions_in_time(tmp_path: Path) -> None:
    """Nothing has expired, so no other reason makes a version go."""
    archive = made(tmp_path / "a", "NoRebuild 2x2", "PHYSICAL WITHIN 20 us", keep_versions=9)
    archive.update(table([(1, 10, 90, 1), (2, 10, 90, 2)]))
    archive.update(table([(1, 20, 90, 3)]))
    first = archive.version().manifest.version
    archive.invalidate([1])
    assert ids(archive.scan(as_of=10)) == [1, 2]
    archive.update(None)
    assert first in archive.repository.versions()
    report = archive.update(None)
    assert min(archive.repository.versions()) > first
    assert len(stored_exps(tmp_path / "a")) == 1
    assert report.erased_until == 40
    assert archive.maintain.verify().ok


def test_rows_that_a_stopped_stream_has_staged_go_too(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "NoRebuild 2x2", "PHYSICAL WITHIN 10 us")
    staging = Staging.at(tmp_path / "a", "slow")
    rows = table([(1, 1, 25, 1), (1, 2, 60, 2)])
    rows = rows.append_column("_ts", rows["ts"]).append_column(EXP, rows["exp"])
    directory = staging.repository.directory
    file = write_segment(directory, day_group(1), rows, format="parquet")
    assert file is not None
    other = write_segment(directory, day_group(1), rows.slice(1), format="parquet")
    assert other is not None
    staging.add(staging.current(), [file, other], (), Brought(batch=0, rows=3))
    archive.update(None)
    archive.update(None)
    assert archive.maintain.verify().ok
    assert archive.inspect.status().erased_until == 20
    archive.update(None)
    assert archive.maintain.verify().ok
    assert archive.inspect.status().erased_until == 30
    assert not directory.exists(file.path)
    assert directory.exists(other.path)
    now = brought(staging.current())
    assert (now.rows, now.dead, staging.current().rows) == (3, 1, 2)
    for _ in range(4):
        archive.update(None)
    assert staging.current().rows == 0
    assert not list((tmp_path / "a" / "staged").rglob("*.parquet"))


def staged_file(staging: Staging) -> Segment:
    """A file with a row that has expired, which no version names yet."""
    rows = table([(1, 1, 25, 1)])
    rows = rows.append_column("_ts", rows["ts"]).append_column(EXP, rows["exp"])
    file = write_segment(staging.repository.directory, day_group(1), rows, format="parquet")
    assert file is not None
    return file


def test_verify_finds_staged_rows_that_should_be_gone(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "NoRebuild 2x2", "PHYSICAL WITHIN 10 us")
    archive.update(None, update=5)
    staging = Staging.at(tmp_path / "a", "slow")
    file = staged_file(staging)
    staging.add(staging.current(), [file], (), Brought(batch=0, rows=1))
    (problem,) = archive.maintain.verify().problems
    assert problem.path == f"staged/slow/{file.path}"
    assert "expired before" in problem.what
    assert archive.inspect.status().erased_until == 24
    archive.update(None)
    assert archive.maintain.verify().ok


def invert(file: Path) -> None:
    file.write_bytes(bytes(255 - byte for byte in file.read_bytes()))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("place", ["staged", "checkpoint"])
def test_files_elsewhere_that_no_version_names_are_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, whole: bool
) -> None:
    """A young one is of a batch under way; an old one is told, and goes with what its owner does
    next, or with the archive's next update."""
    archive = made(tmp_path / "a", "NoRebuild 2x2", "PHYSICAL WITHIN 10 us")
    archive.update(None, update=5)
    staging = Staging.at(tmp_path / "a", "lost")
    feeding_query = checkpoint(tmp_path / "state")
    coming = Brought(batch=0, place=str(tmp_path / "state"))
    staging.add(staging.current(), (), (), coming)
    repository = staging.repository if place == "staged" else feeding_query
    name = staged_file(replace(staging, repository=repository)).path
    file = repository.directory.path(name)
    if not whole:
        invert(file)
    monkeypatch.setattr(feeds, "open_segment", None)
    assert archive.maintain.verify().ok
    assert archive.inspect.status().erased_until == 50
    os.utime(file, (1, 1))
    (problem,) = archive.maintain.verify().problems
    assert problem.path == (f"staged/lost/{name}" if place == "staged" else str(file))
    assert "was left behind" in problem.what
    assert archive.inspect.status().erased_until == MIN_TIME
    archive.update(None)
    assert file.exists() == (place == "checkpoint")
    vacuum(feeding_query, grace=0)
    assert archive.maintain.verify().ok


def checkpoint(root: Path) -> Repository:
    """Of a query whose clock is at 50."""
    clocks = Clocks({"s": 50}).to_json()
    return Repository.create(root, {"kind": feeds.QUERIES, "clocks": clocks}, sync=False)


def test_damage_elsewhere_is_told_and_not_looked_into(tmp_path: Path) -> None:
    """Also where this process has found the file whole before."""
    archive = made(tmp_path / "a", "NoRebuild 2x2", "PHYSICAL WITHIN 10 us")
    archive.update(None, update=1)
    staging, query = Staging.at(tmp_path / "a", "slow"), checkpoint(tmp_path / "state")
    file = staged_file(staging)
    staging.add(staging.current(), [file], (), Brought(batch=0, place=str(tmp_path / "state")))
    kept = staged_file(replace(staging, repository=query))
    query.commit(query.current(), [AddSegments((kept,))])
    (tmp_path / "a" / feeds.WAITING).mkdir()
    ends = tmp_path / "a" / feeds.WAITING / f"1{feeds.ROWS}"
    ends.write_bytes(seal_table(pa.table({feeds.ENDED: [30]})))
    assert archive.maintain.verify().ok
    files = [staging.repository.directory.path(file.path), query.directory.path(kept.path), ends]
    for one in files:
        damage = bytearray(one.read_bytes())
        damage[len(damage) // 2] ^= 1
        one.write_bytes(damage)
    told = archive.maintain.verify().problems
    assert sorted(Path(problem.path).name for problem in told) == sorted(one.name for one in files)
    assert all("checksum" in problem.what for problem in told)


def test_rows_that_ended_before_they_were_declared_void(tmp_path: Path) -> None:
    """Their bytes go in time after their end, not after somebody said so."""
    for ended, left in ((None, True), (11, False)):
        root = tmp_path / str(ended)
        archive = made(root, "NoRebuild 2x2", "PHYSICAL WITHIN 15 us", keep_versions=9)
        archive.update(table([(1, 10, 90, 1), (2, 10, 90, 2)]))
        archive.update(None)
        before = archive.version().manifest.version
        archive.invalidate([1], ended=ended)
        assert (before in archive.repository.versions()) == left
        assert archive.maintain.verify().ok


@pytest.fixture
def file_by_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans give small files one by one, as they do with large ones."""
    monkeypatch.setattr("mayfly.archive.read.version_reader.SCANNED_AT_ONCE", 1)


@pytest.mark.usefixtures("file_by_file")
def test_the_promise_wins_over_a_pinned_reader(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2", "PHYSICAL WITHIN 10 us")
    for update in range(1, 4):
        archive.update(table(rows_of(update)))
    reading = archive.read.scan_tables()
    next(reading)
    pin = archive.read.pin()
    for _ in range(P):
        archive.update(None)
    with pytest.raises(VersionExpired, match="wins over readers"):
        list(reading)
    with pytest.raises(VersionExpired):
        archive.repository.load(pin.manifest.version)


@pytest.mark.usefixtures("file_by_file")
def test_without_the_promise_a_pinned_reader_wins(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2")
    for update in range(1, 4):
        archive.update(table(rows_of(update)))
    before = ids(archive.scan())
    reading = archive.read.scan_tables()
    found = next(reading)["id"].to_pylist()
    for _ in range(P):
        archive.update(None)
        archive.maintain.vacuum(keep_versions=1, grace=0)
    for piece in reading:
        found += piece["id"].to_pylist()
    assert sorted(found) == before
