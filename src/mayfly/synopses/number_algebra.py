"""The simplest algebras: plain numbers, for examples and for tests of the structures themselves."""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.errors import InvalidSetting


class Sum:
    """Numbers that add up."""

    def merge(self, parts: Sequence[int]) -> int:
        return sum(parts)

    def subtract(self, whole: int, part: int) -> int:
        return whole - part


class Max:
    """The largest of numbers that are not negative; 0 of none."""

    def merge(self, parts: Sequence[int]) -> int:
        return max(parts, default=0)

    def subtract(self, whole: int, part: int) -> int:
        raise InvalidSetting(
            "a maximum cannot be subtracted", "use an interval or basic interval synopsis"
        )


SUM, MAX = Sum(), Max()
