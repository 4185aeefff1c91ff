"""What the golden archives hold, by rule: neither writing nor reading code is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

BERLIN_MIDNIGHT = datetime(2026, 3, 27, 23, tzinfo=UTC)
"""The beginning of 2026-03-28 in Berlin; the next day has 23 hours there."""


@dataclass(frozen=True)
class Golden:
    """An archive: how it was declared, its updates, and the days it shows."""

    columns: Mapping[str, pa.DataType]
    declared: Mapping[str, Any]
    updates: int
    alive: range
    """The days that are alive after the last update."""
    stored: range
    """The days that are stored, dead ones included."""


ARCHIVES = {
    "soft": Golden(
        {"k": pa.string(), "ts": pa.timestamp("us", "UTC"), "n": pa.int64()},
        {"key": "k", "window": 4, "constituents": 2, "zone": "Europe/Berlin",
         "origin": "2026-03-28", "parts": 2},
        6, range(3, 7), range(1, 7),
    ),
    "in-place": Golden(
        {"k": pa.int64(), "at": pa.date32(), "ts": pa.timestamp("us", "UTC"), "n": pa.int64()},
        {"key": ("k", "at"), "window": 3, "scheme": "DEL", "constituents": 2,
         "technique": "in-place", "keep_versions": 3, "origin": 0, "late": "own day"},
        5, range(3, 6), range(3, 6),
    ),
    "array": Golden(
        {"k": pa.list_(pa.string()), "ts": pa.timestamp("us", "UTC"), "n": pa.int64()},
        {"key": "k", "window": 4, "scheme": "RATA", "constituents": 3,
         "technique": "simple shadow", "origin": 0, "refresh": "1 h", "parts": 2},
        5, range(2, 6), range(2, 6),
    ),
    "unprepared": Golden(
        {"k": pa.string(), "ts": pa.timestamp("us", "UTC"), "n": pa.int64()},
        {"key": "k", "window": 4, "scheme": "REINDEX++", "constituents": 2, "origin": 0},
        4, range(1, 5), range(1, 5),
    ),
    "young": Golden(
        {"k": pa.string(), "ts": pa.timestamp("us", "UTC"), "n": pa.int64()},
        {"key": "k", "max_lifetime": "4 days", "lifetime": "4 days", "rebuild": False,
         "layout": "chronological 2", "young": 2, "origin": 0},
        6, range(3, 7), range(3, 7),
    ),
}  # fmt: skip
ADDED = "note"
"""A column that the in-place archive got after its third update."""
ADDED_AFTER = 3
STAGED_HOURS = (6, 7)
"""Intervals of which the array archive has two staged rows each."""


def key(name: str, number: int) -> dict[str, Any]:
    match name:
        case "in-place":
            return {"k": number % 3 - 1, "at": date(2026, 1, 1 + number % 2)}
        case "array":
            return {"k": [["a"], ["a", "b"], ["b", "c", "b"]][number % 3]}
    return {"k": ["", "Zoë", "ä"][number % 3]}


def begin(name: str, day: int) -> datetime:
    """When an interval begins; rows lie within it, the first one a microsecond later."""
    if name == "soft":
        # Days in Berlin: the clocks go forward on 2026-03-29.
        return BERLIN_MIDNIGHT + timedelta(days=day - 1, hours=-1 if day > 2 else 0)
    unit = timedelta(hours=1) if name == "array" else timedelta(days=1)
    return datetime(1970, 1, 1, tzinfo=UTC) + (day - 1) * unit


def rows(name: str, day: int) -> list[dict[str, Any]]:
    """Six rows of a day, numbered on from day to day; the last one lies on its very end."""
    found = []
    for at in range(6):
        moment = begin(name, day) + timedelta(microseconds=1, minutes=at)
        if at == 5:
            moment = begin(name, day + 1)
        number = 6 * day + at
        extra = {ADDED: f"note {number}"} if name == "in-place" and day > ADDED_AFTER else {}
        found.append({**key(name, number), "ts": moment, "n": number, **extra})
    return found


def table(name: str, day: int) -> pa.Table:
    """The rows of a day as an update gets them."""
    golden = ARCHIVES[name]
    columns = dict(golden.columns)
    if name == "in-place" and day > ADDED_AFTER:
        columns[ADDED] = pa.string()
    return pa.Table.from_pylist(rows(name, day), pa.schema(list(columns.items())))
