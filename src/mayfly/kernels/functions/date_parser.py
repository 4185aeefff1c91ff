"""to_timestamp: texts read by a pattern of numbers, as Spark reads them."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby

from mayfly.kernels.functions.calendar_fields import DAY, SECOND, day_of
from mayfly.kernels.functions.operands import Undefined

_FIELDS = {"y": 0, "M": 1, "d": 2, "H": 3, "m": 4, "s": 5, "S": 6}


class NotReadable(Undefined):
    """A text that does not look as its pattern says."""


def read_by_pattern(text: str, pattern: str) -> int:
    """What clocks show, as µs since 1970; fields that the pattern lacks are those of 1970-01-01."""
    expression, letters = _compiled(pattern)
    match = expression.fullmatch(text)
    fields = [1970, 1, 1, 0, 0, 0, 0]
    for letter, digits in zip(letters, match.groups() if match else (), strict=False):
        value = int(digits.ljust(6, "0")[:6]) if letter[0] == "S" else int(digits)
        fields[_FIELDS[letter[0]]] = value + 2000 if letter == "yy" else value
    year, month, day, hour, minute, second, fraction = fields
    days = day_of(year, month, day) if match else None
    if days is None or hour > 23 or minute > 59 or second > 59:
        raise NotReadable(f"{text!r} is not a time of the pattern {pattern!r}")
    return days * DAY + (hour * 3600 + minute * 60 + second) * SECOND + fraction


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """The pattern as a regular expression, and the letters of its groups."""
    written, letters, quoted = "", [], False
    for letter, run in groupby(pattern):
        count = len(list(run))
        if letter == "'":
            quoted ^= count % 2 == 1
            written += "'" * (count // 2)
        elif quoted or not (letter.isascii() and letter.isalpha()):
            written += re.escape(letter * count)
        elif letter not in _FIELDS or count > {"y": 4, "S": 9}.get(letter, 2):
            raise Undefined(f"{letter * count} of the date pattern {pattern!r} is not read here")
        else:
            digits = r"\d{1,2}" if count == 1 and letter not in "yS" else rf"\d{{{count}}}"
            written += f"({digits})"
            letters.append(letter * count)
    if ")(" in written:
        raise Undefined(f"numbers that touch in the date pattern {pattern!r} are not read here")
    return re.compile(written, re.ASCII), tuple(letters)
