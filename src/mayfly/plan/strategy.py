"""How expirations travel through a plan, and the structures that operator state is kept in."""

from __future__ import annotations

from enum import Enum

from mayfly.errors import InvalidSetting
from mayfly.keywords import text


class Strategy(Enum):
    """How expirations travel (thesis 2.3.3, 3.5): by pattern, by negative tuples, or by scans."""

    UPA = "UPA"
    NT = "NT"
    DIRECT = "DIRECT"

    @staticmethod
    def named(name: str) -> Strategy:
        try:
            return Strategy(text("strategy", name).upper())
        except ValueError:
            names = ", ".join(strategy.value for strategy in Strategy)
            raise InvalidSetting(f"there is no strategy {name!r}", f"use one of {names}") from None


CALENDAR_RANGES = 8
"""Ranges of expiration in a calendar queue."""


class Joining(Enum):
    """How three or more inputs that share a key are joined; the answers are the same."""

    COST = "cost"
    """All at once, or with some sub-results kept, whichever costs least."""
    MULTIWAY = "multiway"
    """All at once, without intermediate results."""
    BINARY = "binary"
    """Two at a time, with every intermediate result kept."""

    @property
    def whole(self) -> bool:
        """Whether a join of many inputs runs as one."""
        return self is not Joining.BINARY

    @staticmethod
    def named(name: str) -> Joining:
        try:
            return Joining(text("joins", name))
        except ValueError:
            names = ", ".join(repr(joining.value) for joining in Joining)
            raise InvalidSetting(
                f"there is no way {name!r} to join", f"use one of {names}"
            ) from None


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
