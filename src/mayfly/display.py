"""How objects show themselves: one line at a prompt, a small table in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

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


def html_table(title: str, facts: Mapping[str, object]) -> str:
    """Facts by name, for notebooks."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(str(fact))}</td></tr>"
        for name, fact in facts.items()
    )
    return f"<b>{escape(title)}</b><table>{rows}</table>"
