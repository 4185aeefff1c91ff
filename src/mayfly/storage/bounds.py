"""Smallest and largest values of columns: what a manifest knows of a file without opening it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from mayfly.arrays import arrow as pa
from mayfly.arrays import compute as pc
from mayfly.storage import scalars

LONGEST_BOUND = 64
"""Letters or bytes of a key bound that a manifest keeps: bounds serve to skip files."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Smallest and largest value of a column, both included, or bounds a little wider than that."""

    low: Any
    high: Any

    def union(self, other: Bounds | None) -> Bounds:
        if other is None:
            return self
        return Bounds(min(self.low, other.low), max(self.high, other.high))

    def meets(self, low: Any, high: Any) -> bool:
        return bool(self.low <= high and low <= self.high)

    def to_json(self) -> list[Any]:
        return [scalars.encode(self.low), scalars.encode(self.high)]

    @staticmethod
    def from_json(stored: list[Any]) -> Bounds:
        low, high = map(scalars.decode, stored)
        return Bounds(low, high)

    def shortened(self) -> Bounds | None:
        """Bounds of at most ``LONGEST_BOUND`` letters or bytes around these; None if there are
        none, which takes 64 letters that are the last of all."""
        if not isinstance(self.low, str | bytes):
            return self
        high = _above(self.high)
        return None if high is None else Bounds(self.low[:LONGEST_BOUND], high)


def _above(value: Any) -> Any:
    """The value, or if it is long, a short one that is larger."""
    if len(value) <= LONGEST_BOUND:
        return value
    start = value[:LONGEST_BOUND]
    while start:
        if (after := _following(start[-1:])) is not None:
            return start[:-1] + after
        start = start[:-1]
    return None


def _following(last: Any) -> Any:
    """The next letter or byte in order; None after the last one."""
    if isinstance(last, bytes):
        return bytes([last[0] + 1]) if last[0] < 0xFF else None
    code = ord(last) + 1
    return None if code > sys.maxunicode else chr(0xE000 if 0xD800 <= code < 0xE000 else code)


def bounds_of(column: pa.Array | pa.ChunkedArray) -> Bounds:
    """Of a column with values."""
    extremes = pc.min_max(column)
    return Bounds(extremes["min"].as_py(), extremes["max"].as_py())


def key_bounds(column: pa.Array | pa.ChunkedArray) -> Bounds | None:
    """None where a value has no place in the order: see Segment.key."""
    if column.null_count or pa.types.is_nested(column.type):
        return None
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return None
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return None  # finer than a Python datetime: bounds would be cut off
    try:
        return bounds_of(column)
    except pa.ArrowNotImplementedError:
        return None
