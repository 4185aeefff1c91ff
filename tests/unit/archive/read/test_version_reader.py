"""What a read touches, what it refuses, and that a row is found once under several keys."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mayfly.archive
from mayfly.archive.archive import Archive
from mayfly.archive.read import stored_files
from mayfly.archive.read.selection import ReadReport, Selection
from mayfly.archive.read.stored_files import file_directory
from mayfly.archive.read.version_files import VersionFiles
from mayfly.archive.read.version_reader import Reader
from mayfly.errors import CorruptFile, InvalidSetting
from mayfly.storage import Segment
from tests.unit.archive.small_archive import day_rows, said, small_archive, small_settings, values

KEYS = range(200)


def files_of(archive: Archive) -> list[tuple[Segment, pq.FileMetaData]]:
    root = archive.repository.directory.root
    segments = archive.version().manifest.segments.values()
    return [(segment, pq.read_metadata(root / segment.path)) for segment in segments]


def chunk_bytes(metadata: pq.FileMetaData, columns: Sequence[str], groups: Sequence[int]) -> int:
    return sum(
        chunk.total_compressed_size
        for at in groups
        for chunk in (metadata.row_group(at).column(c) for c in range(metadata.num_columns))
        if chunk.path_in_schema in columns
    )


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Four days of 200 keys over two constituents, in row groups of 64 rows."""
    archive = small_archive(tmp_path / "archive", row_group_bytes=1)
    for day in range(1, 5):
        archive.update(day_rows(day, KEYS))
    return archive


def test_a_probe_decodes_the_row_groups_of_its_key(archive: Archive) -> None:
    report = ReadReport()
    assert values(archive.probe(77, report=report)) == said(range(1, 5), [77])
    touched = []
    for _, metadata in files_of(archive):
        statistics = [metadata.row_group(at).column(0).statistics for at in range(7)]
        groups = [at for at, one in enumerate(statistics) if one.min <= 77 <= one.max]
        touched.append((metadata, groups))
    assert len(touched) == report.files == report.constituents == 2
    assert report.row_groups == sum(len(groups) for _, groups in touched) < 4
    columns = ["k", "ts", "v"]  # all rows are alive, so nobody looks at their lifetimes
    assert report.bytes == sum(chunk_bytes(m, columns, groups) for m, groups in touched)
    assert report.rows == 4
    report = ReadReport()
    archive.probe(77, generated_between=(1, None), report=report)
    columns += ["_exp"]  # ts is read anyway, and says the same as _ts
    assert report.bytes == sum(chunk_bytes(m, columns, groups) for m, groups in touched)
    archive.probe(77, generated_between=(1, None), columns=["v"], report=(report := ReadReport()))
    columns = ["k", "v", "_ts", "_exp"]
    assert report.bytes == sum(chunk_bytes(m, columns, groups) for m, groups in touched)


def test_fewer_columns_mean_fewer_bytes(archive: Archive) -> None:
    whole, part = ReadReport(), ReadReport()
    archive.scan(report=whole)
    rows = archive.scan(columns=["ts"], report=part)
    assert rows.column_names == ["ts"]
    assert rows.num_rows == 800
    files = files_of(archive)
    assert whole.bytes == sum(
        chunk_bytes(m, ["k", "ts", "v"], range(m.num_row_groups)) for _, m in files
    )
    assert whole.bytes - part.bytes == sum(
        chunk_bytes(m, ["v"], range(m.num_row_groups)) for _, m in files
    )
    assert whole.bytes < sum(segment.bytes for segment, _ in files)


def test_a_report_adds_up_over_reads(archive: Archive) -> None:
    once, twice = ReadReport(), ReadReport()
    archive.probe(5, report=once)
    for _ in range(2):
        archive.probe(5, report=twice)
    assert twice == ReadReport(
        2 * once.constituents, 2 * once.files, 2 * once.row_groups, 2 * once.bytes, 2 * once.rows
    )


def test_times_skip_constituents(archive: Archive) -> None:
    """Days 1 and 2 lie in one constituent, 3 and 4 in the other."""
    for between, constituents in (((1, 200), 1), ((201, 400), 1), ((200, 201), 2), ((401, 500), 0)):
        report = ReadReport()
        archive.probe(5, generated_between=between, report=report)
        assert report.constituents == constituents
        archive.scan(generated_between=between, report=(report := ReadReport()))
        assert report.constituents == constituents
    archive.scan(as_of=600, report=(report := ReadReport()))
    assert report.constituents == 1
    archive.scan(as_of=600, soft=True, report=(report := ReadReport()))
    assert report.constituents == 2


def test_a_probe_opens_the_files_of_its_part(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "archive", days=4, parts=3)
    for key in range(10):
        report = ReadReport()
        assert values(archive.probe(key, report=report)) == said(range(1, 5), [key])
        assert report.files == 2
    assert len(files_of(archive)) == 6


def test_several_keys_and_ranges(archive: Archive) -> None:
    assert values(archive.probe()) == []
    assert values(archive.probe(3, 190, 3, -1)) == said(range(1, 5), [3, 190])
    assert values(archive.probe_range(10, 12)) == said(range(1, 5), [10, 11, 12])
    assert values(archive.probe_range(high=1)) == said(range(1, 5), [0, 1])
    assert values(archive.probe_range(198)) == said(range(1, 5), [198, 199])
    assert values(archive.probe_range(12, 10)) == []
    assert archive.probe_range().num_rows == 800
    for key in KEYS:  # the first and last ones of every row group among them
        assert values(archive.probe(key)) == said(range(1, 5), [key])
    report = ReadReport()
    archive.probe_range(0, 10, report=report)
    assert report.row_groups <= 4


@pytest.mark.parametrize("parts", [1, 3])
def test_a_row_is_found_once_under_several_values_of_its_array(tmp_path: Path, parts: int) -> None:
    settings = small_settings(
        columns={"k": "array<string>", "ts": "bigint", "v": "string"}, parts=parts
    )
    archive = small_archive(tmp_path / "archive", settings=settings)
    rows = [["a", "b"], ["b", "a", "b"], ["c"], ["b", "d", "e"]]
    archive.update(pa.table({"k": rows, "ts": range(1, 5), "v": ["ab", "bab", "c", "bde"]}))
    assert values(archive.probe("b")) == ["ab", "bab", "bde"]
    assert values(archive.probe("a", "b")) == ["ab", "bab", "bde"]
    assert values(archive.probe("b", "a", "c", "e", "d", "b")) == ["ab", "bab", "bde", "c"]
    assert values(archive.probe("b", columns=["v"])) == ["ab", "bab", "bde"]
    assert values(archive.probe_range("a", "c")) == ["ab", "bab", "bde", "c"]
    assert values(archive.probe_range("d", "z")) == ["bde"]
    assert values(archive.probe_range("d", "z", columns=["v"])) == ["bde"]
    assert values(archive.scan()) == ["ab", "bab", "bde", "c"]
    assert values(archive.scan(columns=["v"])) == ["ab", "bab", "bde", "c"]


def test_deleted_days_stay_hidden_although_their_rows_are_there(tmp_path: Path) -> None:
    """In place: a run with late rows of several days outlives the first of them."""
    archive = small_archive(
        tmp_path / "archive", days=3, technique="in-place", constituents=1, late="own day"
    )
    late = [day_rows(2, [100]), day_rows(3, [101])]
    archive.update(pa.concat_tables([day_rows(4), *late]))
    for day in (5, 6):
        archive.update(day_rows(day))
    (mixed,) = (run for run in archive.version().state.runs["I1"] if len(run.days) == 3)
    assert mixed.deleted_days == {2}
    shown = sorted([*said(range(3, 7)), "3/101"])
    for soft in (False, True):
        assert values(archive.scan(soft=soft)) == shown
        assert values(archive.probe(100, soft=soft)) == []
        assert values(archive.probe(101, soft=soft)) == ["3/101"]
        assert values(archive.probe_range(100, 101, soft=soft)) == ["3/101"]
    assert archive.version().state.report["dead_but_stored"] == 1


def test_floats_are_skipped_by_key_unless_there_is_nan(tmp_path: Path) -> None:
    """NaN has no place in a file's statistics: a file with one is read whole."""
    settings = small_settings(
        columns={"k": "double", "ts": "bigint", "v": "string"}, row_group_bytes=1
    )
    archive = small_archive(tmp_path / "archive", settings=settings)
    keys = [float(key) for key in range(640)]
    archive.update(day_rows(1, keys))
    archive.probe(3.0, report=(report := ReadReport()))
    assert (report.row_groups, report.rows) == (1, 1)
    archive.probe(float("nan"), report=(report := ReadReport()))
    assert report.rows == 0
    archive.update(day_rows(2, [*keys, float("nan")]))
    archive.probe(3.0, report=(report := ReadReport()))
    assert (report.row_groups, report.rows) == (21, 2)
    assert archive.probe(float("nan")).num_rows == 1
    assert archive.probe_range(639.0).num_rows == 3
    assert archive.probe_range(639.0, 1e300).num_rows == 2


# -- what cannot be asked ------------------------------------------------------------------------


def test_questions_that_make_no_sense(archive: Archive) -> None:
    questions: list[tuple[Callable[[], object], str, str]] = [
        (lambda: archive.probe("x"), "'x' is not a BIGINT", "probe k with a value of its type"),
        (lambda: archive.probe(2**70), "is not a BIGINT", "its type"),
        (lambda: archive.probe(1.5), "1.5 is not a BIGINT", "its type"),
        (lambda: archive.probe(None), "NULL key is never stored", "probe with a value"),
        (lambda: archive.probe((1, 2)), "has 2 values, the archive's key has 1", "(k)"),
        (lambda: archive.probe_range("a", "b"), "'a' is not a BIGINT", "its type"),
        (lambda: archive.probe(1, columns=["w"]), "no column 'w'", "k, ts, v"),
        (lambda: archive.scan(columns=["_ts"]), "no column '_ts'", "k, ts, v"),
    ]
    for ask, message, hint in questions:
        with pytest.raises(InvalidSetting) as caught:
            ask()
        assert message in caught.value.message
        assert hint in caught.value.hint


def test_keys_are_converted_to_their_type(tmp_path: Path) -> None:
    settings = small_settings(
        columns={"d": "date", "f": "float", "ts": "timestamp"}, key=("d", "f"), time="ts"
    )
    archive = small_archive(tmp_path / "archive", settings=settings)
    moment = datetime(1970, 1, 1, 0, 0, 0, 50, UTC)
    archive.update(
        pa.table(
            {
                "d": [date(2026, 1, 1)],
                "f": pa.array([0.1], pa.float32()),
                "ts": pa.array([moment], pa.timestamp("us", "UTC")),
            }
        )
    )
    assert archive.probe((date(2026, 1, 1), 0.1)).num_rows == 1
    assert archive.probe((date(2026, 1, 1), 0.2)).num_rows == 0
    assert archive.scan(as_of=datetime(1970, 1, 1, 0, 0, 0, 499)).num_rows == 1
    assert archive.scan(as_of="1970-01-01T00:00:00.000500").num_rows == 0
    for wrong in ("soon", 0.5, datetime(2026, 1, 1, 5)):
        with pytest.raises(InvalidSetting, match="is not a DATE"):
            archive.probe((wrong, 0.1))
    with pytest.raises(InvalidSetting, match="is not a FLOAT"):
        archive.probe((date(2026, 1, 1), 1e300))
    assert archive.probe((date(2026, 1, 1), float("inf"))).num_rows == 0


# -- files ---------------------------------------------------------------------------------------


def spoil(archive: Archive, how: str) -> str:
    segment = next(iter(archive.version().manifest.segments.values()))
    path = archive.repository.directory.root / segment.path
    match how:
        case "missing":
            path.unlink()
        case "truncated":
            os.truncate(path, segment.bytes // 2)
        case "garbled":
            path.write_bytes(os.urandom(segment.bytes))
    return segment.path


@pytest.mark.parametrize("how", ["missing", "truncated", "garbled"])
@pytest.mark.parametrize("known", [True, False], ids=["directory cached", "not yet read"])
def test_damaged_files_are_named(archive: Archive, how: str, known: bool) -> None:
    file_directory.cache_clear()
    if known:
        archive.scan()
    name = spoil(archive, how)
    reads: list[Callable[[], object]] = [
        archive.scan,
        lambda: archive.probe(5),
        lambda: archive.probe_range(3, 9),
    ]
    for read in reads:
        with pytest.raises(CorruptFile) as caught:
            read()
        assert name in caught.value.message
        assert "run verify" in caught.value.hint
    (problem,) = archive.maintain.verify().problems
    assert problem.path == name
    with pytest.raises(CorruptFile, match=name):
        archive.update(day_rows(5))
    assert archive.version().state.update == 4


def test_what_a_damaged_file_does_not_hold_stays_readable(archive: Archive) -> None:
    spoil(archive, "missing")
    report = archive.maintain.verify()
    assert (report.segments, report.readable_rows) == (2, 400)
    half = archive.scan(generated_between=(201, 400))
    assert half.num_rows == 400


if Path("/proc/self/maps").exists():

    def held_files(archive: Archive) -> set[str]:
        data = str(archive.repository.directory.root / "data")
        mapped = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
        opened = [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]
        return {Path(path).name for path in (*mapped, *opened) if path.startswith(data)}

    def names(archive: Archive) -> set[str]:
        return {Path(path).name for path in archive.version().manifest.segments}

    def test_only_probes_keep_files_open_and_only_those_of_the_version(archive: Archive) -> None:
        """A vacuumed file gives its space back."""
        rows = archive.scan()
        assert held_files(archive) == set()
        answer = archive.probe(7)
        assert held_files(archive) == names(archive)
        archive.update(day_rows(5, KEYS))
        assert held_files(archive) <= names(archive)
        stored_files.let_go(str(archive.repository.directory.root))
        assert held_files(archive) == set()
        assert (rows.num_rows, answer.num_rows) == (800, 4)

    def test_few_files_are_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stored_files, "KEPT_OPEN", 3)
        archive = small_archive(tmp_path / "archive", days=12, window=12, constituents=12)
        for key in range(5):
            assert archive.probe(key).num_rows == 12
        ours = {path for path in stored_files._open_files if path.startswith(str(tmp_path))}
        assert len(held_files(archive)) == len(ours) == 3


def test_young_runs_are_arrow_files_and_answers_do_not_hold_them(tmp_path: Path) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "k STRING, ts BIGINT, exp BIGINT", key="k", max_lifetime="8 us",
        refresh="1 us", origin=0, layout="NoRebuild 1x1", fan_in=2, young=1, span=8,
    )  # fmt: skip
    for update in range(1, 4):
        keys = [*(f"k{at:03}" for at in range(100)), f"only {update}"]
        archive.update(pa.table({"k": keys, "ts": [update] * 101, "exp": [update + 5] * 101}))
    formats = {(s.level, s.format) for s in archive.version().manifest.segments.values()}
    assert formats == {(0, "arrow"), (1, "parquet")}
    for key in ("k000", "k050", "k099"):
        assert sorted(archive.probe(key)["ts"].to_pylist()) == [1, 2, 3]
    assert archive.probe("k0505").num_rows == 0
    assert sorted(archive.probe("k007", "k093", "none")["ts"].to_pylist()) == [1, 1, 2, 2, 3, 3]
    assert archive.probe_range("k097")["k"].to_pylist().count("k098") == 3
    before = pa.total_allocated_bytes()
    answer = archive.probe("only 3")
    assert answer.num_rows == 1
    assert pa.total_allocated_bytes() > before  # a copy, not the mapped file
    young = {p for p, s in archive.version().manifest.segments.items() if s.format == "arrow"}
    assert young <= {path[-len(one) :] for path in stored_files._mapped_files for one in young}
    archive.update(None, update=20)
    root = str(tmp_path / "a")
    assert not [path for path in stored_files._mapped_files if path.startswith(root)]
    assert archive.maintain.verify().ok


def test_a_scan_decodes_a_bounded_number_of_files_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = small_archive(tmp_path / "archive", days=12, window=12, constituents=12)
    monkeypatch.setattr("mayfly.archive.read.version_reader.SCANNED_AT_ONCE", 1)  # one file a piece
    decoded: list[str] = []
    decode = VersionFiles.decoded

    def counted(self: VersionFiles, segment: Segment, *rest: Any, **how: Any) -> pa.Table:
        decoded.append(segment.path)
        return decode(self, segment, *rest, **how)

    monkeypatch.setattr(VersionFiles, "decoded", counted)
    reader = Reader(archive.repository.directory, archive.version())
    tables = reader.scan_tables(Selection(archive.version().time))
    for taken in range(1, 13):
        next(tables)
        assert len(decoded) <= taken + reader.threads
    assert next(tables, None) is None
    assert len(set(decoded)) == 12


def test_a_moved_archive_is_read_at_its_new_place(archive: Archive, tmp_path: Path) -> None:
    before = archive.scan()
    shutil.move(archive.repository.directory.root, tmp_path / "elsewhere")
    moved = Archive.open(tmp_path / "elsewhere", archive.executor, sync=False)
    assert moved.scan() == before
    moved.update(day_rows(5, KEYS))
    assert values(moved.scan()) == said(range(2, 6), KEYS)


def test_the_directory_of_a_file_is_read_once(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.scan()
    opened: list[Any] = []
    open_file: Callable[..., pq.ParquetFile] = pq.ParquetFile

    def counted(path: Any, **options: Any) -> pq.ParquetFile:
        opened.append(options.get("metadata"))
        return open_file(path, **options)

    monkeypatch.setattr(pq, "ParquetFile", counted)
    archive.probe(5)
    archive.scan()
    assert opened
    assert all(metadata is not None for metadata in opened)
