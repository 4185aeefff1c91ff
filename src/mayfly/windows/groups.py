"""Counts per group of values: GROUP basic windows and the report's G-INDEX.

Idea: groups are disjoint, half-open and cover everything; the outermost are open-ended. A basic
window is one count per group; a slide merges one *delta-file*, newest minus oldest counts.
Answers are ranges, never values: every common value lies in a reported group, but a reported
group may hold none. Cost: O(log g) per tuple, g per slide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mayfly.errors import InvalidSetting
from mayfly.windows.domain import NULL_KEY, Domain, Int64s


@dataclass(frozen=True)
class ValueRange:
    """The values from ``low`` up to, not including, ``high``; None is open-ended."""

    low: Any
    high: Any

    def __str__(self) -> str:
        return (
            f"[{'−∞' if self.low is None else self.low}, {'∞' if self.high is None else self.high})"
        )


@dataclass(frozen=True)
class RangeCount:
    """How many rows lie in a range of values."""

    range: ValueRange
    count: int


@dataclass(frozen=True)
class RangeIntersection:
    """Ranges that both windows have rows in, and the most values that can be common."""

    ranges: tuple[ValueRange, ...]
    at_most: int


class Groups:
    """Declared groups: the values at which one ends and the next begins."""

    def __init__(self, edges: Sequence[Any], domain: Domain) -> None:
        if not len(edges):
            raise InvalidSetting("groups need at least one edge", "give groups=[10, 20, 30]")
        keys = domain.encode(list(edges))
        if (np.diff(keys) <= 0).any() or (keys == NULL_KEY).any():
            raise InvalidSetting(
                f"the edges of groups are not ascending: {list(edges)}",
                "sort them and leave out repetitions and NULL",
            )
        self.edges = list(edges)
        self._keys = keys
        self._whole = domain.type is not None and str(domain.type).startswith(("int", "uint"))

    def __len__(self) -> int:
        return len(self.edges) + 1

    def counts(self, keys: Int64s) -> Int64s:
        """Rows per group; NULL is in none."""
        present = keys[keys != NULL_KEY]
        places = np.searchsorted(self._keys, present, side="right")
        return np.bincount(places, minlength=len(self)).astype(np.int64)

    def range(self, group: int) -> ValueRange:
        low = self.edges[group - 1] if group else None
        high = self.edges[group] if group < len(self.edges) else None
        return ValueRange(low, high)

    def width(self, group: int) -> int | None:
        """How many values a group can hold, where that is known."""
        if not self._whole or group in (0, len(self.edges)):
            return None
        return int(self._keys[group] - self._keys[group - 1])

    def most(self, group: int, *counts: int) -> int:
        """The most distinct values that a group with these counts can have (in common)."""
        width = self.width(group)
        return min(counts if width is None else (*counts, width))


class GroupIndex:
    """G-INDEX: rows per group of the whole window."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.counts = np.zeros(len(groups), np.int64)
        self.visits = 0

    def slide(self, new: Int64s, old: Int64s | None) -> None:
        """Merge the delta-file of a slide."""
        self.counts += new if old is None else new - old
        self.visits += len(self.counts)

    def histogram(self) -> list[RangeCount]:
        return [
            RangeCount(self.groups.range(g), int(self.counts[g]))
            for g in np.flatnonzero(self.counts).tolist()
        ]

    def distinct(self) -> tuple[int, int]:
        """Between how many values and how many there are."""
        filled = np.flatnonzero(self.counts).tolist()
        return len(filled), sum(self.groups.most(g, int(self.counts[g])) for g in filled)

    def select(self, position: int) -> ValueRange:
        return self.groups.range(int(np.searchsorted(np.cumsum(self.counts), position)))

    def intersection(self, other: GroupIndex) -> RangeIntersection:
        common = np.flatnonzero((self.counts > 0) & (other.counts > 0)).tolist()
        most = sum(self.groups.most(g, int(self.counts[g]), int(other.counts[g])) for g in common)
        return RangeIntersection(tuple(map(self.groups.range, common)), most)
