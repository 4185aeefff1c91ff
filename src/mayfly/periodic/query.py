"""A periodic query: an aggregate over the rows of a window, answered once per period."""

from __future__ import annotations

from dataclasses import dataclass

from mayfly.errors import InvalidSetting
from mayfly.lifetime import format_micros
from mayfly.periodic.predicate import EVERYTHING, Predicate
from mayfly.plan.window_kinds import Slide
from mayfly.synopses.contents import Aggregate, Keys

OWN_COLUMNS = ("value", "low", "high")


@dataclass(frozen=True)
class PeriodicQuery:
    """``SELECT keys, call FROM source [RANGE length SLIDE period ORIGIN origin] WHERE where``.

    Times are microseconds. The answer at a refresh T, a multiple of the period from the origin on,
    is over the rows with ts in (T − length, T]. Over a join, ``lengths`` has one for each input.
    """

    name: str
    call: Aggregate
    lengths: tuple[int, ...]
    period: int
    origin: int = 0
    where: Predicate = EVERYTHING
    keys: Keys = ()

    def __post_init__(self) -> None:
        if min(self.lengths, default=0) < 1 or self.period < 1:
            raise InvalidSetting(
                f"{self.name}: a window of {self.lengths} µs every {self.period} µs",
                "give times above 0",
            )
        for key in self.keys:
            if key in OWN_COLUMNS or key.startswith("_"):
                raise InvalidSetting(
                    f"{self.name}: answers have a column {key!r} of their own", "rename the key"
                )

    @property
    def length(self) -> int:
        """The longest window."""
        return max(self.lengths)

    @property
    def slide(self) -> Slide:
        return Slide(period=self.period, origin=self.origin)

    def same_input(self, other: PeriodicQuery) -> bool:
        """Same rows, groups and argument: what differs is the function, window or period."""
        return (
            self.where == other.where
            and self.keys == other.keys
            and self.call.argument == other.call.argument
        )

    def __str__(self) -> str:
        windows = ", ".join(format_micros(length) for length in self.lengths)
        return f"{self.call} [RANGE {windows} {self.slide.cql()}]"
