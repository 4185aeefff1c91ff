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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.layouts.run_plan import Run
from mayfly.archive.model.invalidation import Hiding, hidings, visible
from mayfly.archive.model.key_hash import key_parts, parts_of
from mayfly.archive.model.key_order import order_key
from mayfly.archive.model.settings import HOME, KEY, NTH, REFERENCE, ArchiveSettings
from mayfly.archive.model.state import PART, ArchiveVersion
from mayfly.archive.read.key_places import File, key_hashes
from mayfly.archive.read.selection import KeyRange, ReadReport, Selection, all_of, in_pieces
from mayfly.archive.read.stored_files import FileDirectory
from mayfly.archive.read.version_files import VersionFiles
from mayfly.display import counted
from mayfly.errors import InvalidSetting
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, Segment

SCANNED_AT_ONCE = 1 << 22
"""Bytes of small files from which rows are chosen at once."""
Wanted = Callable[[Any], Any]
"""Values of the first key column → which of them are asked for."""


@dataclass(frozen=True)
class Reader:
    """Reads one version of an archive."""

    directory: Directory
    version: ArchiveVersion
    threads: int = 2
    report: ReadReport | None = field(default=None, compare=False)
    _touched: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def settings(self) -> ArchiveSettings:
        return self.version.settings

    @cached_property
    def files(self) -> VersionFiles:
        return VersionFiles(self.directory, self.version)

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
        selection = selection.at_positions(self.version.positions, self.version.time)
        by_part: dict[int, list[tuple[Any, ...]]] = {}
        normal = [self.key_values(key) for key in keys]
        parts = key_parts(normal, self.settings.key_types, self.settings.parts)
        for key, part in zip(normal, parts, strict=True):
            by_part.setdefault(part, []).append(key)
        values, several = self._ordered([key[0] for key in normal]), len(normal) > 1
        if self.settings.array_key:
            files = self._probed(selection, by_part)

            def groups_of(directory: FileDirectory, part: int) -> set[int]:
                return _groups_with(directory, [key[0] for key in by_part[part]])

            return self._found_under(files, _one_of(values), groups_of, selection, columns)
        whole, timeless = (self._needed(columns, selection, times=t) for t in (True, False))
        tables_by_kind: dict[tuple[Run | None, bool], list[pa.Table]] = {}
        for name, run, segment in self._probed(selection, by_part):
            directory = self.files.directory_of(segment)
            own = by_part[segment.tags[PART]]
            groups = sorted(
                {group for key in own for group in directory.row_groups(key[0], key[0])}
            )
            every_time = _at_any_time(run, segment, selection)
            rows = self._read(name, segment, directory, groups, timeless if every_time else whole)
            if rows is not None:
                kind = (self._with_hidden(run, selection), every_time)
                rows = rows if several else self._stretch(rows, values[0])
                if rows is not None:
                    tables_by_kind.setdefault(kind, []).append(rows)
        pieces = []
        for (run_or_none, every_time), tables in tables_by_kind.items():
            rows = pa.concat_tables(tables)
            rows = self._under(rows, _one_of(values)) if several else _copied(rows)
            if len(self.settings.sort_columns) > 1:
                rows = rows.filter(self._has_key(rows, normal))
            pieces.append(self._chosen(rows, run_or_none, every_time, selection))
        return self._collected(pieces, columns)

    def probe_range(
        self, keys: KeyRange, selection: Selection, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """All wanted rows whose first key column lies in the range, each once."""
        selection = selection.at_positions(self.version.positions, self.version.time)
        key = self.settings.sort_columns[0]
        low, high = (
            None if end is None else self.key_value(key, end) for end in (keys.low, keys.high)
        )
        inside, needed = self._between(low, high), self._needed(columns, selection)
        if self.settings.array_key:

            def groups_of(directory: FileDirectory, part: int) -> set[int]:
                return set(directory.row_groups(low, high))

            files = self._segments(selection)
            return self._found_under(files, inside, groups_of, selection, columns)
        pieces = []
        for name, run, segment in self._segments(selection):
            directory = self.files.directory_of(segment)
            groups = directory.row_groups(low, high)
            rows = self._read(name, segment, directory, groups, needed)
            if rows is not None:
                rows = self._under(rows, inside)
                every_time = selection.wants_all_of(segment)
                pieces.append(self._chosen(rows, run, every_time, selection))
        return self._collected(pieces, columns)

    def scan(self, selection: Selection, columns: Sequence[str] | None = None) -> pa.Table:
        """All wanted rows."""
        return self._collected(list(self.scan_tables(selection, columns)), columns)

    def scan_tables(
        self, selection: Selection, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """All wanted rows, a file or some small ones at a time; few are decoded ahead."""
        selection = selection.at_positions(self.version.positions, self.version.time)
        whole, timeless = (self._needed(columns, selection, times=t) for t in (True, False))

        def read(kind: tuple[Run | None, bool], segments: Sequence[Segment]) -> pa.Table:
            hidden_in, every_time = kind
            tables = []
            for segment in segments:
                directory = self.files.directory_of(segment)
                schema = timeless if every_time else whole
                tables.append(self.files.decoded(segment, directory, directory.everything, schema))
            rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
            if self.settings.array_key:
                rows = rows.filter(pc.equal(rows[NTH], 0))
            return self._chosen(rows, hidden_in, every_time, selection)

        alike = []
        for name, run, segment in self._segments(selection):
            directory = self.files.directory_of(segment)
            every_time = _at_any_time(run, segment, selection)
            self._note(name, directory, directory.everything, timeless if every_time else whole)
            alike.append(((self._with_hidden(run, selection), every_time), segment))
        together = list(in_pieces(alike, SCANNED_AT_ONCE))
        if len(together) < 2:
            yield from (read(*piece) for piece in together)
            return
        under_way: deque[Future[pa.Table]] = deque()
        with ThreadPoolExecutor(self.threads) as pool:
            for piece in together:
                under_way.append(pool.submit(read, *piece))
                if len(under_way) > self.threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()

    def stored_rows(self, as_of: int) -> Iterator[tuple[str, Segment, pa.Table]]:
        """All rows in live files, temporaries included, with the run and the file they lie in."""
        schema = self.settings.stored
        for run in sorted(self.version.state.used_runs()):
            for segment in self.version.segments_of(run):
                if not segment.dead_at(as_of):
                    directory = self.files.directory_of(segment)
                    rows = self.files.decoded(segment, directory, directory.everything, schema)
                    yield run, segment, rows

    def _segments(self, selection: Selection) -> Iterator[File]:
        """Files of the constituents that may hold wanted rows."""
        for files in self.version.files_by_part.values():
            for name, run, segment in files:
                if selection.may_hold(segment):
                    yield name, run, segment

    def _probed(
        self, selection: Selection, keys: Mapping[int, Sequence[tuple[Any, ...]]]
    ) -> Iterator[File]:
        """Files that may hold wanted rows of these keys, which are given by part."""
        for part, own in keys.items():
            hashes = key_hashes(self._plain([key[0] for key in own]))
            for name, run, segment in self.files.places(part).holding(hashes):
                if selection.may_hold(segment):
                    yield name, run, segment

    def _with_hidden(self, run: Run, selection: Selection) -> Run | None:
        """The run, if rows of it must be left out that are alive or asked for."""
        if selection.soft:
            return run if run.deleted_days else None
        hidden = any(run.id in entry.pending for entry in self.version.state.invalid)
        return run if hidden else None

    def _stretch(self, rows: pa.Table, scalar: pa.Scalar) -> pa.Table | None:
        """The rows whose first key column has this value; sorted, they lie together."""
        column = order_key(rows[self.settings.sort_columns[0]])
        if not self.settings.family.clustered:
            return rows.filter(pc.equal(column, scalar))
        value = scalar.as_py()
        first = bisect_left(column, value, key=_plain)
        after = bisect_right(column, value, first, key=_plain)
        return rows.slice(first, after - first) if after > first else None

    def _ordered(self, values: Sequence[Any]) -> pa.Array:
        """Values of the first key column in the form of ``order_key``."""
        return order_key(self._plain(values)).combine_chunks()

    def _plain(self, values: Sequence[Any]) -> pa.ChunkedArray:
        """Values of the first key column as files hold them."""
        kind = self.settings.stored.field(self.settings.sort_columns[0]).type
        return pa.chunked_array([pa.array(values, kind)])

    def _between(self, low: Any, high: Any) -> Wanted:
        ends = [None if end is None else self._ordered([end])[0] for end in (low, high)]

        def inside(column: Any) -> Any:
            ordered = order_key(column)
            terms = [] if ends[0] is None else [pc.greater_equal(ordered, ends[0])]
            terms += [] if ends[1] is None else [pc.less_equal(ordered, ends[1])]
            return all_of(terms) if terms else pc.is_valid(column)

        return inside

    def _under(self, rows: pa.Table, condition: Wanted) -> pa.Table:
        """The rows whose first key column has a wanted value."""
        return rows.filter(condition(rows[self.settings.sort_columns[0]]))

    def _found_under(
        self,
        files: Iterable[File],
        condition: Wanted,
        groups_of: Callable[[FileDirectory, int], set[int]],
        selection: Selection,
        columns: Sequence[str] | None,
    ) -> pa.Table:
        """Rows with a wanted value in their array key, each once: entries lead to homes."""
        needed = self._needed(columns, selection)
        entry = pa.schema([column for column in needed if column.name in (KEY, HOME)])
        pieces = []
        for name, run, segment in files:
            directory, part = self.files.directory_of(segment), segment.tags[PART]
            groups = groups_of(directory, part)
            entries = self._read(name, segment, directory, sorted(groups), entry)
            if entries is None:
                continue
            homes = entries.filter(condition(entries[KEY]))[HOME].unique()
            places = groups if homes.null_count else set[int]()
            homes = homes.drop_null()
            places |= _groups_with(directory, homes.to_pylist())
            if not places:
                continue
            self._note(name, directory, sorted(places), needed, again=True)
            rows = self.files.decoded(segment, directory, sorted(places), needed)
            rows = self._whole_with(rows, homes, condition, part)
            every_time = _at_any_time(run, segment, selection)
            hidden_in = self._with_hidden(run, selection)
            pieces.append(self._chosen(rows, hidden_in, every_time, selection))
        return self._collected(pieces, columns)

    def _whole_with(
        self, rows: pa.Table, homes: pa.Array, condition: Wanted, part: int
    ) -> pa.Table:
        """The rows stored whole that have a wanted value and belong to its first one's part."""
        keys = order_key(rows[KEY])
        at_home = pc.is_in(keys, value_set=order_key(pa.chunked_array([homes])).combine_chunks())
        whole = pc.greater(rows[NTH], REFERENCE)
        rows = rows.filter(pc.and_(whole, pc.or_(rows[HOME].is_null(), at_home)))
        arrays = rows[self.settings.key[0]].combine_chunks()
        values, owners = pc.list_flatten(arrays), pc.list_parent_indices(arrays).to_numpy()
        hits = np.flatnonzero(condition(pa.chunked_array([values])).to_numpy())
        having, first = np.unique(owners[hits], return_index=True)
        rows = rows.take(pa.array(having))
        first_found = pa.chunked_array([values.take(pa.array(hits[first]))])
        copies = pc.and_(
            rows[HOME].is_null(), pc.equal(order_key(rows[KEY]), order_key(first_found))
        )
        own = pa.array(parts_of([first_found.combine_chunks()], self.settings.parts) == part)
        return rows.filter(pc.or_(copies, pc.and_(rows[HOME].is_valid(), own)))

    def _has_key(self, rows: pa.Table, keys: list[tuple[Any, ...]]) -> pa.ChunkedArray:
        names, schema = self.settings.sort_columns, self.settings.stored
        columns = [order_key(rows[name]) for name in names]
        whole = None
        for key in keys:
            ends = (
                order_key(pa.chunked_array([pa.array([value], schema.field(name).type)]))[0]
                for name, value in zip(names, key, strict=True)
            )
            match = all_of([pc.equal(c, end) for c, end in zip(columns, ends, strict=True)])
            whole = match if whole is None else pc.or_(whole, match)
        return whole

    def key_values(self, key: Any) -> tuple[Any, ...]:
        names = self.settings.sort_columns
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(names):
            raise InvalidSetting(
                f"the key {key!r} has {counted(len(values), 'value')}, "
                f"the archive's key has {len(names)}",
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
        again = self.settings.contract.erased_within is None
        self._note(name, directory, groups, schema)
        return self.files.decoded(segment, directory, groups, schema, again=again)

    def _note(
        self,
        name: str,
        directory: FileDirectory,
        groups: Sequence[int],
        schema: pa.Schema,
        *,
        again: bool = False,
    ) -> None:
        if self.report is None:
            return
        self._touched.add(name)
        self.report.constituents = len(self._touched)
        self.report.files += not again
        self.report.row_groups += len(groups)
        self.report.bytes += directory.stored_bytes(groups, set(schema.names))

    def _needed(
        self, columns: Sequence[str] | None, selection: Selection, *, times: bool = True
    ) -> pa.Schema:
        """The columns to be read: those asked for, and those that tell whether a row is wanted."""
        existing = self.settings.all_columns
        for name in columns or ():
            if name not in existing:
                raise InvalidSetting(
                    f"the archive has no column {name!r}", f"its columns are {', '.join(existing)}"
                )
        names = set(existing if columns is None else columns)
        names.update(self.settings.sort_columns)
        if self.settings.array_key:
            names.update((*self.settings.key, NTH, HOME))
        names.update(name for name, _ in (*selection.inputs, *selection.after))
        names.update(name for hider in self.hiding for name in hider.columns)
        if times:
            names.update(self._times(selection, columns))
        # In the order of the files, so that what is read has this schema already.
        return pa.schema([column for column in self.settings.stored if column.name in names])

    def _times(self, selection: Selection, columns: Sequence[str] | None = None) -> tuple[str, str]:
        """The columns that say when a row was generated and when it expires.

        Those of the user say the same as ours, and are not read twice.
        """
        if selection.soft:
            return TS, EXP
        named = self.settings.all_columns if columns is None else columns
        ts = self.settings.time if self.settings.time in named else TS
        exp = self.settings.family.exp
        return ts, exp if exp is not None and exp in named else EXP

    def _chosen(
        self, rows: pa.Table, run: Run | None, every_time: bool, selection: Selection
    ) -> pa.Table:
        """The rows at the wanted time, without what is hidden in the run."""
        if not every_time and rows.num_rows:
            times = self._times(selection, rows.column_names)
            mask = selection.mask(rows, *times)
            rows = rows if mask is None else rows.filter(mask)
        if run is None:
            return rows
        if run.deleted_days and selection.soft:  # a hard read shows nothing dead anyway
            rows = rows.filter(pc.invert(self.settings.family.belongs(rows, run.deleted_days)))
        return rows if selection.soft else visible(rows, run.id, self.hiding)

    def _collected(self, pieces: list[pa.Table], columns: Sequence[str] | None) -> pa.Table:
        names = list(self.settings.all_columns) if columns is None else list(columns)
        schema = pa.schema([self.settings.stored.field(name) for name in names])
        rows = [piece.select(names) for piece in pieces if piece.num_rows]
        table = pa.concat_tables(rows) if rows else schema.empty_table()
        if self.report is not None:
            self.report.rows += table.num_rows
        return table


def _is_another(value: Any, converted: Any) -> bool:
    """Whether Arrow cut something off: 1.5 is not the key 1. Only floats are rounded."""
    if isinstance(converted, float):
        return math.isinf(converted) and value != converted
    if isinstance(value, datetime):
        return not isinstance(converted, datetime)
    return isinstance(value, float) and value != converted


def _at_any_time(run: Run, segment: Segment, selection: Selection) -> bool:
    """Whether the times of the file's rows need not be looked at."""
    return selection.wants_all_of(segment) and not run.deleted_days


def _groups_with(directory: FileDirectory, values: Iterable[Any]) -> set[int]:
    """The row groups that may hold one of these keys."""
    return {group for value in values for group in directory.row_groups(value, value)}


def _one_of(values: pa.Array) -> Wanted:
    return lambda column: pc.is_in(order_key(column), value_set=values)


def _plain(value: pa.Scalar) -> Any:
    return value.as_py()


def _copied(rows: pa.Table) -> pa.Table:
    """The rows in memory of their own: an answer must not hold on to whole row groups and files."""
    if rows.num_columns and rows.column(0).num_chunks > 1:
        return rows.combine_chunks()
    return rows.take(pa.array(np.arange(rows.num_rows)))
