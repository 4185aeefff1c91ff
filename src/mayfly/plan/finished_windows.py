"""Windows that are answered once, when they are over: TUMBLE, HOP, CUMULATE and SESSION.

A window is ``[start, end)``, as in Spark and Flink. Periodic ones are the extents of a window with
SLIDE whose refreshes are the last instants of windows, ``end - 1 µs``: what is alive there is what
the window contains, and nothing has to be copied. Where a session ends depends on its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from mayfly.lifetime import format_micros
from mayfly.plan.window_kinds import Cumulative, Range, Slide, Unbounded, Window

START, END = "window_start", "window_end"


@dataclass(frozen=True, slots=True)
class PeriodicWindows:
    """Windows of ``size`` µs, one of which ends every ``period`` µs; starts count from ``offset``.

    Cumulative ones begin together: one for each period up to the size.
    """

    size: int
    period: int
    offset: int = 0
    cumulative: bool = False

    @property
    def slide(self) -> Slide:
        """Refreshes at the last instants of windows."""
        return Slide(self.period, origin=(self.offset + self.size - 1) % self.period)

    @property
    def extent(self) -> Window:
        """What makes a row alive at the last instants of its windows."""
        if self.cumulative:
            return Cumulative(duration=self.size, slide=self.slide, start=self.offset % self.size)
        return Range(duration=self.size, slide=self.slide)

    @property
    def word(self) -> str:
        if self.cumulative:
            return "CUMULATE"
        return "TUMBLE" if self.size == self.period else "HOP"

    @property
    def longest(self) -> int:
        return self.size

    def cql(self) -> str:
        """As the language writes it."""
        lengths = [self.size] if self.word == "TUMBLE" else [self.period, self.size]
        words = " ".join(map(format_micros, lengths))
        offset = f" OFFSET {format_micros(self.offset)}" if self.offset else ""
        return f"{self.word} {words}{offset}"


@dataclass(frozen=True, slots=True)
class Sessions:
    """Rows of a partition that are at most ``gap`` µs apart; a session ends so long after its last
    row."""

    gap: int
    partition_by: tuple[str, ...] = ()

    @property
    def extent(self) -> Window:
        return Unbounded()

    @property
    def word(self) -> str:
        return "SESSION"

    def cql(self) -> str:
        names = ", ".join(self.partition_by)
        return f"SESSION {format_micros(self.gap)}{f' PARTITION BY {names}' if names else ''}"


FinishedWindows: TypeAlias = PeriodicWindows | Sessions
