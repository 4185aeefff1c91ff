"""Files for an archive: what they are, their columns, and their rows as a DataFrame."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.archive.model.settings import arrow_columns
from mayfly.errors import InvalidSetting
from mayfly.plan.expressions import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mayfly.archive.model.settings import ArchiveSettings

FORMATS = ("parquet", "csv", "json")
_ENDINGS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


def format_of(files: Sequence[Path], choice: str | None) -> str:
    """The format of the files: as given, or as all their names end."""
    for file in files:
        if not file.exists():
            raise InvalidSetting(f"there is no file {file}", "check the path")
    if choice is not None:
        if choice not in FORMATS:
            raise InvalidSetting(f"cannot read {choice} files", f"use one of {', '.join(FORMATS)}")
        return choice
    formats = {_ENDINGS.get(file.with_suffix("").suffix if file.suffix == ".gz" else file.suffix)
             for file in files}  # fmt: skip
    (format_name, *others) = formats
    if others or format_name is None:
        raise InvalidSetting(
            f"the names of {', '.join(map(str, files[:3]))} do not show one format",
            f"give --format {'|'.join(FORMATS)}",
        )
    return format_name


def columns_in(files: Sequence[Path], format: str) -> dict[str, str]:
    """The columns that Parquet files declare; others need --columns."""
    if format != "parquet":
        raise InvalidSetting(
            f"{format} files do not say what types their columns have",
            'give --columns "k STRING, ts TIMESTAMP, …"',
        )
    first = next((path for path in _parquet_files(files)), None)
    if first is None:
        raise InvalidSetting(f"there is no Parquet file in {files[0]}", "check the path")
    try:
        return arrow_columns(pq.read_schema(first))
    except pa.ArrowException as error:
        raise InvalidSetting(f"{first} is not a Parquet file: {error}", "check the file") from error


def rows_of(
    spark: SparkSession, files: Sequence[Path], format: str, settings: ArchiveSettings, header: bool
) -> DataFrame:
    """The rows of the files; text that does not fit its column is an error, not a NULL."""
    paths = [str(file) for file in files]
    columns = settings.all_columns
    if format == "parquet":
        return spark.read.parquet(*paths)
    if format == "json":
        named = spark.read.json(paths).columns
        reader = spark.read.schema(_ddl(named, columns)).option("mode", "FAILFAST")
        return reader.json(paths)
    named = _header(files[0]) if header else list(columns)
    reader = spark.read.schema(_ddl(named, columns)).option("mode", "FAILFAST")
    return reader.csv(paths, header=header, enforceSchema=not header)


def _parquet_files(files: Sequence[Path]) -> list[Path]:
    return [
        path
        for file in files
        for path in ([file] if file.is_file() else sorted(file.rglob("*.parquet")))
    ]


def _header(file: Path) -> list[str]:
    if file.is_dir():
        file = next(child for child in sorted(file.iterdir()) if child.name[0] not in "._")
    packed = file.suffix == ".gz"
    with gzip.open(file, "rt") if packed else open(file, encoding="utf-8") as text:
        return next(csv.reader(text), [])


def _ddl(named: Sequence[str], columns: dict[str, str]) -> str:
    if unknown := [name for name in named if name not in columns]:
        raise InvalidSetting(
            f"the files have columns that the archive does not have: {', '.join(unknown)}",
            f"the archive has {', '.join(columns)}",
        )
    return ", ".join(f"{quoted(name)} {columns[name]}" for name in named)
