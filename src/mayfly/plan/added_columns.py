"""What columns that Mayfly adds are called, beside those that a query or a stream has.

A user's column keeps its name. One of ours that would meet it, in whatever case, gets underscores
behind it until its name is free. Inside operators ours begin with ``_`` and have no dot, and every
column of a user is ``relation.name``, so that nothing meets there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def free_name(name: str, taken: Iterable[str]) -> str:
    """
    >>> free_name("ts", ["a", "b"]), free_name("ts", ["TS", "ts_"])
    ('ts', 'ts__')
    """
    names = {column.casefold() for column in taken}
    while name.casefold() in names:
        name += "_"
    return name


@dataclass(frozen=True, slots=True)
class LifetimeColumns:
    """The names of the times of results: when one is generated, when it ends, and when one that
    was announced ends earlier."""

    ts: str = "ts"
    exp: str = "exp"
    cut: str = "cut"
    until: str = "until"
    """Of rows that stand for a run of refreshes: the last one."""

    @staticmethod
    def beside(columns: Iterable[str]) -> LifetimeColumns:
        """The names of the times of results that have these columns."""
        taken = tuple(columns)
        return LifetimeColumns(*(free_name(name, taken) for name in ("ts", "exp", "cut", "until")))
