"""Sources that statements name, as Spark reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from mayfly.errors import InvalidSetting
from mayfly.plan.catalog import ColumnDefinition, Connector, Idle, StreamDefinition
from mayfly.plan.expressions import quoted

if TYPE_CHECKING:
    from mayfly.session import Session

FILES = ("parquet", "json", "csv", "orc", "text")
GIVEN = ("rate", "rate-micro-batch", "socket", "kafka")
"""Sources whose columns Spark gives."""


NAMING = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
"""A session with this setting refuses sources without a name, and one without it those with one."""


def named(spark: SparkSession, reader: DataStreamReader, name: str) -> DataStreamReader:
    """The reader under a name, where the session wants sources to have one."""
    return reader.name(name) if spark.conf.get(NAMING, "false") == "true" else reader


def declare_stream(session: Session, definition: StreamDefinition, folder: Path) -> None:
    """Declare a stream that reads from its source; paths are relative to the folder."""
    if definition.source is None:
        raise InvalidSetting(
            f"the stream {definition.name} has no source",
            "add FROM parquet('folder'), json, csv, rate, socket or kafka to its declaration",
        )
    letters = definition.dead_letters
    if letters is not None and letters.format != "parquet":
        raise InvalidSetting(
            f"the dead letters of {definition.name} go to {letters.format}",
            "write DEAD LETTERS TO parquet('folder')",
        )
    reader = session.spark.readStream.format(definition.source.format)
    if definition.source.format not in GIVEN:
        reader = reader.schema(ddl(definition.columns))
    try:
        reader = named(session.spark, reader, definition.name)
        frame = loaded(reader, definition.source, folder)
    except PySparkException as error:
        told = str(error).partition("\n")[0]
        raise InvalidSetting(
            f"the source of stream {definition.name} cannot be read: {told}",
            "fix its FROM clause, or start Spark with the connector it needs",
        ) from error
    if definition.source.format in GIVEN:
        frame = frame.selectExpr(
            *(f"CAST({quoted(c.name)} AS {c.type.sql()}) AS {quoted(c.name)}"
              for c in definition.columns)
        )  # fmt: skip
    session.stream(
        definition.name,
        frame,
        time=definition.time,
        sequence=definition.sequence,
        slack=definition.slack,
        idle=definition.idle_delay if definition.idle is Idle.WALL_CLOCK else None,
        punctuations=definition.idle is Idle.PUNCTUATIONS,
        null_time="error" if letters is None else "dead_letter",
        dead_letter=None if letters is None else folder / str(letters.path),
    )


def loaded(reader: Any, source: Connector, folder: Path) -> DataFrame:
    reader = reader.options(**dict(source.options))
    path = source.path
    if path is not None and source.format in FILES and "://" not in path:
        path = str(folder / path)
        if not Path(path).exists():
            raise InvalidSetting(
                f"there is no folder {path} to read from", "create it, or fix the path"
            )
    frame: DataFrame = reader.load() if path is None else reader.load(path)
    return frame


def ddl(columns: tuple[ColumnDefinition, ...]) -> str:
    return ", ".join(f"{quoted(c.name)} {c.type.sql()}" for c in columns)
