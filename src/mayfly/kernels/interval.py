"""The instants a step closes."""

from __future__ import annotations

from dataclasses import dataclass

from mayfly.lifetime import MIN_TIME


@dataclass(frozen=True, slots=True)
class Interval:
    """``began <= instant < clock``."""

    began: int = MIN_TIME
    clock: int = MIN_TIME

    @property
    def is_empty(self) -> bool:
        return self.clock <= self.began
