"""Archive updates as Spark jobs, and archives as DataFrames.

The rows of a batch are shuffled once, by the hash of their key, to the part they belong to; each
part is written where its rows are, from its share of the batch and the same part of the stored
runs. The driver sees one row per part.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mayfly import errors
from mayfly.archive.admission import AdmissionSummary, RefusedRow, Verdict
from mayfly.archive.archive import Archive, Moment, selection
from mayfly.archive.settings import KEY, NTH, ArchiveSettings
from mayfly.archive.state import ArchiveVersion
from mayfly.archive.writing import PartResult, WriteJob, write_part
from mayfly.errors import BadInput, MayflyError
from mayfly.lifetime import instant
from mayfly.plan.expressions import quoted
from mayfly.storage.segment import EXP, TS, Segment

PART, MARKER, RESULT = "_part", "_marker", "_result"


@dataclass(frozen=True)
class OnSpark:
    """Runs write jobs on Spark, over DataFrames."""

    spark: SparkSession

    def late_days(self, batch: DataFrame, settings: ArchiveSettings, update: int) -> frozenset[int]:
        times = batch.selectExpr(f"{_micros(settings)} AS t").where("t IS NOT NULL")
        found = times.mapInArrow(_DistinctDays(settings), "day BIGINT").distinct().collect()
        oldest = max(update - settings.window, 0)
        return frozenset(row[0] for row in found if oldest < row[0] < update)

    def write(self, batch: DataFrame | None, job: WriteJob) -> list[PartResult]:
        settings = job.settings
        rows = self._markers(settings)
        if batch is not None:
            rows = self._arriving(batch, settings).unionAll(rows)
        exchanged = rows.repartitionById(settings.parts, PART)
        handed_in = exchanged.mapInArrow(_WriteParts(job), f"{RESULT} STRING").collect()
        return [decode_result(row[0]) for row in handed_in]

    def _arriving(self, batch: DataFrame, settings: ArchiveSettings) -> DataFrame:
        _check_columns(batch, settings)
        columns = [quoted(name) for name in settings.all_columns]
        present = {name for name, _ in batch.dtypes}
        chosen = [
            quoted(name) if name in present else f"CAST(NULL AS {kind}) AS {quoted(name)}"
            for name, kind in settings.all_columns.items()
        ]
        rows = batch.selectExpr(*chosen)
        if settings.array_key:
            source = quoted(settings.key[0])
            rows = rows.selectExpr(
                *columns, f"posexplode_outer(array_distinct({source})) AS ({NTH}, {KEY})"
            ).selectExpr(*columns, KEY, f"coalesce({NTH}, 0) AS {NTH}")
            columns = [*columns, KEY, NTH]
        keys = ", ".join(quoted(name) for name in settings.sort_columns)
        return rows.selectExpr(
            f"CAST(pmod(xxhash64({keys}), {settings.parts}) AS INT) AS {PART}",
            f"false AS {MARKER}",
            *columns,
        )

    def _markers(self, settings: ArchiveSettings) -> DataFrame:
        copies = (
            [f"CAST(NULL AS {settings.array_key.sql()}) AS {KEY}", f"0 AS {NTH}"]
            if settings.array_key
            else []
        )
        nothing = [
            f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in settings.all_columns.items()
        ]
        parts = self.spark.range(settings.parts)
        return parts.selectExpr(
            f"CAST(id AS INT) AS {PART}", f"true AS {MARKER}", *nothing, *copies
        )


@dataclass(frozen=True)
class _DistinctDays:
    settings: ArchiveSettings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            days = np.unique(self.settings.calendar.updates_of(batch.column("t").to_numpy()))
            yield pa.RecordBatch.from_arrays([pa.array(days, pa.int64())], names=["day"])


@dataclass(frozen=True)
class _WriteParts:
    """One task: it gets the rows and the marker of its part."""

    job: WriteJob

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: list[int] = []

        def arriving() -> Iterator[pa.Table]:
            for batch in batches:
                marked = batch.column(MARKER)
                if marked.true_count:
                    parts.extend(batch.filter(marked).column(PART).to_pylist())
                rows = pa.Table.from_batches([batch]).filter(pa.compute.invert(marked))
                yield rows.drop_columns([PART, MARKER])

        # Markers may come last, so rows are taken in before the part is known by name.
        try:
            gathered = write_part(self.job, lambda: parts[0], arriving())
            text = encode_result(gathered)
        except IndexError:
            return
        except MayflyError as error:
            text = json.dumps({"error": [type(error).__name__, error.message, error.hint]})
        yield pa.RecordBatch.from_arrays([pa.array([text])], names=[RESULT])


def encode_result(result: PartResult) -> str:
    summary = result.summary
    return json.dumps(
        {
            "part": result.part,
            "counts": {str(int(v)): count for v, count in summary.counts.items()},
            "examples": {
                str(int(v)): [[one.position, _texts(one.values)] for one in shown]
                for v, shown in summary.examples.items()
            },
            "segments": [segment.to_json() for segment in result.segments],
            "day_rows": {str(day): rows for day, rows in result.day_rows.items()},
            "io": dict(result.io),
            "seconds": result.seconds,
        }
    )


def decode_result(text: str) -> PartResult:
    stored = json.loads(text)
    if "error" in stored:
        kind, message, hint = stored["error"]
        raise getattr(errors, kind, MayflyError)(message, hint)
    summary = AdmissionSummary(
        {Verdict(int(v)): count for v, count in stored["counts"].items()},
        {
            Verdict(int(v)): tuple(RefusedRow(at, values) for at, values in shown)
            for v, shown in stored["examples"].items()
        },
    )
    return PartResult(
        stored["part"],
        summary,
        tuple(Segment.from_json(one) for one in stored["segments"]),
        {int(day): rows for day, rows in stored["day_rows"].items()},
        stored["io"],
        stored["seconds"],
    )


def _texts(values: Any) -> dict[str, Any]:
    plain = (bool, int, str, float, type(None))
    return {n: v if isinstance(v, plain) else str(v) for n, v in values.items()}


def _micros(settings: ArchiveSettings) -> str:
    time = quoted(settings.time)
    return f"unix_micros({time})" if settings.type_of(settings.time).name == "timestamp" else time


def _check_columns(batch: DataFrame, settings: ArchiveSettings) -> None:
    found, wanted = dict(batch.dtypes), settings.all_columns
    missing = [name for name in settings.columns if name not in found]
    surplus = [name for name in found if name not in wanted]
    other = [
        f"{name} is {found[name]}, not {kind}"
        for name, kind in wanted.items()
        if name in found and found[name] != kind
    ]
    if missing or surplus or other:
        problems = [f"missing: {', '.join(missing)}"] if missing else []
        problems += [f"not in the archive: {', '.join(surplus)}"] if surplus else []
        raise BadInput(
            "the batch does not have the archive's columns: " + "; ".join([*problems, *other]),
            "select and cast the columns, or add_column() what is new",
        )


class SparkArchive(Archive):
    """An archive that is updated by Spark and can be read as DataFrames."""

    @property
    def spark(self) -> SparkSession:
        executor = self.executor
        assert isinstance(executor, OnSpark)
        return executor.spark

    def frame(
        self,
        *,
        as_of: Moment | None = None,
        generated_between: tuple[Moment | None, Moment | None] | None = None,
        soft: bool = False,
    ) -> DataFrame:
        """The rows alive at ``as_of`` as a DataFrame over the version's Parquet files.

        The version stays readable for as long as the DataFrame object lives, an hour at most.
        """
        moment = self.version().time if as_of is None else instant(as_of)
        version = self.version_at(moment)
        pin = self.pin(version.manifest.version)
        wanted = selection(moment, generated_between, soft)
        pieces = [
            self._piece(version, segments, hidden)
            for hidden, segments in _by_hidden_days(version, wanted).items()
        ]
        if not pieces:
            rows = self.spark.createDataFrame([], _ddl(version.settings))
        else:
            rows = pieces[0]
            for piece in pieces[1:]:
                rows = rows.unionAll(piece)
        for condition in _conditions(version.settings, wanted):
            rows = rows.where(condition)
        found = rows.select(*[quoted(name) for name in version.settings.all_columns])
        weakref.finalize(found, pin.release)
        return found

    def _piece(
        self, version: ArchiveVersion, segments: Sequence[Segment], hidden: Sequence[int]
    ) -> DataFrame:
        paths = [str(self.repository.directory.path(one.path)) for one in segments]
        rows = self.spark.read.schema(_ddl(version.settings)).parquet(*paths)
        if hidden:
            rows = rows.where(f"{EXP} NOT IN ({', '.join(map(str, hidden))})")
        return rows

    def register(self, name: str) -> None:
        """Make the current content available to Spark SQL as a temporary view."""
        self.frame().createOrReplaceTempView(name)


def _by_hidden_days(version: ArchiveVersion, wanted: Any) -> dict[tuple[int, ...], list[Segment]]:
    """Files that may hold wanted rows, by the expirations hidden in them."""
    found: dict[tuple[int, ...], list[Segment]] = {}
    for runs in version.state.constituent_runs().values():
        for run in runs:
            hidden = tuple(sorted(version.settings.expiration(day) for day in run.deleted_days))
            for segment in version.segments_of(run.id):
                if wanted.may_hold(segment):
                    found.setdefault(hidden, []).append(segment)
    return found


def _conditions(settings: ArchiveSettings, wanted: Any) -> list[str]:
    conditions = [f"{NTH} = 0"] if settings.array_key else []
    if not wanted.soft:
        conditions += [f"{EXP} > {wanted.as_of}", f"{TS} <= {wanted.as_of}"]
    if wanted.generated_from is not None:
        conditions.append(f"{TS} >= {wanted.generated_from}")
    if wanted.generated_to is not None:
        conditions.append(f"{TS} <= {wanted.generated_to}")
    return conditions


def _ddl(settings: ArchiveSettings) -> str:
    columns = [f"{quoted(name)} {kind}" for name, kind in settings.all_columns.items()]
    if settings.array_key:
        columns += [f"{KEY} {settings.array_key.sql()}", f"{NTH} INT"]
    return ", ".join([*columns, f"{TS} BIGINT", f"{EXP} BIGINT"])
