"""SERVE: how a query is answered by deadline, from panes in the memory of a server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mayfly.lifetime import format_micros


class Isolation(Enum):
    """How served and one-time queries see concurrent window updates (thesis ch. 7)."""

    LATEST = "LATEST"
    WINDOW = "WINDOW"
    SNAPSHOT = "SNAPSHOT"


class Overloaded(Enum):
    """What happens to refreshes for which there is no time."""

    LATE = "LATE"
    SKIP = "SKIP"
    EVERY = "EVERY"


class Scanned(Enum):
    """What is read for an answer (spec/periodic 1)."""

    SYNOPSIS = "SYNOPSIS"
    INCREMENTAL_SYNOPSIS = "INCREMENTAL SYNOPSIS"
    WINDOW = "WINDOW"
    INCREMENTAL = "INCREMENTAL"

    @property
    def incremental(self) -> bool:
        return self in (Scanned.INCREMENTAL, Scanned.INCREMENTAL_SYNOPSIS)

    @property
    def of_rows(self) -> bool:
        return self in (Scanned.WINDOW, Scanned.INCREMENTAL)


@dataclass(frozen=True)
class ServeClause:
    """``staleness`` is how far an answer may be behind the clock of the stream, in microseconds;
    ``undo``: what left the window while it is read is subtracted, and no read is in vain."""

    priority: int = 0
    overload: Overloaded = Overloaded.LATE
    isolation: Isolation = Isolation.LATEST
    staleness: int | None = None
    scan: Scanned = Scanned.SYNOPSIS
    undo: bool = False

    @property
    def isolation_words(self) -> str:
        return f"{self.isolation.value}{' UNDO' * self.undo}"

    @property
    def subtracting(self) -> str:
        """The words by which what left a total is subtracted from it; nothing if it is not."""
        if self.scan.incremental:
            return f"SCAN {self.scan.value}"
        return f"ISOLATION {self.isolation_words}" if self.undo else ""

    def cql(self) -> str:
        words = ["SERVE"]
        if self.priority:
            words.append(f"PRIORITY {self.priority}")
        if self.overload is not Overloaded.LATE:
            words.append(f"OVERLOAD {self.overload.value}")
        if self.isolation is not Isolation.LATEST or self.undo:
            words.append(f"ISOLATION {self.isolation_words}")
        if self.staleness is not None:
            words.append(f"BOUNDED STALENESS {format_micros(self.staleness)}")
        if self.scan is not Scanned.SYNOPSIS:
            words.append(f"SCAN {self.scan.value}")
        return " ".join(words)
