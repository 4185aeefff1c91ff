"""What an archive is: its columns, key, window and layout, fixed when it is created."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.archive.admission import AdmissionRule, LateRows
from mayfly.archive.calendar import Int64Array, UpdateCalendar, calendar_from_settings
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.errors import InvalidSetting
from mayfly.plan.types import DataType, arrow_type, from_arrow, parse_type
from mayfly.storage.segment import EXP, TS

KEY, NTH = "_key", "_nth"
"""Columns of archives with an array key: the value this copy is found under, and its number."""
ROW_GROUP_BYTES = 600_000


@dataclass(frozen=True)
class ArchiveSettings:
    """Columns (name → Spark type), search key, time column, calendar and wave layout."""

    columns: Mapping[str, str]
    key: tuple[str, ...]
    time: str
    calendar: UpdateCalendar
    layout: WaveLayout
    technique: UpdateTechnique = UpdateTechnique.PACKED_SHADOW
    late: LateRows = LateRows.REFUSE
    parts: int = 1
    row_group_bytes: int = ROW_GROUP_BYTES
    compression: str = "zstd"
    keep_versions: int = 2
    added: Mapping[str, str] = field(default_factory=dict)
    """Columns that came later; files without them read as NULL."""

    def __post_init__(self) -> None:
        for name in (*self.key, self.time):
            if name not in self.columns:
                raise InvalidSetting(
                    f"the archive has no column {name!r}",
                    f"its columns are {', '.join(self.columns)}",
                )
        for name in self.all_columns:
            if name.startswith("_") or "." in name:
                raise InvalidSetting(
                    f"the column {name!r} cannot be stored",
                    "rename it: a leading _ and dots in names are reserved",
                )
        if not self.key:
            raise InvalidSetting("an archive without a search key", "name at least one column")
        if self.type_of(self.time).name not in ("timestamp", "bigint"):
            raise InvalidSetting(
                f"the time column {self.time} is {self.type_of(self.time)}",
                "use a TIMESTAMP, or a BIGINT of microseconds",
            )
        if self.array_key is None and any(self.type_of(name).is_nested for name in self.key):
            raise InvalidSetting(
                f"the key {', '.join(self.key)} is not of atomic types",
                "use atomic columns, or one ARRAY of an atomic type",
            )
        if self.parts < 1 or self.row_group_bytes < 1 or self.keep_versions < 1:
            raise InvalidSetting(
                "parts, row_group_bytes and keep_versions must be 1 or more", "raise them"
            )

    @property
    def all_columns(self) -> dict[str, str]:
        return {**self.columns, **self.added}

    @property
    def window(self) -> int:
        return self.layout.window

    @property
    def array_key(self) -> DataType | None:
        """The element type if the key is one array column."""
        kind = self.type_of(self.key[0])
        if len(self.key) == 1 and kind.name == "array" and not kind.fields[0][1].is_nested:
            return kind.fields[0][1]
        return None

    @property
    def key_types(self) -> tuple[DataType, ...]:
        element = self.array_key
        return (element,) if element else tuple(self.type_of(name) for name in self.key)

    @property
    def sort_columns(self) -> tuple[str, ...]:
        """The stored columns that rows are clustered by."""
        return (KEY,) if self.array_key else self.key

    @property
    def stored(self) -> pa.Schema:
        """The schema of data files."""
        own = [(name, arrow_type(parse_type(kind))) for name, kind in self.all_columns.items()]
        element = self.array_key
        copies = [(KEY, arrow_type(element)), (NTH, pa.int32())] if element else []
        return pa.schema([*own, *copies, (TS, pa.int64()), (EXP, pa.int64())])

    @property
    def rule(self) -> AdmissionRule:
        return AdmissionRule(self.calendar, self.longest, self.late)

    @property
    def longest(self) -> int:
        """A bound on exp − ts: a row waits up to one update to be stored, then stays for W."""
        return self.calendar.time_of(self.window + 1) - self.calendar.time_of(0)

    def type_of(self, column: str) -> DataType:
        return parse_type(self.all_columns[column])

    def expirations(self, days: Int64Array) -> Int64Array:
        """exp of rows inserted by these updates: update day + W removes them."""
        distinct, inverse = np.unique(days, return_inverse=True)
        times = [self.expiration(int(day)) for day in distinct]
        found: Int64Array = np.array(times, dtype=np.int64)[inverse]
        return found

    def expiration(self, day: int) -> int:
        return self.calendar.time_of(day + self.window)

    def with_column(self, name: str, kind: str) -> ArchiveSettings:
        if name in self.all_columns:
            raise InvalidSetting(f"the archive already has a column {name}", "choose another name")
        return replace(self, added={**self.added, name: parse_type(kind).sql()})

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": dict(self.columns),
            "added": dict(self.added),
            "key": list(self.key),
            "time": self.time,
            "calendar": self.calendar.settings(),
            "scheme": self.layout.scheme.value,
            "window": self.layout.window,
            "constituents": self.layout.constituents,
            "spread": self.layout.spread,
            "technique": self.technique.value,
            "late": self.late.value,
            "parts": self.parts,
            "row_group_bytes": self.row_group_bytes,
            "compression": self.compression,
            "keep_versions": self.keep_versions,
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> ArchiveSettings:
        layout = WaveLayout(
            WaveScheme(stored["scheme"]),
            stored["window"],
            stored["constituents"],
            stored["spread"],
        )
        return ArchiveSettings(
            columns=stored["columns"],
            added=stored["added"],
            key=tuple(stored["key"]),
            time=stored["time"],
            calendar=calendar_from_settings(stored["calendar"]),
            layout=layout,
            technique=UpdateTechnique(stored["technique"]),
            late=LateRows(stored["late"]),
            parts=stored["parts"],
            row_group_bytes=stored["row_group_bytes"],
            compression=stored["compression"],
            keep_versions=stored["keep_versions"],
        )


def arrow_columns(schema: pa.Schema) -> dict[str, str]:
    """Column declarations of an Arrow schema."""
    return {one.name: from_arrow(one.type).sql() for one in schema}


def key_names(key: str | Sequence[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)
