"""Writing the runs of an update, one part at a time: what runs where the rows are.

A run is cut into parts by the hash of its key, and part p of every run holds the same keys. So a
part of a new run needs only that part of its sources, already sorted, and the batch's rows of
that part: nothing stored is ever shuffled, and parts are written in parallel.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.layouts.operations import NO_DAYS, Days, format_days
from mayfly.archive.layouts.run_plan import RunWrite
from mayfly.archive.model.admission import AdmissionSummary, LateRows, summarize
from mayfly.archive.model.array_keys import with_references, without_dangling
from mayfly.archive.model.calendar import Int64Array
from mayfly.archive.model.invalidation import Invalidation, hidings, visible
from mayfly.archive.model.key_order import merge_sorted, sorted_by_key
from mayfly.archive.model.row_counts import BOUNDS, NO_WINDOWS, Positions, bounds_of, times_of
from mayfly.archive.model.settings import (
    INSERTED,
    NTH,
    ArchiveSettings,
    with_added_columns,
    with_values,
)
from mayfly.archive.model.state import DAYS, PART, run_group
from mayfly.archive.write.spills import Spills
from mayfly.errors import ProtocolError, StorageError
from mayfly.faults import reach
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, Segment, SegmentWriter, segment_batches
from mayfly.storage.verify import SORTED_BY

BYTES_IN_MEMORY = 512 * 2**20
ROWS_AT_ONCE = 65_536
ARROW_GROUPS = 4
"""Row groups of an Arrow file are so many times larger: none is decoded, and a scan that meets
fewer is faster."""


@dataclass(frozen=True)
class WriteJob:
    """What every part of an update has to do."""

    root: str
    sync: bool
    settings: ArchiveSettings
    update: int
    writes: tuple[RunWrite, ...]
    sources: Mapping[str, tuple[Segment, ...]]
    """The stored files of the runs that are read, all parts."""
    bytes_in_memory: int = BYTES_IN_MEMORY
    invalid: tuple[tuple[Invalidation, Segment], ...] = ()
    """What is void in the runs that are read, and the files that list it."""
    moved_from: ArchiveSettings | None = None
    """The settings that the sources were stored under, if all of them are to find a new home."""

    positions: Positions = NO_WINDOWS
    """After the update, of windows of a number of rows."""
    examined: tuple[str, ...] = ()
    """Runs whose rows are stored anew if they are alive by their positions."""

    @property
    def batch_days(self) -> Days:
        """The days whose arriving rows have a place."""
        return NO_DAYS.union(*(write.batch_days for write in self.writes))


@dataclass(frozen=True)
class PartResult:
    """What one part wrote."""

    part: int
    summary: AdmissionSummary
    segments: tuple[Segment, ...] = ()
    day_rows: Mapping[int, int] = field(default_factory=dict)
    io: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def write_part(job: WriteJob, which: Callable[[], int], batches: Iterable[pa.Table]) -> PartResult:
    """Classify and sort the batch's rows of one part, then write that part of every new run.

    A part with refused rows writes nothing. ``which`` names the part once the rows are in.
    """
    began = time.perf_counter()
    directory = Directory.at(job.root, sync=job.sync)
    with Spills.begin() as spills:
        arrived = Arrivals(job, spills)
        for rows in batches:
            arrived.add(rows)
        part = which()
        if job.moved_from is not None:
            _move(directory, job, job.moved_from, part, arrived)
        for table in _examined(directory, job, part):
            arrived.hold(table)
        if arrived.summary.refused:
            return PartResult(part, arrived.summary)
        _require_planned(job, arrived.day_rows)
        segments: list[Segment] = []
        with removed_on_failure(directory, segments), directory.syncing_together() as together:
            for write in job.writes:
                segments += _write_run(together, job, write, part, arrived)
                reach("archive.run-written")
        return PartResult(
            part,
            arrived.summary,
            tuple(segments),
            arrived.day_rows,
            directory.io.to_json(),
            time.perf_counter() - began,
        )


@contextlib.contextmanager
def removed_on_failure(directory: Directory, segments: list[Segment]) -> Iterator[None]:
    """Nothing will ever name what was written when the writing fails: free the space at once."""
    try:
        yield
    except BaseException:
        for segment in segments:
            with contextlib.suppress(StorageError):
                directory.remove(segment.path)
        raise


def _require_planned(job: WriteJob, day_rows: Mapping[int, int]) -> None:
    if homeless := day_rows.keys() - job.batch_days:
        raise ProtocolError(
            f"update {job.update}: the batch has rows of {format_days(homeless)}, which it did "
            "not have when the update was planned",
            "make the batch give the same rows each time it is read (write it to a file first)",
        )


class Arrivals:
    """The admitted rows of a batch as sorted stretches, spilled to disk where they are many."""

    def __init__(self, job: WriteJob, spills: Spills) -> None:
        self._job, self._spills = job, spills
        self._held: list[pa.Table] = []
        self._size = 0
        self._is_sorted = False
        """Whether what is held is in order: a batch is sorted once for all runs it goes into."""
        self.summary = AdmissionSummary()
        self.day_rows: Counter[int] = Counter()
        """Rows by label; of a row that lies under several keys, its first copy alone."""
        self._copies: set[int] = set()
        """The labels of rows that lie under several keys, whichever copy is here."""

    def add(self, rows: pa.Table, inserted: Int64Array | None = None) -> None:
        """Take in rows that arrive, or that had no lifetimes of their own when these updates
        ``inserted`` them."""
        self._take(self._admit(rows, inserted))

    def hold(self, stored: pa.Table) -> None:
        """Take in rows that were stored before."""
        self.day_rows += rows_by_label(stored, self._job.settings)
        self._take(stored)

    def _take(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._held.append(rows)
            if self._job.settings.array_key:
                self._copies.update(np.unique(self._job.settings.family.labels_of(rows)).tolist())
            self._is_sorted = False
            self._size += rows.nbytes
        if self._size > self._job.bytes_in_memory:
            self._spill()

    def stretches(self, write: RunWrite) -> list[Iterator[pa.Table]]:
        """The rows that go into a run, each stretch sorted by key."""
        if write.batch_days.isdisjoint(self.day_rows.keys() | self._copies):
            return []
        if not self._is_sorted:
            self._held, self._is_sorted = [self._sorted()] if self._held else [], True
        arrivals = [_sliced(table) for table in self._held]
        arrivals += self._spills.stretches()
        settings = self._job.settings
        own = [_of_days(stretch, settings, write.batch_days) for stretch in arrivals]
        if write.only is None:
            return own
        return [_of_sub_index(stretch, settings, write.only) for stretch in own]

    def _admit(self, rows: pa.Table, inserted: Int64Array | None) -> pa.Table:
        """The rows to be stored, as they will be stored."""
        settings = self._job.settings
        with_exp = with_lifetimes(rows, settings, self._job.update, self._job.positions)
        rule = settings.rule
        if inserted is not None:
            with_exp = with_values(with_exp, INSERTED, inserted)
            rule = replace(rule, late=LateRows.THIS_UPDATE)
        dead = self._job.positions.dead(with_exp)
        admission = rule.admit(
            self._job.update, with_exp, ts=settings.time, exp=EXP, key=settings.key, dead=dead
        )
        shown = list(
            dict.fromkeys([*settings.key, settings.time, *settings.family.lifetime_columns])
        )
        once = _first_copies(with_exp)
        self.summary = self.summary + summarize(
            _only(admission, once), with_exp.filter(pa.array(once)), shown
        )
        stored = with_exp.filter(pa.array(admission.stored))
        self.day_rows += rows_by_label(stored, settings)
        if settings.array_key:
            stored = with_references(stored, settings)
        return stored.select(settings.stored.names).cast(settings.stored)

    def _sorted(self) -> pa.Table:
        rows, settings = pa.concat_tables(self._held), self._job.settings
        return sorted_by_key(rows, settings.sort_columns) if settings.family.clustered else rows

    def _spill(self) -> None:
        self._spills.add(self._sorted(), ROWS_AT_ONCE)
        self._held, self._size = [], 0


def with_lifetimes(
    rows: pa.Table, settings: ArchiveSettings, update: int, positions: Positions = NO_WINDOWS
) -> pa.Table:
    """The rows with _ts and _exp, and with their update; NULL times count as 0 here."""
    times = rows[settings.time]
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
    ts = pc.fill_null(times, 0).to_numpy()
    exp = settings.family.expirations(rows, ts, update, positions)
    for name in settings.family.columns:
        rows = rows.append_column(name, pa.array(np.full(len(ts), update), pa.int64()))
    rows = rows.append_column(TS, pa.array(ts, pa.int64()))
    return rows.append_column(EXP, exp)


def _first_copies(rows: pa.Table) -> np.ndarray:
    if NTH in rows.column_names:
        first: np.ndarray = rows[NTH].to_numpy() == 0
        return first
    return np.ones(rows.num_rows, dtype=bool)


def _only(admission: Any, mask: np.ndarray) -> Any:
    return type(admission)(
        admission.verdicts[mask], admission.inserted_by[mask], admission.removed_by[mask]
    )


def _sliced(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, ROWS_AT_ONCE):
        yield table.slice(start, ROWS_AT_ONCE)


def _of_days(
    tables: Iterator[pa.Table], settings: ArchiveSettings, days: Days
) -> Iterator[pa.Table]:
    for table in tables:
        yield table.filter(settings.family.belongs(table, days))


def _of_sub_index(
    tables: Iterator[pa.Table], settings: ArchiveSettings, name: str
) -> Iterator[pa.Table]:
    layout, family = settings.cells, settings.family
    for table in tables:
        cells = np.column_stack([table[INSERTED].to_numpy(), family.labels_of(table)])
        distinct, inverse = np.unique(cells, axis=0, return_inverse=True)
        own = np.array([layout.sub_index(int(i), int(j)) == name for i, j in distinct], dtype=bool)
        yield table.filter(pa.array(own[inverse.reshape(-1)])) if len(own) else table


def _move(
    directory: Directory, job: WriteJob, before: ArchiveSettings, part: int, arrived: Arrivals
) -> None:
    """Take in a part of all sources: what is alive and valid, as the new settings have it."""
    after = job.settings
    now = after.calendar.time_of(job.update)
    for run, segments in job.sources.items():
        for segment in segments:
            if segment.tags[PART] != part or segment.dead_at(now):
                continue
            tables = stored_tables(directory, segment, before)
            for table in _valid(tables, run, job, directory):
                alive = table.filter(pc.greater(table[EXP], now))
                before.family.move(alive, part, after.family, arrived, now)


def _examined(directory: Directory, job: WriteJob, part: int) -> Iterator[pa.Table]:
    """What is alive by its positions in a part of the examined runs, under new estimates."""
    positions, settings = job.positions, job.settings
    for run in job.examined:
        for segment in (source for source in job.sources[run] if source.tags[PART] == part):
            for table in _valid(stored_tables(directory, segment, settings), run, job, directory):
                alive = table.filter(positions.alive(table))
                labels = positions.labels(alive, job.update, settings.window)
                alive = with_values(alive, INSERTED, np.full(alive.num_rows, job.update))
                yield with_values(alive, EXP, times_of(settings.calendar, labels))


def _valid(
    tables: Iterator[pa.Table], run: str, job: WriteJob, directory: Directory
) -> Iterator[pa.Table]:
    """The rows of a stored run without those declared void."""
    own = [(entry, file) for entry, file in job.invalid if run in entry.pending]
    if not own:
        return tables
    files = {entry.group: file for entry, file in own}
    hiding = hidings(directory, [entry for entry, _ in own], files, job.settings)
    valid = (visible(table, run, hiding) for table in tables)
    return without_dangling(valid, job.settings) if job.settings.array_key else valid


def stored_tables(
    directory: Directory, segment: Segment, settings: ArchiveSettings
) -> Iterator[pa.Table]:
    """A stored part in bounded tables, with columns added since read as NULL."""
    batches = (pa.Table.from_batches([batch]) for batch in segment_batches(directory, segment))
    for table in _in_whole_groups(batches, ROWS_AT_ONCE):
        yield with_added_columns(table, settings.stored)


def _write_run(
    directory: Directory, job: WriteJob, write: RunWrite, part: int, arrived: Arrivals
) -> list[Segment]:
    settings, family = job.settings, job.settings.family
    inputs = arrived.stretches(write)
    for source in write.sources:
        for segment in job.sources[source.run]:
            if segment.tags[PART] == part:
                tables = stored_tables(directory, segment, settings)
                kept = _valid(tables, source.run, job, directory)
                inputs.append(_of_days(kept, settings, source.days))
    merged = (
        merge_sorted(inputs, settings.sort_columns)
        if family.clustered
        else (table for stream in inputs for table in stream if table.num_rows)
    )
    first = next(merged, None)
    if first is None:
        return []
    format = family.format_of(write.level)
    group_bytes = settings.row_group_bytes * (ARROW_GROUPS if format == "arrow" else 1)
    group_rows = _row_group_rows(first, group_bytes)
    first_key = settings.sort_columns[0]
    ordered = {SORTED_BY: list(settings.sort_columns)} if family.clustered else {}
    with SegmentWriter(
        directory,
        run_group(write.id),
        settings.stored,
        format=format,
        # Manifests have no form for intervals; the file's own statistics remain.
        key=None if pa.types.is_duration(first.schema.field(first_key).type) else first_key,
        level=write.level,
        tags={PART: part, **ordered},
        compression=None if format == "arrow" else settings.compression,
        row_group_rows=group_rows,
    ) as writer:
        days: Counter[int] = Counter()
        bounds: dict[str, list[int]] = {}
        for table in _in_whole_groups(chain([first], merged), group_rows):
            writer.write(table)
            days += rows_by_label(table, settings)
            for name, (low, high) in bounds_of(table, family.counts).items():
                extent = bounds.setdefault(name, [low, high])
                bounds[name] = [min(low, extent[0]), max(high, extent[1])]
        written = writer.close()
    tags = {DAYS: sorted(days.items()), **({BOUNDS: bounds} if bounds else {})}
    return [replace(written, tags={**written.tags, **tags})] if written else []


def rows_by_label(table: pa.Table, settings: ArchiveSettings) -> Counter[int]:
    labels = settings.family.labels_of(table)[_first_copies(table)]
    distinct_labels, counts = np.unique(labels, return_counts=True)
    return Counter(dict(zip(distinct_labels.tolist(), counts.tolist(), strict=True)))


def _row_group_rows(sample: pa.Table, wanted_bytes: int) -> int:
    width: int = max(1, sample.nbytes // max(1, sample.num_rows))
    return max(64, wanted_bytes // width)


def _in_whole_groups(tables: Iterable[pa.Table], group_rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of whole row groups, so that only the last group is shorter."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        if count >= group_rows:
            rows = pa.concat_tables(held)
            whole = count - count % group_rows
            yield rows.slice(0, whole)
            held, count = [rows.slice(whole)], count - whole
    if count:
        yield pa.concat_tables(held)
