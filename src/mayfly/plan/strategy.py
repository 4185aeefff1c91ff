"""How expirations travel through a plan, and the structures that operator state is kept in."""

from __future__ import annotations

from enum import Enum

from mayfly.errors import InvalidSetting


class Strategy(Enum):
    """How expirations travel (thesis 2.3.3, 3.5): by pattern, by negative tuples, or by scans."""

    UPA = "UPA"
    NT = "NT"
    DIRECT = "DIRECT"

    @staticmethod
    def named(name: str) -> Strategy:
        try:
            return Strategy(name.upper())
        except ValueError:
            known = ", ".join(one.value for one in Strategy)
            raise InvalidSetting(f"there is no strategy {name!r}", f"use one of {known}") from None


CALENDAR_RANGES = 8
"""Ranges of expiration in a calendar queue."""


class Structure(Enum):
    """What holds a piece of operator state (thesis 3.5.2)."""

    APPEND = "append-only log"
    FIFO = "FIFO queue"
    CALENDAR = "calendar queue"
    CALENDAR_NEGATIVE = "calendar queue + negative tuples"
    HASH = "hash on identity, negative tuples"
    BUFFER = "insertion-order buffer"
    GROUPS = "array by group"
    COUNTS = "counts by value"
    COVERS = "cover by key"
