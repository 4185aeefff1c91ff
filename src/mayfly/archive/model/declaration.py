"""What an archive is asked to be, in the words of its users, checked and made into settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import date, datetime, timedelta
from math import isqrt

from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.calendar import (
    CalendarDays,
    FixedIntervals,
    UpdateCalendar,
    update_calendar,
)
from mayfly.archive.model.settings import MOST_CONSTITUENTS, ArchiveSettings, key_names
from mayfly.errors import InvalidSetting
from mayfly.keywords import text, whole
from mayfly.lifetime import Duration, duration, gap_of
from mayfly.plan.types import parse_type

Origin = int | str | date | datetime
"""The time from which updates are counted: µs, ISO text, a date or a datetime."""
DAY_ONE = date(1970, 1, 1)


@dataclass(frozen=True)
class Declaration:
    """Settings, and whether the first update's rows decide from when updates are counted."""

    settings: ArchiveSettings
    origin_is_open: bool


@dataclass(frozen=True)
class WindowRequest:
    """An archive of the last ``window``, refreshed every ``refresh``, as it is asked for.

    Rows later than the wall clock plus ``max_gap`` (a day, if it does not say; "none" for no
    limit) are too far ahead to be true, whichever way they come in.

    >>> request = WindowRequest("k STRING, ts TIMESTAMP", key="k", window="90 days")
    >>> settings = request.declaration().settings
    >>> settings.window, settings.layout.constituents, str(settings.calendar)
    (90, 9, 'every 1 d')
    """

    columns: str | Mapping[str, str]
    _: KW_ONLY
    key: str | Sequence[str]
    window: int | str | timedelta
    time: str = "ts"
    refresh: Duration = "1 day"
    origin: Origin | None = None
    zone: str | None = None
    scheme: str = "WATA"
    constituents: int | None = None
    technique: str = "packed shadow"
    spread: bool = False
    late: str = "refuse"
    parts: int = 1
    keep_versions: int = 2
    max_gap: Duration | None = None

    def declaration(self) -> Declaration:
        """What is asked for, checked and made into settings."""
        calendar = calendar_from(self.refresh, self.origin, self.zone)
        updates = window_updates(self.window, calendar)
        scheme, constituents = WaveScheme(self.scheme), self.constituents
        if constituents is None:
            constituents = default_constituents(scheme, updates)
        settings = ArchiveSettings(
            columns=named_columns(self.columns),
            key=key_names(self.key),
            time=self.time,
            calendar=calendar,
            layout=WaveLayout(scheme, updates, whole("constituents", constituents), self.spread),
            technique=UpdateTechnique(self.technique),
            late=late_rows(text("late", self.late)),
            parts=whole("parts", self.parts),
            keep_versions=whole("keep_versions", self.keep_versions),
            max_gap=gap_of(self.max_gap),
        )
        return Declaration(settings, self.origin is None)


def calendar_from(refresh: Duration, origin: Origin | None, zone: str | None) -> UpdateCalendar:
    """The calendar that is asked for; without an origin the first rows move it."""
    return update_calendar(refresh, DAY_ONE if origin is None else origin, zone)


def named_columns(columns: str | Mapping[str, str]) -> dict[str, str]:
    """Columns as DDL or by name, each of a type that is known."""
    if not isinstance(columns, str | Mapping):
        raise InvalidSetting(
            f"the columns are {columns!r}", "write them like k STRING, ts TIMESTAMP"
        )
    named = columns_of(columns) if isinstance(columns, str) else dict(columns)
    if untyped := [name for name, kind in named.items() if parse_type(kind).name == "void"]:
        raise InvalidSetting(
            f"the type of {', '.join(untyped)} is not known: only NULLs were seen",
            "declare the columns, or cast them",
        )
    return named


def columns_of(ddl: str) -> dict[str, str]:
    """Columns written as Spark DDL.

    >>> columns_of("customer STRING, ts TIMESTAMP, price DECIMAL(10, 2)")
    {'customer': 'string', 'ts': 'timestamp', 'price': 'decimal(10,2)'}
    """
    try:
        fields = parse_type(f"struct<{ddl}>").fields
    except InvalidSetting as error:
        raise InvalidSetting(
            f"cannot read the columns {ddl!r}",
            f"write them like k STRING, ts TIMESTAMP, without NOT NULL or COMMENT; {error.hint}",
        ) from error
    names = [name for name, _ in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidSetting(
            f"the column {', '.join(twice)} is declared twice", "name each column once"
        )
    return {name: kind.sql() for name, kind in fields}


def window_updates(window: int | str | timedelta, calendar: UpdateCalendar) -> int:
    """W: a number of updates as it is, a duration as the updates that happen in it."""
    if isinstance(window, str) and re.fullmatch(r"\s*\d+\s*", window):
        window = int(window)
    if isinstance(window, bool):
        raise InvalidSetting(f"the window is {window!r}", 'write it like "90 days", or as a number')
    if isinstance(window, int):
        if window < 1:
            raise InvalidSetting(f"a window of {window} updates", "keep at least 1")
        return window
    length = duration(window)
    updates = calendar.roll_over(length)
    if isinstance(calendar, FixedIntervals) and updates * calendar.interval != length:
        raise InvalidSetting(
            f"the window {window} is not a multiple of the refresh ({calendar})",
            "make it one, or give the window as a number of updates",
        )
    return updates


def default_constituents(scheme: WaveScheme, window: int) -> int:
    """About √W: with n constituents an update touches W/n days, and a probe looks into n."""
    root = isqrt(window)
    nearest = root if window - root * root <= root else root + 1
    return min(max(nearest, scheme.fewest_constituents), window, MOST_CONSTITUENTS)


def late_rows(late: str) -> LateRows:
    choice = late.strip().lower().replace("_", " ").replace("-", " ")
    allowed = [rule.value for rule in LateRows if rule is not LateRows.THIS_UPDATE]
    if choice not in allowed:
        raise InvalidSetting(
            f"there is no rule {late!r} for late rows", f"use one of {', '.join(allowed)}"
        )
    return LateRows(choice)


def counted_from(settings: ArchiveSettings, first: int | None) -> ArchiveSettings:
    """The settings with update 1 as the interval that holds ``first``."""
    if first is None:
        raise InvalidSetting(
            "the archive has no origin yet, and the first update brings no rows to take it from",
            "create the archive with an origin, or give at=… with the first update",
        )
    calendar = settings.calendar
    before = calendar.update_of(first) - 1
    if isinstance(calendar, CalendarDays):
        moved: UpdateCalendar = replace(
            calendar, first_day=calendar.first_day + timedelta(days=before)
        )
    else:
        moved = replace(calendar, origin=calendar.time_of(before))
    return replace(settings, calendar=moved)
