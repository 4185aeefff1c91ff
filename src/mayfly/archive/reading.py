"""Reading an archive without Spark: probes and scans over the files of one version.

A probe finds the part of the key by its hash, skips runs whose days or keys lie outside, finds the
row groups in the cached directory (the footer's key ranges) and decodes only those. Reads are
hard by default: a row is returned only if it is alive at the instant asked for, whatever the
layout still stores.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mayfly.archive.hashing import part_of
from mayfly.archive.layouts.run_plan import Run
from mayfly.archive.settings import NTH, ArchiveSettings
from mayfly.archive.state import ArchiveVersion
from mayfly.archive.writing import PART, with_added_columns
from mayfly.errors import CorruptFile, InvalidSetting
from mayfly.storage.files import Directory
from mayfly.storage.segment import EXP, TS, Segment, check_present


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

    def may_hold(self, segment: Segment) -> bool:
        if not self.soft and segment.dead_at(self.as_of):
            return False
        if self.generated_from is not None and segment.ts.high < self.generated_from:
            return False
        if self.generated_to is not None and segment.ts.low > self.generated_to:
            return False
        return self.soft or bool(segment.ts.low <= self.as_of)

    def mask(self, rows: pa.Table, hidden: Sequence[int]) -> pa.ChunkedArray | None:
        """Which rows are wanted; None if all are. ``hidden`` are expirations of deleted days."""
        terms = []
        if not self.soft:
            terms += [pc.greater(rows[EXP], self.as_of), pc.less_equal(rows[TS], self.as_of)]
        if self.generated_from is not None:
            terms.append(pc.greater_equal(rows[TS], self.generated_from))
        if self.generated_to is not None:
            terms.append(pc.less_equal(rows[TS], self.generated_to))
        if hidden and self.soft:
            gone = pc.is_in(rows[EXP], value_set=pa.array(hidden, pa.int64()))
            terms.append(pc.invert(gone))
        whole = None
        for term in terms:
            whole = term if whole is None else pc.and_(whole, term)
        return whole


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
    """A Parquet file's footer, kept: which row groups hold which keys."""

    file: pq.ParquetFile
    lows: tuple[Any, ...] | None
    highs: tuple[Any, ...] | None
    sizes: tuple[int, ...]

    def row_groups(self, low: Any, high: Any) -> range:
        """The row groups that may hold keys from ``low`` to ``high`` (None: open end)."""
        everything = range(len(self.sizes))
        if self.lows is None or self.highs is None:
            return everything
        first = 0 if low is None else bisect_left(self.highs, low)
        last = len(self.sizes) if high is None else bisect_right(self.lows, high)
        return range(first, last)


@lru_cache(maxsize=4096)
def file_directory(path: str, size: int, key: str) -> FileDirectory:
    """The directory of an immutable file; cached by its name, which is never used again."""
    try:
        file = pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFile(
            f"the data file {path} cannot be read: {error}",
            "restore it from a copy, or run verify to see what is still readable",
        ) from error
    metadata = file.metadata
    column = file.schema_arrow.get_field_index(key)
    lows, highs, sizes = [], [], []
    usable = not pa.types.is_floating(file.schema_arrow.field(key).type)
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        sizes.append(group.total_byte_size)
        statistics = group.column(column).statistics if usable else None
        usable = usable and statistics is not None and statistics.has_min_max
        if usable and statistics is not None:
            lows.append(statistics.min)
            highs.append(statistics.max)
    return FileDirectory(
        file, tuple(lows) if usable else None, tuple(highs) if usable else None, tuple(sizes)
    )


@dataclass(frozen=True)
class Reader:
    """Reads one version of an archive."""

    directory: Directory
    version: ArchiveVersion
    threads: int = 2
    report: ReadReport = field(default_factory=ReadReport, compare=False)

    @property
    def settings(self) -> ArchiveSettings:
        return self.version.settings

    def probe(
        self, keys: Sequence[Any], selection: Selection, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """All wanted rows with one of these keys (a tuple per key if there are several columns)."""
        normal = [self._key_values(key) for key in keys]
        by_part: dict[int, list[tuple[Any, ...]]] = {}
        for key in normal:
            part = part_of(key, self.settings.key_types, self.settings.parts)
            by_part.setdefault(part, []).append(key)
        pieces: list[pa.Table] = []
        for run, segment in self._segments(selection):
            if own := by_part.get(segment.tags[PART]):
                pieces += self._probe_segment(run, segment, own, selection, columns)
        return self._collected(pieces, columns)

    def probe_range(
        self, keys: KeyRange, selection: Selection, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """All wanted rows whose first key column lies in the range."""
        pieces = []
        for run, segment in self._segments(selection):
            groups = self._directory(segment).row_groups(keys.low, keys.high)
            rows = self._read(segment, groups, self._needed(columns))
            if rows is not None:
                column = rows[self.settings.sort_columns[0]]
                pieces.append(self._chosen(rows, run, selection, _in_range(column, keys)))
        return self._collected(pieces, columns)

    def scan(self, selection: Selection, columns: Sequence[str] | None = None) -> pa.Table:
        """All wanted rows."""
        tables = list(self.scan_tables(selection, columns))
        return self._collected(tables, columns)

    def scan_tables(
        self, selection: Selection, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """All wanted rows, file by file; a bounded number of files is decoded at a time."""
        wanted = list(self._segments(selection))
        needed = self._needed(columns)

        def one(item: tuple[Run, Segment]) -> pa.Table:
            run, segment = item
            rows = self._read(segment, range(len(self._directory(segment).sizes)), needed)
            assert rows is not None
            once = pc.equal(rows[NTH], 0) if NTH in rows.column_names else None
            return self._chosen(rows, run, selection, once)

        with ThreadPoolExecutor(self.threads) as pool:
            yield from pool.map(one, wanted)

    def _segments(self, selection: Selection) -> Iterator[tuple[Run, Segment]]:
        """Files of the constituents that may hold wanted rows."""
        for runs in self.version.state.constituent_runs().values():
            touched = False
            for run in runs:
                for segment in self.version.segments_of(run.id):
                    if selection.may_hold(segment):
                        touched = True
                        yield run, segment
            self.report.constituents += touched

    def _probe_segment(
        self,
        run: Run,
        segment: Segment,
        keys: list[tuple[Any, ...]],
        selection: Selection,
        columns: Sequence[str] | None,
    ) -> Iterable[pa.Table]:
        directory = self._directory(segment)
        groups: set[int] = set()
        for key in keys:
            groups.update(directory.row_groups(key[0], key[0]))
        rows = self._read(segment, sorted(groups), self._needed(columns))
        if rows is None:
            return []
        return [self._chosen(rows, run, selection, self._has_key(rows, keys))]

    def _has_key(self, rows: pa.Table, keys: list[tuple[Any, ...]]) -> pa.ChunkedArray:
        schema = self.settings.stored
        names = self.settings.sort_columns
        if len(names) == 1:
            kind = schema.field(names[0]).type
            values = pa.array([key[0] for key in keys], kind)
            if len(keys) == 1 and not pa.types.is_floating(kind):
                return pc.equal(rows[names[0]], values[0])
            found = pc.is_in(rows[names[0]], value_set=values)
            if pa.types.is_floating(kind) and any(key[0] == 0 for key in keys):
                found = pc.or_(found, pc.equal(rows[names[0]], 0.0))
            return found
        whole = None
        for key in keys:
            one = None
            for name, value in zip(names, key, strict=True):
                kind = schema.field(name).type
                equal = pc.equal(rows[name], pa.scalar(value, kind))
                if pa.types.is_floating(kind) and value != value:
                    equal = pc.is_nan(rows[name])
                one = equal if one is None else pc.and_(one, equal)
            whole = one if whole is None else pc.or_(whole, one)
        return whole

    def _key_values(self, key: Any) -> tuple[Any, ...]:
        names = self.settings.sort_columns
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(names):
            raise InvalidSetting(
                f"the key {key!r} has {len(values)} values, the archive's key has {len(names)}",
                f"give ({', '.join(self.settings.key)})",
            )
        schema = self.settings.stored
        converted = []
        for name, value in zip(names, values, strict=True):
            if value is None:
                raise InvalidSetting("a NULL key is never stored", "probe with a value")
            try:
                kind = schema.field(name).type
                converted.append(pa.scalar(value, kind).as_py())
            except (pa.ArrowException, TypeError, OverflowError) as error:
                raise InvalidSetting(
                    f"{value!r} is not a {self.settings.key_types[names.index(name)]}",
                    f"probe {name} with a value of its type",
                ) from error
        return tuple(converted)

    def _directory(self, segment: Segment) -> FileDirectory:
        path = str(self.directory.path(segment.path))
        try:
            return file_directory(path, segment.bytes, self.settings.sort_columns[0])
        except CorruptFile:
            check_present(self.directory, segment)
            raise

    def _read(self, segment: Segment, groups: Sequence[int], columns: list[str]) -> pa.Table | None:
        if not len(groups):
            return None
        directory = self._directory(segment)
        present = [name for name in columns if name in directory.file.schema_arrow.names]
        try:
            rows = directory.file.read_row_groups(list(groups), columns=present, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise CorruptFile(
                f"the data file {segment.path} in {self.directory.root} cannot be read: {error}",
                "restore it from a copy, or run verify to see what is still readable",
            ) from error
        read = sum(directory.sizes[at] for at in groups)
        self.report.files += 1
        self.report.row_groups += len(groups)
        self.report.bytes += read
        schema = pa.schema([self.settings.stored.field(name) for name in columns])
        return with_added_columns(rows, schema)

    def _needed(self, columns: Sequence[str] | None) -> list[str]:
        known = self.settings.all_columns
        for name in columns or ():
            if name not in known:
                raise InvalidSetting(
                    f"the archive has no column {name!r}", f"its columns are {', '.join(known)}"
                )
        wanted = list(known) if columns is None else list(columns)
        internal = [*self.settings.sort_columns, TS, EXP]
        if self.settings.array_key:
            internal.append(NTH)
        return [*wanted, *(name for name in dict.fromkeys(internal) if name not in wanted)]

    def _chosen(
        self, rows: pa.Table, run: Run, selection: Selection, also: pa.ChunkedArray | None
    ) -> pa.Table:
        hidden = [self.settings.expiration(day) for day in run.deleted_days]
        mask = selection.mask(rows, hidden)
        if also is not None:
            mask = also if mask is None else pc.and_(mask, also)
        return rows if mask is None else rows.filter(mask)

    def _collected(self, pieces: list[pa.Table], columns: Sequence[str] | None) -> pa.Table:
        names = list(self.settings.all_columns) if columns is None else list(columns)
        schema = pa.schema([self.settings.stored.field(name) for name in names])
        rows = [piece.select(names) for piece in pieces if piece.num_rows]
        table = pa.concat_tables(rows) if rows else schema.empty_table()
        self.report.rows = table.num_rows
        return table


def _in_range(column: pa.ChunkedArray, keys: KeyRange) -> pa.ChunkedArray | None:
    terms = []
    if keys.low is not None:
        terms.append(pc.greater_equal(column, pa.scalar(keys.low, column.type)))
    if keys.high is not None:
        terms.append(pc.less_equal(column, pa.scalar(keys.high, column.type)))
    if not terms:
        return None
    return terms[0] if len(terms) == 1 else pc.and_(*terms)
