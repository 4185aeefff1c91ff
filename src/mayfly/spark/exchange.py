"""From streaming DataFrames to key buckets: everything that stays in Spark SQL.

bucket = pmod(xxhash64(code), n), where the code stands for the join key. A row's place is its
bucket and its kind in one number, and partition p holds the rows of bucket p. The rows of a single
join are exchanged within the streaming plan: all jobs on a micro-batch then read the same shuffle,
and the pass that finds the clock costs no second reading of the sources. A chain is exchanged
before each of its stages. Where no rows come, each due bucket gets one marker row, so that its task
runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from mayfly.kernels.rows import CODE
from mayfly.pipeline.query import JoinQuery, Stage, Stream
from mayfly.plan.expressions import quoted
from mayfly.plan.types import DataType
from mayfly.spark.slots import Slots, projection
from mayfly.spark.tasks import KINDS, LEFT, MARKER, PASSED_ON, PLACE, RECEIPT, StageTask
from mayfly.storage.segment import EXP, TS

STREAM = "_stream"
HEARTBEAT = -1


def code_sql(columns: Sequence[str], types: Sequence[DataType], exact: bool) -> str:
    """The key's 64-bit code as Spark SQL; NULL if a part of the key is NULL."""
    parts = [
        _normalised(f"CAST({column} AS {kind.sql()})", kind)
        for column, kind in zip(columns, types, strict=True)
    ]
    if exact:
        return _as_bigint(parts[0], types[0])
    missing = " OR ".join(f"{column} IS NULL" for column in columns)
    return f"CASE WHEN {missing} THEN NULL ELSE xxhash64({', '.join(parts)}) END"


def _normalised(sql: str, kind: DataType) -> str:
    # 0.0 and -0.0 are one key but have different bits.
    return f"({sql} + CAST(0 AS {kind.sql()}))" if kind.name in ("float", "double") else sql


def _as_bigint(sql: str, kind: DataType) -> str:
    if kind.name == "date":
        return f"CAST(unix_date({sql}) AS BIGINT)"
    if kind.name == "timestamp":
        return f"unix_micros({sql})"
    return f"CAST({f'CAST({sql} AS INT)' if kind.name == 'boolean' else sql} AS BIGINT)"


@dataclass(frozen=True, slots=True)
class Wiring:
    """How the query's rows travel: slots, and the stage and side each stream feeds."""

    query: JoinQuery
    stages: tuple[Stage, ...]
    slot_types: Mapping[str, str]
    column_types: Mapping[str, str]
    """Qualified column → Spark DDL type."""
    inputs: tuple[tuple[Mapping[str, str], Mapping[str, str]], ...]
    """Per stage and side: slot → qualified column."""
    buckets: int = 1

    @staticmethod
    def of(query: JoinQuery, types: Mapping[str, Mapping[str, str]]) -> Wiring:
        """``types``: stream → column → Spark DDL type."""
        qualified = {
            f"{s}.{c}": kind for s, columns in types.items() for c, kind in columns.items()
        }
        slots, stages = Slots(), query.stages()

        def place(names: Sequence[str]) -> Mapping[str, str]:
            return slots.place([(name, qualified[name]) for name in names])

        inputs = tuple(
            (place(one.join.inputs[0].schema.names), place(one.join.inputs[1].schema.names))
            for one in stages
        )
        return Wiring(query, stages, slots.types, qualified, inputs)

    @property
    def chained(self) -> bool:
        return len(self.stages) > 1

    @property
    def streams(self) -> tuple[Stream, ...]:
        return self.query.streams()

    def tagged(self, frames: Mapping[str, DataFrame], heartbeat: DataFrame | None) -> DataFrame:
        """One streaming DataFrame of all streams, for a single join exchanged."""
        numbers = {stream.name: number for number, stream in enumerate(self.streams)}
        parts = [
            self._tagged_stream(numbers[source.stream], index, side, frames[source.stream])
            for index, stage in enumerate(self.stages)
            for side, source in enumerate(stage.sources)
            if source.stream is not None
        ]
        if heartbeat is not None:
            nothing = "CAST(NULL AS BIGINT)"
            parts.append(
                heartbeat.selectExpr(
                    f"{HEARTBEAT} AS {STREAM}",
                    f"{nothing} AS {TS}",
                    f"{nothing} AS {CODE}",
                    *projection(self.slot_types, {}),
                )
            )
        rows = reduce(DataFrame.unionAll, parts)
        return rows if self.chained else self._exchanged([self._stream_rows(0, rows)])

    def rows_of(self, number: int) -> str:
        """A condition on what ``tagged`` made: the rows of the stream with this number."""
        if self.chained:
            return f"{STREAM} = {number}"
        return f"{PLACE} % {KINDS} = {self._sides(0)[number]}"

    def _tagged_stream(self, number: int, index: int, side: int, frame: DataFrame) -> DataFrame:
        stream, stage = self.streams[number], self.stages[index]
        time = quoted(stream.time)
        if pa.types.is_timestamp(stream.schema.field(stream.time).type):
            time = f"unix_micros({time})"

        def own(name: str) -> str:
            return quoted(name.partition(".")[2])

        keys = [own(key) for key in stage.join.inputs[side].keys]
        filled = {slot: own(name) for slot, name in self.inputs[index][side].items()}
        return frame.selectExpr(
            f"{number} AS {STREAM}",
            f"{time} AS {TS}",
            f"{code_sql(keys, stage.key_types, stage.join.exact)} AS {CODE}",
            *projection(self.slot_types, filled),
        )

    def exchanged_already(self, rows: DataFrame | None) -> bool:
        """Whether partition p of these rows is bucket p, so that no marker has to say so."""
        return rows is not None and not self.chained

    def receipts(
        self,
        spark: SparkSession,
        rows: DataFrame | None,
        tasks: Sequence[StageTask],
        due: Sequence[int],
    ) -> DataFrame:
        """All stages over one batch, as one DataFrame of receipts; only one action may use it.

        ``rows`` are the batch as ``tagged`` made it, or None if it holds no row of any stream.
        """
        if rows is not None and self.exchanged_already(rows):
            return rows.mapInArrow(tasks[0], self._output_ddl(0, last=True))
        upstream: DataFrame | None = None
        for index, task in enumerate(tasks):
            parts = [self._markers(spark, due)]
            if rows is not None:
                parts.append(self._stream_rows(index, rows))
            if upstream is not None:
                parts.append(self._result_rows(index, upstream))
            exchanged = self._exchanged(parts)
            upstream = exchanged.mapInArrow(task, self._output_ddl(index, last=task.last))
        assert upstream is not None, "a query has at least one stage"
        return upstream

    def _exchanged(self, parts: Sequence[DataFrame]) -> DataFrame:
        rows = reduce(DataFrame.unionAll, parts)
        return rows.repartitionById(self.buckets, sql.expr(f"{PLACE} DIV {KINDS}").cast("int"))

    def _bucket(self, code: str) -> str:
        return f"pmod(xxhash64({code}), {self.buckets})"

    def _sides(self, index: int) -> dict[int, int]:
        """Number of a stream → the side of this stage that it feeds."""
        names = [stream.name for stream in self.query.streams()]
        sources = self.stages[index].sources
        return {names.index(one.stream): side for side, one in enumerate(sources) if one.stream}

    def _row(
        self,
        bucket: str,
        kind: str,
        *,
        code: str = "CAST(NULL AS BIGINT)",
        ts: str = "CAST(NULL AS BIGINT)",
        exp: str = "CAST(NULL AS BIGINT)",
        receipt: str = "CAST(NULL AS STRING)",
        slots: Mapping[str, str] | None = None,
    ) -> list[str]:
        """The columns every row of an exchange has; only chains carry exp and receipts."""
        chain = [f"{exp} AS {EXP}", f"{receipt} AS {RECEIPT}"] if self.chained else []
        return [
            f"CAST({bucket} * {KINDS} + {kind} AS INT) AS {PLACE}",
            f"{code} AS {CODE}",
            f"{ts} AS {TS}",
            *chain,
            *projection(self.slot_types, slots or {}),
        ]

    def _stream_rows(self, index: int, rows: DataFrame) -> DataFrame:
        sides = self._sides(index)
        kind = " ".join(f"WHEN {number} THEN {side}" for number, side in sides.items())
        return rows.where(f"{STREAM} IN ({', '.join(map(str, sides))})").selectExpr(
            *self._row(
                self._bucket(CODE),
                f"CASE {STREAM} {kind} END",
                code=CODE,
                ts=TS,
                slots={slot: slot for slot in self.slot_types},
            )
        )

    def _result_rows(self, index: int, upstream: DataFrame) -> DataFrame:
        """The results of the stage before as left rows of this one; receipts are passed on."""
        stage = self.stages[index]
        keys = [quoted(key) for key in stage.join.inputs[0].keys]
        code = code_sql(keys, stage.key_types, stage.join.exact)
        return upstream.selectExpr(
            *self._row(
                f"IF({RECEIPT} IS NULL, {self._bucket(code)}, 0)",
                f"IF({RECEIPT} IS NULL, {LEFT}, {PASSED_ON})",
                code=code,
                ts=TS,
                exp=EXP,
                receipt=RECEIPT,
                slots={slot: quoted(name) for slot, name in self.inputs[index][0].items()},
            )
        )

    def _markers(self, spark: SparkSession, due: Sequence[int]) -> DataFrame:
        listed = ", ".join(str(bucket) for bucket in due)
        markers = spark.range(1).selectExpr(f"explode(array({listed})) AS bucket")
        return markers.selectExpr(*self._row("bucket", str(MARKER)))

    def _output_ddl(self, index: int, *, last: bool) -> str:
        if last:
            return f"{RECEIPT} STRING"
        output = self.stages[index].join.output
        columns = [f"{quoted(one.name)} {self.column_types[one.column]}" for one in output]
        return ", ".join([*columns, f"{TS} BIGINT", f"{EXP} BIGINT", f"{RECEIPT} STRING"])
