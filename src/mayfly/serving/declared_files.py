"""The files that a declaration names, read in this process: to try windows without Spark.

Formats are json (a record a line), csv and parquet; texts become values as Spark's CAST has it,
NULL where they cannot. What takes more than that is refused: the pipeline itself reads it on Spark.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mayfly.display import counted
from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.stateless import values_of
from mayfly.lifetime import in_zone, zone
from mayfly.plan.catalog import (
    ColumnDefinition,
    Connector,
    RelationDefinition,
    StreamDefinition,
)
from mayfly.plan.expressions import Cast, Column
from mayfly.plan.row_intake import as_table
from mayfly.plan.types import STRING, arrow_type
from mayfly.plan.window_kinds import Window
from mayfly.runtime.computed_values import computed
from mayfly.runtime.table_sources import FILES

IGNORED = ("maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "cleansource")
"""Options that say how files come one after the other."""
UNDERSTOOD = {"csv": ("header", "sep", "delimiter"), "json": (), "parquet": ()}
ON_SPARK = "run the pipeline with mayfly run, which reads it on Spark"
Records = Iterator[Sequence[Any]]


@dataclass(frozen=True)
class FileStream:
    """A declared stream whose files are read here, all at once."""

    definition: StreamDefinition
    folder: Path
    """To which its path is relative."""

    kind = FILES

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def streams(self) -> tuple[str, ...]:
        return (self.name,)

    def rows_at(self, instant: int) -> pa.Table:
        """All rows; those of later instants do not matter."""
        return self.rows

    def missing(self, instant: int) -> Iterator[str]:
        if self._timeless:
            time = self.definition.time
            yield f"left out: {counted(self._timeless, 'row')} of {self.name} without {time}"

    def access(self) -> str:
        return "scan of its files"

    def obstacle(self, window: Window) -> None:
        return None

    @cached_property
    def rows(self) -> pa.Table:
        """Those that have a time, as in a run."""
        return self._read.filter(pc.is_valid(self._times))

    def latest(self) -> int | None:
        """The last time that a row has; None if there is none."""
        last: int | None = pc.max(self._times.cast(pa.int64())).as_py()
        return last

    @cached_property
    def _read(self) -> pa.Table:
        with in_zone(self.definition.zone or zone()):
            return declared_rows(self.definition, self.folder)

    @cached_property
    def _times(self) -> pa.ChunkedArray:
        brought = dict(zip(self._read.column_names, self._read.columns, strict=True))
        names = [column.name for column in self.definition.columns]
        with in_zone(self.definition.zone or zone()):
            return computed(self.definition, brought)[names.index(self.definition.time)]

    @property
    def _timeless(self) -> int:
        return int(self._times.null_count)


def declared_rows(definition: StreamDefinition | RelationDefinition, folder: Path) -> pa.Table:
    """The rows of a stream or relation, with the columns that its files bring."""
    source = definition.source
    columns = (
        definition.supplied_columns
        if isinstance(definition, StreamDefinition)
        else definition.columns
    )
    kinds = {column.name: column.type for column in columns}
    if source is None:
        return as_table(definition.name, [], kinds)
    _check(definition.name, source)
    files = _files(definition.name, folder / str(source.path))
    if source.format == "parquet":
        tables = [pq.read_table(path) for path in files]
        return pa.concat_tables([as_table(definition.name, table, kinds) for table in tables])
    options = {name.casefold(): value for name, value in source.options}
    read = _READERS[source.format]
    names = [column.name for column in columns]
    records = [record for path in files for record in read(path, names, options)]
    arrays = [_values(column, [record[n] for record in records])
              for n, column in enumerate(columns)]  # fmt: skip
    return pa.table(arrays, names=names)


def _check(owner: str, source: Connector) -> None:
    if source.format not in UNDERSTOOD or not source.path or "://" in source.path:
        raise InvalidSetting(f"{owner} reads from {source.format}", ON_SPARK)
    options = (*UNDERSTOOD[source.format], *IGNORED)
    for name, _ in source.options:
        if name.casefold() not in options:
            raise InvalidSetting(f"the source of {owner} has the option {name}", ON_SPARK)


def _files(owner: str, path: Path) -> list[Path]:
    """A file, or those of a folder that Spark would read, in the order of their names."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InvalidSetting(f"{owner} reads from {path}, where nothing is", "fix the path")
    return sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")


def _csv_records(path: Path, names: Sequence[str], options: Mapping[str, str]) -> Records:
    """Columns are known by their places, as Spark does for a declared schema."""
    separator = options.get("sep") or options.get("delimiter") or ","
    with path.open(newline="", encoding="utf-8") as lines:
        rows = csv.reader(lines, delimiter=separator)
        if options.get("header", "false").casefold() == "true":
            next(rows, None)
        for row in rows:
            if row:
                padded = [*row, *[""] * (len(names) - len(row))]
                yield [value if value else None for value in padded[: len(names)]]


def _json_records(path: Path, names: Sequence[str], options: Mapping[str, str]) -> Records:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                raise BadInput(f"{path}:{number} is not a JSON record", "repair or remove the line")
            folded = {key.casefold(): value for key, value in record.items()}
            yield [folded.get(name.casefold()) for name in names]


_READERS: dict[str, Callable[[Path, Sequence[str], Mapping[str, str]], Records]] = {
    "csv": _csv_records,
    "json": _json_records,
}


def _values(column: ColumnDefinition, values: list[Any]) -> pa.Array:
    kind = arrow_type(column.type)
    if column.type.is_nested:
        return as_table(column.name, {column.name: values}, {column.name: column.type})[column.name]
    texts = pa.table({"file.value": pa.array([_text(value) for value in values], pa.string())})
    if column.type == STRING:
        return texts["file.value"]
    cast = Cast(Column("file", "value", STRING), column.type, safe=True)
    return values_of(cast, texts, kind)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
