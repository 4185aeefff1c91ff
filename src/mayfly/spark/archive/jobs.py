"""Archive updates as Spark jobs, and archives as DataFrames.

The rows of a batch are shuffled once, by the hash of their key, to the part they belong to; each
part is written where its rows are, from its share of the batch and the same part of the stored
runs. The driver sees one row per part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from mayfly import errors
from mayfly.archive.model.admission import AdmissionSummary, RefusedRow, Verdict
from mayfly.archive.model.column_names import spelled
from mayfly.archive.model.settings import NTH, VALUES, ArchiveSettings
from mayfly.archive.write.part_writer import PartResult, WriteJob, write_part
from mayfly.errors import BadInput, MayflyError
from mayfly.plan.expressions import quoted
from mayfly.plan.types import is_widening, parse_type
from mayfly.spark.archive.update_progress import PartsListener, counted_parts
from mayfly.storage.segment import Segment

PART, MARKER, RESULT = "_part", "_marker", "_result"


@dataclass(frozen=True)
class OnSpark:
    """Runs write jobs on Spark, over DataFrames.

    ``listener`` is called with the parts written so far and all parts; without it a bar is drawn
    if there is a terminal.
    """

    spark: SparkSession
    listener: PartsListener | None = field(default=None, compare=False)

    def earliest(self, batch: DataFrame, settings: ArchiveSettings) -> int | None:
        check_columns(batch, settings)
        minimum: int | None = batch.selectExpr(f"min({time_micros(settings)})").collect()[0][0]
        return minimum

    def highest(self, batch: DataFrame, settings: ArchiveSettings) -> dict[str, int | None]:
        check_columns(batch, settings)
        names = list(settings.family.counts)
        (row,) = batch.selectExpr(*(f"max({quoted(name)})" for name in names)).collect()
        return dict(zip(names, row, strict=True))

    def days(self, batch: DataFrame, settings: ArchiveSettings) -> list[int]:
        """The updates that rows of the batch belong to, in order; rows without time do not."""
        times = batch.selectExpr(f"{time_micros(settings)} AS t").where("t IS NOT NULL")
        rows = times.mapInArrow(_DistinctDays(settings), "day BIGINT").distinct().collect()
        return sorted(row[0] for row in rows)

    def late_days(self, batch: DataFrame, settings: ArchiveSettings, update: int) -> frozenset[int]:
        check_columns(batch, settings)
        oldest = max(update - settings.window, 0)
        return frozenset(day for day in self.days(batch, settings) if oldest < day < update)

    def write(self, batch: DataFrame | None, job: WriteJob) -> list[PartResult]:
        settings = job.settings
        # A micro-batch has a session of its own, and what is joined to it must be of that one.
        spark = self.spark if batch is None else batch.sparkSession
        rows = self._markers(spark, settings)
        if batch is not None:
            rows = self._arriving(batch, settings).unionAll(rows)
        exchanged = rows.repartitionById(settings.parts, PART)
        label = f"update {job.update}"
        with counted_parts(spark, label, settings.parts, self.listener) as counter:
            task = _WriteParts(job, counter)
            handed_in = exchanged.mapInArrow(task, f"{RESULT} STRING").collect()
        return [decode_result(row[0]) for row in handed_in]

    def _arriving(self, batch: DataFrame, settings: ArchiveSettings) -> DataFrame:
        rows = in_columns(batch, settings)
        columns = [quoted(name) for name in settings.all_columns]
        if settings.array_key:
            return self._by_part(rows, settings)
        keys = ", ".join(quoted(name) for name in settings.sort_columns)
        return rows.selectExpr(
            f"CAST(pmod(xxhash64({keys}), {settings.parts}) AS INT) AS {PART}",
            f"false AS {MARKER}",
            *columns,
        )

    def _by_part(self, rows: DataFrame, settings: ArchiveSettings) -> DataFrame:
        """Rows with an array key, once for each part that holds some of its values."""
        assert settings.array_key is not None
        columns = [quoted(name) for name in settings.all_columns]
        source, none = quoted(settings.key[0]), f"array(CAST(NULL AS {settings.array_key.sql()}))"
        part = f"CAST(pmod(xxhash64(v), {settings.parts}) AS INT)"
        parts = f"transform({VALUES}, v -> {part})"
        distinct = f"CASE WHEN size({source}) > 0 THEN array_distinct({source}) ELSE {none} END"
        return (
            rows.selectExpr(*columns, f"{distinct} AS {VALUES}")
            .selectExpr(*columns, VALUES, f"explode(array_distinct({parts})) AS {PART}")
            .selectExpr(
                PART,
                f"false AS {MARKER}",
                *columns,
                f"CAST(array_position({parts}, {PART}) - 1 AS INT) AS {NTH}",
                f"filter({VALUES}, v -> {part} = {PART}) AS {VALUES}",
            )
        )

    def _markers(self, spark: SparkSession, settings: ArchiveSettings) -> DataFrame:
        copies = (
            [f"0 AS {NTH}", f"CAST(NULL AS ARRAY<{settings.array_key.sql()}>) AS {VALUES}"]
            if settings.array_key
            else []
        )
        nothing = [
            f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in settings.all_columns.items()
        ]
        parts = spark.range(settings.parts)
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
    written: Any = None
    """The accumulator in which parts are counted, if progress is shown."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: list[int] = []

        def arriving() -> Iterator[pa.Table]:
            for batch in batches:
                marked = batch.column(MARKER)
                if marked.true_count:
                    parts.extend(batch.filter(marked).column(PART).to_pylist())
                rows = pa.Table.from_batches([batch]).filter(pc.invert(marked))
                yield rows.drop_columns([PART, MARKER])

        # Markers may come last, so rows are taken in before the part is known by name.
        try:
            gathered = write_part(self.job, lambda: parts[0], arriving())
            text = encode_result(gathered)
            if self.written is not None:
                self.written.add(1)
        except IndexError:
            return
        except MayflyError as error:
            text = encode_failure(error)
        yield pa.RecordBatch.from_arrays([pa.array([text])], names=[RESULT])


def encode_result(result: PartResult) -> str:
    summary = result.summary
    return json.dumps(
        {
            "part": result.part,
            "counts": {str(int(v)): count for v, count in summary.counts.items()},
            "examples": {
                str(int(v)): [[row.position, _texts(row.values)] for row in shown]
                for v, shown in summary.examples.items()
            },
            "segments": [segment.to_json() for segment in result.segments],
            "day_rows": {str(day): rows for day, rows in result.day_rows.items()},
            "io": dict(result.io),
            "seconds": result.seconds,
        }
    )


def encode_failure(error: MayflyError) -> str:
    return json.dumps({"error": [type(error).__name__, error.message, error.hint]})


def decode_failure(text: str) -> MayflyError:
    kind, message, hint = json.loads(text)["error"]
    error: MayflyError = getattr(errors, kind, MayflyError)(message, hint)
    return error


def decode_result(text: str) -> PartResult:
    stored = json.loads(text)
    if "error" in stored:
        raise decode_failure(text)
    summary = AdmissionSummary(
        {Verdict(int(v)): count for v, count in stored["counts"].items()},
        {
            Verdict(int(v)): tuple(RefusedRow(position, values) for position, values in shown)
            for v, shown in stored["examples"].items()
        },
    )
    return PartResult(
        stored["part"],
        summary,
        tuple(Segment.from_json(segment) for segment in stored["segments"]),
        {int(day): rows for day, rows in stored["day_rows"].items()},
        stored["io"],
        stored["seconds"],
    )


def _texts(values: Any) -> dict[str, Any]:
    plain = (bool, int, str, float, type(None))
    return {n: v if isinstance(v, plain) else str(v) for n, v in values.items()}


def time_micros(settings: ArchiveSettings) -> str:
    """The time column in µs, as an SQL expression."""
    time = quoted(settings.time)
    return f"unix_micros({time})" if settings.type_of(settings.time).name == "timestamp" else time


def in_columns(batch: DataFrame, settings: ArchiveSettings) -> DataFrame:
    """The batch with the archive's columns and types; columns added later may be missing."""
    check_columns(batch, settings)
    columns = {name.casefold(): quoted(name) for name in batch.columns}
    return batch.selectExpr(
        *(
            f"CAST({columns.get(name.casefold(), 'NULL')} AS {kind}) AS {quoted(name)}"
            for name, kind in settings.all_columns.items()
        )
    )


def check_columns(batch: DataFrame, settings: ArchiveSettings) -> None:
    """Refuse a batch that lacks columns, has others, or others of a type that does not fit."""
    columns = settings.all_columns
    types = {spelled(name, columns): kind for name, kind in batch.dtypes}
    missing = [name for name in settings.columns if name not in types]
    surplus = [name for name in types if name not in columns]
    problems = [f"missing: {', '.join(missing)}"] if missing else []
    problems += [f"not in the archive: {', '.join(surplus)}"] if surplus else []
    problems += [
        f"{name} is {types[name]}, not {kind}"
        for name, kind in columns.items()
        if name in types and types[name] != kind
        if not is_widening(parse_type(types[name]), parse_type(kind))
    ]
    problems += ["a name occurs twice"] if len(types) < len(batch.columns) else []
    if problems:
        raise BadInput(
            "the batch does not have the archive's columns: " + "; ".join(problems),
            "select and cast the columns, or add_column() what is new",
        )


def __getattr__(name: str) -> object:
    if name == "SparkArchive":
        from mayfly.spark.archive.archives import SparkArchive

        return SparkArchive
    raise AttributeError(name)
