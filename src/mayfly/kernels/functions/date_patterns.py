"""date_format: the pattern letters that Spark takes, in UTC and English."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

from mayfly.kernels.functions.calendar_fields import DAY, SECOND, civil, day_of
from mayfly.kernels.functions.operands import Undefined
from mayfly.lifetime import zone

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
_ZONES = {
    "V": {2: "UTC"},
    "v": {1: "UTC", 4: "Coordinated Universal Time"},
    "z": {**dict.fromkeys((1, 2, 3), "UTC"), 4: "Coordinated Universal Time"},
    "O": {1: "GMT", 4: "GMT"},
    "X": dict.fromkeys((1, 2, 3, 4, 5), "Z"),
    "x": {1: "+00", 2: "+0000", 3: "+00:00", 4: "+0000", 5: "+00:00"},
    "Z": {**dict.fromkeys((1, 2, 3), "+0000"), 4: "GMT", 5: "Z"},
}
Part: TypeAlias = Callable[["Moment"], str]


class Moment:
    """The fields of one instant."""

    def __init__(self, micros: int) -> None:
        self.day, self.within = divmod(micros, DAY)
        self.year, self.month, self.of_month = civil(self.day)
        self.hour = self.within // (3600 * SECOND)
        self.minute = self.within // (60 * SECOND) % 60
        self.second = self.within // SECOND % 60

    def of_year(self) -> int:
        return self.day - (day_of(self.year, 1, 1) or 0) + 1


def formatted(micros: int, pattern: str) -> str:
    moment = Moment(micros)
    return "".join(part(moment) for part in _parts(pattern, zone() == "UTC"))


@lru_cache(maxsize=256)
def _parts(pattern: str, utc: bool) -> tuple[Part, ...]:
    parts: list[Part] = []
    position = 0
    with_era = "G" in pattern
    while position < len(pattern):
        letter = pattern[position]
        if letter == "'":
            text, position = _quoted(pattern, position + 1)
            parts.append(_constant(text))
            continue
        count = len(next(list(run) for _, run in groupby(pattern[position:])))
        position += count
        if letter in _ZONES and not utc:
            raise Undefined(f"the zone in {pattern!r} is not written here in another than UTC")
        if letter.isascii() and letter.isalpha():
            parts.append(_field(letter, count, pattern, with_era))
        elif letter in "{}#":
            raise Undefined(f"{letter} is reserved in the date pattern {pattern!r}")
        elif letter not in "[]":
            parts.append(_constant(letter * count))
    return tuple(parts)


def _constant(text: str) -> Part:
    return lambda moment: text


def _quoted(pattern: str, position: int) -> tuple[str, int]:
    """The text in quotes that begins here, and where it ends; two quotes stand for one."""
    if pattern[position : position + 1] == "'":
        return "'", position + 1
    text = ""
    while position < len(pattern):
        if pattern[position] != "'":
            text, position = text + pattern[position], position + 1
        elif pattern[position + 1 : position + 2] == "'":
            text, position = text + "'", position + 2
        else:
            return text, position + 1
    raise Undefined(f"a quote is not closed in the date pattern {pattern!r}")


_NUMBERS: dict[str, Callable[[Moment], int]] = {
    "d": lambda moment: moment.of_month,
    "H": lambda moment: moment.hour,
    "h": lambda moment: (moment.hour + 11) % 12 + 1,
    "K": lambda moment: moment.hour % 12,
    "k": lambda moment: (moment.hour + 23) % 24 + 1,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
    "F": lambda moment: (moment.of_month - 1) % 7 + 1,
    "D": Moment.of_year,
}
_MOST_DIGITS = {"D": 3, "F": 1}


def _field(letter: str, count: int, pattern: str, with_era: bool) -> Part:
    if letter in _NUMBERS and count <= _MOST_DIGITS.get(letter, 2):
        number = _NUMBERS[letter]
        return lambda moment: f"{number(moment):0{count}d}"
    if letter in _ZONES and count in _ZONES[letter]:
        return _constant(_ZONES[letter][count])
    part = None
    if letter == "y" and count <= 6:
        part = _year(count, with_era)
    elif letter == "S" and count <= 9:
        part = _fraction(count)
    elif letter in _NAMES and count <= 4:
        part = _NAMES[letter](count)
    if part is None:
        raise Undefined(f"{letter * count} means nothing in the date pattern {pattern!r}")
    return part


def _year(count: int, with_era: bool) -> Part:
    def write(moment: Moment) -> str:
        year = moment.year if not with_era or moment.year > 0 else 1 - moment.year
        if count == 2:
            return f"{abs(year) % 100:02d}"
        sign = "-" if year < 0 else "+" if count >= 4 and year >= 10**count else ""
        return f"{sign}{abs(year):0{count}d}"

    return write


def _fraction(count: int) -> Part:
    return lambda moment: f"{moment.within % SECOND:06d}000"[:count]


def _named(names: tuple[str, ...], index: Callable[[Moment], int]) -> Callable[[int], Part]:
    def choose(count: int) -> Part:
        return lambda moment: names[index(moment)][: None if count == 4 else 3]

    return choose


def _numbered(
    name: Callable[[int], Part], number: Callable[[Moment], int]
) -> Callable[[int], Part]:
    """One or two letters write the number, three or four the name."""

    def choose(count: int) -> Part:
        return name(count) if count > 2 else lambda moment: f"{number(moment):0{count}d}"

    return choose


def _quarter(moment: Moment) -> int:
    return (moment.month - 1) // 3


def _quarter_name(count: int) -> Part:
    if count == 4:
        return lambda moment: _QUARTERS[_quarter(moment)]
    return lambda moment: f"Q{_quarter(moment) + 1}"


def _era(count: int) -> Part:
    names = ("Before Christ", "Anno Domini") if count == 4 else ("BC", "AD")
    return lambda moment: names[moment.year > 0]


def _half_day(count: int) -> Part | None:
    return (lambda moment: "AM" if moment.hour < 12 else "PM") if count == 1 else None


_month_name = _named(_MONTHS, lambda moment: moment.month - 1)
_NAMES: dict[str, Callable[[int], Part | None]] = {
    "M": _numbered(_month_name, lambda moment: moment.month),
    "L": _numbered(_month_name, lambda moment: moment.month),
    "E": _named(_WEEKDAYS, lambda moment: (moment.day + 3) % 7),
    "Q": _numbered(_quarter_name, lambda moment: _quarter(moment) + 1),
    "q": _numbered(_quarter_name, lambda moment: _quarter(moment) + 1),
    "G": _era,
    "a": _half_day,
}
