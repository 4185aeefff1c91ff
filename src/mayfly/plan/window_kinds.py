"""Window specifications: which tuples of a stream are alive at an instant.

A window is a value; ``spec/semantics`` in words: RANGE d keeps ts ≤ τ < ts + d, NOW the tuples
of the instant itself, ROWS n the n latest, PARTITION BY … ROWS n the n latest of each partition.
SLIDE advances a window only at multiples of a period, or after a number of rows (mixed jumping
windows, thesis 2.1.1); INTERNAL bounds memory without expiring results (thesis 3.3.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mayfly.lifetime import format_micros, instant_text


@dataclass(frozen=True, slots=True)
class Slide:
    """How often a window moves: every ``period`` µs counted from ``origin``, or every ``rows``."""

    period: int | None = None
    rows: int | None = None
    origin: int = 0

    def at_or_after(self, instant: int) -> int:
        """The next refresh, or the instant itself if it is one."""
        period = self.period or 1
        return -((self.origin - instant) // period) * period + self.origin

    def at_or_before(self, instant: int) -> int:
        """The last refresh, or the instant itself if it is one."""
        period = self.period or 1
        return (instant - self.origin) // period * period + self.origin

    def cql(self) -> str:
        if self.rows is not None:
            return f"SLIDE {self.rows} ROWS"
        origin = f" ORIGIN '{instant_literal(self.origin)}'" if self.origin else ""
        return f"SLIDE {format_micros(self.period or 0)}{origin}"


@dataclass(frozen=True, slots=True)
class Window:
    """What all windows share: an optional slide, and whether they are internal."""

    slide: Slide | None = None
    internal: bool = False

    @property
    def lifetime(self) -> int | None:
        """The constant number of µs each tuple lives, if there is one (before any slide)."""
        return None

    @property
    def counts_rows(self) -> bool:
        """Whether later tuples displace or move others, so that expirations are unpredictable."""
        return self.slide is not None and self.slide.rows is not None

    @property
    def is_external(self) -> bool:
        """Whether tuples leaving this window take results with them."""
        return not self.internal and (self.lifetime is not None or self.counts_rows)

    def with_options(self, slide: Slide | None, internal: bool) -> Window:
        return replace(self, slide=slide, internal=internal)

    def made_internal(self) -> Window:
        return replace(self, internal=True)

    def cql(self) -> str:
        """The window as the language writes it, brackets included."""
        parts = [self._extent()]
        if self.slide:
            parts.append(self.slide.cql())
        if self.internal:
            parts.append("INTERNAL")
        return f"[{' '.join(parts)}]"

    def _extent(self) -> str:
        return "UNBOUNDED"


@dataclass(frozen=True, slots=True)
class Unbounded(Window):
    """Every tuple so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landmark(Window):
    """Every tuple since ``start``, up to ``until`` (a fixed window) if given."""

    start: int
    until: int | None = None

    def _extent(self) -> str:
        end = f" UNTIL '{instant_literal(self.until)}'" if self.until is not None else ""
        return f"LANDMARK '{instant_literal(self.start)}'{end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range(Window):
    """The tuples of the last ``duration`` µs."""

    duration: int

    @property
    def lifetime(self) -> int | None:
        return self.duration

    def _extent(self) -> str:
        return f"RANGE {format_micros(self.duration)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cumulative(Range):
    """The tuples since the last multiple of ``duration``, counted from ``start``: all of a span go
    together. It is what CUMULATE looks through; the language has no other word for it."""

    start: int = 0

    def over_after(self, instant: Any) -> Any:
        """Where the span of an instant, or of each in an array, is over."""
        return ((instant - self.start) // self.duration + 1) * self.duration + self.start

    def _extent(self) -> str:
        return f"CUMULATE {format_micros(self.duration)}"


@dataclass(frozen=True, slots=True)
class Now(Window):
    """The tuples of the current instant: a lifetime of one microsecond."""

    @property
    def lifetime(self) -> int | None:
        return 1

    def _extent(self) -> str:
        return "NOW"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsWindow(Window):
    """The ``count`` latest tuples."""

    count: int

    @property
    def counts_rows(self) -> bool:
        return True

    def _extent(self) -> str:
        return f"ROWS {self.count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRows(Window):
    """The ``count`` latest tuples of each partition, optionally none older than ``duration``."""

    partition_by: tuple[str, ...]
    count: int
    duration: int | None = None

    @property
    def counts_rows(self) -> bool:
        return True

    def _extent(self) -> str:
        bound = f" RANGE {format_micros(self.duration)}" if self.duration is not None else ""
        names = ", ".join(f"`{name.replace('`', '``')}`" for name in self.partition_by)
        return f"PARTITION BY {names} ROWS {self.count}{bound}"


def instant_literal(moment: int) -> str:
    """An instant in UTC with its zone, as windows and literals write it."""
    return f"{instant_text(moment)}+00:00"
