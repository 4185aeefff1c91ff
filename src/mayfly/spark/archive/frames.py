"""A version of an archive as a DataFrame: native Parquet over the manifest's files.

Files that cannot hold wanted rows are left out by the manifest alone; within the others Spark's own
Parquet reader skips row groups, since files are sorted by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from mayfly.archive.model.invalidation import KEYS, ROWS, Invalidation
from mayfly.archive.model.key_hash import key_parts
from mayfly.archive.model.settings import (
    HOME,
    INSERTED,
    KEY,
    NTH,
    REFERENCE,
    ArchiveSettings,
    with_added_columns,
)
from mayfly.archive.model.state import PART, ArchiveVersion
from mayfly.archive.read.selection import KeyRange, ReadReport, Selection
from mayfly.archive.read.version_reader import Reader
from mayfly.errors import InvalidSetting
from mayfly.plan.expressions import quoted
from mayfly.spark.archive.file_checks import check_files
from mayfly.storage.commit import reading_version
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, Format, Segment, open_segment


@dataclass(frozen=True)
class FrameRequest:
    """Which rows of a version are wanted: by time, and by keys or a range of them."""

    selection: Selection
    keys: tuple[tuple[Any, ...], ...] | None = None
    key_range: KeyRange | None = None


def archive_frame(
    spark: SparkSession,
    directory: Directory,
    version: ArchiveVersion,
    request: FrameRequest,
    report: ReadReport | None = None,
) -> DataFrame:
    """The wanted rows; ``report`` counts the files Spark is given and their bytes."""
    settings = version.settings
    shown = request.selection.at_positions(version.positions, version.time)
    request = replace(request, selection=shown)
    files = dict(_files(version, request))
    hiding = [
        invalidation
        for invalidation in version.state.invalid
        if any(invalidation.id in kind[2] for kind in files)
    ]
    lists = [version.invalid_segments[invalidation.group] for invalidation in hiding]
    listed = [segment for segments in files.values() for segment in segments]
    with reading_version(directory, version.manifest.version):
        check_files(spark, directory, [*listed, *lists])
    pieces = []
    for (format, hidden, void), segments in files.items():
        read = _parquet_rows if format == "parquet" else _arrow_rows
        rows = read(spark, directory, segments, settings)
        rows = _without_days(rows, settings, hidden)
        for entry in (
            invalidation for invalidation in version.state.invalid if invalidation.id in void
        ):
            rows = _without(rows, spark, directory, version, entry)
        pieces.append(rows)
    if report is not None:
        report.constituents += len(set(_owners(version, listed)))
        report.files += len(listed)
        report.bytes += sum(segment.bytes for segment in listed)
    rows = (
        reduce(DataFrame.unionAll, pieces)
        if pieces
        else spark.createDataFrame([], stored_ddl(settings))
    )
    for condition in _conditions(settings, request):
        rows = rows.where(condition)
    return rows.select(*[quoted(name) for name in settings.all_columns])


def micros_sql(settings: ArchiveSettings, column: str) -> str:
    """A time column in µs, as an SQL expression."""
    name = quoted(column)
    return f"unix_micros({name})" if settings.type_of(column).name == "timestamp" else name


def stored_ddl(settings: ArchiveSettings) -> str:
    """The columns of data files as Spark declares them."""
    columns = [f"{quoted(name)} {kind}" for name, kind in settings.all_columns.items()]
    if settings.array_key:
        kind = settings.array_key.sql()
        columns += [f"{KEY} {kind}", f"{NTH} INT", f"{HOME} {kind}"]
    times = [f"{name} BIGINT" for name in (*settings.family.columns, TS, EXP)]
    return ", ".join([*columns, *times])


Kind = tuple[Format, tuple[int, ...], tuple[str, ...]]
"""The format of a file, days that are hidden in its run, and invalidations that hide rows in it."""


def _files(version: ArchiveVersion, request: FrameRequest) -> Iterable[tuple[Kind, list[Segment]]]:
    """Files that may hold wanted rows, by their format and what is hidden in them.

    A hard read shows nothing dead anyway, so hidden days matter to soft ones only; those show
    what was declared void, too.
    """
    files: dict[Kind, list[Segment]] = {}
    invalid = () if request.selection.soft else version.state.invalid
    parts = _parts(version.settings, request.keys)
    for runs in version.state.constituent_runs().values():
        for run in runs:
            days = tuple(sorted(run.deleted_days)) if request.selection.soft else ()
            void = tuple(entry.id for entry in invalid if run.id in entry.pending)
            for segment in version.segments_of(run.id):
                if request.selection.may_hold(segment) and _may_have_key(segment, request, parts):
                    files.setdefault((segment.format, days, void), []).append(segment)
    return files.items()


def _owners(version: ArchiveVersion, files: Iterable[Segment]) -> Iterator[str]:
    groups = {segment.group.partition("/")[2] for segment in files}
    for name, runs in version.state.constituent_runs().items():
        if any(run.id in groups for run in runs):
            yield name


def _parts(settings: ArchiveSettings, keys: Sequence[tuple[Any, ...]] | None) -> set[int] | None:
    if keys is None:
        return None
    return set(key_parts(keys, settings.key_types, settings.parts))


def _may_have_key(segment: Segment, request: FrameRequest, parts: set[int] | None) -> bool:
    if parts is not None and segment.tags[PART] not in parts:
        return False
    if segment.key is None:
        return True
    if request.keys is not None:
        return any(segment.key.meets(key[0], key[0]) for key in request.keys)
    bounds = request.key_range or KeyRange()
    below = bounds.low is not None and segment.key.high < bounds.low
    above = bounds.high is not None and segment.key.low > bounds.high
    return not (below or above)


def _parquet_rows(
    spark: SparkSession,
    directory: Directory,
    segments: Sequence[Segment],
    settings: ArchiveSettings,
) -> DataFrame:
    paths = [directory.address_of(segment.path) for segment in segments]
    return spark.read.schema(stored_ddl(settings)).parquet(*paths)


def _arrow_rows(
    spark: SparkSession,
    directory: Directory,
    segments: Sequence[Segment],
    settings: ArchiveSettings,
) -> DataFrame:
    """Spark has no reader of Arrow files, so tasks map them: they are few and small."""
    tasks = min(len(segments), spark.sparkContext.defaultParallelism)
    files = spark.range(0, len(segments), 1, tasks)
    task = _MappedFiles(directory.address, tuple(segments), settings)
    return files.mapInArrow(task, stored_ddl(settings))


@dataclass(frozen=True)
class _MappedFiles:
    """One task: the rows of the files whose numbers it gets."""

    root: str
    segments: tuple[Segment, ...]
    settings: ArchiveSettings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.at(self.root)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                rows = open_segment(directory, self.segments[number])
                yield from with_added_columns(rows, self.settings.stored).to_batches()


def _without_days(rows: DataFrame, settings: ArchiveSettings, days: Sequence[int]) -> DataFrame:
    for day in days:
        after, until = settings.calendar.time_of(day - 1), settings.calendar.time_of(day)
        rows = rows.where(f"NOT ({TS} > {after} AND {TS} <= {until})")
    return rows


def _without(
    rows: DataFrame,
    spark: SparkSession,
    directory: Directory,
    version: ArchiveVersion,
    entry: Invalidation,
) -> DataFrame:
    """The rows that an invalidation does not hide."""
    settings = version.settings
    file = version.invalid_segments[entry.group]
    listed = spark.read.parquet(directory.address_of(file.path))
    for name, kind in settings.added.items():
        if entry.kind == ROWS and name not in listed.columns:  # it came later
            listed = listed.withColumn(name, sql.lit(None).cast(kind))
    names = list(settings.all_columns) if entry.kind == ROWS else list(settings.key)
    void = listed.select(
        *[_column(name).alias(f"_void{position}") for position, name in enumerate(names)]
    )
    # Of a wave, runs tell: rows that came later are in none that the entry names.
    stamped = INSERTED in settings.family.columns
    same = _column(INSERTED) <= entry.update if stamped else sql.lit(True)
    for position, name in enumerate(names):
        other = sql.col(f"_void{position}")
        if settings.array_key and entry.kind == KEYS:
            same = same & sql.array_contains(_column(name), other)
        else:
            same = same & _column(name).eqNullSafe(other)
    return rows.join(sql.broadcast(void), same, "left_anti")


def _conditions(settings: ArchiveSettings, request: FrameRequest) -> Iterator[Column | str]:
    selection = request.selection
    if not selection.soft:
        yield f"{EXP} > {selection.as_of + selection.shorter} AND {TS} <= {selection.as_of}"
    for name, last in selection.after:
        yield f"{quoted(name)} > {last}"
    for name, size in selection.inputs:
        times = micros_sql(settings, name)
        yield f"{times} > {selection.as_of - size}"
    if selection.generated_from is not None:
        yield f"{TS} >= {selection.generated_from}"
    if selection.generated_to is not None:
        yield f"{TS} <= {selection.generated_to}"
    if request.keys is not None:
        yield from _with_keys(settings, request.keys)
    elif request.key_range is not None:
        yield from _in_range(settings, request.key_range)
    elif settings.array_key:
        yield f"{NTH} = 0"


def _with_keys(settings: ArchiveSettings, keys: Sequence[tuple[Any, ...]]) -> Iterator[Column]:
    names = settings.sort_columns
    if len(names) == 1:
        values = [key[0] for key in keys]
        yield from _found_under(settings, lambda column: column.isin(values))
        return
    terms = [
        reduce(Column.__and__, (_column(n) == v for n, v in zip(names, key, strict=True)))
        for key in keys
    ]
    yield reduce(Column.__or__, terms, sql.lit(False))


def _in_range(settings: ArchiveSettings, bounds: KeyRange) -> Iterator[Column]:
    def inside(column: Column) -> Column:
        condition = column.isNotNull()
        if bounds.low is not None:
            condition = condition & (column >= bounds.low)
        if bounds.high is not None:
            condition = condition & (column <= bounds.high)
        return condition

    yield from _found_under(settings, inside)


def _found_under(
    settings: ArchiveSettings, matches: Callable[[Column], Column]
) -> Iterator[Column]:
    """Rows whose first key column matches; with an array key only where the first match lies."""
    first = _column(settings.sort_columns[0])
    if not settings.array_key:
        yield matches(first)
        return
    yield _column(NTH) > REFERENCE
    match = sql.get(sql.filter(_column(settings.key[0]), matches), sql.lit(0))
    yield match.isNotNull()
    here, there = (sql.pmod(sql.xxhash64(c), sql.lit(settings.parts)) for c in (first, match))
    copy = _column(HOME).isNull()
    yield (copy & (first == match)) | (~copy & (here == there))


def _column(name: str) -> Column:
    return sql.col(quoted(name))


def frame_request(
    reader: Reader,
    selection: Selection,
    keys: Sequence[Any] | None = None,
    key_range: tuple[Any, Any] | None = None,
) -> FrameRequest:
    """A request with keys converted to their types, or refused, as a probe does it."""
    if keys is not None and key_range is not None:
        raise InvalidSetting("both keys and a key range were given", "give one of them")
    if key_range is not None:
        first = reader.settings.sort_columns[0]
        low, high = (None if end is None else reader.key_value(first, end) for end in key_range)
        return FrameRequest(selection, key_range=KeyRange(low, high))
    if keys is not None:
        return FrameRequest(selection, keys=tuple(reader.key_values(key) for key in keys))
    return FrameRequest(selection)
