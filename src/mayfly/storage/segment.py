"""Segments: immutable runs of rows whose time ranges are known without opening them.

A segment is one Arrow IPC file (operator state: memory-mapped, read without copying) or one Parquet
file (archives). Its description, kept in the manifest, holds row count, bytes, checksum and the
ranges of ``ts``, ``exp`` and the clustering key: enough to skip it or to drop it unread.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from mayfly.arrays import arrow as pa
from mayfly.display import counted
from mayfly.errors import BadInput, CorruptFile, InvalidSetting, StorageError, UnsupportedFormat
from mayfly.faults import reach
from mayfly.storage.bounds import Bounds, bounds_of, key_bounds
from mayfly.storage.checksum import RESTORE, HashingFile, Piece, check_file, check_file_once
from mayfly.storage.directory import Directory, is_plain
from mayfly.storage.store import NewFile
from mayfly.storage.store.problems import storage_error

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

Format = Literal["arrow", "parquet"]
Json = Any
DATA = "data"
ARROW_SUFFIX = ".arrow"
TS, EXP = "_ts", "_exp"
"""Columns every segment has: int64 microseconds of generation and expiration."""
ROW_GROUPS = "mayfly.row_groups"
"""Behind the rows of a file: bytes and checksum of every row group, the first from byte 0. In the
footer of a Parquet file; with the last batch of an Arrow file, which has no rows and is in its
tail."""
KEYS = "mayfly.keys"
"""Beside it in an Arrow file: the key bounds of every row group, null where they are not known."""
PARQUET_GROUP_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class Segment:
    """What the manifest knows about one data file.

    ``key`` is None where its bounds are not known (no key, or NULL or NaN among its values, which
    have no place in an order that all engines share): such a segment is never skipped by key.
    """

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
    tags: Mapping[str, Json] = field(default_factory=dict, hash=False)
    tail: Piece | None = None
    """What follows the row groups, if they can be checked one by one."""

    def dead_at(self, instant: int) -> bool:
        """Every row has expired: the segment may be dropped unread."""
        return bool(self.exp.high <= instant)

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
            stored["key"] = self.key.to_json()
        if self.tags:
            stored["tags"] = dict(self.tags)
        if self.tail:
            stored["tail"] = list(self.tail)
        return stored

    @staticmethod
    def from_json(stored: Mapping[str, Json]) -> Segment:
        key = stored.get("key")
        if stored["format"] not in get_args(Format):
            raise UnsupportedFormat(
                f"the data file {stored['path']} has the unknown format {stored['format']!r}",
                "install a newer Mayfly",
            )
        if not is_plain(stored["path"]):
            raise CorruptFile(
                f"the data file {stored['path']!r} is not inside the directory",
                "the directory may have been tampered with: restore it from a copy",
            )
        return Segment(
            path=stored["path"],
            format=stored["format"],
            group=stored["group"],
            rows=stored["rows"],
            bytes=stored["bytes"],
            checksum=stored["checksum"],
            ts=Bounds(*stored["ts"]),
            exp=Bounds(*stored["exp"]),
            key=Bounds.from_json(key) if key else None,
            level=stored["level"],
            tags=stored.get("tags", {}),
            tail=Piece(*stored["tail"]) if "tail" in stored else None,
        )


def relabel(segment: Segment, group: str) -> Segment:
    """The same file as a member of another group (renaming a sub-index moves no data)."""
    return replace(segment, group=group)


class SegmentWriter:
    """Writes one segment batch by batch; ``close`` describes it, None if no row came.

    The file has a fresh name and is unreachable until a manifest names it, so an abandoned one
    does no harm and is removed by vacuum. As a context manager it is abandoned on an exception.
    """

    def __init__(
        self,
        directory: Directory,
        group: str,
        schema: pa.Schema,
        *,
        format: str = "arrow",
        key: str | None = None,
        level: int = 0,
        tags: Mapping[str, Json] | None = None,
        compression: str | None = None,
        row_group_rows: int | None = None,
    ) -> None:
        _check_columns(schema, format, key)
        if row_group_rows is None and format == "parquet":
            row_group_rows = PARQUET_GROUP_ROWS
        self._directory = directory
        self._format: Format = "parquet" if format == "parquet" else "arrow"
        self._group, self._schema, self._key = group, schema, key
        self._level, self._tags = level, dict(tags or {})
        self._compression = compression
        self._row_group_rows = row_group_rows
        self._name = directory.fresh_name(DATA, f".{format}")
        self._file: NewFile | None = None
        self._hashing: HashingFile | None = None
        self._sink: Any = None
        self._row_groups: list[Piece] = []
        self._group_keys: list[Bounds | None] = []
        self.rows = 0
        self._bounds: dict[str, Bounds] = {}
        self._key_ordered = key is not None

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        if batch.num_rows == 0:
            return
        self._note_bounds(batch)
        if self._sink is None:
            self._open()
        if self._row_group_rows is None:
            self._sink.write(batch)
        else:
            table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
            self._write_row_groups(table, self._row_group_rows)
        self.rows += batch.num_rows
        reach("segment.batch-written")

    def _write_row_groups(self, table: pa.Table, group_rows: int) -> None:
        assert self._hashing is not None
        for start in range(0, table.num_rows, group_rows):
            rows = table.slice(start, group_rows)
            if self._format == "arrow":
                rows = rows.combine_chunks()  # one batch
                bounds = key_bounds(rows.column(self._key)) if self._key else None
                self._group_keys.append(bounds.shortened() if bounds else None)
            self._sink.write_table(rows)
            self._row_groups.append(self._hashing.cut())

    def _note_row_groups(self) -> None:
        """Say in the file what its row groups are."""
        noted = {ROW_GROUPS: json.dumps(self._row_groups)}
        if self._format == "parquet":
            self._sink.add_key_value_metadata(noted)
            return
        noted[KEYS] = json.dumps([bounds and bounds.to_json() for bounds in self._group_keys])
        empty = pa.RecordBatch.from_pylist([], self._schema)
        self._sink.write_batch(empty, custom_metadata=noted)

    def _note_bounds(self, batch: pa.RecordBatch | pa.Table) -> None:
        for column in (TS, EXP):
            if nulls := batch.column(column).null_count:
                raise BadInput(
                    f"NULL in {column} of {counted(nulls, 'row')} of {self._group}",
                    "give every row a generation and an expiration time",
                )
            self._extend(column, bounds_of(batch.column(column)))
        if self._key is not None and self._key_ordered:
            bounds = key_bounds(batch.column(self._key))
            self._key_ordered = bounds is not None
            if bounds is not None:
                self._extend(self._key, bounds)

    def _extend(self, column: str, bounds: Bounds) -> None:
        self._bounds[column] = bounds.union(self._bounds.get(column))

    def _open(self) -> None:
        self._file = self._directory.store.create(self._name)
        self._hashing = HashingFile(self._file)
        target = pa.PythonFile(self._hashing, mode="w")
        if self._format == "arrow":
            options = pa.ipc.IpcWriteOptions(compression=self._compression)
            self._sink = pa.ipc.new_file(target, self._schema, options=options)
        else:
            from pyarrow.parquet import ParquetWriter

            # Row groups are small: a dictionary in each costs more than it saves, and bounds of
            # texts that rows are not sorted by would fill the footer.
            self._sink = ParquetWriter(
                target,
                self._schema,
                compression=self._compression or "zstd",
                use_dictionary=False,
                write_statistics=[
                    column.name
                    for column in self._schema
                    if column.name == self._key or not _is_text(column.type)
                ],
            )

    def close(self) -> Segment | None:
        """Finish the file; its name lasts from the commit on, which syncs the folder."""
        if self._sink is None or self._hashing is None or self._file is None:
            return None
        try:
            if self._row_groups:
                self._note_row_groups()
            self._sink.close()
            self._file.finish()
        except BaseException:
            self.abandon()
            raise
        self._directory.io.note_written(self._hashing.size)
        reach("segment.closed")
        return Segment(
            path=self._name,
            format=self._format,
            group=self._group,
            rows=self.rows,
            bytes=self._hashing.size,
            checksum=self._hashing.hash.hexdigest(),
            ts=self._bounds[TS],
            exp=self._bounds[EXP],
            key=self._bounds[self._key].shortened() if self._key and self._key_ordered else None,
            level=self._level,
            tags=self._tags,
            tail=self._hashing.cut() if self._row_groups else None,
        )

    def abandon(self) -> None:
        """Give the file up after a failure; nothing refers to it."""
        with contextlib.suppress(Exception):
            if self._sink is not None:
                self._sink.close()
        if self._file is not None:
            self._file.abandon()

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.abandon()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _check_columns(schema: pa.Schema, format: str, key: str | None) -> None:
    if format not in get_args(Format):
        raise InvalidSetting(f"{format!r} is not a segment format", "use arrow or parquet")
    for column in (TS, EXP):
        if column not in schema.names or schema.field(column).type != pa.int64():
            raise StorageError(
                f"a segment needs the int64 column {column}; the columns are {schema.names}",
                "add it, in microseconds",
            )
    if key is not None and key not in schema.names:
        raise StorageError(
            f"there is no key column {key!r}; the columns are {schema.names}",
            "name one of the columns",
        )


class SegmentOptions(TypedDict, total=False):
    """What a ``SegmentWriter`` may be given by name."""

    format: str
    key: str | None
    level: int
    tags: Mapping[str, Json] | None
    compression: str | None
    row_group_rows: int | None


def write_segment(
    directory: Directory,
    group: str,
    rows: pa.Table | Iterable[pa.RecordBatch],
    **options: Unpack[SegmentOptions],
) -> Segment | None:
    """Write ``rows`` as one segment; None if there are none."""
    if isinstance(rows, pa.Table):
        schema, batches = rows.schema, iter(rows.to_batches())
    else:
        batches = iter(rows)
        first = next(batches, None)
        if first is None:
            return None
        schema, batches = first.schema, itertools.chain([first], batches)
    with SegmentWriter(directory, group, schema, **options) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def check_present(directory: Directory, segment: Segment) -> None:
    """Raise CorruptFile if the segment's file is missing or has another size."""
    size = directory.size(segment.path)
    if size is None:
        raise CorruptFile(
            f"the data file {segment.path} ({counted(segment.rows, 'row')} "
            f"of {segment.group}) is missing "
            f"from {directory.address}",
            RESTORE,
        )
    if size != segment.bytes:
        raise CorruptFile(
            f"the data file {segment.path} in {directory.address} has {size} bytes "
            f"instead of {segment.bytes}",
            RESTORE,
        )


def check_content(directory: Directory, segment: Segment, *, again: bool = True) -> None:
    """Raise CorruptFile unless the file is there, bit for bit as it was written.

    What is copied into something new is always compared, what is only read once by a process:
    ``again=False``.
    """
    check_present(directory, segment)
    compare = check_file if again else check_file_once
    compare(directory.store, segment.path, segment.checksum)


def open_segment(
    directory: Directory,
    segment: Segment,
    columns: list[str] | None = None,
    *,
    again: bool = False,
) -> pa.Table:
    """The segment's rows: memory-mapped for Arrow, decoded for Parquet.

    They are compared with the checksum first: ``again`` if this process has done so before.
    """
    with _reading(directory, segment, again=again):
        source = directory.open(segment.path, mapped=segment.format == "arrow")
        if segment.format == "parquet":
            from pyarrow.parquet import ParquetFile

            with source, ParquetFile(source) as file:
                table = file.read(columns=columns)
                taken = _chunk_bytes(file.metadata, columns)
        else:
            table = pa.ipc.open_file(source).read_all()
            table = table if columns is None else table.select(columns)
            taken = table.nbytes
        if table.num_rows != segment.rows:
            raise pa.ArrowInvalid(f"{table.num_rows} rows instead of {segment.rows}")
    directory.io.bytes_read += segment.bytes if columns is None else min(taken, segment.bytes)
    return table


def segment_batches(
    directory: Directory, segment: Segment, *, again: bool = True
) -> Iterator[pa.RecordBatch]:
    """The segment's rows in bounded batches, for copying them, and for logs that may be
    larger than memory; compared with the checksum first: ``again`` unless they are only read."""
    with _reading(directory, segment, again=again):
        source = directory.open(segment.path, mapped=segment.format == "arrow")
        if segment.format == "parquet":
            from pyarrow.parquet import ParquetFile

            batches = ParquetFile(source).iter_batches()
        else:
            reader = pa.ipc.open_file(source)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        rows = 0
        with source:
            while (batch := next(batches, None)) is not None:
                before, rows = rows, rows + batch.num_rows
                share = (
                    segment.bytes * rows // segment.rows - segment.bytes * before // segment.rows
                )
                directory.io.bytes_read += share
                yield batch
        if rows != segment.rows:
            raise pa.ArrowInvalid(f"{rows} rows instead of {segment.rows}")


@contextlib.contextmanager
def _reading(directory: Directory, segment: Segment, *, again: bool) -> Iterator[None]:
    """Compares the file; what goes wrong inside is reported with its name."""
    check_content(directory, segment, again=again)
    directory.io.files_read += 1
    try:
        yield
    except OSError as error:
        if error.errno and not isinstance(error, FileNotFoundError):
            raise storage_error("read", directory.address_of(segment.path), error) from error
        raise _unreadable(directory, segment, error) from error
    except (pa.ArrowException, ValueError) as error:
        raise _unreadable(directory, segment, error) from error


def _unreadable(directory: Directory, segment: Segment, error: Exception) -> CorruptFile:
    return CorruptFile(
        f"the data file {segment.path} in {directory.address} cannot be read: {error}", RESTORE
    )


def _chunk_bytes(metadata: FileMetaData, columns: list[str] | None) -> int:
    """Bytes of a Parquet file that reading some columns takes: their chunks and the footer."""
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    chunks = (group.column(index) for group in groups for index in range(group.num_columns))
    prefixes = tuple(f"{name}." for name in columns or ())
    sizes: Iterator[int] = (
        chunk.total_compressed_size
        for chunk in chunks
        if f"{chunk.path_in_schema}.".startswith(prefixes)
    )
    return int(metadata.serialized_size) + sum(sizes)
