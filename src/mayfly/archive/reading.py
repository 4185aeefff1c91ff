"""Reading an archive without Spark: probes and scans over the files of one version.

A probe finds the part of the key by its hash, skips runs whose days or keys lie outside, finds the
row groups in the cached directory (the footer's key ranges) and decodes only those. Reads are
hard by default: a row is returned only if it is alive at the instant asked for, whatever the
layout still stores.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mayfly.archive.hashing import part_of
from mayfly.archive.invalidation import Hiding, hidings, visible
from mayfly.archive.layouts.run_plan import Run
from mayfly.archive.settings import KEY, NTH, ArchiveSettings
from mayfly.archive.sorting import order_key
from mayfly.archive.state import ArchiveVersion
from mayfly.archive.writing import PART, with_added_columns
from mayfly.errors import CorruptFile, InvalidSetting, VersionExpired
from mayfly.storage.commit import manifest_name
from mayfly.storage.files import Directory, told
from mayfly.storage.segment import EXP, TS, Segment, check_present

Wanted = Callable[[Any], Any]
"""Values of the first key column → which of them are asked for."""


@dataclass(frozen=True)
class KeyRange:
    """Keys from ``low`` to ``high``, both included; None leaves an end open."""

    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class Selection:
    """Which rows a read wants, besides its keys."""

    as_of: int
    generated_from: int | None = None
    generated_to: int | None = None
    soft: bool = False
    shorter: int = 0
    """By how much every row is taken to live shorter, µs (results-index-2005, 3.4)."""
    inputs: tuple[tuple[str, int], ...] = ()
    """Time columns, and how long ago their times may be at most."""

    def may_hold(self, segment: Segment) -> bool:
        if not self.soft and segment.dead_at(self.as_of + self.shorter):
            return False
        if self.generated_from is not None and segment.ts.high < self.generated_from:
            return False
        if self.generated_to is not None and segment.ts.low > self.generated_to:
            return False
        return self.soft or bool(segment.ts.low <= self.as_of)

    def wants_all_of(self, segment: Segment) -> bool:
        """Whether no row of the file can be unwanted, by what the manifest knows of it."""
        alive = self.soft or (
            segment.exp.low > self.as_of + self.shorter and segment.ts.high <= self.as_of
        )
        anytime = self.generated_from is None and self.generated_to is None
        return alive and anytime and not self.inputs

    def mask(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Which rows are wanted; None if all are."""
        terms = []
        if not self.soft:
            until = self.as_of + self.shorter
            terms += [pc.greater(rows[EXP], until), pc.less_equal(rows[TS], self.as_of)]
        for name, size in self.inputs:
            times = rows[name].cast(pa.int64())
            terms.append(pc.fill_null(pc.greater(times, self.as_of - size), False))
        if self.generated_from is not None:
            terms.append(pc.greater_equal(rows[TS], self.generated_from))
        if self.generated_to is not None:
            terms.append(pc.less_equal(rows[TS], self.generated_to))
        return _all_of(terms)


@dataclass(slots=True)
class ReadReport:
    """What a read touched."""

    constituents: int = 0
    files: int = 0
    row_groups: int = 0
    bytes: int = 0
    rows: int = 0

    def take(self, other: ReadReport) -> None:
        """Add what another read touched."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(frozen=True)
class FileDirectory:
    """A Parquet file's footer, kept: which row groups hold which keys, and their bytes."""

    metadata: pq.FileMetaData
    columns: Mapping[str, tuple[int, ...]]
    """The stored bytes of every column, row group by row group."""
    lows: tuple[Any, ...] | None
    highs: tuple[Any, ...] | None

    def row_groups(self, low: Any, high: Any) -> range:
        """The row groups that may hold keys from ``low`` to ``high`` (None: open end)."""
        if self.lows is None or self.highs is None:
            return self.everything
        first = 0 if low is None else bisect_left(self.highs, low)
        last = len(self.lows) if high is None else bisect_right(self.lows, high)
        return range(first, last)

    @property
    def everything(self) -> range:
        return range(self.metadata.num_row_groups)


@lru_cache(maxsize=4096)
def file_directory(path: str, size: int, key: str, ordered: bool) -> FileDirectory:
    """The directory of an immutable file; cached by its name, which is never used again.

    ``ordered`` says that every key has a place in the statistics' order (not so NaN). The file
    itself is not kept open: a vacuumed file must not keep its space, nor an archive of many
    files a descriptor each.
    """
    with pq.ParquetFile(path) as file:
        metadata, schema = file.metadata, file.schema_arrow
    columns: dict[str, list[int]] = {name: [] for name in schema.names}
    lows, highs = [], []
    ordered = ordered and not pa.types.is_duration(schema.field(key).type)
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        for each in columns.values():
            each.append(0)
        for number in range(group.num_columns):
            chunk = group.column(number)
            name = chunk.path_in_schema.partition(".")[0]
            columns[name][at] += chunk.total_compressed_size
            if name == key and ordered:
                statistics = chunk.statistics
                ordered = statistics is not None and statistics.has_min_max
                if ordered:
                    lows.append(statistics.min)
                    highs.append(statistics.max)
    return FileDirectory(
        metadata,
        {name: tuple(sizes) for name, sizes in columns.items()},
        tuple(lows) if ordered else None,
        tuple(highs) if ordered else None,
    )


@dataclass(frozen=True)
class Reader:
    """Reads one version of an archive."""

    directory: Directory
    version: ArchiveVersion
    threads: int = 2
    report: ReadReport = field(default_factory=ReadReport, compare=False)
    _touched: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def settings(self) -> ArchiveSettings:
        return self.version.settings

    @cached_property
    def hiding(self) -> tuple[Hiding, ...]:
        """What was declared void in this version."""
        version = self.version
        entries, files = version.state.invalid, version.invalid_segments
        return hidings(self.directory, entries, files, version.settings) if entries else ()

    def probe(
        self, keys: Sequence[Any], selection: Selection, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """All wanted rows with one of these keys (a tuple per key if there are several columns).

        A row is returned once, however many of the keys it is found under.
        """
        by_part: dict[int, list[tuple[Any, ...]]] = {}
        normal = [self.key_values(key) for key in keys]
        for key in normal:
            part = part_of(key, self.settings.key_types, self.settings.parts)
            by_part.setdefault(part, []).append(key)
        first = self._one_of([key[0] for key in normal])
        whole, timeless = (self._needed(columns, selection, times=t) for t in (True, False))
        pieces = []
        for name, run, segment in self._segments(selection):
            if not (own := by_part.get(segment.tags[PART])):
                continue
            directory = self._directory(segment)
            groups = sorted({at for key in own for at in directory.row_groups(key[0], key[0])})
            every_time = selection.wants_all_of(segment) and not run.deleted_days
            rows = self._read(name, segment, directory, groups, timeless if every_time else whole)
            if rows is not None:
                rows = self._under(rows, first, several=len(normal) > 1)
                if len(self.settings.sort_columns) > 1:
                    rows = rows.filter(self._has_key(rows, own))
                pieces.append(self._chosen(rows, run, segment, selection))
        return self._collected(pieces, columns)

    def probe_range(
        self, keys: KeyRange, selection: Selection, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """All wanted rows whose first key column lies in the range, each once."""
        key = self.settings.sort_columns[0]
        low, high = (
            None if end is None else self.key_value(key, end) for end in (keys.low, keys.high)
        )
        inside, needed = self._between(low, high), self._needed(columns, selection)
        pieces = []
        for name, run, segment in self._segments(selection):
            directory = self._directory(segment)
            groups = directory.row_groups(low, high)
            rows = self._read(name, segment, directory, groups, needed)
            if rows is not None:
                rows = self._under(rows, inside, several=True)
                pieces.append(self._chosen(rows, run, segment, selection))
        return self._collected(pieces, columns)

    def scan(self, selection: Selection, columns: Sequence[str] | None = None) -> pa.Table:
        """All wanted rows."""
        return self._collected(list(self.scan_tables(selection, columns)), columns)

    def scan_tables(
        self, selection: Selection, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """All wanted rows, file by file; a bounded number of files is decoded at a time."""
        needed = self._needed(columns, selection)

        def one(run: Run, segment: Segment) -> pa.Table:
            directory = self._directory(segment)
            rows = self._decoded(segment, directory, directory.everything, needed)
            if self.settings.array_key:
                rows = rows.filter(pc.equal(rows[NTH], 0))
            return self._chosen(rows, run, segment, selection)

        wanted = list(self._segments(selection))
        for name, _, segment in wanted:
            directory = self._directory(segment)
            self._note(name, directory, directory.everything, needed)
        if len(wanted) < 2:
            yield from (one(run, segment) for _, run, segment in wanted)
            return
        under_way: deque[Future[pa.Table]] = deque()
        with ThreadPoolExecutor(self.threads) as pool:
            for _, run, segment in wanted:
                under_way.append(pool.submit(one, run, segment))
                if len(under_way) > self.threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()

    def stored_rows(self, selection: Selection) -> Iterator[tuple[str, Segment, pa.Table]]:
        """Everything that is stored in live files, with the run and the file it lies in."""
        for _, run, segment in self._segments(selection):
            if not segment.dead_at(selection.as_of):
                directory = self._directory(segment)
                schema = self.settings.stored
                yield (
                    run.id,
                    segment,
                    self._decoded(segment, directory, directory.everything, schema),
                )

    def _segments(self, selection: Selection) -> Iterator[tuple[str, Run, Segment]]:
        """Files of the constituents that may hold wanted rows."""
        for name, runs in self.version.state.constituent_runs().items():
            for run in runs:
                for segment in self.version.segments_of(run.id):
                    if selection.may_hold(segment):
                        yield name, run, segment

    def _one_of(self, keys: Sequence[Any]) -> Wanted:
        kind = self.settings.stored.field(self.settings.sort_columns[0]).type
        values = order_key(pa.chunked_array([pa.array(keys, kind)])).combine_chunks()
        if len(keys) == 1:
            return lambda column: pc.equal(order_key(column), values[0])
        return lambda column: pc.is_in(order_key(column), value_set=values)

    def _between(self, low: Any, high: Any) -> Wanted:
        kind = self.settings.stored.field(self.settings.sort_columns[0]).type
        ends = [
            None if end is None else order_key(pa.chunked_array([pa.array([end], kind)]))[0]
            for end in (low, high)
        ]

        def inside(column: Any) -> Any:
            ordered = order_key(column)
            terms = [] if ends[0] is None else [pc.greater_equal(ordered, ends[0])]
            terms += [] if ends[1] is None else [pc.less_equal(ordered, ends[1])]
            return _all_of(terms) if terms else pc.is_valid(column)

        return inside

    def _under(self, rows: pa.Table, wanted: Wanted, several: bool) -> pa.Table:
        """The rows found under a wanted value; of several copies of a row only the first."""
        rows = rows.filter(wanted(rows[self.settings.sort_columns[0]]))
        if not (several and self.settings.array_key and rows.num_rows):
            return rows
        arrays = rows[self.settings.key[0]].combine_chunks()
        values, owners = pc.list_flatten(arrays), pc.list_parent_indices(arrays).to_numpy()
        hits = np.flatnonzero(wanted(pa.chunked_array([values])).to_numpy())
        _, first = np.unique(owners[hits], return_index=True)
        first_found = order_key(pa.chunked_array([values.take(pa.array(hits[first]))]))
        return rows.filter(pc.equal(order_key(rows[KEY]), first_found))

    def _has_key(self, rows: pa.Table, keys: list[tuple[Any, ...]]) -> pa.ChunkedArray:
        names, schema = self.settings.sort_columns, self.settings.stored
        columns = [order_key(rows[name]) for name in names]
        whole = None
        for key in keys:
            ends = (
                order_key(pa.chunked_array([pa.array([value], schema.field(name).type)]))[0]
                for name, value in zip(names, key, strict=True)
            )
            one = _all_of([pc.equal(c, end) for c, end in zip(columns, ends, strict=True)])
            whole = one if whole is None else pc.or_(whole, one)
        return whole

    def key_values(self, key: Any) -> tuple[Any, ...]:
        names = self.settings.sort_columns
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(names):
            raise InvalidSetting(
                f"the key {key!r} has {len(values)} values, the archive's key has {len(names)}",
                f"give ({', '.join(self.settings.key)})",
            )
        return tuple(self.key_value(n, value) for n, value in zip(names, values, strict=True))

    def key_value(self, name: str, value: Any) -> Any:
        """A key value as Arrow gives it back."""
        kind = self.settings.key_types[self.settings.sort_columns.index(name)]
        if value is None:
            raise InvalidSetting("a NULL key is never stored", "probe with a value")
        try:
            converted = pa.scalar(value, self.settings.stored.field(name).type).as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            converted = None
        if converted is None or _is_another(value, converted):
            raise InvalidSetting(
                f"{value!r} is not a {kind}", f"probe {name} with a value of its type"
            )
        return converted

    def _directory(self, segment: Segment) -> FileDirectory:
        self._require(segment)
        path = self.directory.path(segment.path)
        key = self.settings.sort_columns[0]
        floating = pa.types.is_floating(self.settings.stored.field(key).type)
        try:
            ordered = self.settings.clustered and (not floating or segment.key is not None)
            return file_directory(str(path), segment.bytes, key, ordered)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from error

    def _require(self, segment: Segment) -> None:
        try:
            check_present(self.directory, segment)
        except CorruptFile as missing:
            number = self.version.manifest.version
            if self.directory.exists(manifest_name(number)):
                raise
            raise VersionExpired(
                f"version {number} of {self.directory.root} is gone: rows in it had expired, or "
                "nobody held it",
                "read the current version; a contract to erase bytes wins over readers",
            ) from missing

    def _read(
        self,
        name: str,
        segment: Segment,
        directory: FileDirectory,
        groups: Sequence[int],
        schema: pa.Schema,
    ) -> pa.Table | None:
        if not len(groups):
            return None
        self._note(name, directory, groups, schema)
        return self._decoded(segment, directory, groups, schema)

    def _note(
        self, name: str, directory: FileDirectory, groups: Sequence[int], schema: pa.Schema
    ) -> None:
        self._touched.add(name)
        self.report.constituents = len(self._touched)
        self.report.files += 1
        self.report.row_groups += len(groups)
        stored = (directory.columns.get(column) for column in schema.names)
        self.report.bytes += sum(sizes[at] for sizes in stored if sizes for at in groups)

    def _decoded(
        self, segment: Segment, directory: FileDirectory, groups: Sequence[int], schema: pa.Schema
    ) -> pa.Table:
        path = self.directory.path(segment.path)
        present = [name for name in schema.names if name in directory.columns]
        try:
            with (
                pa.memory_map(str(path)) as source,
                pq.ParquetFile(source, metadata=directory.metadata) as file,
            ):
                rows = file.read_row_groups(list(groups), columns=present, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from error
        return with_added_columns(rows, schema)

    def _needed(
        self, columns: Sequence[str] | None, selection: Selection, *, times: bool = True
    ) -> pa.Schema:
        """The columns to be read: those asked for, and those that tell whether a row is wanted."""
        known = self.settings.all_columns
        for name in columns or ():
            if name not in known:
                raise InvalidSetting(
                    f"the archive has no column {name!r}", f"its columns are {', '.join(known)}"
                )
        wanted = list(known) if columns is None else list(columns)
        copies = [*self.settings.key, NTH] if self.settings.array_key else []
        inputs = [name for name, _ in selection.inputs]
        void = [name for one in self.hiding for name in one.columns]
        hidden = [
            *self.settings.sort_columns,
            *copies,
            *inputs,
            *void,
            *((TS, EXP) if times else ()),
        ]
        stored = self.settings.stored
        return pa.schema([stored.field(name) for name in dict.fromkeys([*wanted, *hidden])])

    def _chosen(self, rows: pa.Table, run: Run, segment: Segment, selection: Selection) -> pa.Table:
        """The rows at the wanted time, without those of hidden days."""
        mask = None if selection.wants_all_of(segment) else selection.mask(rows)
        if mask is not None:
            rows = rows.filter(mask)
        if run.deleted_days and selection.soft:  # a hard read shows nothing dead anyway
            rows = rows.filter(pc.invert(self.settings.belongs(rows, run.deleted_days)))
        return rows if selection.soft else visible(rows, run.id, self.hiding)

    def _collected(self, pieces: list[pa.Table], columns: Sequence[str] | None) -> pa.Table:
        names = list(self.settings.all_columns) if columns is None else list(columns)
        schema = pa.schema([self.settings.stored.field(name) for name in names])
        rows = [piece.select(names) for piece in pieces if piece.num_rows]
        table = pa.concat_tables(rows) if rows else schema.empty_table()
        self.report.rows += table.num_rows
        return table


def _is_another(value: Any, converted: Any) -> bool:
    """Whether Arrow cut something off: 1.5 is not the key 1. Only floats are rounded."""
    if isinstance(converted, float):
        return math.isinf(converted) and value != converted
    if isinstance(value, datetime):
        return not isinstance(converted, datetime)
    return isinstance(value, float) and value != converted


def _all_of(terms: Sequence[Any]) -> Any:
    whole = None
    for term in terms:
        whole = term if whole is None else pc.and_(whole, term)
    return whole


def _unreadable(path: Path, error: Exception) -> Exception:
    if isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError):
        return told("read", path, error)
    return CorruptFile(
        f"the data file {path} cannot be read: {error}",
        "restore it from a copy, or run verify to see what is still readable",
    )
