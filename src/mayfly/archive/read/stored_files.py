"""Data files of an archive as probes meet them: footers parsed once, a few files kept open.

Idea: a probe needs a few rows of every run it meets; opening the file and parsing its footer would
cost several times as much. So footers stay in memory, and the files that probes used last stay
mapped. Of a Parquet file the row groups of the key are decoded; an Arrow file needs no decoding.
Invariant: a file never changes and its name is never used again, so nothing kept can be stale; an
open file serves one thread at a time. At most ``KEPT_OPEN`` files are open, ``KEPT_MAPPED`` mapped,
and of an archive only those of the version it was read at last: a vacuumed file gives its space
back. The tail of a file and each of its row groups are compared with their checksums before the
first use, files without a tail of their own as a whole.
Cost: a stat per file and probe, and the decoding of its row groups.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.storage.bounds import Bounds
from mayfly.storage.checksum import Piece, check_file_once, check_tail, differing
from mayfly.storage.segment import ARROW_SUFFIX, KEYS, ROW_GROUPS
from mayfly.storage.store import Store

KEPT_OPEN, KEPT_MAPPED = 256, 8192
"""Parquet files, which need a descriptor each, and Arrow files, which do not."""


@dataclass(frozen=True)
class FileDirectory:
    """What is kept of a file: its columns, and which row groups (or batches) hold which keys."""

    names: frozenset[str]
    """The columns of the file; files written before a column was added lack it."""
    groups: int
    lows: tuple[Any, ...] | None
    highs: tuple[Any, ...] | None
    size: int
    footer: pq.FileMetaData | None = None
    """None of an Arrow file."""
    pieces: tuple[Piece, ...] = ()
    """The row groups, unless the whole file was checked."""
    checked: set[int] = field(default_factory=set, compare=False)
    """Those of them that were compared."""

    def check(self, groups: Sequence[int], source: pa.NativeFile, path: str) -> None:
        """Compare row groups that this process has not used before with their checksums."""
        for number in groups if self.pieces else ():
            if number not in self.checked:
                source.seek(sum(piece.bytes for piece in self.pieces[:number]))
                piece = self.pieces[number]
                piece.check(source.read_buffer(piece.bytes), path)
                self.checked.add(number)

    def row_groups(self, low: Any, high: Any) -> range:
        """The row groups that may hold keys from ``low`` to ``high`` (None: open end)."""
        if self.lows is None or self.highs is None:
            return self.everything
        first = 0 if low is None else bisect_left(self.highs, low)
        last = len(self.lows) if high is None else bisect_right(self.lows, high)
        return range(first, last)

    @property
    def everything(self) -> range:
        return range(self.groups)

    def stored_bytes(self, groups: Sequence[int], columns: Container[str]) -> int:
        """What these columns take up in these row groups; of an Arrow file, the whole batches."""
        if self.footer is None:
            return self.size * len(groups) // self.groups
        chunks = (
            group.column(number)
            for group in map(self.footer.row_group, groups)
            for number in range(group.num_columns)
        )
        return sum(
            chunk.total_compressed_size
            for chunk in chunks
            if chunk.path_in_schema.partition(".")[0] in columns
        )


@lru_cache(maxsize=KEPT_MAPPED)
def file_directory(
    store: Store,
    name: str,
    size: int,
    checksum: str,
    tail: Piece | None,
    key: str,
    ordered: bool,
) -> FileDirectory:
    """The directory of an immutable file; cached by its name, which is never used again.

    ``ordered`` says that every key has a place in the order of plain values (not so NaN).
    """
    if name.endswith(ARROW_SUFFIX):
        if tail is None:
            return _batches_of(store, name, size, checksum, key, ordered)
        return _arrow_directory(store, name, size, tail, ordered)
    if tail is None:
        check_file_once(store, name, checksum)
        source = store.open(name)
    else:
        source = pa.BufferReader(check_tail(store, name, tail))
    with source, pq.ParquetFile(source) as file:
        footer, schema = file.metadata, file.schema_arrow
    lows, highs = [], []
    ordered = ordered and not pa.types.is_duration(schema.field(key).type)
    number = _column_number(footer, key)
    for group in range(footer.num_row_groups if ordered else 0):
        statistics = footer.row_group(group).column(number).statistics
        if statistics is None or not statistics.has_min_max:
            ordered = False
            break
        lows.append(statistics.min)
        highs.append(statistics.max)
    return FileDirectory(
        frozenset(schema.names),
        footer.num_row_groups,
        tuple(lows) if ordered else None,
        tuple(highs) if ordered else None,
        size,
        footer,
        ()
        if tail is None
        else _pieces(footer.metadata, footer.num_row_groups, size - tail.bytes, store, name),
    )


def _pieces(metadata: Any, groups: int, size: int, store: Store, name: str) -> tuple[Piece, ...]:
    """The row groups, which fill the file up to its tail."""
    pieces = tuple(Piece(*entry) for entry in json.loads((metadata or {})[ROW_GROUPS.encode()]))
    if len(pieces) != groups or sum(piece.bytes for piece in pieces) != size:
        raise differing(f"{store.address}/{name}")
    return pieces


def _column_number(footer: pq.FileMetaData, name: str) -> int:
    group = footer.row_group(0)
    return next(n for n in range(group.num_columns) if group.column(n).path_in_schema == name)


def _arrow_directory(
    store: Store, name: str, size: int, tail: Piece, ordered: bool
) -> FileDirectory:
    check_tail(store, name, tail)
    with store.open(name, mapped=True) as source:
        file = pa.ipc.open_file(source)
        groups = file.num_record_batches - 1
        noted = file.get_batch_with_custom_metadata(groups).custom_metadata
        names = frozenset(file.schema.names)
    pieces = _pieces(noted, groups, size - tail.bytes, store, name)
    keys = [entry and Bounds.from_json(entry) for entry in json.loads(noted[KEYS.encode()])]
    lows, highs = None, None
    if ordered and None not in keys:
        lows, highs = tuple(bounds.low for bounds in keys), tuple(bounds.high for bounds in keys)
    return FileDirectory(names, groups, lows, highs, size, None, pieces)


def _batches_of(
    store: Store, name: str, size: int, checksum: str, key: str, ordered: bool
) -> FileDirectory:
    """The directory of a file that earlier versions wrote: it is compared and looked through."""
    check_file_once(store, name, checksum)
    with store.open(name, mapped=True) as source:
        file = pa.ipc.open_file(source)
        keys = [file.get_batch(index).column(key) for index in range(file.num_record_batches)]
        lows, highs = (tuple(k[end].as_py() for k in keys) if ordered else None for end in (0, -1))
        return FileDirectory(frozenset(file.schema.names), len(keys), lows, highs, size)


class _Open(Protocol):
    def read(self, groups: Sequence[int], columns: list[str]) -> pa.Table: ...

    def close(self) -> None: ...


class _OpenParquet:
    def __init__(self, store: Store, name: str, directory: FileDirectory) -> None:
        self._path, self._directory = f"{store.address}/{name}", directory
        self._source = store.open(name, mapped=True)
        self._file = pq.ParquetFile(self._source, metadata=directory.footer, pre_buffer=False)

    def read(self, groups: Sequence[int], columns: list[str]) -> pa.Table:
        self._directory.check(groups, self._source, self._path)
        return self._file.read_row_groups(list(groups), columns=columns, use_threads=False)

    def close(self) -> None:
        self._file.close()
        self._source.close()


class _OpenArrow:
    def __init__(self, store: Store, name: str, directory: FileDirectory, mapped: bool) -> None:
        self._path, self._directory = f"{store.address}/{name}", directory
        self._source = store.open(name, mapped=mapped)
        if mapped:  # the bytes stay mapped without a descriptor
            with self._source as source:
                self._source = pa.BufferReader(source.read_buffer())
        self._file = pa.ipc.open_file(self._source)
        self._tables: dict[tuple[Any, ...], pa.Table] = {}

    def read(self, groups: Sequence[int], columns: list[str]) -> pa.Table:
        cache_key = (*groups, *columns)
        if cache_key not in self._tables:
            self._directory.check(groups, self._source, self._path)
            chosen = [self._file.get_batch(group).select(columns) for group in groups]
            self._tables[cache_key] = pa.Table.from_batches(chosen)
        return self._tables[cache_key]

    def close(self) -> None:
        self._source.close()
        self._tables = {}


_open_files: OrderedDict[str, _Open] = OrderedDict()
_mapped_files: OrderedDict[str, _Open] = OrderedDict()
_turn = threading.Lock()


def read_row_groups(
    store: Store,
    name: str,
    directory: FileDirectory,
    groups: Sequence[int],
    columns: list[str],
    *,
    again: bool,
) -> pa.Table:
    """Some columns of some row groups.

    ``again`` if the file is likely to be asked for more: then it stays open, and rows of an Arrow
    file are its mapped bytes, to be copied before they are given away.
    """
    path = f"{store.address}/{name}"
    opened: _Open | None = None
    if again:
        with _turn:
            opened = _files_like(path).pop(path, None)
    if opened is None:
        if directory.footer is None:
            opened = _OpenArrow(store, name, directory, again)
        else:
            opened = _OpenParquet(store, name, directory)
    try:
        rows = opened.read(groups, columns)
    except BaseException:
        opened.close()
        raise
    if again:
        _keep(path, opened)
    else:
        opened.close()
    return rows


def _files_like(path: str) -> OrderedDict[str, _Open]:
    return _mapped_files if path.endswith(ARROW_SUFFIX) else _open_files


def _keep(path: str, opened: _Open) -> None:
    files = _files_like(path)
    most = KEPT_OPEN if files is _open_files else KEPT_MAPPED
    with _turn:
        twin = files.pop(path, None)
        surplus = [] if twin is None else [twin]
        files[path] = opened
        while len(files) > most:
            surplus.append(files.popitem(last=False)[1])
    for handle in surplus:
        handle.close()


def let_go(root: str, needed: Container[str] = ()) -> None:
    """Close the files of an archive that its current version does not need."""
    beginning = f"{root}/"
    closing = []
    with _turn:
        for files in (_open_files, _mapped_files):
            gone = [
                path
                for path in files
                if path.startswith(beginning) and path.removeprefix(beginning) not in needed
            ]
            closing += [files.pop(path) for path in gone]
    for handle in closing:
        handle.close()
