"""Archive settings: what is refused, what is stored, and which update a row belongs to."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.calendar import CalendarDays, FixedIntervals, UpdateCalendar
from mayfly.archive.model.row_counts import NO_WINDOWS
from mayfly.archive.model.settings import ArchiveSettings, arrow_columns, key_names
from mayfly.errors import InvalidSetting
from mayfly.storage.segment import TS

LAYOUT = WaveLayout(WaveScheme.WATA, 5, 3)
CALENDARS: list[UpdateCalendar] = [
    FixedIntervals(10, origin=3),
    CalendarDays("Europe/Berlin", date(2026, 3, 27)),
    CalendarDays("America/Havana", date(2026, 10, 30)),
    CalendarDays("Pacific/Apia", date(2011, 12, 27)),
]


def settings(**changes: Any) -> ArchiveSettings:
    columns = {"zone": "string", "customer": "bigint", "at": "timestamp", "tags": "array<string>"}
    usual: dict[str, Any] = {
        "columns": columns,
        "key": ("customer",),
        "time": "at",
        "calendar": FixedIntervals(100),
        "layout": LAYOUT,
    }
    return ArchiveSettings(**usual | changes)


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"key": ()}, "without a search key", "name at least one column"),
        ({"key": ("nobody",)}, "no column 'nobody'", "zone, customer, at, tags"),
        ({"time": "when"}, "no column 'when'", "zone, customer, at, tags"),
        ({"key": ("zone", "zone")}, "zone, zone names a column twice", "once"),
        ({"time": "zone"}, "the time column zone is STRING", "TIMESTAMP, or a BIGINT"),
        ({"key": ("zone", "tags")}, "zone, tags is not of atomic types", "one ARRAY"),
        ({"columns": {"k": "array<array<int>>", "at": "bigint"}, "key": ("k",)}, "atomic", "ARRAY"),
        ({"columns": {"k": "struct<a:int>", "at": "bigint"}, "key": ("k",)}, "atomic", "ARRAY"),
        ({"columns": {"k": "quark", "at": "bigint"}, "key": ("k",)}, "quark is not a type", "use"),
        (
            {"columns": {"k": "interval year to month", "at": "bigint"}, "key": ("k",)},
            "cannot be stored",
            "number of months",
        ),
        ({"columns": {"_k": "int", "at": "bigint"}, "key": ("_k",)}, "'_k' cannot", "rename it"),
        ({"columns": {"k.x": "int", "at": "bigint"}, "key": ("k.x",)}, "'k.x' cannot", "rename it"),
        ({"columns": {"": "int", "at": "bigint"}, "key": ("",)}, "'' cannot", "rename it"),
        ({"columns": {"k": "int", "K": "int", "at": "bigint"}, "key": ("k",)}, "k and K", "rename"),
        ({"late": LateRows.THIS_UPDATE}, "outlive their day", 'late="own day"'),
        ({"late": "whenever"}, "'whenever' is not a setting", "refuse, own day"),
        ({"technique": "magic"}, "no update technique 'magic'", "in-place, simple shadow"),
        ({"compression": "zip"}, "no compression 'zip'", "zstd, snappy"),
        ({"parts": 0}, "must be 1 or more", "raise"),
        ({"row_group_bytes": 0}, "must be 1 or more", "raise"),
        ({"keep_versions": 0}, "must be 1 or more", "raise"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        settings(**changes)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_types_are_written_one_way() -> None:
    written = settings(columns={"customer": "LONG", "at": "Timestamp", "d": "decimal(5, 2)"})
    assert written.columns == {"customer": "bigint", "at": "timestamp", "d": "decimal(5,2)"}
    words = settings(late="own day", technique="in-place")
    assert words == settings(late=LateRows.OWN_DAY, technique=UpdateTechnique.IN_PLACE)


def test_what_a_manifest_keeps() -> None:
    """Column order too, although manifests sort the names of a dictionary."""
    chosen = settings(
        key=("tags",),
        calendar=CALENDARS[1],
        layout=WaveLayout(WaveScheme.RATA, 8, 4, spread=True),
        technique=UpdateTechnique.IN_PLACE,
        late=LateRows.OWN_DAY,
        parts=3,
        row_group_bytes=10,
        compression="snappy",
        keep_versions=7,
    )
    chosen = chosen.with_column("b", "double").with_column("a", "array<int>")
    text = json.dumps(chosen.to_json(), sort_keys=True)
    again = ArchiveSettings.from_json(json.loads(text))
    assert again == chosen
    assert list(again.all_columns) == ["zone", "customer", "at", "tags", "b", "a"]
    assert again.stored == chosen.stored


def test_added_columns_are_checked_like_the_first_ones() -> None:
    chosen = settings().with_column("extra", "INTEGER")
    assert chosen.all_columns["extra"] == "int"
    for name, kind in (("extra", "int"), ("Zone", "int"), ("_x", "int"), ("x", "quark")):
        with pytest.raises(InvalidSetting):
            chosen.with_column(name, kind)
    with pytest.raises(InvalidSetting, match="already has a column zone"):
        chosen.with_column("zone", "int")


def test_files_of_an_array_key_hold_an_entry_for_each_value() -> None:
    assert settings().stored.names == ["zone", "customer", "at", "tags", "_ts", "_exp"]
    array = settings(key=("tags",))
    added = ["_key", "_nth", "_home", "_ts", "_exp"]
    assert array.stored.names == ["zone", "customer", "at", "tags", *added]
    assert array.stored.field("_key").type == pa.string()
    assert (array.sort_columns, settings().sort_columns) == (("_key",), ("customer",))


@pytest.mark.parametrize("calendar", CALENDARS, ids=str)
def test_no_row_outlives_the_window_whatever_its_days_last(calendar: UpdateCalendar) -> None:
    """Days of 23 and 25 hours, and one that never came, are days like any other."""
    chosen = settings(calendar=calendar)
    for day in range(1, 12):
        first, last = calendar.time_of(day - 1) + 1, calendar.time_of(day)
        if first > last:
            continue
        ts = np.array([first, last])
        exp = chosen.family.expirations(pa.table({}), ts, day, NO_WINDOWS).to_numpy()
        assert exp.tolist() == [calendar.time_of(day + LAYOUT.window)] * 2
        none = np.zeros(2, dtype=np.bool_)
        verdicts = chosen.rule.classify(day, ts, exp, null_ts=none, null_exp=none, no_key=none)
        assert verdicts.stored.all()


@given(st.sampled_from(CALENDARS), st.frozensets(st.integers(-3, 12), max_size=8), st.data())
def test_rows_belong_to_the_days_of_their_interval(
    calendar: UpdateCalendar, days: frozenset[int], data: st.DataObject
) -> None:
    edges = st.integers(-4, 13).map(calendar.time_of)
    moments = st.builds(lambda edge, step: edge + step, edges, st.sampled_from([-1, 0, 1, 5]))
    ts = data.draw(st.lists(moments, max_size=20))
    rows = pa.table({TS: pa.array(ts, pa.int64())})
    belongs = settings(calendar=calendar).family.belongs(rows, days).to_pylist()
    assert belongs == [calendar.update_of(at) in days for at in ts]


def test_declarations_from_elsewhere() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.large_string()))])
    assert arrow_columns(schema) == {"a": "bigint", "b": "array<string>"}
    assert key_names("ab") == ("ab",)
    assert key_names(["a", "b"]) == ("a", "b")
    assert replace(settings(), parts=2).parts == 2
