"""The public API: a session over a SparkSession, where streams, queries and archives begin."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, TypedDict, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mayfly.archive.advice.cell_advice import laid_out_for
from mayfly.archive.advice.wave_advice import with_advised_layout
from mayfly.archive.archive_options import ArchiveOptions, chosen_options
from mayfly.archive.layouts import UpdateTechnique
from mayfly.archive.local_archives import declared_for, declared_window
from mayfly.archive.model.declaration import Declaration
from mayfly.archive.model.settings import brought_columns
from mayfly.cql import Delete, Insert, Update, bind_query
from mayfly.cql.binder import written_out
from mayfly.cql.computed_columns import EVENT_TIME, UNITS
from mayfly.cql.registrations import derived_stream_of, view_of
from mayfly.cql.users_calls import users_aggregate_of
from mayfly.display import html_table, one_line
from mayfly.errors import InvalidSetting
from mayfly.keywords import flag, known_settings, names, text
from mayfly.lifetime import MIN_TIME, Duration, duration, gap_of, in_zone
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.explanation import Explanation
from mayfly.pipeline.control_requests import Control, change_of
from mayfly.pipeline.declared_catalog import check_name
from mayfly.plan.catalog import (
    ArchiveDefinition,
    Catalog,
    ColumnDefinition,
    Punctuation,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
    ViewDefinition,
    check_gap,
)
from mayfly.plan.expressions import quoted
from mayfly.plan.row_intake import Columns, arrow_of, as_table, columns_of
from mayfly.plan.strategy import Strategy
from mayfly.plan.stream_joins import Stream, WallClock
from mayfly.plan.types import arrow_type, parse_type
from mayfly.plan.user_aggregates import AggregateDefinition
from mayfly.runtime.relation_log import Changing
from mayfly.spark.api.queries import CqlQuery, Queries
from mayfly.spark.api.streams import SparkStream
from mayfly.spark.archive.archives import SparkArchive
from mayfly.spark.archive.jobs import OnSpark
from mayfly.spark.archive.update_progress import PartsListener
from mayfly.spark.cluster.local_spark import local_spark
from mayfly.storage.store import local_root

AUTO = "auto"


class StreamSettings(TypedDict, total=False):
    """What few streams need; ``Session.stream`` explains it."""

    null_time: Literal["error", "dead_letter"]
    punctuations: bool
    source: str | None
    live: bool
    derivation: str | None


class Session:
    """Where streams are declared and queries are made.

    Takes the SparkSession to run on; without one it starts a quiet local Spark. ``allow_python``
    names the folder whose files may be run as sources, ``FROM python('module:Class')``; without
    it such streams are refused, also those that commands bring.
    """

    @known_settings()
    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        allow_python: str | os.PathLike[str] | None = None,
    ) -> None:
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            raise InvalidSetting(
                "this session is one of Spark Connect, over which Mayfly does not run",
                "give a SparkSession of this process, with master(…) in place of remote(…)",
            )
        self.spark = spark or local_spark()
        self._frames: dict[str, DataFrame] = {}
        self._declared: dict[str, Stream] = {}
        self._sequences: dict[str, tuple[str, ...]] = {}
        self.relations: dict[str, Changing] = {}
        self._views: dict[str, ViewDefinition] = {}
        self._aggregates: dict[str, AggregateDefinition] = {}
        self.python = None if allow_python is None else local_root(allow_python)

    def __repr__(self) -> str:
        relations = [relation.definition for relation in self.relations.values()]
        named = [f"{definition.kind} {definition.name}" for definition in relations]
        return one_line(self, *(f"stream {name}" for name in self._declared), *named)

    def _repr_html_(self) -> str:
        return html_table("Session", {entry.name: entry.kind for entry in self.catalog})

    @known_settings(StreamSettings)
    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        time: str = "ts",
        sequence: str | Sequence[str] = (),
        slack: Duration = 0,
        idle: Duration | None = None,
        dead_letter: str | os.PathLike[str] | None = None,
        max_gap: Duration | None = None,
        unit: str | None = None,
        **settings: Unpack[StreamSettings],
    ) -> SparkStream:
        """Declare a streaming DataFrame as a stream.

        ``time`` names its TIMESTAMP (or BIGINT of µs) column, ``sequence`` the columns that order
        rows of one time (such as partition and offset), for count windows; rows may be out of
        order by up to ``slack``. With ``idle="5 s"`` the clock follows the wall clock minus 5 s
        when no rows come; with ``punctuations`` a row in which every column but the time is NULL
        promises that no row with an earlier time follows; it is neither counted among the rows nor
        stored. Late rows are counted, and kept as Parquet under ``dead_letter`` if that is given.
        Rows without a time are an error, or go there too with ``null_time="dead_letter"``.
        ``source`` is a word for where rows come from: where a checkpoint knows another one, the
        DataFrame is read from its beginning on, and the stream goes on.

        ``max_gap="1 day"``: a row later than the wall clock plus a day goes to the dead letters and
        is counted. That is the default for streams that run on; ``max_gap="none"`` switches it off.
        With ``live=False``, and where the input is read to its end, there is no wall clock to
        compare with: only a ``max_gap`` that is given counts, and a larger jump in time counts if
        the next batch confirms it.

        ``unit="milliseconds"`` says what a BIGINT time counts since 1970 (seconds, milliseconds,
        microseconds or nanoseconds); the time is then a TIMESTAMP in a column ``event_time``.
        Without a unit it counts microseconds, and a first time before 1980 or more than a year
        ahead is refused; ``unit="microseconds"`` takes numbers as they are. ``derivation`` is a
        text for how the DataFrame's columns are computed: a checkpoint is not continued under
        another one.
        """
        _check_name(name, (*self._frames, *self.relations), "stream")
        if not isinstance(frame, DataFrame):
            raise InvalidSetting(
                f"stream {name} is declared over a {type(frame).__name__}",
                "give a streaming DataFrame (spark.readStream), or use mayfly.LocalSession",
            )
        if not frame.isStreaming:
            raise InvalidSetting(
                f"the DataFrame of stream {name} is not streaming",
                "make it with spark.readStream (files, Kafka, rate, …)",
            )
        time = _column_called(name, frame.columns, text("time", time), "take its time from")
        sequence = tuple(
            _column_called(name, frame.columns, column, "order its rows by")
            for column in names("sequence", sequence)
        )
        derivation = settings.get("derivation")
        unit_given = unit is not None or dict(frame.dtypes)[time] != "bigint"
        if unit is not None and unit.casefold() != "microseconds":
            derivation = derivation or f"{EVENT_TIME} from {time} {unit.casefold()}"
            frame, time = _in_unit(name, frame, time, unit), EVENT_TIME
        stream = Stream(
            name=name,
            schema=_arrow_schema(name, frame),
            time=time,
            slack=duration(slack),
            idle=None if idle is None else WallClock(duration(idle)),
            null_time=settings.get("null_time", "error"),
            dead_letter=None if dead_letter is None else os.fspath(local_root(dead_letter)),
            punctuations=settings.get("punctuations", False),
            source=settings.get("source"),
            max_gap=gap_of(max_gap),
            live=settings.get("live", True),
            unit_given=unit_given,
            derivation=derivation,
        )
        check_gap(name, stream.max_gap, stream.slack)
        if dict(frame.dtypes)[time] == "timestamp_ntz":
            raise InvalidSetting(
                f"the time column {name}.{time} has no time zone",
                "cast it to TIMESTAMP in the DataFrame, or give BIGINT microseconds",
            )
        self._frames[name] = frame
        self._declared[name] = stream
        self._sequences[name] = sequence
        return SparkStream(self, stream)

    def close_keys(self, name: str, punctuation: Punctuation) -> None:
        """Let rows of a declared stream close their key, as PUNCTUATION (k) WHEN (…) says."""
        stream = self.declared(name)
        self._declared[stream.name] = replace(stream, punctuation=punctuation)

    def forget(self, name: str) -> None:
        """Declare something no more; queries that were made over it stay as they are."""
        self._frames.pop(name, None)
        self._declared.pop(name, None)
        self.relations.pop(name.casefold(), None)
        self._views.pop(name.casefold(), None)
        self._aggregates.pop(name.casefold(), None)

    def fork(self) -> Session:
        """A session that knows what this one does, and may get to know more."""
        other = Session(self.spark, allow_python=self.python)
        other._frames, other._declared = dict(self._frames), dict(self._declared)
        other._sequences, other.relations = dict(self._sequences), dict(self.relations)
        other._views, other._aggregates = dict(self._views), dict(self._aggregates)
        return other

    @property
    def catalog(self) -> Catalog:
        """The declared streams as the query language sees them, with their DataFrames' types."""
        catalog = Catalog()
        for stream in self._declared.values():
            columns = tuple(
                ColumnDefinition(name, stream.type_of(name)) for name in stream.schema.names
            )
            definition = StreamDefinition(
                stream.name, columns, stream.time, self._sequences[stream.name],
                slack=stream.slack, max_gap=stream.max_gap, punctuation=stream.punctuation,
            )  # fmt: skip
            catalog = catalog.declare(definition)
        for changing in self.relations.values():
            catalog = catalog.declare(changing.definition)
        for aggregate in self._aggregates.values():
            catalog = catalog.declare(aggregate)
        for view in self._views.values():
            catalog = catalog.declare(view)
        return catalog

    @property
    def zone(self) -> str:
        """The time zone of times without one: Spark's for this session."""
        return str(self.spark.conf.get("spark.sql.session.timeZone"))

    @known_settings()
    def query(self, cql: str, *, strategy: str = "UPA", without: Sequence[str] = ()) -> CqlQuery:
        """A query of the language over the declared streams and relations.

        ``strategy`` is UPA, NT or DIRECT; ``without`` switches optimizer rules off.
        """
        with in_zone(self.zone):
            bound = bind_query(cql, self.catalog)
        text = written_out(cql, bound, self.catalog)
        return CqlQuery.of(self, text, bound, Strategy.named(strategy), names("without", without))

    def view(self, name: str, cql: str) -> None:
        """A name for a query, that other queries may read in FROM."""
        with in_zone(self.zone):
            bound = bind_query(cql, self.catalog)
        self.add_view(view_of(name, bound, written_out(cql, bound, self.catalog)))

    def derive_stream(self, name: str, cql: str) -> None:
        """A stream of what a query with Istream, Dstream or Rstream tells, to be read in FROM."""
        with in_zone(self.zone):
            bound = bind_query(cql, self.catalog)
        self.add_view(derived_stream_of(name, bound, written_out(cql, bound, self.catalog)))

    def add_view(self, definition: ViewDefinition) -> None:
        """Declare a view as the language defines it."""
        _check_name(
            definition.name, (*self._frames, *self.relations, *self._views), definition.kind
        )
        plan = self.catalog.with_code(definition.plan)
        self._views[definition.name.casefold()] = replace(definition, plan=plan)

    @known_settings()
    def aggregate(self, name: str, code: type, *, takes: str | Sequence[str], gives: str) -> None:
        """Make a class an aggregate: its ``add(x, …)`` takes the values of a row, ``merge(other)``
        those of another instance, ``result()`` is the answer; ``subtract(x, …)``, if it has one,
        undoes an ``add``. ``takes=("BIGINT",), gives="DOUBLE"`` are the types. A checkpoint has
        these and no code: every program that continues from there gives the class anew.
        """
        self.add_aggregate(users_aggregate_of(name, code, takes, gives))

    def add_aggregate(self, definition: AggregateDefinition) -> None:
        """Declare an aggregate whose class is at hand."""
        taken = (*self._frames, *self.relations, *self._views, *self._aggregates)
        _check_name(definition.name, taken, definition.kind)
        self._aggregates[definition.name.casefold()] = definition

    @known_settings()
    def relation(
        self,
        name: str,
        rows: Any,
        *,
        key: str | Sequence[str] = (),
        retroactive: bool = True,
        columns: Columns | None = None,
    ) -> None:
        """Declare a relation (or with ``retroactive=False`` an NRR) and fill it; ``change`` and
        commands change it.

        The rows say what its columns are, unless ``columns`` does: ``{"id": "BIGINT"}``, or a
        schema of Arrow.
        """
        rows = rows.toArrow() if isinstance(rows, DataFrame) else rows
        if columns is None:
            columns = rows = arrow_of(name, rows)
        else:
            with in_zone(self.zone):
                rows = as_table(
                    name, rows, {column.name: column.type for column in columns_of(columns)}
                )
        declared, keys = columns_of(columns), names("key", key)
        definition = RelationDefinition(name, declared, keys, flag("retroactive", retroactive))
        self.add_relation(definition, rows)

    @known_settings()
    def nrr(
        self, name: str, rows: Any, *, key: str | Sequence[str], columns: Columns | None = None
    ) -> None:
        """Declare a non-retroactive relation and fill it: a later change concerns only tuples
        generated after it, and a key that was deleted is never used again."""
        self.relation(name, rows, key=key, retroactive=False, columns=columns)

    def add_relation(self, definition: RelationDefinition, rows: pa.Table) -> None:
        """Declare a relation or NRR as the language defines it, with its first rows."""
        _check_name(definition.name, (*self._frames, *self.relations), definition.kind)
        changing = Changing(definition)
        changing.load(rows)
        self.relations[definition.name.casefold()] = changing

    def change(self, statement: str | Insert | Update | Delete) -> None:
        """Carry out an INSERT, UPDATE or DELETE before queries that read the relation start; those
        that run are changed by ``run.control.change``."""
        if isinstance(statement, str):
            statement = change_of(statement, self.catalog)
        self.relations[statement.relation.casefold()].carry_out(statement, MIN_TIME)

    def query_of(self, definition: QueryDefinition | ArchiveDefinition) -> CqlQuery:
        """A query that a statement has declared."""
        plan = self.catalog.with_code(definition.plan)
        return CqlQuery.of(self, definition.text, plan, Strategy.UPA, ())

    def streams(self) -> tuple[str, ...]:
        """The names of the declared streams, in the order of their declaration."""
        return tuple(self._declared)

    def queries(self, **cql: str) -> Queries:
        """Queries by name that run together: each stream is read once, equal parts run once."""
        return Queries(self, {name: self.query(text) for name, text in cql.items()})

    def control(self, checkpoint: str | os.PathLike[str]) -> Control:
        """To tell something to the pipeline that runs on a checkpoint, here or elsewhere."""
        return Control.of(checkpoint)

    def declared(self, stream: str) -> Stream:
        return self._declared[stream]

    @known_settings()
    def explain(
        self,
        cql: str,
        *,
        compare: bool = False,
        strategy: str = "UPA",
        without: Sequence[str] = (),
    ) -> Explanation:
        """What a query means and would cost: the plan with its update patterns and state.

        ``compare`` shows rival plans, ``without`` switches optimizer rules off. The result prints
        as text, draws itself in notebooks, and has ``json()``, ``svg()`` and ``html()``.
        """
        with in_zone(self.zone):
            return explain(
                bind_query(cql, self.catalog),
                self.catalog,
                cql,
                strategy=Strategy.named(strategy),
                without=names("without", without),
                compare=flag("compare", compare),
            )

    @known_settings(ArchiveOptions)
    def create_archive(
        self,
        path: str | os.PathLike[str],
        columns: Any,
        *,
        key: str | Sequence[str],
        window: int | str | timedelta | None = None,
        max_lifetime: Duration | None = None,
        refresh: Duration = "1 day",
        hard: bool = True,
        progress: PartsListener | None = None,
        **settings: Unpack[ArchiveOptions],
    ) -> SparkArchive:
        """Make an archive of the last ``window``, by ``key``, refreshed every ``refresh``.

        ``columns`` is DDL text, a schema, or rows that have them (a DataFrame of Spark or pandas,
        an Arrow table, a list of dicts); ``time`` is its TIMESTAMP
        (or BIGINT of µs) column. ``window`` is a duration or a number of updates. Updates are
        counted from ``origin``, by default from the interval of the first row; with ``zone``
        they are that zone's calendar days. ``scheme`` is WATA by default; "auto" takes the layout
        that would do the least work under the ``expect``-ed load, with a ``hard`` window or not.

        With ``max_lifetime`` in place of a window every row has its own lifetime, by ``exp`` or
        ``lifetime``; ``layout="auto"`` takes the layout that would do the least work under the
        ``expect``-ed load. All settings: ``archive.archive_options.ArchiveOptions``.
        """
        parts = self.spark.sparkContext.defaultParallelism
        options = chosen_options(
            {"parts": parts, **settings},
            key=key, window=window, max_lifetime=max_lifetime, refresh=refresh,
        )  # fmt: skip
        listed, expect = _columns_of(columns), settings.get("expect")
        if max_lifetime is not None:
            owned, advice = declared_for(path, listed, options)
            return self._create(path, owned, progress, laid_out_for(advice))
        options.pop("expect", None)
        if settings.get("scheme") != AUTO:
            return self._create(path, declared_window(listed, options), progress)
        declared = declared_window(listed, options, without=("scheme", "constituents"))
        technique = settings.get("technique")
        allowed = (UpdateTechnique(technique),) if technique else tuple(UpdateTechnique)
        declared, _ = with_advised_layout(
            declared, local_root(path), expect, hard=hard, techniques=allowed
        )
        return self._create(path, declared, progress)

    def _create(
        self,
        path: str | os.PathLike[str],
        declared: Declaration,
        progress: PartsListener | None,
        remembered: Mapping[str, Any] | None = None,
    ) -> SparkArchive:
        return SparkArchive.create(
            path,
            declared.settings,
            OnSpark(self.spark, progress),
            origin_is_open=declared.origin_is_open,
            properties=remembered,
        )

    def open_archive(
        self, path: str | os.PathLike[str], *, progress: PartsListener | None = None
    ) -> SparkArchive:
        """Open an archive. ``progress`` is called with the parts done and all parts; without it
        a bar is drawn while an update runs, if there is a terminal."""
        return SparkArchive.open(path, OnSpark(self.spark, progress))

    def frame_of(self, stream: str) -> DataFrame:
        return self._frames[stream]


def _arrow_schema(name: str, frame: DataFrame) -> pa.Schema:
    fields = []
    for column, kind in frame.dtypes:
        if "." in column:
            raise InvalidSetting(
                f"stream {name} has a column {column!r} with a dot in its name", "rename it"
            )
        fields.append(pa.field(column, arrow_type(parse_type(kind))))
    return pa.schema(fields)


def _columns_of(columns: Any) -> Any:
    if isinstance(columns, DataFrame):
        return dict(columns.dtypes)
    if isinstance(columns, StructType):
        return {field.name: field.dataType.simpleString() for field in columns}
    return brought_columns(columns)


def _check_name(name: str, taken: Iterable[str], kind: str) -> None:
    check_name(name, kind)
    if name.casefold() in {existing.casefold() for existing in taken}:
        raise InvalidSetting(f"the name {name} is declared twice", "choose another name")


def _column_called(stream: str, columns: Sequence[str], column: str, purpose: str) -> str:
    """A column as the DataFrame spells it."""
    for candidate in columns:
        if candidate.casefold() == column.casefold():
            return candidate
    raise InvalidSetting(
        f"stream {stream} has no column {column!r} to {purpose}",
        f"name one of its columns: {', '.join(columns)}",
    )


def _in_unit(name: str, frame: DataFrame, time: str, unit: str) -> DataFrame:
    """With the time that a whole number of this unit is."""
    form = UNITS.get(unit.upper())
    if form is None:
        units = ", ".join(unit_name.lower() for unit_name in UNITS)
        raise InvalidSetting(f"{name}: {unit!r} is not a unit of time", f"use one of {units}")
    return frame.selectExpr("*", f"{form.format(quoted(time))} AS {EVENT_TIME}")
