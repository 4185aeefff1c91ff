"""The window of a served query and the panes it is answered from, as its text says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import gcd

from mayfly.lifetime import format_micros
from mayfly.plan.serving_terms import ServeClause
from mayfly.plan.window_kinds import Range


@dataclass(frozen=True)
class PaneGrid:
    """Pane u holds the rows with ts in (origin + (u − 1)·length, origin + u·length]."""

    stream: str
    length: int
    origin: int

    def end(self, pane: int) -> int:
        return self.origin + pane * self.length

    def pane_of(self, instant: int) -> int:
        return -((self.origin - instant) // self.length)

    def closed(self, clock: int) -> int:
        """The last pane all of whose instants are before the clock."""
        return (clock - 1 - self.origin) // self.length

    def first_whole(self, known_from: int) -> int:
        """The first pane of which all rows are known, where those before an instant are not."""
        return self.pane_of(known_from - 1) + 1


@dataclass(frozen=True)
class ServedWindow(ABC):
    """``window`` moves by the period of the query, which its panes divide."""

    name: str
    serve: ServeClause
    stream: str
    window: Range

    @property
    @abstractmethod
    def synopsis(self) -> str:
        """What queries that read the same panes have in common."""

    @property
    def length(self) -> int:
        return self.window.duration

    @property
    def period(self) -> int:
        assert self.window.slide is not None
        assert self.window.slide.period
        return self.window.slide.period

    @property
    def pane(self) -> int:
        return gcd(self.length, self.period)

    @property
    def origin(self) -> int:
        assert self.window.slide is not None
        return self.window.slide.origin

    @property
    def grid(self) -> PaneGrid:
        """The panes that it reads."""
        return PaneGrid(self.stream, self.pane, self.origin % self.pane)

    @property
    def panes_held(self) -> int:
        """How many panes are to be held for it."""
        more = self.period if self.serve.scan.incremental else 0
        return (self.length + more) // self.pane


def rows_missing(query: ServedWindow, kept: int) -> str:
    """Why a query cannot read the rows of its window, which are kept so long; nothing if it can."""
    if not query.serve.scan.of_rows or kept >= query.length:
        return ""
    length = format_micros(query.length)
    return (
        f"SCAN {query.serve.scan.value} reads the rows of {query.stream} over {length}, which are "
        f"not kept: declare KEEP {length} on {query.stream}"
    )
