"""Segments: what their description says, what they read back, and how damage is reported."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mayfly.errors import (
    BadInput,
    CorruptFile,
    InvalidSetting,
    StorageError,
    UnsupportedFormat,
)
from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    Bounds,
    Directory,
    Repository,
    Segment,
    SegmentWriter,
    open_segment,
    segment_batches,
    write_segment,
)
from mayfly.storage.segment import Format
from tests.unit.storage.rows import flip_a_byte, table

FORMATS: list[Format] = ["arrow", "parquet"]


def written(directory: Directory, rows: Any, **options: Any) -> Segment:
    found = write_segment(directory, "group", rows, **options)
    assert found is not None
    return found


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_rows_come_back_as_they_went(
    directory: Directory, format: Format, compression: str | None
) -> None:
    rows = table(range(1000))
    segment = written(directory, rows, format=format, compression=compression, level=3)
    assert open_segment(directory, segment) == rows
    assert open_segment(directory, segment, again=True) == rows
    assert pa.Table.from_batches(segment_batches(directory, segment)) == rows
    assert (segment.rows, segment.level, segment.format) == (1000, 3, format)
    assert (segment.ts, segment.exp) == (Bounds(0, 999), Bounds(10, 1009))
    assert segment.bytes == (directory.root / segment.path).stat().st_size


@pytest.mark.parametrize("format", FORMATS)
def test_batches_arrive_one_by_one(directory: Directory, format: Format) -> None:
    parts = [table([5, 3]), table([]), table([9]), table([1])]
    batches = (batch for part in parts for batch in part.to_batches())
    segment = written(directory, batches, format=format, key="id")
    assert open_segment(directory, segment) == pa.concat_tables(parts)
    assert segment.ts == Bounds(1, 9)
    assert segment.key == Bounds(1, 9)


@pytest.mark.parametrize("format", FORMATS)
def test_no_rows_make_no_file(directory: Directory, format: Format) -> None:
    assert write_segment(directory, "g", table([]), format=format) is None
    assert write_segment(directory, "g", iter([]), format=format) is None
    with SegmentWriter(directory, "g", table([]).schema, format=format) as writer:
        assert writer.close() is None
    assert directory.all_names("data") == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_description_survives_the_manifest(directory: Directory, format: Format) -> None:
    rows = table([1]).append_column("at", pa.array([datetime(2026, 1, 1)], pa.timestamp("us")))
    segment = written(directory, rows, format=format, key="at", tags={"days": [1, 2]})
    assert Segment.from_json(segment.to_json()) == segment


@pytest.mark.parametrize("format", FORMATS)
def test_columns_with_dots_can_be_chosen(directory: Directory, format: Format) -> None:
    rows = table(range(50)).append_column("left.id", pa.array(range(50)))
    segment = written(directory, rows, format=format)
    assert open_segment(directory, segment, ["left.id", EXP]) == rows.select(["left.id", EXP])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None]),
        pa.array([None, None], pa.string()),
        pa.array([1.0, float("nan")]),
        pa.array([[1], [2]]),
        pa.array([1, 2], pa.timestamp("ns")),
        pa.array([1, 2], pa.duration("us")),
        pa.array(["a", "b"]).dictionary_encode(),
    ],
    ids=lambda column: f"{column.type}",
)
def test_keys_without_a_common_order_have_no_bounds(directory: Directory, column: pa.Array) -> None:
    rows = table([1, 2]).append_column("key", column)
    assert written(directory, rows, key="key").key is None


def test_one_null_key_in_a_later_batch_takes_the_bounds_away(directory: Directory) -> None:
    parts = [
        table([at]).append_column("key", pa.array([value], pa.int64()))
        for at, value in enumerate([5, None, 7])
    ]
    batches = [batch for part in parts for batch in part.to_batches()]
    assert written(directory, batches, key="key").key is None


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (["b", "a"], "a", "b"),
        ([b"\xff", b"\x00"], b"\x00", b"\xff"),
        ([True, False], False, True),
        ([2.5, -0.5], -0.5, 2.5),
    ],
)
def test_key_bounds(directory: Directory, values: list[Any], low: Any, high: Any) -> None:
    rows = table([1, 2]).append_column("key", pa.array(values))
    assert written(directory, rows, key="key").key == Bounds(low, high)


@pytest.mark.parametrize("column", [TS, EXP])
def test_a_row_without_a_lifetime_is_refused_and_leaves_nothing(
    directory: Directory, column: str
) -> None:
    whole = table([1, 2])
    at = whole.schema.get_field_index(column)
    holed = whole.set_column(at, column, pa.array([5, None], pa.int64()))
    with pytest.raises(BadInput, match=f"NULL in {column} of 1 row of g"):
        write_segment(directory, "g", pa.concat_tables([whole, holed]))
    assert directory.all_names("data") == []


def test_columns_are_checked_before_anything_is_written(directory: Directory) -> None:
    whole = table([1])
    with pytest.raises(StorageError, match="needs the int64 column _exp"):
        write_segment(directory, "g", whole.drop_columns([EXP]))
    floats = whole.set_column(1, TS, pa.array([1.0]))
    with pytest.raises(StorageError, match="needs the int64 column _ts"):
        write_segment(directory, "g", floats)
    with pytest.raises(StorageError, match="no key column 'nope'"):
        write_segment(directory, "g", whole, key="nope")
    with pytest.raises(InvalidSetting, match="'orc' is not a segment format"):
        write_segment(directory, "g", whole, format="orc")
    assert directory.all_names("data") == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_failure_in_the_middle_leaves_no_file(directory: Directory, format: Format) -> None:
    def broken() -> Any:
        yield table([1]).to_batches()[0]
        raise ValueError("the source failed")

    with pytest.raises(ValueError, match="the source failed"):
        write_segment(directory, "g", broken(), format=format)
    gc.collect()
    assert directory.all_names("data") == []


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("where", ["write", "fsync"])
def test_a_full_disk_is_reported_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Format, where: str
) -> None:
    directory = Directory.at(tmp_path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class FullFile(io.FileIO):
        write = full  # type: ignore[assignment]

    (tmp_path / "data").mkdir()
    if where == "write":
        monkeypatch.setattr("mayfly.storage.store.posix.open", FullFile, raising=False)
    else:
        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device") as caught:
        write_segment(directory, "g", table(range(100)), format=format)
    assert "free space" in caught.value.hint
    gc.collect()
    assert directory.all_names("data") == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_missing_file_is_named(directory: Directory, format: Format) -> None:
    segment = written(directory, table([1]), format=format)
    directory.remove(segment.path)
    for read in (open_segment, lambda *one: list(segment_batches(*one))):
        with pytest.raises(CorruptFile, match=f"{segment.path} .1 row of group. is missing"):
            read(directory, segment)


@pytest.mark.parametrize("format", FORMATS)
def test_a_truncated_file_is_named(directory: Directory, format: Format) -> None:
    segment = written(directory, table([1]), format=format)
    os.truncate(directory.root / segment.path, segment.bytes - 1)
    with pytest.raises(CorruptFile, match=f"has {segment.bytes - 1} bytes instead of"):
        open_segment(directory, segment)


@pytest.mark.parametrize("format", FORMATS)
def test_a_flipped_byte_is_found_by_the_checksum(directory: Directory, format: Format) -> None:
    segment = written(directory, table(range(5)), format=format)
    path = directory.root / segment.path
    for at in range(0, segment.bytes, 23):
        flip_a_byte(path, at)
        with pytest.raises(CorruptFile, match="differs from its checksum"):
            open_segment(directory, segment, again=True)
        flip_a_byte(path, at)
    assert open_segment(directory, segment, again=True) == table(range(5))


@pytest.mark.parametrize("format", FORMATS)
def test_another_number_of_rows_is_found(directory: Directory, format: Format) -> None:
    segment = written(directory, table([1, 2, 3]), format=format)
    lying = Segment.from_json({**segment.to_json(), "rows": 4})
    with pytest.raises(CorruptFile, match="3 rows instead of 4"):
        open_segment(directory, lying)
    with pytest.raises(CorruptFile, match="3 rows instead of 4"):
        list(segment_batches(directory, lying))


def test_descriptions_that_point_elsewhere_are_refused(directory: Directory) -> None:
    stored = written(directory, table([1])).to_json()
    for path in ("../outside.arrow", "/etc/passwd", "data/../../x"):
        with pytest.raises(CorruptFile, match="is not inside the directory"):
            Segment.from_json({**stored, "path": path})
    with pytest.raises(UnsupportedFormat, match="unknown format 'pickle'"):
        Segment.from_json({**stored, "format": "pickle"})


def test_a_segment_is_dead_at_its_last_expiration_and_not_before(directory: Directory) -> None:
    segment = written(directory, table([1, 5]))
    assert segment.exp.high == 15
    assert not segment.dead_at(14)
    assert segment.dead_at(15)


def test_bounds_include_both_ends() -> None:
    bounds = Bounds(2, 4)
    assert [n for n in range(7) if bounds.meets(n, n)] == [2, 3, 4]
    assert bounds.meets(0, 9)
    assert bounds.union(Bounds(1, 3)) == Bounds(1, 4)
    assert bounds.union(None) == bounds


@pytest.mark.parametrize("format", FORMATS)
def test_counters_charge_what_was_written_and_read(directory: Directory, format: Format) -> None:
    segment = written(directory, table(range(5000)), format=format)
    io = directory.io
    assert (io.files_written, io.bytes_written) == (1, segment.bytes)
    assert (io.files_read, io.bytes_read) == (0, 0)
    open_segment(directory, segment)
    assert (io.files_read, io.bytes_read) == (1, segment.bytes)
    list(segment_batches(directory, segment))
    assert (io.files_read, io.bytes_read) == (2, 2 * segment.bytes)
    open_segment(directory, segment, again=True)
    assert (io.files_read, io.bytes_read) == (3, 3 * segment.bytes)
    assert (io.files_written, io.bytes_written) == (1, segment.bytes)


@pytest.mark.parametrize("format", FORMATS)
def test_one_of_three_columns_costs_about_a_third(directory: Directory, format: Format) -> None:
    """Columns of equal, incompressible content, so that the share is known."""
    ids = [(one * 2654435761) % 2**40 for one in range(20_000)]
    segment = written(directory, table(ids), format=format)
    open_segment(directory, segment, ["id"])
    assert 0.25 < directory.io.bytes_read / segment.bytes < 0.45


def test_reading_a_part_of_the_batches_is_charged_as_a_part(directory: Directory) -> None:
    parts = [batch for at in range(4) for batch in table(range(at, at + 100)).to_batches()]
    segment = written(directory, parts)
    batches = segment_batches(directory, segment)
    next(batches)
    assert directory.io.bytes_read == segment.bytes // 4
    assert len(list(batches)) == 3
    assert directory.io.bytes_read == segment.bytes


def test_an_abandoned_file_costs_no_bytes_in_the_books(directory: Directory) -> None:
    writer = SegmentWriter(directory, "g", table([]).schema)
    writer.write(table([1]))
    writer.abandon()
    assert directory.io == type(directory.io)()
    assert directory.all_names("data") == []


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("a", "b" * 64),
        ("a" * 65, "b" * 65),
        ("\u00e4" * 100, "\ud7ff" * 100),
        ("x" * 70, "x" * 63 + chr(sys.maxunicode) * 10),
        (b"\x00" * 80, b"\xfe" + b"\xff" * 80),
    ],
)
def test_bounds_of_long_keys_are_short_and_around_them(low: Any, high: Any) -> None:
    found = Bounds(low, high).shortened()
    assert found is not None
    assert len(found.low) <= 64
    assert len(found.high) <= 64
    assert found.low <= low
    assert found.high >= high
    if isinstance(high, str):
        assert found.high.encode() >= high.encode()


def test_no_short_bound_lies_above_the_last_letters() -> None:
    assert Bounds("a", chr(sys.maxunicode) * 65).shortened() is None
    assert Bounds(b"a", b"\xff" * 65).shortened() is None
    assert Bounds(3, 4).shortened() == Bounds(3, 4)


def test_a_long_key_does_not_make_a_long_manifest(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "store", {}, sync=False)
    rows = pa.table({"k": ["m" * 1_000_000], TS: [1], EXP: [2]})
    segment = write_segment(repository.directory, "rows", rows, key="k")
    assert segment is not None
    manifest = repository.commit(repository.current(), [AddSegments((segment,))])
    assert len(manifest.encode()) < 2_000
    assert segment.key is not None
    assert segment.key.meets("m" * 1_000_000, "m" * 1_000_000)
    assert not segment.key.meets("n", "n")
