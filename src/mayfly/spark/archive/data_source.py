"""Archives as a Spark data source: ``spark.read.format("mayfly").load(path)``, and SQL tables.

A read is planned once: it fixes the version, pins it for an hour, and shares its files out. What it
leaves unread is said by options (``key``, ``keys``, ``generated_from``, ``as_of``, …); filters are
pushed down only on request, because Spark (4.3) keeps one plan per relation: of two filtered uses
of one DataFrame the later one's filter counts for both, and an unfiltered use gets the last filter.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from mayfly.archive.read.version_reader import Reader
from mayfly.spark.archive.pushed_filters import narrowed
from mayfly.spark.archive.read_options import OPTIONS, PlannedRead, opened, spark_schema, truth

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
TASKS = 64
"""Into how many tasks the files of a read are shared out, at most."""
_OWN = "mayfly"
"""The field metadata in which a table's schema carries its options: at the time of a query Spark
hands a catalog table's schema to the source, but none of its options."""


def register(spark: SparkSession, *, pushdown: bool = False) -> None:
    """Make ``format("mayfly")`` and ``USING mayfly`` known to this Spark session.

    With ``pushdown`` filters on the key and the time column leave files unread, and the setting
    this needs is switched on; then use each DataFrame, view or table in one place of one query
    only (see the documentation). Where the setting cannot be changed, a warning says so, and
    reads work without it.
    """
    if pushdown:
        try:
            spark.conf.set(PUSHDOWN, "true")
        except Exception as error:
            pushdown = False
            warnings.warn(
                f"{PUSHDOWN} cannot be switched on, so mayfly reads get no filters: {error}",
                stacklevel=2,
            )
    spark.dataSource.register(PushingSource if pushdown else ArchiveSource)


class ArchiveSource(DataSource):
    """An archive, read-only. Options: see ``OPTIONS``."""

    pushes = False

    @classmethod
    def name(cls) -> str:
        return "mayfly"

    def schema(self) -> StructType:
        options = dict(self.options)
        fields = spark_schema(opened(options).settings)
        if "provider" in options:  # a table is being created
            kept = {name: value for name, value in options.items() if name in OPTIONS}
            fields[0].metadata = {_OWN: kept}
        return fields

    def reader(self, schema: StructType) -> DataSourceReader:
        options = dict(self.options)
        if not options.get("path") and schema.fields:
            options = {**schema[0].metadata.get(_OWN, {}), **options}
        pushes = options.get("pushdown")
        planned = PlannedRead.of(options, schema)
        pushdown = self.pushes if pushes is None else truth("pushdown", pushes)
        return PushingReader(planned) if pushdown else ArchiveReader(planned)


class PushingSource(ArchiveSource):
    """The source with push-down as the default."""

    pushes = True


@dataclass
class Files(InputPartition):
    """The files that one task reads."""

    paths: tuple[str, ...]


class ArchiveReader(DataSourceReader):
    """Shares the files of a version out to tasks; each reads its own as a probe or a scan does."""

    def __init__(self, planned: PlannedRead) -> None:
        self.planned = planned

    def partitions(self) -> list[InputPartition]:
        _, version = self.planned.load()
        request = self.planned.request
        files = [
            (segment.bytes, segment.path)
            for runs in version.state.constituent_runs().values()
            for run in runs
            for segment in version.segments_of(run.id)
            if request.selection.may_hold(segment)
        ]
        shares = _shared_out(files)
        return [Files(tuple(share)) for share in shares] or [Files(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        archive, version = self.planned.load()
        own = {path: version.manifest.segments[path] for path in partition.paths}
        own |= {segment.path: segment for segment in version.invalid_segments.values()}
        share = replace(version, manifest=replace(version.manifest, segments=own))
        reader = Reader(archive.repository.directory, share)
        for table in self.planned.request.tables(reader, self.planned.columns):
            yield from table.to_batches()


class PushingReader(ArchiveReader):
    """The reader that also looks at filters; Spark applies every one of them again."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        archive, version = self.planned.load()
        reader = Reader(archive.repository.directory, version)
        self.planned = replace(
            self.planned, request=narrowed(self.planned.request, reader, filters)
        )
        return filters


def _shared_out(files: Sequence[tuple[int, str]]) -> list[list[str]]:
    """The files in at most ``TASKS`` shares of like size."""
    shares: list[list[str]] = [[] for _ in range(min(TASKS, len(files)))]
    sizes = [0] * len(shares)
    for size, path in sorted(files, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].append(path)
        sizes[least] += size
    return shares
