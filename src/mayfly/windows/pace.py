"""What advances a window: a number of rows, or time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mayfly.errors import InvalidSetting
from mayfly.lifetime import Duration, duration, instant


@dataclass(frozen=True)
class Rows:
    """Basic windows of ``count`` rows each."""

    count: int

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not hasattr(self.count, "__index__") or self.count < 1:
            raise InvalidSetting(
                f"a basic window of {self.count!r} rows", "give a whole number of 1 or more"
            )


@dataclass(frozen=True)
class Span:
    """Basic windows of the instants ((w − 1)·span, w·span], counted from an origin."""

    span: Duration
    origin: int | datetime | str = 0

    def __post_init__(self) -> None:
        if not self.micros:
            raise InvalidSetting("a basic window that spans no time", 'give a span like "1 min"')
        instant(self.origin)

    @property
    def micros(self) -> int:
        return duration(self.span)

    def of(self, ts: int) -> int:
        """The number of the basic window that an instant belongs to."""
        return -((instant(self.origin) - ts) // self.micros)

    def end(self, number: int) -> int:
        """The last instant of a basic window."""
        return instant(self.origin) + number * self.micros


@dataclass(frozen=True)
class Refresh:
    """A slide at which queries run: how many basic windows have been attached, as of when.

    ``repeats`` is more than 1 where the window stayed empty and equal refreshes are given as one.
    """

    number: int
    as_of: int
    partial: bool
    repeats: int = 1
