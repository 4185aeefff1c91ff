"""Writing one part: sorting beyond memory, row groups, refusals, failures that leave nothing."""

from __future__ import annotations

import errno
import tempfile
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mayfly.archive.layouts import RunWrite, Source
from mayfly.archive.model.array_keys import by_part
from mayfly.archive.model.calendar import CalendarDays, FixedIntervals
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.write import part_writer
from mayfly.archive.write.local_jobs import InProcess, as_declared
from mayfly.archive.write.part_writer import PartResult, WriteJob, write_part
from mayfly.errors import BadInput, ProtocolError, StorageError
from mayfly.faults import on_reach
from mayfly.storage import EXP, TS, Directory, open_segment
from tests.unit.archive.small_archive import day_rows, small_archive, small_settings, values

TODAY = RunWrite("1.1", (), frozenset({1}))


def job_of(root: Path, settings: ArchiveSettings, *writes: RunWrite, **options: Any) -> WriteJob:
    usual: dict[str, Any] = {"update": 1, "writes": writes or (TODAY,), "sources": {}}
    return WriteJob(root=str(root), sync=False, settings=settings, **usual | options)


def written(root: Path, result: PartResult) -> pa.Table:
    (segment,) = result.segments
    return open_segment(Directory.at(root), segment)


def many_rows(count: int, keys: int, seed: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "k": chance.integers(0, keys, count),
            "ts": chance.integers(1, 101, count),
            "v": [f"{seed}/{at}" for at in range(count)],
        }
    )


@pytest.mark.parametrize(("count", "keys"), [(400, 50), (400, 3), (400, 1)])
def test_more_rows_than_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, keys: int
) -> None:
    """Each table is sorted and spilled, then all are merged; a key may be larger than a chunk."""
    spilled: list[int] = []
    spill = part_writer.Arrivals._spill

    def counted(arrived: Any) -> None:
        spilled.append(arrived._size)
        spill(arrived)

    monkeypatch.setattr(part_writer.Arrivals, "_spill", counted)
    monkeypatch.setattr(part_writer, "ROWS_AT_ONCE", 16)
    tables = [many_rows(count, keys, seed) for seed in range(5)]
    job = job_of(tmp_path, small_settings(), bytes_in_memory=tables[0].nbytes)
    result = write_part(job, lambda: 0, tables)
    assert len(spilled) >= 2
    rows = written(tmp_path, result)
    assert rows["k"].to_pylist() == sorted(rows["k"].to_pylist())
    assert values(rows) == sorted(value for one in tables for value in one["v"].to_pylist())
    assert result.day_rows == {1: 5 * count}
    assert result.summary.stored == 5 * count


def test_an_archive_that_always_spills(tmp_path: Path) -> None:
    class Frugal(InProcess):
        def write(self, batch: pa.Table | None, job: WriteJob) -> list[PartResult]:
            return super().write(batch, replace(job, bytes_in_memory=1))

    archive = small_archive(tmp_path / "archive", scheme="REINDEX++", parts=2)
    archive.updates.committer.executor = Frugal()
    for day in range(1, 10):
        archive.update(day_rows(day))
    assert values(archive.scan()) == sorted(f"{d}/{k}" for d in range(6, 10) for k in range(10))
    assert archive.maintain.verify().ok


def test_only_rows_that_do_not_fit_memory_need_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_is_usable(**_: Any) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", none_is_usable)
    tables = [many_rows(100, 5, seed) for seed in range(2)]
    job = job_of(tmp_path, small_settings())
    assert write_part(job, lambda: 0, tables).summary.stored == 200
    with pytest.raises(StorageError, match="cannot be set aside: No usable") as refused:
        write_part(replace(job, bytes_in_memory=1), lambda: 0, tables)
    assert "TMPDIR" in refused.value.hint


def test_row_groups_have_the_wanted_size(tmp_path: Path) -> None:
    """All of them but the last, although the tables that are merged end anywhere."""
    settings = small_settings(row_group_bytes=4_000)
    tables = [many_rows(97, 40, seed) for seed in range(20)]
    job = job_of(tmp_path, settings, bytes_in_memory=1)
    (segment,) = write_part(job, lambda: 0, tables).segments
    metadata = pq.read_metadata(tmp_path / segment.path)
    sizes = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    assert len(sizes) > 5
    assert len(set(sizes[:-1])) == 1
    assert sizes[-1] <= sizes[0]
    width = tables[0].nbytes / tables[0].num_rows + 16
    assert 0.5 < sizes[0] * width / 4_000 < 2


def test_what_the_manifest_learns_about_a_part(tmp_path: Path) -> None:
    (segment,) = write_part(job_of(tmp_path, small_settings()), lambda: 7, [day_rows(1)]).segments
    assert segment.tags == {"part": 7, "sorted_by": ["k"], "days": [(1, 10)]}
    assert segment.group == "run/1.1"
    assert (segment.key.low, segment.key.high) == (0, 9) if segment.key else False
    assert (segment.ts.low, segment.ts.high) == (1, 100)
    assert (segment.exp.low, segment.exp.high) == (500, 500)


def test_intervals_have_no_place_in_a_manifest(tmp_path: Path) -> None:
    settings = small_settings(columns={"k": "interval day to second", "ts": "bigint"})
    rows = pa.table({"k": [timedelta(3), timedelta(1)], "ts": [1, 2]})
    (segment,) = write_part(job_of(tmp_path, settings), lambda: 0, [rows]).segments
    assert segment.key is None
    assert open_segment(Directory.at(tmp_path), segment)["k"][0].as_py() == timedelta(1)


def test_a_part_with_refused_rows_writes_nothing(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, None], "ts": [5, 6], "v": ["a", "b"]})
    result = write_part(job_of(tmp_path, small_settings()), lambda: 0, [day_rows(1), rows])
    assert (result.summary.refused, result.summary.rows) == (1, 12)
    assert not result.segments
    assert not (tmp_path / "data").exists()


def data_files(root: Path) -> list[str]:
    return Directory.at(root).all_names("data")


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    """Neither of the run that fails nor of those before it, in any part."""
    writes = [replace(TODAY, id=f"1.{number}") for number in range(3)]
    job = job_of(tmp_path, small_settings(parts=2), *writes)
    left = iter([None] * 4)

    def fail() -> None:
        if next(left, "none") == "none":
            raise RuntimeError("the power is gone")

    for point in ("archive.run-written", "segment.batch-written"):
        left = iter([None] * 4)
        with on_reach(point, fail), pytest.raises(RuntimeError, match="power"):
            InProcess().write(day_rows(1), job)
        assert data_files(tmp_path) == []
    InProcess().write(day_rows(1), job)
    assert len(data_files(tmp_path)) == 6


def test_rows_of_a_day_that_was_not_planned(tmp_path: Path) -> None:
    """A batch that changes between two readings must not lose rows without a word."""
    job = job_of(
        tmp_path,
        small_settings(late="own day"),
        update=3,
        writes=(RunWrite("3.1", (), frozenset({3, 2})),),
    )
    write_part(job, lambda: 0, [day_rows(3), day_rows(2)])
    with pytest.raises(ProtocolError, match=r"rows of \{1\}, which it did not have"):
        write_part(job, lambda: 0, [day_rows(3), day_rows(1)])


@pytest.mark.parametrize(
    "calendar", [FixedIntervals(86_400_000_000), CalendarDays("UTC", date(2026, 1, 1))]
)
@pytest.mark.parametrize("year", [9998, 9999])
def test_times_beyond_the_calendar_are_refused_like_any_from_the_future(
    tmp_path: Path, calendar: Any, year: int
) -> None:
    settings = small_settings(columns={"k": "int", "ts": "timestamp"}, calendar=calendar)
    archive = small_archive(tmp_path / "archive", settings=settings)
    batch = pa.table(
        {
            "k": pa.array([1], pa.int32()),
            "ts": pa.array([datetime(year, 12, 31, 23, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        }
    )
    with pytest.raises(BadInput, match="generated after the time of this update"):
        archive.update(batch)


def test_only_the_days_asked_for_are_taken_from_a_run(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "archive", days=4, constituents=1)
    (run,) = archive.version().state.runs["I1"]
    job = job_of(
        tmp_path / "archive",
        archive.settings,
        RunWrite("5.1", (Source(run.id, frozenset({1, 3})),), frozenset({5})),
        update=5,
        sources={run.id: archive.version().segments_of(run.id)},
    )
    rows = written(tmp_path / "archive", write_part(job, lambda: 0, [day_rows(5)]))
    assert sorted({value[0] for value in rows["v"].to_pylist()}) == ["1", "3", "5"]
    assert rows[EXP].to_pylist() == [100 * (-(-ts // 100) + 4) for ts in rows[TS].to_pylist()]


# -- batches as they come ------------------------------------------------------------------------


def batch(**columns: Any) -> pa.Table:
    usual: dict[str, Any] = {"k": pa.array([1]), "ts": pa.array([5]), "v": pa.array(["a"])}
    return pa.table({name: col for name, col in (usual | columns).items() if col is not None})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"v": None}, "missing: v"),
        ({"k": None, "ts": None}, "missing: k; missing: ts"),
        ({"w": pa.array([1])}, "not in the archive: w"),
        ({"k": pa.array(["1"])}, "k is STRING, not BIGINT"),
        ({"v": pa.array([1])}, "v is BIGINT, not STRING"),
        ({"k": pa.array([1.0])}, "k is DOUBLE, not BIGINT"),
        ({"ts": pa.array([5], pa.timestamp("us", "UTC"))}, "ts is TIMESTAMP, not BIGINT"),
    ],
)
def test_columns_that_do_not_fit(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    archive = small_archive(tmp_path / "archive", late="own day")
    for attempt in (None, 1):
        with pytest.raises(BadInput, match="does not have the archive's columns") as caught:
            archive.update(batch(**columns), update=attempt)
        assert message in caught.value.message
        assert "add_column()" in caught.value.hint
    assert archive.version().manifest.version == 0


def test_narrower_types_and_other_spellings_fit() -> None:
    given = batch(k=pa.array([1], pa.int16()), v=pa.array(["a"], pa.large_string()))
    assert as_declared(given, small_settings()) == batch()


def test_columns_may_come_in_any_order() -> None:
    assert as_declared(batch().select(["v", "ts", "k"]), small_settings()) == batch()


def test_a_name_given_twice() -> None:
    twice = pa.Table.from_arrays(
        [pa.array([1])] * 2 + [pa.array([5]), pa.array(["a"])], ["k", "k", "ts", "v"]
    )
    with pytest.raises(BadInput, match="a name occurs twice"):
        as_declared(twice, small_settings())


def test_times_finer_than_microseconds() -> None:
    settings = small_settings(columns={"k": "bigint", "ts": "timestamp", "v": "string"})
    fine = pa.array([1_001], pa.timestamp("ns", "UTC"))
    with pytest.raises(BadInput, match="values of ts do not fit TIMESTAMP"):
        as_declared(batch(ts=fine), settings)
    even = pa.array([1_000], pa.timestamp("ns", "UTC"))
    assert as_declared(batch(ts=even), settings)["ts"].cast(pa.int64()).to_pylist() == [1]


def test_columns_added_later_may_be_left_out() -> None:
    settings = small_settings().with_column("w", "double")
    assert as_declared(batch(), settings)["w"].to_pylist() == [None]
    assert as_declared(batch(w=pa.array([1.5])), settings)["w"].to_pylist() == [1.5]


def test_arriving_rows_know_their_distinct_values() -> None:
    nan = float("nan")
    settings = small_settings(columns={"k": "array<double>", "ts": "bigint"})
    arrays: list[Any] = [[1.0, 2.0, 1.0], [nan, nan, 0.0, -0.0], [], None, [3.0, None]]
    rows = pa.table({"k": pa.array(arrays, pa.list_(pa.float64())), "ts": range(5)})
    arriving = by_part(rows, settings)[0]
    found = zip(arriving["ts"].to_pylist(), arriving["_values"].to_pylist(), strict=True)
    assert [(row, ["NaN" if v != v else v for v in own]) for row, own in found] == [
        (0, [1.0, 2.0]),
        (1, ["NaN", 0.0]),
        (2, [None]),
        (3, [None]),
        (4, [3.0, None]),
    ]
    assert arriving["_nth"].to_pylist() == [0] * 5
