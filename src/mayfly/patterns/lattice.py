"""Update patterns as an algebra: how the results of a plan edge expire.

Idea: MON < WKS < WK < STR. MON never expires; WKS(c) lives one constant c, so results leave
first-in first-out; WK knows each expiration when it is produced; STR does not.
Invariant: WKS(c) and WKS(d) with c ≠ d are incomparable, and their least upper bound is WK.
Cost: O(1) per operation. Thesis 3.2.1 (classification), 3.5.1 (order).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce

from mayfly.errors import InvalidSetting
from mayfly.lifetime import format_micros


class Kind(IntEnum):
    """The four update patterns from the simplest to the most demanding."""

    MON = 0
    WKS = 1
    WK = 2
    STR = 3


@dataclass(frozen=True, slots=True)
class Pattern:
    """An update pattern; WKS carries the constant lifetime of its results.

    ``grid`` is (slide, origin) where a slide that does not divide the lifetime rounds it: the
    order stays first-in first-out, but only against results rounded to the same grid.
    """

    kind: Kind
    lifetime: int | None = None
    grid: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if (self.kind is Kind.WKS) != (self.lifetime is not None):
            raise InvalidSetting(
                f"{self.kind.name} with lifetime {self.lifetime} is not an update pattern",
                "give a constant lifetime to WKS and to nothing else",
            )
        if self.lifetime is not None and self.lifetime <= 0:
            raise InvalidSetting(
                f"a constant lifetime of {self.lifetime} µs", "use a lifetime of at least 1 µs"
            )

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def predictable(self) -> bool:
        """Whether every expiration is known when the result is produced."""
        return self.kind is not Kind.STR

    def __le__(self, other: Pattern) -> bool:
        return self == other or self.kind < other.kind

    def __lt__(self, other: Pattern) -> bool:
        return self.kind < other.kind

    def join(self, other: Pattern) -> Pattern:
        """The least upper bound: the simplest pattern at least as demanding as both."""
        if self <= other:
            return other
        return self if other <= self else WK

    def merge(self, other: Pattern) -> Pattern:
        """The pattern of the multiset union of two such edges.

        Unlike ``join``, MON counts as a constant lifetime of its own: results that never expire
        beside results that do are no longer first-in first-out.
        """
        if self == other:
            return self
        return STR if Kind.STR in (self.kind, other.kind) else WK

    def __str__(self) -> str:
        return self.name if self.lifetime is None else f"WKS({format_micros(self.lifetime)})"


MON = Pattern(Kind.MON)
WK = Pattern(Kind.WK)
STR = Pattern(Kind.STR)


def wks(lifetime: int, slide: int = 0, origin: int = 0) -> Pattern:
    """WKS of one constant lifetime, in microseconds, advanced at multiples of ``slide``."""
    rounds = slide > 0 and lifetime % slide != 0
    return Pattern(Kind.WKS, lifetime, (slide, origin % slide) if rounds else None)


def join_all(patterns: Iterable[Pattern]) -> Pattern:
    return reduce(Pattern.join, patterns, MON)


def merge_all(patterns: Iterable[Pattern]) -> Pattern:
    """The pattern of a merge union of at least one input."""
    return reduce(Pattern.merge, patterns)
