"""The instants a step closes."""

from __future__ import annotations

from dataclasses import dataclass

from mayfly.lifetime import MIN_TIME


@dataclass(frozen=True, slots=True)
class Interval:
    """``began <= instant < clock``; ``first`` is the time of the first row ever, if one came.

    Rows before ``knows_from`` are not all known to a query that came later.
    """

    began: int = MIN_TIME
    clock: int = MIN_TIME
    first: int | None = None
    knows_from: int = MIN_TIME

    @property
    def is_empty(self) -> bool:
        return self.clock <= self.began
