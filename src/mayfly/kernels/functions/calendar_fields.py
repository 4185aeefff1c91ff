"""Days and microseconds as calendar fields and text: proleptic Gregorian, UTC, as in Spark.

Columns of days go through NumPy's datetime64, whose years have no end; single values through
integers, because Python's own dates stop at the years 1 and 9999.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from mayfly.kernels.functions.operands import Numbers, Undefined

DAY = 86_400_000_000
SECOND = 1_000_000
_CONTROLS = "".join(map(chr, range(33))) + "\x7f"
_EPOCH = date(1970, 1, 1).toordinal()


def trimmed(text: str) -> str:
    """Without the white space and control characters at both ends."""
    return text.strip(_CONTROLS)


def dates(days: Numbers) -> Numbers:
    return days.astype("datetime64[D]")


def years(days: Numbers) -> Numbers:
    return dates(days).astype("datetime64[Y]").astype(np.int64) + 1970


def months(days: Numbers) -> Numbers:
    return dates(days).astype("datetime64[M]").astype(np.int64) % 12 + 1


def civil(day: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day since 1970."""
    # 400 years have 146,097 days: move into Python's range and back.
    cycles, within = divmod(day + 719_468, 146_097)
    moved = date.fromordinal(within - 719_468 + _EPOCH + 5 * 146_097)
    return moved.year + (cycles - 5) * 400, moved.month, moved.day


def day_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970 of a calendar date; None if there is no such date."""
    cycles, within = divmod(year, 400)
    try:
        moved = date(within + 2000, month, day)
    except ValueError:
        return None
    return moved.toordinal() - _EPOCH + (cycles - 5) * 146_097


def date_text(day: int) -> str:
    year, month, of_month = civil(day)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{of_month:02d}"


def timestamp_text(micros: int) -> str:
    day, within = divmod(micros, DAY)
    seconds, fraction = divmod(within, SECOND)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{date_text(day)} {clock}{tail}"


def interval_text(micros: int) -> str:
    sign, size = ("-" if micros < 0 else ""), abs(micros)
    days, within = divmod(size, DAY)
    seconds, fraction = divmod(within, SECOND)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"INTERVAL '{sign}{days} {clock}{tail}' DAY TO SECOND"


_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_INSTANT = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(.*))?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
_INTERVAL = re.compile(r"([+-])?(\d+) (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?", re.ASCII)
_INTERVAL_LITERAL = re.compile(r"INTERVAL\s+([+-])?\s*'(.*)'\s+DAY\s+TO\s+SECOND", re.IGNORECASE)


def read_date(text: str) -> int:
    match = _DATE.fullmatch(trimmed(text))
    day = day_of(int(match[1]), int(match[2] or 1), int(match[3] or 1)) if match else None
    if day is None or not -(2**31) <= day < 2**31:
        raise Undefined(f"{text!r} is not a date")
    return day


def read_instant(
    text: str, zoned: bool = True, local: Callable[[Numbers], Numbers] | None = None
) -> int:
    """µs since 1970; for TIMESTAMP_NTZ without regard to zones. A text without a zone is turned
    into an instant by ``local``.

    A time without a date is refused: Spark would take the day on which it runs.
    """
    match = _INSTANT.fullmatch(trimmed(text))
    if match is None:
        raise Undefined(f"{text!r} is not an instant")
    day = day_of(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    hour, minute, second = (int(match[group] or 0) for group in (4, 5, 6))
    if day is None or hour > 23 or minute > 59 or second > 59:
        raise Undefined(f"{text!r} is not an instant")
    fraction = int((match[7] or "0")[:6].ljust(6, "0"))
    shown = day * DAY + (hour * 3600 + minute * 60 + second) * SECOND + fraction
    offset = _offset(match[8], shown) if match[8] else 0
    if offset is None:
        raise Undefined(f"{text!r} has an unknown time zone")
    micros = shown - (offset if zoned else 0)
    if zoned and not match[8] and local is not None:
        micros = int(local(np.array([micros]))[0]) if abs(micros) < 2**62 else micros
    if not -(2**63) <= micros < 2**63:
        raise Undefined(f"overflow: {text!r} lies outside the range of instants")
    return micros


_SHORT_ZONES = {
    **{"EST": "-05:00", "MST": "-07:00", "HST": "-10:00", "ACT": "Australia/Darwin"},
    **{"AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo"},
    **{"AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka"},
    **{"CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago"},
    **{"CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris"},
    **{"IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo"},
    **{"MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland"},
    **{"PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico"},
    **{"PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh"},
}
"""Java's short names of zones."""
_FIXED = re.compile(r"(?:UTC|GMT|UT)?(?:([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?)?")


def _offset(zone: str, local: int) -> int | None:
    """How far a zone is ahead of UTC, in µs; None for an unknown zone."""
    zone = re.sub(r"^([+-])(\d):", r"\g<1>0\2:", zone.strip(" "))
    zone = re.sub(r"([+-]\d\d):(\d)$", r"\g<1>:0\2", zone)
    if zone == "Z":
        return 0
    zone = _SHORT_ZONES.get(zone, zone)
    fixed = _FIXED.fullmatch(zone)
    if fixed and zone:
        hours, minutes, seconds = (int(fixed[group] or 0) for group in (2, 3, 4))
        total = hours * 3600 + minutes * 60 + seconds
        if total > 18 * 3600 or minutes > 59 or seconds > 59:
            return None
        return (-total if fixed[1] == "-" else total) * SECOND
    return _region_offset(zone, local)


def _region_offset(zone: str, local: int) -> int | None:
    try:
        region = ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        return None
    # Zones repeat every 400 years in their rules; only years that Python knows are asked.
    year, month, day = civil(local // DAY)
    within = timedelta(microseconds=local % DAY)
    wall = datetime(min(max(year, 1), 9999), month, day, tzinfo=region) + within
    offset = wall.utcoffset()
    return None if offset is None else offset // timedelta(microseconds=1)


def read_interval(text: str) -> int:
    outer = _INTERVAL_LITERAL.fullmatch(trimmed(text))
    match = _INTERVAL.fullmatch(trimmed(outer[2] if outer else text))
    if match is None:
        raise Undefined(f"{text!r} is not an interval like '1 02:03:04.5'")
    days, hours, minutes, seconds = (int(match[group]) for group in (2, 3, 4, 5))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise Undefined(f"{text!r} is not an interval like '1 02:03:04.5'")
    fraction = int((match[6] or "0")[:6].ljust(6, "0"))
    micros = days * DAY + (hours * 3600 + minutes * 60 + seconds) * SECOND + fraction
    negative = (match[1] == "-") != (outer is not None and outer[1] == "-")
    micros = -micros if negative else micros
    if not -(2**63) <= micros < 2**63:
        raise Undefined(f"overflow: {text!r} does not fit an interval")
    return micros
