"""Sources that statements name, as Spark reads them."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from mayfly.checkpoint.source_log import origin
from mayfly.errors import InvalidSetting
from mayfly.lifetime import gap_text
from mayfly.pipeline.source_checks import (
    GIVEN,
    PYTHON,
    check_relation,
    check_stream,
    python_file,
)
from mayfly.pipeline.source_options import FILES, PAYLOAD
from mayfly.plan.catalog import (
    ColumnDefinition,
    Connector,
    Idle,
    RelationDefinition,
    StreamDefinition,
)
from mayfly.plan.expressions import quoted, searches
from mayfly.plan.types import arrow_type
from mayfly.runtime.computed_values import Computing
from mayfly.spark.cluster.causes import said

if TYPE_CHECKING:
    from mayfly.spark.api.session import Session

LOOKED_AT = 8
"""So many of the newest files, and the oldest one, show which columns a stream has."""

NAMING = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
"""A session with this setting refuses sources without a name, and one without it those with one."""


def named(spark: SparkSession, reader: DataStreamReader, name: str) -> DataStreamReader:
    """The reader under a name, where the session needs sources to have one."""
    return reader.name(name) if spark.conf.get(NAMING, "false") == "true" else reader


def declare_stream(session: Session, definition: StreamDefinition, folder: Path) -> list[str]:
    """Declare a stream that reads from its source; paths are relative to the folder.

    What may be a mistake and is none for Spark is reported in words.
    """
    source = check_stream(definition, folder, session.python)
    letters, files = definition.dead_letters, _files_in(source, folder)
    try:
        frame = _frame(session, definition, source, folder)
        frame = with_computed(frame, definition, session.zone)
    except (PySparkException, Py4JError) as error:
        raise InvalidSetting(
            f"the source of stream {definition.name} cannot be read: {said(error)}",
            "fix its FROM clause, or start Spark with the connector it needs",
        ) from error
    session.stream(
        definition.name,
        frame,
        time=definition.time,
        sequence=definition.sequence,
        slack=timedelta(microseconds=definition.slack),
        idle=(
            timedelta(microseconds=definition.idle_delay)
            if definition.idle is Idle.WALL_CLOCK
            else None
        ),
        punctuations=definition.idle is Idle.PUNCTUATIONS,
        null_time="error" if letters is None else "dead_letter",
        dead_letter=None if letters is None else folder / str(letters.path),
        source=origin(source.format, files),
        max_gap=gap_text(definition.max_gap),
        live=source.format not in FILES,
        unit="microseconds" if definition.unit_given else None,
        derivation=_derivation(definition),
    )
    if definition.punctuation is not None:
        session.close_keys(definition.name, definition.punctuation)
    return _never_filled(definition, files)


def _derivation(definition: StreamDefinition) -> str | None:
    """The computed columns of a stream, its own zone, and what closes its keys."""
    columns = [
        f"{column.name} AS ({column.computed.sql()})"
        for column in definition.columns
        if column.computed
    ]
    zone = [] if definition.zone is None else [f"TIME ZONE {definition.zone}"]
    closing = [] if definition.punctuation is None else [definition.punctuation.sql()]
    return ", ".join([*columns, *zone, *closing]) or None


def _files_in(source: Connector, folder: Path) -> str | None:
    """The folder that a source reads files from, if it does."""
    if source.format not in FILES or source.path is None:
        return None
    return source.path if "://" in source.path else str((folder / source.path).resolve())


def _never_filled(definition: StreamDefinition, folder: str | None) -> list[str]:
    """A word on declared columns that no Parquet file has, for these are NULL in every row."""
    assert definition.source is not None
    if definition.source.format != "parquet" or folder is None or "://" in folder:
        return []
    stored: dict[str, str] = {}
    for file in _oldest_and_newest(Path(folder)):
        with suppress(pa.ArrowInvalid, OSError):  # Spark will tell, if it is to be read
            stored |= {name.casefold(): name for name in pq.read_schema(file).names}
    missing = [
        column.name
        for column in definition.supplied_columns
        if column.name.casefold() not in stored
    ]
    if not stored or not missing:
        return []
    near = [near for name in missing for near in get_close_matches(name.casefold(), stored, 1)]
    return [
        f"stream {definition.name}: the Parquet files in {folder} have no column "
        f"{', '.join(missing)}, so it is always NULL"
        + (f"; is {stored[near[0]]} meant?" if near else "")
    ]


def _oldest_and_newest(folder: Path) -> list[Path]:
    """Some files of a folder; none if they are moved meanwhile, or if it is none."""
    with suppress(OSError):
        files = [path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._"]
        files.sort(key=lambda path: path.stat().st_mtime)
        return [*files[:1], *files[-LOOKED_AT:]]
    return []


def _frame(
    session: Session, definition: StreamDefinition, source: Connector, folder: Path
) -> DataFrame:
    if source.format == PYTHON:
        source = _register(session, definition.name, source)
    spark, options = session.spark, dict(source.options)
    payload = options.pop(PAYLOAD, None) if source.format in GIVEN else None
    reader = named(spark, spark.readStream.format(source.format), definition.name)
    if definition.zone is not None and source.format in ("json", "csv"):
        reader = reader.option("timeZone", definition.zone)
    if source.format not in GIVEN:
        return loaded(reader.schema(ddl(definition.supplied_columns)), source, folder)
    frame = loaded(reader, replace(source, options=tuple(options.items())), folder)
    return frame.selectExpr(*_columns_given(definition, frame.columns, payload is not None))


def _columns_given(definition: StreamDefinition, names: list[str], payload: bool) -> list[str]:
    """The declared columns, from those that a source has of its own, or from JSON in its value."""
    own = {name.casefold() for name in names}
    others = [
        column
        for column in definition.supplied_columns
        if payload and column.name.casefold() not in own
    ]
    schema = ddl(tuple(others)).replace("'", "\\'")
    read = f"from_json(CAST(value AS STRING), '{schema}')"
    return [
        f"{read}.{quoted(column.name)} AS {quoted(column.name)}"
        if column in others
        else f"CAST({quoted(column.name)} AS {column.type.sql()}) AS {quoted(column.name)}"
        for column in definition.supplied_columns
    ]


def with_computed(frame: DataFrame, definition: StreamDefinition, zone: str) -> DataFrame:
    """With the columns that follow from others, in the order in which they are declared; by
    Spark where it works in the stream's own zone and need not search texts for patterns, which
    its engine may do for ever."""
    computed = [column.computed for column in definition.columns if column.computed is not None]
    if not computed:
        return frame
    own = definition.zone or zone
    if own != zone or any(searches(expression) for expression in computed):
        rows = frame.select(*(quoted(column.name) for column in definition.supplied_columns))
        return rows.mapInArrow(Computing(definition, own), ddl(definition.columns))
    return frame.alias(definition.name).selectExpr(
        *(
            f"{quoted(column.name) if column.computed is None else column.computed.sql()} "
            f"AS {quoted(column.name)}"
            for column in definition.columns
        )
    )


def _register(session: Session, stream: str, source: Connector) -> Connector:
    """Make a data source written in Python known to Spark."""
    file, name = python_file(f"the stream {stream}", str(source.path), session.python)
    try:
        source_class = getattr(module_of(file), name)
    except Exception as error:  # whatever the user's file raises
        raise InvalidSetting(
            f"there is no data source {source.path}: {type(error).__name__}: {error}",
            f"define a class {name} in {file}, or import it there",
        ) from error
    session.spark.dataSource.register(source_class)
    return Connector(source_class.name(), None, source.options)


def module_of(file: Path) -> ModuleType:
    """A file as a module.

    It is not left among the modules of this process: what is defined in it then travels to
    Python processes of Spark as it is, and these need not find it.
    """
    name = file.stem
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module, before = importlib.util.module_from_spec(spec), sys.modules.get(name)
    sys.modules[name] = module  # for what looks there while it is made, such as dataclasses
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
    return module


def relation_rows(spark: SparkSession, definition: RelationDefinition, folder: Path) -> pa.Table:
    """The first rows of a relation; paths are relative to the folder."""
    schema = pa.schema([(c.name, arrow_type(c.type)) for c in definition.columns])
    check_relation(definition, folder)
    if definition.source is None:
        return schema.empty_table()
    reader = spark.read.format(definition.source.format).schema(ddl(definition.columns))
    try:
        rows = loaded(reader, definition.source, folder).toArrow().cast(schema)
    except (PySparkException, Py4JError, pa.ArrowInvalid) as error:
        raise InvalidSetting(
            f"the source of {definition.name} cannot be read: {said(error)}",
            "fix its FROM clause, or what is stored there",
        ) from error
    # Rows are known by their place, which must be the same when the pipeline is started again.
    return rows.sort_by([(name, "ascending") for name in schema.names])


def loaded(reader: Any, source: Connector, folder: Path) -> DataFrame:
    reader = reader.options(**dict(source.options))
    path = source.path
    if path is not None and source.format in FILES and "://" not in path:
        path = str(folder / path)
    frame: DataFrame = reader.load() if path is None else reader.load(path)
    return frame


def ddl(columns: tuple[ColumnDefinition, ...]) -> str:
    return ", ".join(f"{quoted(c.name)} {c.type.sql()}" for c in columns)
