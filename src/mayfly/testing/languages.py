"""Text in the language and in an independent engine's SQL, written at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Both:
    """One piece of text in both languages."""

    cql: str
    sql: str

    @property
    def pair(self) -> tuple[str, str]:
        return self.cql, self.sql

    def __str__(self) -> str:
        raise TypeError("write both sides with both()")


def both(template: str, *parts: Both | str) -> Both:
    """The template filled in on both sides."""
    pairs = [(part, part) if isinstance(part, str) else part.pair for part in parts]
    return Both(*(template.format(*(pair[side] for pair in pairs)) for side in (0, 1)))


def joined(separator: str, parts: Sequence[Both]) -> Both:
    return Both(separator.join(p.cql for p in parts), separator.join(p.sql for p in parts))
