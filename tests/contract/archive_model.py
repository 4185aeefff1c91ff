"""An archive as a list of rows: every question is answered by looking at all of them.

Nothing here looks at how an archive stores its rows. Days, expirations and verdicts are found by
going through the calendar; what is stored follows from the day sets of the layout's tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from mayfly.archive.layouts import WaveState
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.plan.types import arrow_type, parse_type

Values = Mapping[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def canonical(value: Any) -> Hashable:
    """A value as SQL tells values apart: NaN is NaN, and there is one zero."""
    if isinstance(value, list):
        return tuple(canonical(one) for one in value)
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    found: Hashable = value
    return found


def place(value: Any) -> tuple[int, Any]:
    """Where a key value stands in the order of keys: NaN is the largest."""
    return (1, 0) if value != value else (0, value)


@dataclass(frozen=True)
class KeyKind:
    """Key columns with the values that occur in them; one column of lists is an array key."""

    columns: Mapping[str, str]
    values: Sequence[tuple[Any, ...]]
    absent: tuple[Any, ...] | None = None
    """A key that no row has."""

    @property
    def is_array(self) -> bool:
        return any(kind.startswith("array") for kind in self.columns.values())

    def draw(self, chance: Random) -> dict[str, Any]:
        """The key columns of a row."""
        if not self.is_array:
            return dict(zip(self.columns, chance.choice(self.values), strict=True))
        elements = [value for (value,) in chance.choices(self.values, k=chance.randint(1, 4))]
        return dict.fromkeys(self.columns, elements)


def _one(kind: str, values: Iterable[Any], *absent: Any) -> KeyKind:
    return KeyKind({"k": kind}, [(value,) for value in values], absent or None)


NAN, INFINITY = float("nan"), float("inf")
KEY_KINDS = {
    "bigint": _one("bigint", [-(2**63), -1, 0, 7, 2**63 - 1], 5),
    "int": _one("int", [-(2**31), 0, 3, 2**31 - 1], 5),
    "smallint": _one("smallint", [-(2**15), 0, 9], 5),
    "tinyint": _one("tinyint", [-128, 0, 127], 5),
    "boolean": _one("boolean", [True, False]),
    "string": _one("string", ["", "a", "ab", "A", "é", "z\0", "🐞", "x" * 5_000], "b"),
    "binary": _one("binary", [b"", b"\0", b"a", b"\xff\xfe"], b"b"),
    "double": _one("double", [0.0, -0.0, 1.5, -1.5, INFINITY, -INFINITY, NAN], 2.5),
    "plain double": _one("double", [0.0, -0.0, 1.5, -INFINITY], NAN),
    "float": _one("float", [0.0, -0.0, 0.25, -3.0, NAN], 2.5),
    "decimal": _one(
        "decimal(10,2)", [Decimal("-1.50"), Decimal(0), Decimal("99999999.99")], Decimal(2)
    ),
    "wide decimal": _one(
        "decimal(38,3)", [Decimal("-1e34"), Decimal("0.001"), Decimal(-128)], Decimal(2)
    ),
    "date": _one("date", [date(1, 1, 1), date(1969, 12, 31), date(2026, 3, 29)], date(2000, 1, 1)),
    "timestamp": _one(
        "timestamp",
        [EPOCH, EPOCH - timedelta(microseconds=1), EPOCH.replace(year=9999)],
        EPOCH.replace(year=2000),
    ),
    "timestamp_ntz": _one(
        "timestamp_ntz", [datetime(1, 1, 1), datetime(2026, 3, 29, 2, 30)], datetime(2000, 1, 1)
    ),
    "interval": _one(
        "interval day to second", [timedelta(0), timedelta(-3), timedelta(5, 1)], timedelta(9)
    ),
    "two columns": KeyKind(
        {"a": "string", "b": "int"}, [("x", 1), ("x", 2), ("y", 1), ("", -1)], ("y", 2)
    ),
    "three columns": KeyKind(
        {"a": "double", "b": "boolean", "c": "date"},
        [(value, truth, date(2026, 1, 1)) for value in (NAN, -0.0, 0.0) for truth in (True, False)],
        (0.0, True, date(2026, 1, 2)),
    ),
    "array of strings": KeyKind({"k": "array<string>"}, [("",), ("a",), ("é",), ("b",)], ("c",)),
    "array of doubles": KeyKind({"k": "array<double>"}, [(NAN,), (0.0,), (-0.0,), (1.5,)], (2.5,)),
    "array of bigints": KeyKind({"k": "array<bigint>"}, [(1,), (2,), (3,)], (4,)),
}


@dataclass(frozen=True)
class ModelRow:
    day: int
    ts: int
    exp: int
    values: Values


@dataclass
class Verdicts:
    """What should become of the rows of a batch."""

    admitted: list[ModelRow] = field(default_factory=list)
    late: list[ModelRow] = field(default_factory=list)
    dead: int = 0
    refused: int = 0


@dataclass
class ArchiveModel:
    settings: ArchiveSettings
    keys: KeyKind
    accepted: list[tuple[int, ModelRow]] = field(default_factory=list)
    """Every stored row with the update it came with."""
    update: int = 0

    def time_of(self, update: int) -> int:
        return self.settings.calendar.time_of(update)

    def day_of(self, ts: int, near: int) -> int:
        """The first update that is not before ``ts``, found step by step."""
        day = near
        while self.time_of(day) >= ts:
            day -= 1
        while self.time_of(day) < ts:
            day += 1
        return day

    def instant_of(self, values: Values) -> int:
        found = values[self.settings.time]
        return found if isinstance(found, int) else (found - EPOCH) // timedelta(microseconds=1)

    def judge(self, batch: Sequence[Values], update: int) -> Verdicts:
        found = Verdicts()
        now, before = self.time_of(update), self.time_of(update - 1)
        for values in batch:
            if values[self.settings.time] is None or self._without_key(values):
                found.refused += 1
                continue
            ts = self.instant_of(values)
            if ts > now:
                found.refused += 1
                continue
            day = self.day_of(ts, update)
            row = ModelRow(day, ts, self.time_of(day + self.settings.window), values)
            if row.exp <= now:
                found.dead += 1
            elif ts > before:
                found.admitted.append(row)
            elif self.settings.late is LateRows.OWN_DAY and day >= 1:
                found.late.append(row)
            else:
                found.refused += 1
        return found

    def _without_key(self, values: Values) -> bool:
        keys = [values[name] for name in self.keys.columns]
        return not keys[0] or None in keys[0] if self.keys.is_array else None in keys

    def accept(self, verdicts: Verdicts, update: int) -> None:
        self.accepted += [(update, row) for row in (*verdicts.admitted, *verdicts.late)]
        self.update = update

    def wave_after(self, update: int) -> WaveState:
        return self.settings.wave.state_after(update)

    def rows_of(self, days: Iterable[int], update: int) -> list[ModelRow]:
        wanted = set(days)
        return [row for came, row in self.accepted if came <= update and row.day in wanted]

    def alive(self, update: int, as_of: int) -> list[ModelRow]:
        """What a hard read of the version of ``update`` shows at ``as_of``."""
        return [row for came, row in self.accepted if came <= update and row.ts <= as_of < row.exp]

    def stored(self, update: int) -> list[ModelRow]:
        """What a soft read of the version of ``update`` shows."""
        return self.rows_of(self.wave_after(update).stored_days, update)

    def removed(self, before: int, update: int) -> int:
        window = self.settings.window
        return len(self.rows_of(range(before - window + 1, update - window + 1), before))

    def under(self, rows: Iterable[ModelRow], keys: Iterable[tuple[Any, ...]]) -> list[ModelRow]:
        wanted = {canonical(list(key)) for key in keys}
        return [row for row in rows if wanted & self._found_under(row)]

    def _found_under(self, row: ModelRow) -> set[Hashable]:
        values = [row.values[name] for name in self.keys.columns]
        if self.keys.is_array:
            return {canonical([value]) for value in values[0]}
        return {canonical(values)}

    def between(self, rows: Iterable[ModelRow], low: Any, high: Any) -> list[ModelRow]:
        def inside(value: Any) -> bool:
            return (low is None or place(low) <= place(value)) and (
                high is None or place(value) <= place(high)
            )

        first = next(iter(self.keys.columns))
        if self.keys.is_array:
            return [row for row in rows if any(inside(value) for value in row.values[first])]
        return [row for row in rows if inside(row.values[first])]

    def shown(self, rows: Iterable[ModelRow], columns: Sequence[str]) -> Counter[Hashable]:
        return Counter(tuple(canonical(row.values.get(name)) for name in columns) for row in rows)


def found(table: pa.Table) -> Counter[Hashable]:
    """The rows of a result, to be compared with ``ArchiveModel.shown``."""
    columns = [[canonical(value) for value in table[n].to_pylist()] for n in table.column_names]
    return Counter(zip(*columns, strict=True))


def as_table(batch: Sequence[Values], settings: ArchiveSettings, names: Iterable[str]) -> pa.Table:
    """The batch as the archive is given it."""
    kinds = {name: arrow_type(parse_type(settings.all_columns[name])) for name in names}
    return pa.table(
        {name: pa.array([row[name] for row in batch], kind) for name, kind in kinds.items()}
    )


def moments_of(model: ArchiveModel, day: int, chance: Random) -> list[int]:
    """Generation times in an update's interval: its first and last µs, and one between."""
    first, last = model.time_of(day - 1) + 1, model.time_of(day)
    if first > last:
        return []  # a date that the time zone skipped
    return [first, last, chance.randint(first, last)]
