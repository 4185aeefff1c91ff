"""What a read through the data source asks for, as its options say it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark_types

from mayfly.archive.archive import Archive
from mayfly.archive.leases import lease
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.key_text import end_from_text, instant_from_text, key_from_values
from mayfly.archive.read.questions import selection
from mayfly.archive.read.selection import KeyRange, Selection
from mayfly.archive.read.version_reader import Reader
from mayfly.archive.write.local_jobs import InProcess
from mayfly.errors import InvalidSetting
from mayfly.plan.types import DataType, parse_type

OPTIONS = {
    "path", "as_of", "version", "soft", "generated_from", "generated_to",
    "key", "keys", "key_from", "key_to", "pushdown", "window",
}  # fmt: skip


@dataclass(frozen=True)
class ReadRequest:
    """What a read asks for: the time, and keys or a range of them."""

    selection: Selection
    keys: tuple[tuple[Any, ...], ...] | None = None
    key_range: KeyRange | None = None

    def tables(self, reader: Reader, columns: Sequence[str]) -> Iterator[pa.Table]:
        if self.keys is not None:
            yield reader.probe(self.keys, self.selection, columns)
        elif self.key_range is not None:
            yield reader.probe_range(self.key_range, self.selection, columns)
        else:
            for table in reader.scan_tables(self.selection, columns):
                yield table.select(list(columns))


@dataclass(frozen=True)
class PlannedRead:
    """One version of an archive, the columns to read, and the rows that are wanted."""

    root: str
    version: int
    columns: tuple[str, ...]
    request: ReadRequest

    @staticmethod
    def of(options: Mapping[str, str], schema: spark_types.StructType) -> PlannedRead:
        archive = opened(options)
        version, moment = _version(archive, options)
        reader = Reader(archive.repository.directory, version)
        between = (_moment(options, "generated_from"), _moment(options, "generated_to"))
        soft = truth("soft", options.get("soft", "false"))
        request = ReadRequest(
            selection(version.settings, moment, between, soft, options.get("window")),
            _keys(reader, options),
            _key_range(reader, options),
        )
        if request.keys is not None and request.key_range is not None:
            raise InvalidSetting("keys and a range of keys were given", "give one of them")
        columns = _columns(schema, version.settings)
        root = archive.repository.directory.address
        return PlannedRead(root, version.manifest.version, columns, request)

    def load(self) -> tuple[Archive, ArchiveVersion]:
        archive = Archive.open(self.root, InProcess())
        return archive, ArchiveVersion.of(archive.repository.load(self.version))


def opened(options: Mapping[str, str]) -> Archive:
    """The archive that the options name."""
    path = options.get("path")
    if not path:
        raise InvalidSetting(
            "no archive was named", 'write .load("path"), or OPTIONS (path "…") in SQL'
        )
    return Archive.open(path, InProcess())


def truth(name: str, text: str) -> bool:
    """An option that is true or false."""
    if text.lower() not in ("true", "false"):
        raise InvalidSetting(f"the option {name} is {text!r}", "write true or false")
    return text.lower() == "true"


def _version(archive: Archive, options: Mapping[str, str]) -> tuple[ArchiveVersion, int]:
    """The version to read, held for an hour, and the instant to show."""
    as_of, number = _moment(options, "as_of"), options.get("version")
    if number is None:
        version, moment, _ = lease(archive, as_of)
        return version, moment
    if not number.isdecimal():
        raise InvalidSetting(
            f"the version {number!r} is not a number", "archive.repository.versions() lists them"
        )
    version = ArchiveVersion.of(archive.repository.load(int(number)))
    return version, version.time if as_of is None else as_of


def _moment(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    return None if text is None else instant_from_text(text)


def _keys(reader: Reader, options: Mapping[str, str]) -> tuple[tuple[Any, ...], ...] | None:
    """One key as text (the first column's, if there is one), or a JSON list of keys."""
    listed: Any = [options["key"]] if "key" in options else None
    if listed is None and "keys" in options:
        try:
            listed = json.loads(options["keys"])
        except ValueError:
            listed = ()
        if not isinstance(listed, list):
            raise InvalidSetting(
                f"the keys {options['keys']!r} are not a JSON list", 'write them like ["a", "b"]'
            )
    return None if listed is None else tuple(_key(reader, key) for key in listed)


def _key(reader: Reader, listed: Any) -> tuple[Any, ...]:
    values = tuple(listed) if isinstance(listed, list) else (listed,)
    if len(values) == len(reader.settings.sort_columns):
        values = key_from_values(reader.settings, values)
    return reader.key_values(values)


def _key_range(reader: Reader, options: Mapping[str, str]) -> KeyRange | None:
    if not {"key_from", "key_to"} & set(options):
        return None
    ends = (options.get("key_from"), options.get("key_to"))
    return KeyRange(*(end_from_text(reader.settings, end) for end in ends))


def _columns(schema: spark_types.StructType, settings: ArchiveSettings) -> tuple[str, ...]:
    own_schema = spark_schema(settings)
    types = {field.name: field.dataType for field in own_schema}
    for field in schema:
        if types.get(field.name) != field.dataType:
            raise InvalidSetting(
                f"the archive has no column {field.name} {field.dataType.simpleString()}",
                f"its columns are {own_schema.simpleString()}; "
                "leave the schema out to get them all",
            )
    return tuple(schema.names)


def spark_schema(settings: ArchiveSettings) -> spark_types.StructType:
    """The archive's columns; workers have no Spark session to parse DDL with."""
    return spark_types.StructType(
        [
            spark_types.StructField(name, _spark_type(parse_type(kind)))
            for name, kind in settings.all_columns.items()
        ]
    )


_ATOMIC: dict[str, spark_types.DataType] = {
    "boolean": spark_types.BooleanType(),
    "tinyint": spark_types.ByteType(),
    "smallint": spark_types.ShortType(),
    "int": spark_types.IntegerType(),
    "bigint": spark_types.LongType(),
    "float": spark_types.FloatType(),
    "double": spark_types.DoubleType(),
    "string": spark_types.StringType(),
    "binary": spark_types.BinaryType(),
    "date": spark_types.DateType(),
    "timestamp": spark_types.TimestampType(),
    "timestamp_ntz": spark_types.TimestampNTZType(),
    "interval day to second": spark_types.DayTimeIntervalType(),
    "void": spark_types.NullType(),
}


def _spark_type(kind: DataType) -> spark_types.DataType:
    if kind.name == "decimal":
        return spark_types.DecimalType(*kind.params)
    members = [_spark_type(member) for _, member in kind.fields]
    if kind.name == "array":
        return spark_types.ArrayType(members[0])
    if kind.name == "map":
        return spark_types.MapType(members[0], members[1])
    if kind.name == "struct":
        names = [name for name, _ in kind.fields]
        pairs = zip(names, members, strict=True)
        return spark_types.StructType([spark_types.StructField(n, t) for n, t in pairs])
    return _ATOMIC[kind.name]
