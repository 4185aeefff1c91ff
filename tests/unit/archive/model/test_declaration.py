"""Archives declared in users' words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive.layouts import UpdateTechnique, WaveScheme
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.calendar import CalendarDays, FixedIntervals
from mayfly.archive.model.declaration import (
    WindowRequest,
    columns_of,
    counted_from,
    default_constituents,
)
from mayfly.errors import InvalidSetting, MayflyError
from mayfly.lifetime import instant

DDL = "k STRING, ts TIMESTAMP, v INT"
HOUR = 3_600_000_000


def test_what_is_not_said_has_a_default() -> None:
    declared = WindowRequest(DDL, key="k", window="90 days").declaration()
    settings = declared.settings
    assert settings.columns == {"k": "string", "ts": "timestamp", "v": "int"}
    assert (settings.key, settings.time) == (("k",), "ts")
    assert settings.wave.scheme is WaveScheme.WATA
    assert (settings.window, settings.layout.constituents) == (90, 9)
    assert settings.technique is UpdateTechnique.PACKED_SHADOW
    assert settings.late is LateRows.REFUSE
    assert declared.origin_is_open


@pytest.mark.parametrize(
    ("window", "refresh", "updates"),
    [(7, "1 day", 7), ("7", "1 h", 7), ("36 hours", "1 h", 36), (timedelta(days=2), "6 h", 8)],
)
def test_a_window_is_a_number_of_updates_or_a_duration(
    window: Any, refresh: str, updates: int
) -> None:
    assert (
        WindowRequest(DDL, key="k", window=window, refresh=refresh).declaration().settings.window
        == updates
    )


def test_constituents_default_to_about_the_root_of_the_window() -> None:
    found = {w: default_constituents(WaveScheme.DEL, w) for w in (1, 2, 3, 6, 7, 36, 42, 43, 100)}
    assert found == {1: 1, 2: 1, 3: 2, 6: 2, 7: 3, 36: 6, 42: 6, 43: 7, 100: 10}
    assert default_constituents(WaveScheme.WATA, 2) == 2


def test_calendar_days_in_a_zone() -> None:
    settings = (
        WindowRequest(DDL, key="k", window="90 days", zone="Europe/Berlin", origin="2026-03-28")
        .declaration()
        .settings
    )
    assert settings.calendar == CalendarDays("Europe/Berlin", date(2026, 3, 28))
    assert not WindowRequest(DDL, key="k", window=3, origin=0).declaration().origin_is_open


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"window": 0}, "a window of 0 updates"),
        ({"window": True}, "the window is True"),
        ({"window": "36 hours"}, "not a multiple of the refresh"),
        ({"window": "soon"}, "cannot read the duration 'soon'"),
        ({"window": 5, "scheme": "LATA"}, "no wave scheme 'LATA'"),
        ({"window": 5, "technique": "copy"}, "no update technique 'copy'"),
        ({"window": 5, "constituents": 6}, "cannot have 6 constituents"),
        ({"window": 5, "constituents": 2.5}, "constituents is 2.5"),
        ({"window": 5, "late": "this update"}, "no rule 'this update' for late rows"),
        ({"window": 5, "parts": 0}, "parts"),
        ({"window": 5, "key": "customer"}, "no column 'customer'"),
        ({"window": 5, "time": "v"}, "the time column v is INT"),
        ({"window": 5, "zone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"window": 5, "zone": "UTC", "refresh": "1 h"}, "a time zone was given"),
        ({"window": 5, "refresh": "often"}, "cannot read the duration 'often'"),
        ({"window": 5, "origin": "today"}, "cannot read the instant 'today'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(MayflyError) as refusal:
        WindowRequest(DDL, **{"key": "k", **settings}).declaration()
    assert said in refusal.value.message
    assert refusal.value.hint


@pytest.mark.parametrize("ddl", ["", "k", "k STRNG", "k STRING NOT NULL", "k STRING; ts INT"])
def test_columns_that_cannot_be_read_are_quoted(ddl: str) -> None:
    with pytest.raises(InvalidSetting, match="cannot read the columns"):
        columns_of(ddl)


def test_a_column_without_a_type_is_named() -> None:
    with pytest.raises(InvalidSetting, match="the type of v is not known"):
        WindowRequest(
            {"k": "string", "ts": "timestamp", "v": "void"}, key="k", window=3
        ).declaration()


def test_a_column_declared_twice_is_named() -> None:
    with pytest.raises(InvalidSetting, match="the column k is declared twice"):
        columns_of("k INT, ts TIMESTAMP, k INT")


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_an_open_origin_makes_the_interval_of_the_first_row_update_1(zone: str | None) -> None:
    settings = WindowRequest(DDL, key="k", window=5, zone=zone).declaration().settings
    for text in ("2026-03-08T00:00:00", "2026-03-08T00:00:00.000001", "1969-06-01T12:00:00"):
        calendar = counted_from(settings, instant(text)).calendar
        assert calendar.update_of(instant(text)) == 1
        assert calendar.time_of(0) < instant(text) <= calendar.time_of(1)
    with pytest.raises(InvalidSetting, match="no origin yet"):
        counted_from(settings, None)


def test_an_open_origin_stays_aligned_to_the_clock() -> None:
    settings = WindowRequest(DDL, key="k", window=5, refresh="1 h").declaration().settings
    calendar = counted_from(settings, 1_000_000 * HOUR + 5).calendar
    assert isinstance(calendar, FixedIntervals)
    assert calendar.origin == 1_000_000 * HOUR


def _rows(*times: datetime) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(["a"] * len(times), pa.string()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "v": pa.array(range(len(times)), pa.int32()),
        }
    )


def test_a_refused_first_batch_decides_nothing(tmp_path: Path) -> None:
    archive = mayfly.archive.create(tmp_path / "a", DDL, key="k", window=3)
    first, later = datetime(1999, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 12, tzinfo=UTC)
    with pytest.raises(MayflyError, match="generated after the time of this update"):
        archive.update(_rows(first, later))
    assert archive.inspect.status().origin_is_open
    assert archive.update(_rows(later)).update == 1
    assert not archive.inspect.status().origin_is_open
    assert archive.version().time == instant("2026-01-02")
    assert archive.update(_rows(later + timedelta(days=2)), at="2026-01-03T12:00").update == 3


def test_the_first_update_may_name_its_time(tmp_path: Path) -> None:
    archive = mayfly.archive.create(tmp_path / "a", _rows().schema, key="k", window=3)
    with pytest.raises(InvalidSetting, match="brings no rows"):
        archive.update(None)
    archive.update(None, at="2026-01-01T12:00")
    assert archive.version().time == instant("2026-01-02")


def test_an_archive_is_not_made_among_other_things(tmp_path: Path) -> None:
    """A folder ``data`` would be taken for the archive's own, and a vacuum would empty it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.json").write_text("{}")
    with pytest.raises(InvalidSetting, match=r"not made by Mayfly.*such as data"):
        mayfly.archive.create(tmp_path, "k BIGINT, ts BIGINT", key="k", window=3, refresh="1 us")
    assert [one.name for one in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    "wrong",
    [{"zone": 5}, {"late": 5}, {"key": 5}, {"key": None}, {"key": []}, {"columns": 5},
     {"columns": None}],
)  # fmt: skip
def test_a_setting_of_another_kind_is_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    settings: Any = {"columns": DDL, "key": "k", "window": 3} | wrong
    with pytest.raises(InvalidSetting, match=rf"{next(iter(wrong))} (is|are) "):
        mayfly.archive.create(tmp_path / "a", **settings)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "wrong",
    [{"contract": 5}, {"layout": 5}, {"young": "x"}, {"young": 1.5}, {"clustered": "x"},
     {"rebuild": "x"}, {"late": 5}],
)  # fmt: skip
def test_one_beside_lifetimes_too(tmp_path: Path, wrong: dict[str, Any]) -> None:
    settings = {"key": "k", "max_lifetime": "3 days", "lifetime": "3 days"} | wrong
    with pytest.raises(InvalidSetting, match=f"{next(iter(wrong))} is "):
        mayfly.archive.create(tmp_path / "a", DDL, **settings)


def test_arguments_of_another_kind_are_named(tmp_path: Path) -> None:
    archive: Any = mayfly.archive.create(tmp_path / "a", DDL, key="k", window=3, origin=0)
    uses: tuple[Callable[[], object], ...] = (
        lambda: archive.update(None, update=2.5),
        lambda: archive.update(None, update="3"),
        lambda: archive.maintain.rollback("x"),
        lambda: archive.read.pin("x"),
        lambda: archive.maintain.vacuum(keep_versions="x"),
        lambda: archive.scan(generated_between=5),
        lambda: archive.invalidate(5),
        lambda: archive.maintain.add_column(5, "INT"),
    )
    for use in uses:
        with pytest.raises(InvalidSetting):
            use()
