"""Segments: immutable runs of rows whose time ranges are known without opening them.

A segment is one Arrow IPC file (operator state: memory-mapped, read without copying) or one Parquet
file (archives). Its description, kept in the manifest, holds row count, bytes, checksum and the
ranges of ``ts``, ``exp`` and the clustering key: enough to skip it or to drop it unread.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from mayfly.errors import CorruptFile, StorageError
from mayfly.storage import scalars
from mayfly.storage.files import Directory

Format = Literal["arrow", "parquet"]
Json = Any
DATA = "data"
TS, EXP = "_ts", "_exp"
"""Columns every segment has: int64 microseconds of generation and expiration."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Smallest and largest value of a column, both included."""

    low: Any
    high: Any

    def union(self, other: Bounds | None) -> Bounds:
        if other is None:
            return self
        return Bounds(min(self.low, other.low), max(self.high, other.high))

    def meets(self, low: Any, high: Any) -> bool:
        return bool(self.low <= high and low <= self.high)


@dataclass(frozen=True, slots=True)
class Segment:
    """What the manifest knows about one data file."""

    path: str
    format: Format
    group: str
    rows: int
    bytes: int
    checksum: str
    ts: Bounds
    exp: Bounds
    key: Bounds | None = None
    level: int = 0
    tags: Mapping[str, Json] = field(default_factory=dict)

    def dead_at(self, at: int) -> bool:
        """Every row has expired: the segment may be dropped unread."""
        return bool(self.exp.high <= at)

    def to_json(self) -> dict[str, Json]:
        stored: dict[str, Json] = {
            "path": self.path,
            "format": self.format,
            "group": self.group,
            "rows": self.rows,
            "bytes": self.bytes,
            "checksum": self.checksum,
            "ts": [self.ts.low, self.ts.high],
            "exp": [self.exp.low, self.exp.high],
            "level": self.level,
        }
        if self.key:
            stored["key"] = [scalars.encode(self.key.low), scalars.encode(self.key.high)]
        if self.tags:
            stored["tags"] = dict(self.tags)
        return stored

    @staticmethod
    def from_json(stored: Mapping[str, Json]) -> Segment:
        key = stored.get("key")
        return Segment(
            path=stored["path"],
            format=stored["format"],
            group=stored["group"],
            rows=stored["rows"],
            bytes=stored["bytes"],
            checksum=stored["checksum"],
            ts=Bounds(*stored["ts"]),
            exp=Bounds(*stored["exp"]),
            key=Bounds(scalars.decode(key[0]), scalars.decode(key[1])) if key else None,
            level=stored["level"],
            tags=stored.get("tags", {}),
        )


class _HashingFile(io.RawIOBase):
    """A write-only file that computes checksum and size on the way to disk."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.hash = xxhash.xxh3_64()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self.file.write(data)
        self.size += len(memoryview(data).cast("B"))
        return len(memoryview(data).cast("B"))


def file_checksum(directory: Directory, name: str) -> str:
    digest = xxhash.xxh3_64()
    with open(directory.path(name), "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            directory.io.bytes_read += len(chunk)
    directory.io.files_read += 1
    return digest.hexdigest()


class SegmentWriter:
    """Writes one segment batch by batch; ``close`` describes it, None if no row came.

    The file has a fresh name and is unreachable until a manifest names it, so an abandoned one
    harms nobody and is removed by vacuum.
    """

    def __init__(
        self,
        directory: Directory,
        group: str,
        schema: pa.Schema,
        *,
        format: Format = "arrow",
        key: str | None = None,
        level: int = 0,
        tags: Mapping[str, Json] | None = None,
        compression: str | None = None,
        row_group_rows: int = 16_384,
    ) -> None:
        self._directory = directory
        self._format: Format = format
        self._group, self._schema, self._key = group, schema, key
        self._level, self._tags = level, dict(tags or {})
        self._compression = compression
        self._row_group_rows = row_group_rows
        self._name = directory.fresh_name(DATA, ".arrow" if format == "arrow" else ".parquet")
        self._file: BinaryIO | None = None
        self._hashing: _HashingFile | None = None
        self._sink: Any = None
        self.rows = 0
        self._bounds: dict[str, Bounds] = {}

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        if batch.num_rows == 0:
            return
        if self._sink is None:
            self._open()
        for column in (TS, EXP, *([self._key] if self._key else [])):
            extremes = pc.min_max(batch.column(column))
            found = Bounds(extremes["min"].as_py(), extremes["max"].as_py())
            self._bounds[column] = found.union(self._bounds.get(column))
        if self._format == "parquet":
            table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
            self._sink.write_table(table, row_group_size=self._row_group_rows)
        else:
            self._sink.write(batch)
        self.rows += batch.num_rows

    def _open(self) -> None:
        path = self._directory.path(self._name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "xb")  # noqa: SIM115 - closed by close() or abandon()
        self._hashing = _HashingFile(self._file)
        target = pa.PythonFile(self._hashing, mode="w")
        if self._format == "arrow":
            options = pa.ipc.IpcWriteOptions(compression=self._compression)
            self._sink = pa.ipc.new_file(target, self._schema, options=options)
        else:
            self._sink = pq.ParquetWriter(
                target, self._schema, compression=self._compression or "zstd"
            )

    def close(self) -> Segment | None:
        if self._sink is None or self._hashing is None or self._file is None:
            return None
        self._sink.close()
        self._file.flush()
        if self._directory.sync:
            os.fsync(self._file.fileno())
        self._file.close()
        self._directory.io.files_written += 1
        self._directory.io.bytes_written += self._hashing.size
        return Segment(
            path=self._name,
            format=self._format,
            group=self._group,
            rows=self.rows,
            bytes=self._hashing.size,
            checksum=self._hashing.hash.hexdigest(),
            ts=self._bounds[TS],
            exp=self._bounds[EXP],
            key=self._bounds.get(self._key) if self._key else None,
            level=self._level,
            tags=self._tags,
        )

    def abandon(self) -> None:
        """Give the file up after a failure; nothing refers to it."""
        with contextlib.suppress(Exception):
            if self._file:
                self._file.close()
        self._directory.remove(self._name)


def write_segment(
    directory: Directory, group: str, rows: pa.Table | Iterable[pa.RecordBatch], **options: Any
) -> Segment | None:
    """Write ``rows`` as one segment; None if there are none."""
    batches = rows.to_batches() if isinstance(rows, pa.Table) else iter(rows)
    if isinstance(rows, pa.Table):
        writer = SegmentWriter(directory, group, rows.schema, **options)
    else:
        first = next(iter(batches), None)
        if first is None:
            return None
        writer = SegmentWriter(directory, group, first.schema, **options)
        batches = _chain(first, batches)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.abandon()
        raise


def _chain(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def check_present(directory: Directory, segment: Segment) -> None:
    """Raise CorruptFile if the segment's file is missing or has another size."""
    size = directory.size(segment.path)
    if size is None:
        raise CorruptFile(
            f"the data file {segment.path} ({segment.rows} rows of {segment.group}) is missing "
            f"from {directory.root}",
            "restore it from a copy, or run verify to see what is still readable",
        )
    if size != segment.bytes:
        raise CorruptFile(
            f"the data file {segment.path} in {directory.root} has {size} bytes "
            f"instead of {segment.bytes}",
            "restore it from a copy, or run verify to see what is still readable",
        )


def open_segment(
    directory: Directory, segment: Segment, columns: list[str] | None = None
) -> pa.Table:
    """The segment's rows: memory-mapped for Arrow, decoded for Parquet."""
    check_present(directory, segment)
    path = directory.path(segment.path)
    directory.io.files_read += 1
    directory.io.bytes_read += segment.bytes
    try:
        if segment.format == "parquet":
            return pq.read_table(path, columns=columns, partitioning=None)
        table = pa.ipc.open_file(pa.memory_map(os.fspath(path))).read_all()
        return table if columns is None else table.select(columns)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFile(
            f"the data file {segment.path} in {directory.root} cannot be read: {error}",
            "restore it from a copy, or run verify to see what is still readable",
        ) from error


def segment_batches(directory: Directory, segment: Segment) -> Iterator[pa.RecordBatch]:
    """The segment's rows in bounded batches, for logs that may be larger than memory."""
    if segment.format != "arrow":
        raise StorageError(f"{segment.path} is not an Arrow file")
    check_present(directory, segment)
    directory.io.files_read += 1
    directory.io.bytes_read += segment.bytes
    with pa.memory_map(os.fspath(directory.path(segment.path))) as source:
        reader = pa.ipc.open_file(source)
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)


def relabel(segment: Segment, group: str) -> Segment:
    """The same file as a member of another group (renaming a sub-index moves no data)."""
    return replace(segment, group=group)
