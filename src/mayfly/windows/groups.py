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
from mayfly.windows.content import Visits, WindowContent
from mayfly.windows.domain import NULL_KEY, Domain, Int64s
from mayfly.windows.storage import ListBuffer, Members, recoded


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


class ValueGroups:
    """Declared groups: the values at which one ends and the next begins."""

    def __init__(self, edges: Sequence[Any], domain: Domain) -> None:
        if isinstance(edges, str | bytes) or not hasattr(edges, "__len__") or not len(edges):
            raise InvalidSetting(f"{edges!r} are not edges of groups", "give groups=[10, 20, 30]")
        keys = domain.encode(list(edges))
        if (np.diff(keys) <= 0).any() or (keys == NULL_KEY).any():
            raise InvalidSetting(
                f"the edges of groups are not ascending: {list(edges)}",
                "sort them and leave out repetitions and NULL",
            )
        self.edges = list(edges)
        self._keys = keys
        domain.on_relabel(self._relabel)
        self._whole = domain.type is not None and str(domain.type).startswith(("int", "uint"))

    def __len__(self) -> int:
        return len(self.edges) + 1

    @property
    def keys(self) -> Int64s:
        return self._keys

    def _relabel(self, old: Int64s, new: Int64s) -> None:
        self._keys = recoded(self._keys, old, new)

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


class GroupContent(WindowContent):
    """Groups: basic windows of a count per group (GROUP) or of keys (LIST), and G-INDEX over them.

    Without the index, the counts of the basic windows are added up whenever something is asked.
    """

    def __init__(
        self, domain: Domain, groups: ValueGroups, *, listed: bool, indexed: bool, slots: int
    ) -> None:
        self.domain, self.groups = domain, groups
        self._listed, self._visits = listed, 0
        self._total = np.zeros(len(groups), np.int64) if indexed else None
        self._buffer = ListBuffer()
        self._slots: list[Int64s | None] = [None] * slots
        self._sizes = [0] * slots
        domain.on_relabel(self._relabel)

    def append(self, keys: Int64s) -> Members:
        return self._buffer.append(keys, None)

    def slide(self, slot: int) -> None:
        """Merge the delta-file of a slide."""
        old, keys = self._slots[slot], self._buffer.take().members.astype(np.int64)
        gone, counts = self._counts_of(old), self.groups.counts(keys)
        if self._total is not None:
            self._total += counts - gone
            self._visits += len(counts)
        self._slots[slot] = keys if self._listed else counts
        self.rows += len(keys) - self._sizes[slot]
        self._sizes[slot] = len(keys)

    def purge(self) -> Members:
        parts = [part for part in self._slots if part is not None] if self._listed else []
        self.domain.keep(np.concatenate([self.groups.keys, *parts]))
        return np.empty(0, np.int32)

    def clear(self) -> None:
        self._slots = [None] * len(self._slots)
        self._sizes = [0] * len(self._slots)

    @property
    def visits(self) -> Visits:
        return Visits(probe=self._visits)

    @property
    def present(self) -> int:
        return int(self._totals().sum())

    def histogram(self) -> list[RangeCount]:
        totals = self._totals()
        return [
            RangeCount(self.groups.range(g), int(totals[g]))
            for g in np.flatnonzero(totals).tolist()
        ]

    def distinct(self) -> tuple[int, int]:
        """Between how many values and how many there are."""
        totals = self._totals()
        filled = np.flatnonzero(totals).tolist()
        return len(filled), sum(self.groups.most(g, int(totals[g])) for g in filled)

    def select(self, position: int) -> ValueRange:
        return self.groups.range(int(np.searchsorted(np.cumsum(self._totals()), position)))

    def counts(self, question: str) -> tuple[Int64s, Int64s]:
        raise InvalidSetting(
            f"{question} needs values, and this window counts groups",
            'use storage="LIST" with index="T" or "H"',
        )

    def intersection(self, other: WindowContent) -> RangeIntersection:
        """The groups that both have rows in."""
        if not isinstance(other, GroupContent) or self.groups.edges != other.groups.edges:
            raise InvalidSetting(
                "the two windows do not count the same groups", "give both the same groups=[…]"
            )
        mine, theirs = self._totals(), other._totals()
        common = np.flatnonzero((mine > 0) & (theirs > 0)).tolist()
        most = sum(self.groups.most(g, int(mine[g]), int(theirs[g])) for g in common)
        return RangeIntersection(tuple(map(self.groups.range, common)), most)

    def _totals(self) -> Int64s:
        if self._total is not None:
            return self._total
        totals: Int64s = np.sum([self._counts_of(slot) for slot in self._slots], axis=0)
        return totals

    def _counts_of(self, part: Int64s | None) -> Int64s:
        if part is None:
            return np.zeros(len(self.groups), np.int64)
        return self.groups.counts(part) if self._listed else part

    def _relabel(self, old: Int64s, new: Int64s) -> None:
        self._buffer.recode(old, new)
        if self._listed:
            self._slots = [
                None if part is None else recoded(part, old, new) for part in self._slots
            ]
