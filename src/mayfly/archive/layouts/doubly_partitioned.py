"""Doubly partitioned layouts: rows of any lifetime spread over G × E sub-indices.

Idea: a row inserted by update i and removed by update j lies in cell (i, j); the layout maps i to
one of G groups and j to one of E lanes, so an update inserts into one group and removes from one
lane, and leaves the rest of the n = G·E sub-indices alone. No state: everything follows from i, j.
Invariant: the cells alive after any update belong to exactly one sub-index each; under the lazy
layout a group is thrown away only when all it holds has expired.
Cost: an update touches G + E − 1 sub-indices (lazy: one fewer unless it throws a group away), the
baselines all n. variable-lifetimes-2006, 3; results-index-2005, 3.2 and Appendix B, with the
errata that lanes are dealt out by E, and that a lazy group goes when its last update is u − p.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from math import isqrt
from typing import Any

import xxhash

from mayfly.archive.layouts.clusters import even_lengths
from mayfly.errors import InvalidSetting

Names = frozenset[str]


class PartitionRule(StrEnum):
    """How updates are dealt out to groups (of insertion) and lanes (of removal)."""

    CHRONOLOGICAL = "chronological"
    ROUND_ROBIN = "round-robin"
    LAZY = "lazy"
    COUNT = "count"
    RANDOM = "random"
    WATA = "WATA"

    @classmethod
    def _missing_(cls, value: object) -> PartitionRule:
        for rule in cls:
            if rule.value.lower() == str(value).lower().replace("_", "-").replace(" ", "-"):
                return rule
        raise InvalidSetting(
            f"there is no partitioned layout {value!r}", f"use one of {', '.join(cls)}"
        )

    @property
    def throws_away(self) -> bool:
        return self in (PartitionRule.LAZY, PartitionRule.WATA)


@dataclass(frozen=True)
class PartitionedLayout:
    """A rule for ``rollover`` = p updates over ``groups`` × ``lanes`` sub-indices.

    ``rebuild`` keeps every sub-index packed; otherwise an update adds runs, one for each
    ``span`` removing updates, and drops dead ones unread; ``fan_in`` runs of one level and range
    become one. ``clustered=False`` leaves rows in the order they came: the cost of indexing.
    """

    rule: PartitionRule
    rollover: int
    groups: int
    lanes: int
    rebuild: bool = True
    span: int = 1
    fan_in: int = 4
    clustered: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", PartitionRule(self.rule))
        if self.rollover < 1 or self.groups < 1 or self.lanes < 1:
            raise InvalidSetting(
                f"{self.groups}x{self.lanes} sub-indices for {self.rollover} updates",
                "use 1 or more of each",
            )
        if self.rule.throws_away and not 2 <= self.groups <= self.rollover:
            raise InvalidSetting(
                f"the {self.rule} layout cannot have {self.groups} groups of insertions when the "
                f"longest lifetime is {self.rollover} updates",
                f"use 2 to {max(self.rollover, 2)} groups, and at least 2 updates",
            )
        if self.rule is PartitionRule.WATA and (self.lanes > 1 or self.rebuild):
            raise InvalidSetting(
                "WATA divides by insertion alone and rebuilds nothing", "use 1 lane"
            )
        if self.span < 1 or self.fan_in < 2 or (self.rebuild and self.span > 1):
            raise InvalidSetting(
                f"a span of {self.span} and a fan-in of {self.fan_in}",
                "use a span of 1 or more (1 if sub-indices are rebuilt) and a fan-in of 2 or more",
            )

    @property
    def window(self) -> int:
        """p: no row is stored for more updates."""
        return self.rollover

    @property
    def constituents(self) -> int:
        return self.groups * self.lanes

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"I{number + 1}" for number in range(self.constituents))

    @property
    def hard(self) -> bool:
        """Whether an update removes every expired row; otherwise some linger, never returned."""
        return not self.rule.throws_away and self.span == 1

    def group_of(self, inserted: int) -> int:
        """g of the update that inserts."""
        match self.rule:
            case PartitionRule.CHRONOLOGICAL:
                return (inserted - 1) % self.rollover * self.groups // self.rollover
            case PartitionRule.ROUND_ROBIN | PartitionRule.COUNT:
                return (inserted - 1) % self.groups
            case PartitionRule.RANDOM:
                return _drawn(inserted, "group") % self.groups
            case PartitionRule.LAZY | PartitionRule.WATA:
                return self._cluster(inserted)[0] % self.groups

    def lane_of(self, removed: int) -> int:
        """e of the update that removes."""
        slot, slots = self.slot_of(removed), -(-self.rollover // self.span)
        match self.rule:
            case PartitionRule.CHRONOLOGICAL | PartitionRule.COUNT | PartitionRule.WATA:
                return slot % slots * self.lanes // slots
            case PartitionRule.ROUND_ROBIN | PartitionRule.LAZY:
                return slot % self.lanes
            case PartitionRule.RANDOM:
                return _drawn(slot, "lane") % self.lanes

    def slot_of(self, removed: int) -> int:
        """The range of removing updates whose rows share a run."""
        return (removed - 1) // self.span

    def head_start(self, slot: int, level: int) -> int:
        """How many runs of a level a range is taken to have had before its first merge there.

        Every update adds to all ranges. They would merge all at once; counting from their own
        number on, base ``fan_in``, they take turns. A run that got ahead that way must be merged
        on before it expires, so levels above which none is merged do not begin early.
        """
        merges_on = self.fan_in ** (level + 2) * self.groups <= self.rollover
        return slot // int(self.fan_in**level) % self.fan_in if merges_on else 0

    def merges_pay(self, slot: int, level: int, update: int) -> bool:
        """Whether what is merged lives long enough: at least half the time until the next merge."""
        left = (slot + 1) * self.span - update
        return 2 * left >= self.groups * int(self.fan_in ** (level + 1))

    def sub_index(self, inserted: int, removed: int) -> str:
        """The sub-index of cell (i, j)."""
        return self._name(self.group_of(inserted), self.lane_of(removed))

    def removals_in(self, name: str, inserted: int) -> frozenset[int]:
        """The removing updates whose rows, inserted by this update, belong to a sub-index."""
        group, lane = divmod(int(name.removeprefix("I")) - 1, self.lanes)
        if group != self.group_of(inserted):
            return frozenset()
        return _removals(self, inserted).get(lane, frozenset())

    def inserts(self, update: int) -> Names:
        """The sub-indices an update inserts into."""
        return self._whole_group(self.group_of(update))

    def removes(self, update: int) -> Names:
        """The sub-indices an update removes expired rows from, one by one."""
        if self.rule is PartitionRule.WATA:
            return frozenset()
        lane, oldest = self.lane_of(update), update - self.rollover
        spared = self.group_of(oldest) if self.rule.throws_away and oldest >= 1 else None
        return frozenset(self._name(g, lane) for g in range(self.groups) if g != spared)

    def throws_away(self, update: int) -> Names:
        """The sub-indices an update drops whole, because all of their updates have expired."""
        last = update - self.rollover
        if not self.rule.throws_away or last < 1 or not self._cluster(last)[1]:
            return frozenset()
        return self._whole_group(self.group_of(last))

    def touched(self, update: int) -> Names:
        return self.inserts(update) | self.removes(update) | self.throws_away(update)

    @cached_property
    def most_lingering(self) -> float:
        """The largest share of dead rows beside live ones, at equal lifetimes and rates."""
        if not self.rule.throws_away:
            return 0.0
        return (-(-(self.rollover - 1) // (self.groups - 1)) - 1) / self.rollover

    def _cluster(self, inserted: int) -> tuple[int, bool]:
        """The number of the WATA cluster of an update, and whether it is the cluster's last."""
        period, place = divmod(inserted - 1, self.rollover - 1)
        for number, end in enumerate(self._cluster_ends):
            if place < end:
                return period * (self.groups - 1) + number, place == end - 1
        raise AssertionError("clusters cover the period")

    @cached_property
    def _cluster_ends(self) -> tuple[int, ...]:
        lengths = even_lengths(self.rollover - 1, self.groups - 1)
        return tuple(sum(lengths[: index + 1]) for index in range(len(lengths)))

    def _whole_group(self, group: int) -> Names:
        return frozenset(self._name(group, lane) for lane in range(self.lanes))

    def _name(self, group: int, lane: int) -> str:
        return f"I{group * self.lanes + lane + 1}"

    def __str__(self) -> str:
        how = "Rebuild" if self.rebuild else "NoRebuild"
        if self.rule is PartitionRule.WATA:
            return f"WATA{self.groups}"
        indexed = "" if self.clustered else ", unindexed"
        return f"{self.rule} {how} {self.groups}x{self.lanes}{indexed}"

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule.value,
            "rollover": self.rollover,
            "groups": self.groups,
            "lanes": self.lanes,
            "rebuild": self.rebuild,
            "span": self.span,
            "fan_in": self.fan_in,
            "clustered": self.clustered,
        }


@lru_cache(maxsize=2)
def _removals(layout: PartitionedLayout, inserted: int) -> dict[int, frozenset[int]]:
    """By lane, the updates that remove rows of one update: each lane is asked for in turn."""
    lanes: dict[int, list[int]] = {}
    for removed in range(inserted + 1, inserted + layout.rollover + 1):
        lanes.setdefault(layout.lane_of(removed), []).append(removed)
    return {lane: frozenset(coming) for lane, coming in lanes.items()}


BASELINES = ("R-ins", "D-ins", "R-exp", "D-exp", "WATA")
"""Divided by insertion or by expiration alone; R rebuilds what it touches, D does not."""


def baseline(name: str, rollover: int, sub_indices: int) -> PartitionedLayout:
    """One of the layouts that the doubly partitioned ones are compared with."""
    spellings = {spelling.lower(): spelling for spelling in BASELINES}
    if name.lower() not in spellings:
        raise InvalidSetting(f"there is no baseline {name!r}", f"use one of {', '.join(BASELINES)}")
    kind = spellings[name.lower()]
    if kind == "WATA":
        return PartitionedLayout(PartitionRule.WATA, rollover, sub_indices, 1, rebuild=False)
    by_insertion = kind.endswith("ins")
    return PartitionedLayout(
        PartitionRule.CHRONOLOGICAL,
        rollover,
        sub_indices if by_insertion else 1,
        1 if by_insertion else sub_indices,
        rebuild=kind.startswith("R"),
    )


def square(sub_indices: int) -> tuple[int, int]:
    """G and E for n sub-indices: as equal as n allows (G + E − 1 is least), G the larger."""
    lanes = next(e for e in range(isqrt(sub_indices), 0, -1) if sub_indices % e == 0)
    return sub_indices // lanes, lanes


def live_cells(layout: PartitionedLayout, update: int) -> Iterator[tuple[int, int]]:
    """Every cell that may have live rows after an update, from the first full roll-over on."""
    for inserted in range(update - layout.rollover + 1, update + 1):
        for removed in range(update + 1, inserted + layout.rollover + 1):
            yield inserted, removed


def _drawn(update: int, purpose: str) -> int:
    """A number that looks random and is the same in every process."""
    return xxhash.xxh64_intdigest(f"{purpose} {update}".encode())
