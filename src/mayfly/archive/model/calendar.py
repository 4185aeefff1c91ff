"""When updates happen, and which update a moment belongs to.

Idea: updates are numbered from a declared origin. Update u happens at ``time_of(u)`` and
takes in rows generated in ``(time_of(u - 1), time_of(u)]``, so a row generated exactly at an
update's time belongs to that update, and ``update_of(ts)`` is ⌈(ts − origin)/Δ⌉.
Invariant: ``time_of(update_of(t) - 1) < t <= time_of(update_of(t))``, for one moment and for
whole columns alike.
Cost: a few passes over the column; calendar days ask the time zone once per distinct day.
wave-indices-1997, 1 (time intervals need not be 24 hours): here also days of 23 and 25.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from mayfly.errors import InvalidSetting
from mayfly.lifetime import Duration, duration, format_micros, instant

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_FARTHEST = 2**62
"""Moments beyond ±_FARTHEST (146,000 years) are numbered like it, so that nothing overflows."""
_FARTHEST_ORIGIN = 2**61


@dataclass(frozen=True, slots=True)
class FixedIntervals:
    """Updates every ``interval`` microseconds, counted from ``origin``.

    >>> hourly = FixedIntervals(interval=3_600_000_000)
    >>> hourly.update_of(3_600_000_000), hourly.update_of(3_600_000_001)
    (1, 2)
    """

    interval: int
    origin: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.interval <= _FARTHEST_ORIGIN:
            raise InvalidSetting(
                f"the time between two updates is {self.interval} µs", "use at least 1 µs"
            )
        if abs(self.origin) > _FARTHEST_ORIGIN:
            raise InvalidSetting(
                f"the origin {self.origin} µs lies outside the years that can be counted",
                "give an origin in microseconds since 1970-01-01 UTC",
            )

    def update_of(self, timestamp: int) -> int:
        """The number of the update that takes in a row generated at ``timestamp``."""
        return -((self.origin - _within(timestamp, -_FARTHEST, _FARTHEST)) // self.interval)

    def updates_of(self, timestamps: Int64Array) -> Int64Array:
        """``update_of`` for a whole column."""
        # Dividing before subtracting the origin keeps every intermediate within 64 bits.
        whole, rest = np.divmod(np.clip(timestamps, -_FARTHEST, _FARTHEST), np.int64(self.interval))
        origin_whole, origin_rest = divmod(self.origin, self.interval)
        numbers: Int64Array = whole - origin_whole + (rest > origin_rest)
        return numbers

    def time_of(self, update: int) -> int:
        """The time at which the update happens."""
        return self.origin + update * self.interval

    def roll_over(self, longest: int) -> int:
        """p = ⌈S/Δ⌉: after how many updates a row of the longest lifetime is gone."""
        return -(-_positive_lifetime(longest) // self.interval)

    def outlives(self, ts: Int64Array, exp: Int64Array, longest: int) -> BoolArray:
        """Which rows live longer than ``longest``."""
        # Nothing can outlive a limit beyond the last moment, where the sum wraps around.
        within_range = ts <= np.iinfo(np.int64).max - longest
        too_long: BoolArray = within_range & (exp > ts + longest)
        return too_long

    def settings(self) -> dict[str, Any]:
        """What ``calendar_from_settings`` needs to make this calendar again."""
        return {"kind": "fixed", "interval": self.interval, "origin": self.origin}

    def __str__(self) -> str:
        return f"every {format_micros(self.interval)}"


@dataclass(frozen=True, slots=True)
class CalendarDays:
    """One update at each midnight of a time zone; update u ends the u-th day from ``first_day``.

    Days last 23 or 25 hours where the zone changes its clocks. A date that a zone skipped
    altogether is an update without rows.

    >>> berlin = CalendarDays("Europe/Berlin", date(2026, 3, 28))
    >>> [(berlin.time_of(u) - berlin.time_of(u - 1)) // 3_600_000_000 for u in (1, 2, 3)]
    [24, 23, 24]
    """

    zone: str
    first_day: date

    def __post_init__(self) -> None:
        _zone(self.zone)
        if not _FIRST_ORDINAL <= self.first_day.toordinal() <= _LAST_ORDINAL:
            raise InvalidSetting(
                f"the first day {self.first_day} lies outside the calendar",
                "use a day between the years 2 and 9998",
            )

    @property
    def _origin_ordinal(self) -> int:
        return self.first_day.toordinal()

    def update_of(self, timestamp: int) -> int:
        """The number of the update that takes in a row generated at ``timestamp``."""
        timestamp = _within(
            timestamp, _midnight(self.zone, _FIRST_ORDINAL), _midnight(self.zone, _LAST_ORDINAL)
        )
        local = (_EPOCH + timedelta(microseconds=timestamp)).astimezone(_zone(self.zone))
        update = local.date().toordinal() - self._origin_ordinal - 1
        while self.time_of(update) < timestamp:
            update += 1
        return update

    def updates_of(self, timestamps: Int64Array) -> Int64Array:
        """``update_of`` for a whole column."""
        earliest = _midnight(self.zone, _FIRST_ORDINAL)
        timestamps = np.clip(timestamps, earliest, _midnight(self.zone, _LAST_ORDINAL))
        days = _distinct(timestamps // DAY) + _EPOCH_ORDINAL
        # A local date is at most one day from the UTC date; the update ends that local day.
        near = np.unique(days[:, None] + np.arange(-2, 3))
        near = near[(near >= _FIRST_ORDINAL) & (near <= _LAST_ORDINAL)]
        midnights = np.array([_midnight(self.zone, day) for day in near.tolist()], dtype=np.int64)
        numbers: Int64Array = near[np.searchsorted(midnights, timestamps, side="left")]
        return numbers - self._origin_ordinal

    def time_of(self, update: int) -> int:
        """The time at which the update happens: the midnight that ends its day."""
        ordinal = self._origin_ordinal + update
        if not _FIRST_ORDINAL <= ordinal <= _LAST_ORDINAL:
            raise InvalidSetting(
                f"update {update} of a calendar that starts on {self.first_day} has no date",
                "calendar days reach from the year 2 to 9998",
            )
        return _midnight(self.zone, ordinal)

    def roll_over(self, longest: int) -> int:
        """p: the longest lifetime as a number of calendar days."""
        days, rest = divmod(_positive_lifetime(longest), DAY)
        if rest:
            raise InvalidSetting(
                f"the longest lifetime {format_micros(longest)} is not a whole number of days",
                'with calendar days write it like "90 days"',
            )
        return days

    def outlives(self, ts: Int64Array, exp: Int64Array, longest: int) -> BoolArray:
        """Which rows live past the end of their p-th following day.

        Counting days instead of hours lets a row written at noon expire at noon, although the
        clocks changed in between.
        """
        too_long: BoolArray = self.updates_of(exp) - self.updates_of(ts) > self.roll_over(longest)
        return too_long

    def settings(self) -> dict[str, Any]:
        """What ``calendar_from_settings`` needs to make this calendar again."""
        return {"kind": "days", "zone": self.zone, "first_day": self.first_day.isoformat()}

    def __str__(self) -> str:
        return f"every calendar day in {self.zone}"


UpdateCalendar = FixedIntervals | CalendarDays


def update_calendar(
    refresh: Duration, origin: int | datetime | date | str = 0, zone: str | None = None
) -> UpdateCalendar:
    """The calendar of an archive refreshed every ``refresh`` from ``origin``.

    With a time zone the days are the zone's calendar days and ``origin`` is the first date.
    """
    interval = duration(refresh)
    if not isinstance(zone, str | None):
        raise InvalidSetting(f"zone is {zone!r}", "name a time zone, like Europe/Berlin")
    if zone is None:
        if isinstance(origin, date) and not isinstance(origin, datetime):
            origin = datetime(origin.year, origin.month, origin.day, tzinfo=UTC)
        return FixedIntervals(interval, instant(origin))
    if interval != DAY:
        raise InvalidSetting(
            f"a time zone was given with a refresh of {format_micros(interval)}",
            'calendar days need refresh="1 day"; leave the zone out for fixed intervals',
        )
    return CalendarDays(zone, _first_day(origin, _zone(zone)))


def calendar_from_settings(settings: dict[str, Any]) -> UpdateCalendar:
    """The calendar whose ``settings()`` these are."""
    match settings:
        case {"kind": "fixed", "interval": int(interval), "origin": int(origin)}:
            return FixedIntervals(interval, origin)
        case {"kind": "days", "zone": str(zone), "first_day": str(first_day)}:
            return CalendarDays(zone, date.fromisoformat(first_day))
    raise InvalidSetting(
        f"these are not the settings of an update calendar: {settings!r}",
        "the archive was written by another version, or its metadata was edited",
    )


_FIRST_ORDINAL = date(2, 1, 1).toordinal()
_LAST_ORDINAL = date(9998, 12, 31).toordinal()


def _first_day(origin: int | datetime | date | str, zone: ZoneInfo) -> date:
    if isinstance(origin, datetime | int):
        return (_EPOCH + timedelta(microseconds=instant(origin))).astimezone(zone).date()
    if isinstance(origin, date):
        return origin
    try:
        return date.fromisoformat(origin)
    except ValueError:
        raise InvalidSetting(
            f"cannot read the first day {origin!r}", "write it like 2026-01-31"
        ) from None


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidSetting(
            f"there is no time zone {name!r}", "use a name like Europe/Berlin or UTC"
        ) from None


@lru_cache(maxsize=1 << 16)
def _midnight(zone: str, ordinal: int) -> int:
    """The first moment of a local date, in microseconds.

    Where midnight is skipped, the offset from before the change gives the moment of the
    change; where it happens twice, the first one starts the day.
    """
    day = date.fromordinal(ordinal)
    start = datetime(day.year, day.month, day.day, tzinfo=_zone(zone))
    return (start - _EPOCH) // timedelta(microseconds=1)


def _distinct(days: Int64Array) -> Int64Array:
    """The distinct values of a column; days of one batch mostly lie close together."""
    if days.size == 0:
        return days
    first, last = int(days.min()), int(days.max())
    return np.arange(first, last + 1) if last - first < 1000 else np.unique(days)


def _within(timestamp: int, earliest: int, latest: int) -> int:
    return min(max(timestamp, earliest), latest)


def _positive_lifetime(longest: int) -> int:
    if longest <= 0:
        raise InvalidSetting(
            f"the longest lifetime is {longest} µs", "use a duration longer than 0"
        )
    return longest
