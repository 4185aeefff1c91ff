"""How things are shown: objects on one line or as a small table, counts and sizes in words,
values in JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import date, datetime, timedelta
from decimal import Decimal
from html import escape
from typing import Any

LONGEST = 60
LONGEST_LINE = 200
"""What a prompt shows of anything."""
NOT_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""As Spark writes them, and reads them back."""
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")


def shortened(text: str, longest: int = LONGEST) -> str:
    """A text on one line, cut where it is longer.

    >>> shortened("SELECT a\\n  FROM s", 12)
    'SELECT a FR…'
    """
    words = " ".join(text[: 4 * longest].split())
    return words if len(words) <= longest else words[: longest - 1] + "…"


def encodable(text: str) -> str:
    """The text with lone surrogates written as escapes, which JSON reads back."""
    return text.encode(errors="backslashreplace").decode()


def on_one_line(text: str) -> str:
    """The text with control characters, which move a terminal's cursor, written as in Python."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(value: object, *facts: object) -> str:
    """What ``repr`` shows of something too large to print."""
    name = type(value).__name__
    return f"<{name} {shortened(', '.join(map(str, facts)), LONGEST_LINE - len(name) - 3)}>"


class Facts:
    """A value that shows itself by its facts: one line at a prompt, a table in a notebook."""

    __slots__ = ()

    def facts(self) -> Mapping[str, object]:
        """What there is to tell, by name, times in words; of a dataclass all that is not empty."""
        declared: Any = self
        values = {field.name: getattr(self, field.name) for field in fields(declared)}
        return {name: value for name, value in values.items() if value not in (None, (), {}, "")}

    def __repr__(self) -> str:
        facts = self.facts().items()
        return one_line(self, *(f"{name} {shortened(str(fact))}" for name, fact in facts))

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self.facts())


def html_table(title: str, facts: Mapping[str, object]) -> str:
    """Facts by name, for notebooks."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(str(fact))}</td></tr>"
        for name, fact in facts.items()
    )
    return f"<b>{escape(title)}</b><table>{rows}</table>"


def number(value: float) -> str:
    """A number as people write it.

    >>> number(0.25), number(4.2), number(1234)
    ('0.25', '4.2', '1,234')
    """
    if value == 0:
        return "0"
    if value < 1:
        return f"{value:.2g}" if value >= 0.01 else "<0.01"
    if value < 10:
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:,.0f}"


def counted(count: float, singular: str, plural: str | None = None) -> str:
    """
    >>> counted(1, "row"), counted(1200, "row"), counted(2, "query", "queries")
    ('1 row', '1,200 rows', '2 queries')
    """
    return f"{number(count)} {singular if count == 1 else plural or singular + 's'}"


def size(count: float) -> str:
    """Bytes in the largest unit that leaves at least 1.

    >>> size(0), size(999), size(1234), size(56_000_000)
    ('0 B', '999 B', '1.2 kB', '56 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{number(count)} {unit}"
        count /= 1000
    return f"{number(count)} TB"


def plain(value: Any) -> Any:
    """A stored value as JSON can hold it: exact, as text where JSON has no such type."""
    match value:
        case datetime():
            return value.isoformat()
        case date():
            return str(value)
        case Decimal():
            return format(value, "f")
        case timedelta():
            return f"{value // timedelta(microseconds=1)} µs"
        case bytes():
            return value.hex()
        case Mapping():
            return {str(name): plain(member) for name, member in value.items()}
        case list() | tuple():
            return [plain(element) for element in value]
        case float() if not math.isfinite(value):
            return NOT_NUMBERS[str(value)]
    return value
