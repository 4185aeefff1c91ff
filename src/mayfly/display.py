"""How objects show themselves: one line at a prompt, a small table in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from html import escape
from typing import Any

LONGEST = 60


def shortened(text: str, longest: int = LONGEST) -> str:
    """A text on one line, cut where it is longer.

    >>> shortened("SELECT a\\n  FROM s", 12)
    'SELECT a FR…'
    """
    words = " ".join(text[: 4 * longest].split())
    return words if len(words) <= longest else words[: longest - 1] + "…"


def one_line(value: object, *facts: object) -> str:
    """What ``repr`` shows of something with more inside than anybody would read."""
    return f"<{type(value).__name__} {', '.join(map(str, facts))}>"


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
