"""Time, durations and lifetimes.

Time is an int64 count of microseconds. A tuple lives in the half-open interval
``[ts, exp)``: it is alive at τ iff ``ts <= τ < exp`` and gone at the instant ``exp``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Literal, SupportsIndex

from mayfly.errors import InvalidSetting

MIN_TIME = -(2**63)
NEVER = 2**63 - 1
"""The expiration time of a tuple that never expires."""

Duration = str | timedelta | Literal[0]
"""A duration as users give it: ``"1 hour"``, a timedelta, or 0."""

_UNITS = {
    1: ("us", "µs", "usec", "micro", "microsecond"),
    1_000: ("ms", "msec", "milli", "millisecond"),
    1_000_000: ("s", "sec", "second"),
    60_000_000: ("m", "min", "minute"),
    3_600_000_000: ("h", "hr", "hour"),
    86_400_000_000: ("d", "day"),
}
_MICROS_OF = {name: micros for micros, names in _UNITS.items() for name in names}
_TERM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*", re.IGNORECASE)


_zone: ContextVar[str] = ContextVar("zone", default="UTC")


def zone() -> str:
    """The time zone in which instants are written and read, and have a day and an hour."""
    return _zone.get()


def use_zone(name: str) -> None:
    """Use a time zone in this thread from here on; for a while only, see ``in_zone``."""
    _zone.set(name)


@contextmanager
def in_zone(name: str) -> Iterator[None]:
    """Within the block, times without a zone are of this one."""
    before = _zone.set(name)
    try:
        yield
    finally:
        _zone.reset(before)


def unit_micros(name: str) -> int | None:
    """Microseconds in the named unit (singular, plural or short form), or None."""
    lowered = name.lower()
    return _MICROS_OF.get(lowered) or _MICROS_OF.get(lowered.removesuffix("s"))


MOST_DIGITS = 100
"""Of a number in a duration; Python would refuse some thousands."""


def micros(value: str | int | timedelta) -> int:
    """A duration in microseconds: ``"10 min"``, ``"1 h 30 m"``, a timedelta, or an int of µs.

    >>> micros("2 seconds"), micros("1 h 30 min"), micros(5)
    (2000000, 5400000000, 5)
    """
    if isinstance(value, timedelta):
        total = value // timedelta(microseconds=1)
    elif isinstance(value, str):
        total = _parse(value)
    elif _is_whole(value):
        total = operator.index(value)
    else:
        raise InvalidSetting(
            f"{value!r} is not a duration", 'write it like "10 min", or as whole µs'
        )
    if total < 0:
        raise InvalidSetting(f"the duration {value!r} is negative", "use a duration of 0 or more")
    if total >= NEVER:
        raise InvalidSetting(f"the duration {value!r} does not fit 64 bits", "use a shorter one")
    return total


def duration(value: str | int | timedelta) -> int:
    """A duration that a user gave, in microseconds: ``"1 hour"`` or a timedelta.

    A bare number is refused, since nothing says whether it means seconds; 0 is 0 in any unit.

    >>> duration("1 hour"), duration(timedelta(milliseconds=3)), duration(0), duration("0")
    (3600000000, 3000, 0, 0)
    """
    if isinstance(value, str) and value.strip() == "0":
        return 0
    if not isinstance(value, str | timedelta) and not (_is_whole(value) and value == 0):
        raise InvalidSetting(
            f"the duration {value!r} has no unit", 'write it like "1 hour", or give a timedelta'
        )
    return micros(value)


LIVE_GAP = 86_400_000_000
"""How far ahead of the wall clock rows may be by default."""


def gap_of(gap: Duration | None) -> int | None:
    """MAX GAP as it is given: a duration, "none" for no limit (NEVER), or None for the default."""
    if isinstance(gap, str) and gap.strip().casefold() == "none":
        return NEVER
    return None if gap is None else duration(gap)


def gap_text(gap: int | None) -> str | None:
    """The inverse of ``gap_of``."""
    return None if gap is None else "none" if gap == NEVER else format_micros(gap)


def last_likely(now: int, max_gap: int | None) -> int:
    """The last instant that a row may have at a wall clock; later ones are too far ahead."""
    if max_gap == NEVER:
        return NEVER
    return now + (LIVE_GAP if max_gap is None else max_gap)


def _parse(text: str) -> int:
    total, position = Fraction(0), 0
    for term in _TERM.finditer(text):
        unit = unit_micros(term[2])
        if term.start() != position or unit is None:
            break
        position = term.end()
        if len(term[1]) > MOST_DIGITS:
            raise InvalidSetting(
                f"a duration of {len(term[1]):,} digits does not fit 64 bits", "use a shorter one"
            )
        total += Fraction(term[1]) * unit
    if position != len(text) or not text.strip():
        raise InvalidSetting(
            f"cannot read the duration {text!r}",
            'write a number and a unit from microsecond to day, like "10 min" or "1 h 30 s"',
        )
    if total.denominator != 1:
        raise InvalidSetting(
            f"the duration {text!r} is finer than a microsecond", "use whole microseconds"
        )
    return int(total)


def _is_whole(value: object) -> bool:
    """Whether it is an integer of Python or NumPy; True and False are not."""
    return isinstance(value, SupportsIndex) and not isinstance(value, bool)


def format_micros(duration: int) -> str:
    """The shortest exact text for a duration, e.g. ``10 min`` or ``1 h 30 min``."""
    if duration == 0:
        return "0 s"
    parts = []
    for size, names in reversed(_UNITS.items()):
        count, duration = divmod(duration, size)
        if count:
            parts.append(f"{count} {'min' if size == 60_000_000 else names[0]}")
    return " ".join(parts)


def instant(value: int | date | str) -> int:
    """An instant in microseconds since the epoch; naive datetimes and texts are UTC.

    A date is its first instant.
    """
    if _is_whole(value):
        moment = operator.index(value)  # type: ignore[arg-type]
        if not MIN_TIME <= moment <= NEVER:
            raise InvalidSetting(
                f"the instant {moment} does not fit 64 bits",
                "give microseconds since 1970, not nanoseconds",
            )
        return moment
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidSetting(
                f"cannot read the instant {value!r}", "write it like 2026-01-31T12:00:00"
            ) from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        raise InvalidSetting(f"{value!r} is not an instant", "give µs, a datetime or ISO text")
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def instant_text(moment: int) -> str:
    """An instant as people read it, in UTC.

    >>> instant_text(1_700_000_000_000_000), instant_text(1_700_006_400_000_001)
    ('2023-11-14 22:13:20', '2023-11-15 00:00:00.000001')
    """
    try:
        return str(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment))[:-6]
    except OverflowError:
        return f"{moment} µs"


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The half-open interval ``[ts, exp)`` in which a tuple is alive."""

    ts: int
    exp: int

    def alive_at(self, moment: int) -> bool:
        return self.ts <= moment < self.exp

    def meet(self, other: Lifetime) -> Lifetime | None:
        """The lifetime of a join result of two tuples, or None if they never coexist."""
        ts, exp = max(self.ts, other.ts), min(self.exp, other.exp)
        return Lifetime(ts, exp) if ts < exp else None


def expires(ts: int, duration: int) -> int:
    """``ts + duration``, saturating at NEVER."""
    return NEVER if duration >= NEVER - max(ts, 0) else ts + duration
