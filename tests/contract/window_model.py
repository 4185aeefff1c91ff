"""Sliding windows the slow and obvious way: lists of rows, sorted whenever something is asked."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from math import ceil, isnan
from typing import Any


def order(value: Any) -> tuple[int, Any]:
    """NULL first, NaN last."""
    if value is None:
        return (0, 0)
    return (2, 0) if isinstance(value, float) and isnan(value) else (1, value)


def same(value: Any) -> Any:
    """NaN equals itself, −0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if isnan(value) else value + 0.0
    return value


class WindowModel:
    """The rows of the last ``slots`` basic windows."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.basic: list[list[tuple[int, Any]]] = []
        self._arrived = 0

    def attach(self, values: list[Any]) -> None:
        self.basic.append([(self._arrived + i, value) for i, value in enumerate(values)])
        self._arrived += len(values)

    @property
    def rows(self) -> list[tuple[int, Any]]:
        return [row for basic in self.basic[-self.slots :] for row in basic]

    def histogram(self) -> list[tuple[Any, int]]:
        counts = Counter(same(value) for _, value in self.rows)
        values = {same(value): value for _, value in self.rows}
        return [(key, counts[key]) for key in sorted(counts, key=lambda k: order(values[k]))]

    def present(self) -> list[Any]:
        return sorted((value for _, value in self.rows if value is not None), key=order)

    def distinct(self) -> int:
        return len({same(value) for value in self.present()})

    def quantile(self, q: float) -> Any:
        rows = self.present()
        return rows[max(1, ceil(q * len(rows) - 1e-9)) - 1] if rows else None

    def median(self) -> float | None:
        rows = self.present()
        if not rows:
            return None
        low, high = rows[(len(rows) - 1) // 2], rows[len(rows) // 2]
        if isinstance(low, Decimal):
            return float((low + high) / 2)
        return float(low) if low == high else low + (high - low) / 2

    def top(self, k: int) -> list[tuple[Any, int]]:
        listed = [(v, c) for v, c in self.histogram() if v is not None]
        return sorted(listed, key=lambda pair: -pair[1])[:k]

    def lookup(self, value: Any) -> list[int]:
        return [number for number, row in self.rows if same(row) == same(value)]
