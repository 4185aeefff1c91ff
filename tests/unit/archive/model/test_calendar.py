"""Update numbering: ties, origins, daylight saving, and columns against single moments."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.archive.model.calendar import (
    DAY,
    CalendarDays,
    FixedIntervals,
    UpdateCalendar,
    calendar_from_settings,
    update_calendar,
)
from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME, NEVER

HOUR = 3_600_000_000
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # once changed its clocks at midnight
    "America/Havana",  # turns them back from 1:00 to 0:00, so midnight happens twice
    "Australia/Lord_Howe",  # by half an hour
    "Pacific/Apia",  # left out 30 December 2011
    "Asia/Kathmandu",
]
MOMENTS = st.integers(MIN_TIME, NEVER)
MODERN = st.integers(-(2**51), 2**51)  # 1898 to 2041


def fixed() -> st.SearchStrategy[FixedIntervals]:
    return st.builds(FixedIntervals, st.integers(1, 40 * DAY), st.integers(-(2**61), 2**61))


def calendar_days() -> st.SearchStrategy[CalendarDays]:
    first_days = st.dates(date(1950, 1, 1), date(2100, 1, 1))
    return st.builds(CalendarDays, st.sampled_from(ZONES), first_days)


@pytest.mark.parametrize(
    ("at", "update"), [(-1, 0), (0, 0), (1, 1), (9, 1), (10, 1), (11, 2), (20, 2), (-10, -1)]
)
def test_a_row_generated_at_the_time_of_an_update_belongs_to_it(at: int, update: int) -> None:
    assert FixedIntervals(10).update_of(at) == update
    assert FixedIntervals(10, origin=7).update_of(at + 7) == update


@given(fixed(), MODERN)
def test_fixed_updates_enclose_their_moments(calendar: FixedIntervals, at: int) -> None:
    update = calendar.update_of(at)
    assert calendar.time_of(update - 1) < at <= calendar.time_of(update)


@given(calendar_days(), MODERN)
def test_calendar_days_enclose_their_moments(calendar: CalendarDays, at: int) -> None:
    update = calendar.update_of(at)
    assert calendar.time_of(update - 1) < at <= calendar.time_of(update)


@given(st.one_of(fixed(), calendar_days()), st.lists(st.one_of(MOMENTS, MODERN), max_size=30))
def test_a_column_is_numbered_like_its_moments(
    calendar: UpdateCalendar, moments: list[int]
) -> None:
    column = calendar.updates_of(np.array(moments, dtype=np.int64))
    assert column.dtype == np.int64
    assert column.tolist() == [calendar.update_of(at) for at in moments]


@given(calendar_days(), st.integers(-20_000, 20_000), st.lists(st.integers(-2, 2), max_size=9))
def test_a_column_is_numbered_like_its_moments_at_midnight(
    calendar: CalendarDays, update: int, offsets: list[int]
) -> None:
    moments = [calendar.time_of(update) + offset for offset in offsets]
    column = calendar.updates_of(np.array(moments, dtype=np.int64))
    assert column.tolist() == [calendar.update_of(at) for at in moments]


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("Europe/Berlin", date(2026, 6, 1), 24),
        ("America/Sao_Paulo", date(2018, 11, 4), 23),
        ("America/Havana", date(2025, 11, 2), 25),
        ("Pacific/Apia", date(2011, 12, 30), 0),
    ],
)
def test_a_day_is_as_long_as_its_zone_makes_it(zone: str, day: date, hours: int) -> None:
    calendar = CalendarDays(zone, day)
    assert calendar.time_of(1) - calendar.time_of(0) == hours * HOUR


def test_local_midnight_belongs_to_the_day_it_ends() -> None:
    zone = ZoneInfo("Europe/Berlin")
    calendar = CalendarDays("Europe/Berlin", date(2026, 3, 28))
    midnight = int(datetime(2026, 3, 30, tzinfo=zone).timestamp()) * 1_000_000
    assert [calendar.update_of(midnight + offset) for offset in (-1, 0, 1)] == [2, 2, 3]


def test_the_longest_lifetime_counts_updates_rounded_up() -> None:
    assert [FixedIntervals(10).roll_over(longest) for longest in (1, 10, 11, 20, 21)] == [
        1, 1, 2, 2, 3,
    ]  # fmt: skip
    assert CalendarDays("UTC", date(2026, 1, 1)).roll_over(90 * DAY) == 90


def test_fixed_rows_outlive_by_time_and_calendar_rows_by_days() -> None:
    noon = int(datetime(2026, 10, 23, 12, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()) * 10**6
    week_later_at_noon = noon + 7 * DAY + HOUR  # the clocks go back in between
    ts = np.array([noon, noon, NEVER - 5])
    exp = np.array([noon + 7 * DAY, week_later_at_noon, NEVER])
    calendar = CalendarDays("Europe/Berlin", date(2026, 10, 1))
    assert FixedIntervals(DAY).outlives(ts, exp, 7 * DAY).tolist() == [False, True, False]
    assert calendar.outlives(ts, exp, 7 * DAY).tolist() == [False, False, False]
    assert calendar.outlives(ts[:1], ts[:1] + 8 * DAY, 7 * DAY).tolist() == [True]
    assert FixedIntervals(1).outlives(np.array([MIN_TIME]), np.array([NEVER]), 5).tolist() == [True]


@given(st.one_of(fixed(), calendar_days()))
def test_settings_make_the_same_calendar_again(calendar: UpdateCalendar) -> None:
    assert calendar_from_settings(calendar.settings()) == calendar


def test_a_calendar_is_made_from_what_users_write() -> None:
    assert update_calendar("1 h") == FixedIntervals(HOUR)
    assert update_calendar("1 h", "1970-01-01T00:30:00") == FixedIntervals(HOUR, HOUR // 2)
    assert update_calendar("1 day", date(1970, 1, 2)) == FixedIntervals(DAY, DAY)
    berlin = CalendarDays("Europe/Berlin", date(2026, 3, 1))
    assert update_calendar("1 day", "2026-03-01", "Europe/Berlin") == berlin
    assert update_calendar("1 day", date(2026, 3, 1), "Europe/Berlin") == berlin
    evening = datetime.fromisoformat("2026-02-28T23:30:00+00:00")
    assert update_calendar("1 day", evening, "Europe/Berlin") == berlin


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: FixedIntervals(0), "between two updates is 0"),
        (lambda: FixedIntervals(-5), "between two updates is -5"),
        (lambda: FixedIntervals(1, 2**62), "origin"),
        (lambda: FixedIntervals(1).roll_over(0), "longest lifetime is 0"),
        (lambda: CalendarDays("Mars/Olympus", date(2026, 1, 1)), "no time zone 'Mars/Olympus'"),
        (lambda: CalendarDays("../x", date(2026, 1, 1)), "no time zone"),
        (lambda: CalendarDays("UTC", date(1, 1, 1)), "0001-01-01"),
        (lambda: CalendarDays("UTC", date(2026, 1, 1)).time_of(10**7), "update 10000000"),
        (lambda: CalendarDays("UTC", date(2026, 1, 1)).roll_over(DAY + 1), "whole number of days"),
        (lambda: update_calendar("2 days", "2026-01-01", "UTC"), "a refresh of 2 d"),
        (lambda: update_calendar("1 day", "soon", "UTC"), "first day 'soon'"),
        (lambda: calendar_from_settings({"kind": "moon"}), "moon"),
    ],
)
def test_senseless_settings_are_refused(make: object, complaint: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidSetting, match=complaint) as refusal:
        make()
    assert refusal.value.hint
