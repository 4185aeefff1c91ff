"""What an archive is: its columns, key, window and layout, fixed when it is created."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.model.admission import AdmissionRule, LateRows
from mayfly.archive.model.calendar import (
    DAY,
    FixedIntervals,
    Int64Array,
    UpdateCalendar,
    calendar_from_settings,
)
from mayfly.archive.model.column_names import column_named
from mayfly.archive.model.contract import HARD, Contract, longest_interval
from mayfly.archive.model.lifetimes import Lifetimes
from mayfly.errors import InvalidSetting
from mayfly.keywords import text
from mayfly.lifetime import format_micros
from mayfly.plan.row_intake import are_rows, arrow_of
from mayfly.plan.types import DataType, arrow_type, from_arrow, parse_type
from mayfly.storage.segment import EXP, TS, Format

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
MOST_UPDATES = 1_000_000
"""Of rows with their own lifetimes: an update looks at each one that may remove its rows."""
COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


@dataclass(frozen=True)
class ArchiveSettings:
    """Columns (name → Spark type), search key, time column, calendar and layout.

    With ``lifetimes`` every row has its own, and the layout is a doubly partitioned one; without,
    all rows of an update live equally long, under a wave layout.
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
        self._check_lifetimes()
        self._check_size()
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

    def _check_lifetimes(self) -> None:
        if (self.lifetimes is None) != isinstance(self.layout, WaveLayout):
            raise InvalidSetting(
                f"the layout {self.layout} does not go with these lifetimes",
                "wave layouts are for rows that live equally long, doubly partitioned ones for "
                "rows with their own lifetimes",
            )
        if self.lifetimes is not None:
            self.lifetimes.check({name: self.type_of(name) for name in self.all_columns})
        if self.lifetimes is None and self.contract != HARD:
            raise InvalidSetting(
                f"a wave archive cannot promise {self.contract}",
                "give rows their own lifetimes (max_lifetime), or leave the contract out",
            )
        if self.lifetimes is not None and self.lifetimes.counts and self.contract != HARD:
            raise InvalidSetting(
                f"windows of a number of rows cannot promise {self.contract}",
                "leave the contract out: no dead row is returned",
            )
        self.contract.check(self.calendar)
        if self.lifetimes is None and self.late is LateRows.THIS_UPDATE:
            raise InvalidSetting(
                "a wave archive cannot keep late rows with the update they come with: they would "
                "outlive their day",
                'use late="own day", or refuse them',
            )
        if self.lifetimes is not None and self.late is LateRows.OWN_DAY:
            raise InvalidSetting(
                "rows with their own lifetimes belong to no day",
                'use late="this update", or refuse late rows',
            )

    def _check_size(self) -> None:
        shown = f"a window of {self.window:,} updates, {self.calendar}"
        if (self.window + 1) * longest_interval(self.calendar) > LONGEST:
            raise InvalidSetting(shown, f"keep at most {format_micros(LONGEST)}")
        if self.lifetimes is not None and self.window > MOST_UPDATES:
            hint = f"where rows have their own lifetimes, keep at most {MOST_UPDATES:,} updates"
            raise InvalidSetting(shown, f"{hint}: refresh less often")
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

    @cached_property
    def all_columns(self) -> dict[str, str]:
        return {**self.columns, **self.added}

    @property
    def window(self) -> int:
        return self.layout.window

    @property
    def wave(self) -> WaveLayout:
        """The layout of an archive whose rows live equally long."""
        if isinstance(self.layout, WaveLayout):
            return self.layout
        raise InvalidSetting(
            "rows of this archive have their own lifetimes, so the model of wave layouts does not "
            "apply to it",
            "ask an archive with a window",
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

    @property
    def clustered(self) -> bool:
        """Whether rows are sorted by key."""
        return not isinstance(self.layout, PartitionedLayout) or self.layout.clustered

    def format_of(self, level: int) -> Format:
        """How a run of this level is stored."""
        layout = self.layout
        merges = isinstance(layout, PartitionedLayout) and not layout.rebuild
        return "arrow" if merges and level < self.young else "parquet"

    @cached_property
    def stored(self) -> pa.Schema:
        """The schema of data files."""
        own = [(name, arrow_type(parse_type(kind))) for name, kind in self.all_columns.items()]
        element = self.array_key
        kind = arrow_type(element) if element else None
        copies = [(KEY, kind), (NTH, pa.int32()), (HOME, kind)] if element else []
        inserted = [] if self.lifetimes is None else [(INSERTED, pa.int64())]
        return pa.schema([*own, *copies, *inserted, (TS, pa.int64()), (EXP, pa.int64())])

    @cached_property
    def rule(self) -> AdmissionRule:
        return AdmissionRule(self.calendar, self.longest, self.late)

    @cached_property
    def longest(self) -> int:
        """A bound on exp − ts: a row waits up to one update to be stored, then stays for W."""
        if self.lifetimes is not None:
            return UNBOUNDED if self.lifetimes.counts else self.lifetimes.longest
        calendar = self.calendar
        return (self.window + 1) * (
            calendar.interval if isinstance(calendar, FixedIntervals) else DAY
        )

    def type_of(self, column: str) -> DataType:
        return parse_type(self.all_columns[column])

    def expirations(self, days: Int64Array) -> Int64Array:
        """exp of rows of these updates of a wave."""
        distinct, inverse = np.unique(days, return_inverse=True)
        times = [self.expiration(int(day)) for day in distinct]
        instants: Int64Array = np.array(times, dtype=np.int64)[inverse]
        return instants

    def expiration(self, day: int) -> int:
        """exp of all rows of an update of a wave: update day + W removes them."""
        return self.calendar.time_of(day + self.window)

    def horizon(self, update: int) -> int:
        """The last label whose rows are dead after an update."""
        return update if self.lifetimes is not None else update - self.window

    def labels_of(self, rows: pa.Table) -> Int64Array:
        """By what runs tell stored rows apart: the update that inserts them, under waves; the
        update that removes them, where rows have their own lifetimes."""
        column = TS if self.lifetimes is None else EXP
        return self.calendar.updates_of(rows[column].to_numpy())

    def belongs(self, rows: pa.Table, labels: Iterable[int]) -> pa.ChunkedArray | pa.Array:
        """Which of the stored rows have one of these labels.

        Under waves not by their expiration: where a time zone skipped a date, two updates share it.
        """
        if self.lifetimes is not None:
            return pa.array(np.isin(self.labels_of(rows), np.fromiter(labels, np.int64)))
        ts, marks = rows[TS], None
        for first, last in _stretches(labels):
            after, until = self.calendar.time_of(first - 1), self.calendar.time_of(last)
            within = pc.and_(pc.greater(ts, after), pc.less_equal(ts, until))
            marks = within if marks is None else pc.or_(marks, within)
        return pa.chunked_array([pa.repeat(False, len(ts))]) if marks is None else marks

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
            **self._layout_json(),
            "late": self.late.value,
            "parts": self.parts,
            "row_group_bytes": self.row_group_bytes,
            "compression": self.compression,
            "keep_versions": self.keep_versions,
            **({} if self.max_gap is None else {"max_gap": self.max_gap}),
        }

    def _layout_json(self) -> dict[str, Any]:
        if isinstance(self.layout, PartitionedLayout):
            assert self.lifetimes is not None
            return {
                "layout": self.layout.to_json(),
                "lifetimes": self.lifetimes.to_json(),
                "contract": self.contract.to_json(),
                "young": self.young,
            }
        return {
            "scheme": self.layout.scheme.value,
            "window": self.layout.window,
            "constituents": self.layout.constituents,
            "spread": self.layout.spread,
            "technique": self.technique.value,
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


def _stretches(days: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each stretch of days in a row."""
    for _, stretch in groupby(enumerate(sorted(days)), lambda item: item[1] - item[0]):
        labels = [day for _, day in stretch]
        yield labels[0], labels[-1]


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


def key_names(key: str | Sequence[str]) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidSetting(f"the key is {key!r}", "name a column, or several in a list")
    return names
