"""The instants a step closes."""

from __future__ import annotations

from dataclasses import dataclass

from mayfly.lifetime import MIN_TIME


@dataclass(frozen=True, slots=True)
class Interval:
    """``began <= instant < clock``; ``first`` is the time of the first row ever, if one came.

    Rows before ``knows_from`` are not all known to a query that came later. Of queries that are
    answered together, ``readers_know_from`` says so of each by its number; where some of them have
    just come, ``entering`` are the only ones that are stepped.
    """

    began: int = MIN_TIME
    clock: int = MIN_TIME
    first: int | None = None
    knows_from: int = MIN_TIME
    readers_know_from: tuple[tuple[int, int], ...] = ()
    entering: frozenset[int] | None = None

    @property
    def is_empty(self) -> bool:
        return self.clock <= self.began
