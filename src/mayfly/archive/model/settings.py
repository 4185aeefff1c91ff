"""What an archive is: its columns, key, window and layout, fixed when it is created."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import pyarrow as pa

from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.model.admission import AdmissionRule, LateRows
from mayfly.archive.model.calendar import (
    DAY,
    Int64Array,
    UpdateCalendar,
    calendar_from_settings,
)
from mayfly.archive.model.column_names import column_named
from mayfly.archive.model.contract import HARD, Contract, longest_interval
from mayfly.archive.model.family import Family, family_of
from mayfly.archive.model.lifetimes import Lifetimes
from mayfly.display import Facts
from mayfly.errors import InvalidSetting
from mayfly.keywords import text
from mayfly.lifetime import format_micros
from mayfly.plan.row_intake import are_rows, arrow_of
from mayfly.plan.types import DataType, arrow_type, from_arrow, parse_type
from mayfly.storage.segment import EXP, TS

KEY, NTH, HOME = "_key", "_nth", "_home"
"""Columns of archives with an array key: a value that a row is found under, its number, and the
value in this part that the row is stored under; files written before have no home."""
REFERENCE = -1
"""The number of a value under which there is only a reference to the home."""
VALUES = "_values"
"""Of arriving rows, the values that lie in a part."""
INSERTED = "_update"
"""Column of archives of rows with their own lifetimes: the update that brought the row."""
ROW_GROUP_BYTES = 128_000
"""Of uncompressed rows: a probe decodes one row group per constituent; larger ones scan faster."""
UNBOUNDED = 365_000 * DAY
"""How long a row in windows of a number of rows may stay by the clock."""
LONGEST = 50_000_000 * DAY
"""Of a window: half of what 64 bits of microseconds hold, so that no expiration overflows."""
MOST_CONSTITUENTS = 100_000
COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


@dataclass(frozen=True, repr=False)
class ArchiveSettings(Facts):
    """Columns (name → Spark type), search key, time column, calendar and layout.

    With ``lifetimes`` every row has its own, and the layout is a doubly partitioned one; without,
    all rows of an update live equally long, under a wave layout. What follows from that, the
    ``family`` knows.
    """

    columns: Mapping[str, str]
    key: tuple[str, ...]
    time: str
    calendar: UpdateCalendar
    layout: WaveLayout | PartitionedLayout
    technique: UpdateTechnique = UpdateTechnique.PACKED_SHADOW
    late: LateRows = LateRows.REFUSE
    parts: int = 1
    row_group_bytes: int = ROW_GROUP_BYTES
    compression: str = "zstd"
    keep_versions: int = 2
    """Of how many updates the versions are kept; an update with work for later days has two."""
    added: Mapping[str, str] = field(default_factory=dict)
    """Columns that came later; files without them read as NULL."""
    lifetimes: Lifetimes | None = None
    contract: Contract = HARD
    """What is promised about dead rows; waves promise to return none."""
    young: int = 0
    """Runs of so many levels are Arrow files, where they are not rebuilt: a probe decodes nothing
    in them, and they are soon merged into Parquet."""
    max_gap: int | None = None
    """How far ahead of the wall clock rows may be: NEVER for no limit, None for the default."""

    def __post_init__(self) -> None:
        for which in ("columns", "added"):
            written = getattr(self, which)
            normal = {name: parse_type(kind).sql() for name, kind in written.items()}
            object.__setattr__(self, which, normal)
        for which, kind in (("technique", UpdateTechnique), ("late", LateRows)):
            object.__setattr__(self, which, _member(kind, getattr(self, which)))
        _check_names(self.all_columns)
        self._check_key()
        _ = self.stored  # refuses types that no file can hold
        if self.type_of(self.time).name not in ("timestamp", "bigint"):
            raise InvalidSetting(
                f"the time column {self.time} is {self.type_of(self.time)}",
                "use a TIMESTAMP, or a BIGINT of microseconds",
            )
        self._check_size()
        self.family.check()
        self.contract.check(self.calendar)
        if self.compression not in COMPRESSIONS:
            raise InvalidSetting(
                f"there is no compression {self.compression!r}",
                f"use one of {', '.join(COMPRESSIONS)}",
            )
        if self.max_gap is not None and self.max_gap < 1:
            raise InvalidSetting("max_gap is 0", 'use a longer duration, or "none" for no limit')
        if self.young < 0:
            raise InvalidSetting(f"{self.young} young levels", "use 0 or more")
        if self.parts < 1 or self.row_group_bytes < 1 or self.keep_versions < 1:
            raise InvalidSetting(
                "parts, row_group_bytes and keep_versions must be 1 or more", "raise them"
            )

    def _check_size(self) -> None:
        shown = f"a window of {self.window:,} updates, {self.calendar}"
        if (self.window + 1) * longest_interval(self.calendar) > LONGEST:
            raise InvalidSetting(shown, f"keep at most {format_micros(LONGEST)}")
        sizes = {"constituents": self.layout.constituents, "parts": self.parts}
        for what, size in sizes.items():
            if size > MOST_CONSTITUENTS:
                raise InvalidSetting(f"{size:,} {what}", f"use at most {MOST_CONSTITUENTS:,}")

    def _check_key(self) -> None:
        if not self.key:
            raise InvalidSetting("an archive without a search key", "name at least one column")
        key = tuple(column_named(name, self.columns) for name in self.key)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "time", column_named(self.time, self.columns))
        if len(set(self.key)) < len(self.key):
            raise InvalidSetting(
                f"the key {', '.join(self.key)} names a column twice", "name each column once"
            )
        if self.array_key is None and any(self.type_of(name).is_nested for name in self.key):
            raise InvalidSetting(
                f"the key {', '.join(self.key)} is not of atomic types",
                "use atomic columns, or one ARRAY of an atomic type",
            )

    def facts(self) -> dict[str, object]:
        return {
            "columns": ", ".join(f"{name} {kind}" for name, kind in self.all_columns.items()),
            "key": ", ".join(self.key),
            "time": self.time,
            "kept": self.family.description().kept,
            "refresh": self.calendar,
            "late rows": self.late.value,
            "parts": self.parts,
        }

    @cached_property
    def all_columns(self) -> dict[str, str]:
        return {**self.columns, **self.added}

    @property
    def window(self) -> int:
        return self.layout.window

    @cached_property
    def family(self) -> Family:
        """How the rows live and leave: it answers wherever that makes a difference."""
        return family_of(self)

    @property
    def wave(self) -> WaveLayout:
        """The layout, where rows live equally long."""
        if isinstance(self.layout, WaveLayout):
            return self.layout
        raise self._unfit("rows that live equally long")

    @property
    def cells(self) -> PartitionedLayout:
        """The layout, where rows have their own lifetimes."""
        if isinstance(self.layout, PartitionedLayout):
            return self.layout
        raise self._unfit("rows with their own lifetimes")

    def _unfit(self, rows: str) -> InvalidSetting:
        return InvalidSetting(
            f"the layout {self.layout} is not for {rows}",
            "wave layouts are for rows that live equally long, doubly partitioned ones for "
            "rows with their own lifetimes",
        )

    @cached_property
    def array_key(self) -> DataType | None:
        """The element type if the key is one array column."""
        kind = self.type_of(self.key[0])
        if len(self.key) == 1 and kind.name == "array" and not kind.fields[0][1].is_nested:
            return kind.fields[0][1]
        return None

    @cached_property
    def key_types(self) -> tuple[DataType, ...]:
        element = self.array_key
        return (element,) if element else tuple(self.type_of(name) for name in self.key)

    @cached_property
    def sort_columns(self) -> tuple[str, ...]:
        """The stored columns that rows are clustered by."""
        return (KEY,) if self.array_key else self.key

    @cached_property
    def stored(self) -> pa.Schema:
        """The schema of data files."""
        own = [(name, arrow_type(parse_type(kind))) for name, kind in self.all_columns.items()]
        element = self.array_key
        kind = arrow_type(element) if element else None
        copies = [(KEY, kind), (NTH, pa.int32()), (HOME, kind)] if element else []
        times = [(name, pa.int64()) for name in (*self.family.columns, TS, EXP)]
        return pa.schema([*own, *copies, *times])

    @cached_property
    def rule(self) -> AdmissionRule:
        return AdmissionRule(self.calendar, self.family.longest, self.late)

    def type_of(self, column: str) -> DataType:
        return parse_type(self.all_columns[column])

    def with_column(self, name: str, kind: str) -> ArchiveSettings:
        if text("name", name) in self.all_columns:
            raise InvalidSetting(f"the archive already has a column {name}", "choose another name")
        return replace(self, added={**self.added, name: parse_type(text("kind", kind)).sql()})

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns.items()),  # a manifest sorts dictionaries
            "added": list(self.added.items()),
            "key": list(self.key),
            "time": self.time,
            "calendar": self.calendar.settings(),
            **self.family.layout_json(),
            "late": self.late.value,
            "parts": self.parts,
            "row_group_bytes": self.row_group_bytes,
            "compression": self.compression,
            "keep_versions": self.keep_versions,
            **({} if self.max_gap is None else {"max_gap": self.max_gap}),
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> ArchiveSettings:
        return ArchiveSettings(
            columns=dict(stored["columns"]),
            added=dict(stored["added"]),
            key=tuple(stored["key"]),
            time=stored["time"],
            calendar=calendar_from_settings(stored["calendar"]),
            **_stored_layout(stored),
            late=LateRows(stored["late"]),
            parts=stored["parts"],
            row_group_bytes=stored["row_group_bytes"],
            compression=stored["compression"],
            keep_versions=stored["keep_versions"],
            max_gap=stored.get("max_gap"),
        )


def _stored_layout(stored: Mapping[str, Any]) -> dict[str, Any]:
    if "lifetimes" in stored:
        return {
            "layout": PartitionedLayout(**stored["layout"]),
            "lifetimes": Lifetimes.from_json(stored["lifetimes"]),
            "contract": Contract(**stored["contract"]),
            "young": stored.get("young", 0),
        }
    wave = WaveLayout(
        WaveScheme(stored["scheme"]), stored["window"], stored["constituents"], stored["spread"]
    )
    return {"layout": wave, "technique": UpdateTechnique(stored["technique"])}


def _member(kind: type[StrEnum], value: str) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        raise InvalidSetting(
            f"{value!r} is not a setting for {kind.__name__}", f"use one of {', '.join(kind)}"
        ) from None


def _check_names(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if not name or name.startswith("_") or "." in name:
            raise InvalidSetting(
                f"the column {name!r} cannot be stored",
                "rename it: empty names, a leading _ and dots in names are reserved",
            )
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise InvalidSetting(
                f"the columns {other} and {name} differ only in case",
                "rename one of them: Spark does not tell them apart",
            )


def arrow_columns(schema: pa.Schema) -> dict[str, str]:
    """Column declarations of an Arrow schema."""
    return {column.name: from_arrow(column.type).sql() for column in schema}


def brought_columns(columns: Any) -> Any:
    """Column declarations of a schema, or of rows that have the columns; others as they are.

    Arrow says whether a time has a zone. Elsewhere a time without one is an instant in the zone in
    use, as it is in every batch.
    """
    if isinstance(columns, pa.Schema):
        return arrow_columns(columns)
    declared = isinstance(columns, Mapping) and all(isinstance(k, str) for k in columns.values())
    if declared or not are_rows(columns):
        return columns
    types = arrow_columns(arrow_of("the archive", columns).schema)
    if isinstance(columns, pa.Table | pa.RecordBatch):
        return types
    return {name: "timestamp" if k == "timestamp_ntz" else k for name, k in types.items()}


def with_added_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the given schema; columns they lack are NULL."""
    if rows.schema.equals(schema):
        return rows
    for column in schema:
        if column.name not in rows.column_names:
            rows = rows.append_column(column.name, pa.nulls(rows.num_rows, column.type))
    return rows.select(schema.names).cast(schema)


def with_values(rows: pa.Table, name: str, values: Int64Array) -> pa.Table:
    """The rows with other values in a column of 64-bit integers."""
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, name, pa.array(values, pa.int64()))


def key_names(key: str | Sequence[str]) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidSetting(f"the key is {key!r}", "name a column, or several in a list")
    return names
