"""A doubly partitioned layout run on rows that are only counted: what its updates move and leave.

Idea: no closed formula per layout. Every update brings one unit of rows, spread over the removing
updates by a profile of lifetimes; what ``cell_plan`` would read, write and drop is done to arrays
of amounts, update by update. *Rebuild*: one amount per sub-index and removing update. *NoRebuild*:
amounts and numbers of runs per group, level and range of removing updates, all ranges at once.
Invariant: amounts alive after an update are those of the cells that are alive.
Cost: a few array operations per update. Checked against the files of real archives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout

Amounts = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CountedUpdate:
    """What one update moved, and what is stored after it; amounts in units of one update's rows."""

    update: int
    runs_written: int
    written: float
    read: float
    runs: Amounts
    """The amount of every run that is stored."""
    dead: float
    """How much of it has expired."""


class _Stored(Protocol):
    def change(self, update: int, arriving: Amounts) -> tuple[int, float, float]:
        """Carry out an update: runs written, amount written, amount read."""

    def runs(self) -> Amounts: ...

    def dead(self, update: int) -> float: ...


def counted_updates(
    layout: PartitionedLayout,
    profile: Sequence[float],
    updates: int,
    *,
    first: int = 1,
    patience: int = 0,
) -> Iterator[CountedUpdate]:
    """Updates ``first`` to ``updates`` of an archive that began with update 1.

    ``profile[d − 1]`` of an update's rows are removed d updates later. With ``patience`` packed
    sub-indices keep dead rows for so many updates.
    """
    arriving = np.asarray(profile, dtype=np.float64)
    stored: _Stored
    if layout.rebuild:
        stored = _Packed(layout, updates, patience)
    else:
        stored = _Runs(layout, updates, patience)
    for update in range(1, updates + 1):
        moved = stored.change(update, arriving)
        if update >= first:
            yield CountedUpdate(update, *moved, stored.runs(), stored.dead(update))


def uniform(rollover: int) -> tuple[float, ...]:
    """Every lifetime up to the longest as often as any other."""
    return (1 / rollover,) * rollover


class _Due:
    """Which sub-indices an update may change, as pairs of group and lane."""

    def __init__(self, layout: PartitionedLayout, patience: int) -> None:
        self.layout, self.patience = layout, patience

    def at(self, update: int) -> list[tuple[int, int]]:
        layout = self.layout
        names = set(layout.inserts(update))
        for number in range(max(1, update - self.patience), update + 1):
            names |= layout.removes(number) | layout.throws_away(number)
        return [divmod(int(name.removeprefix("I")) - 1, layout.lanes) for name in sorted(names)]


class _Packed:
    """Sub-indices that are rewritten whenever they are touched."""

    def __init__(self, layout: PartitionedLayout, updates: int, patience: int) -> None:
        self.layout, self.patience, self.due = layout, patience, _Due(layout, patience)
        labels = range(1, updates + layout.rollover + 1)
        self.lanes = np.array([0, *map(layout.lane_of, labels)])
        self.held: Amounts = np.zeros((layout.groups, layout.lanes, len(labels) + 1))

    def change(self, update: int, arriving: Amounts) -> tuple[int, float, float]:
        coming = slice(update + 1, update + 1 + len(arriving))
        group, runs, written, read = self.layout.group_of(update), 0, 0.0, 0.0
        for g, e in self.due.at(update):
            own = self.held[g, e]
            if g != group and not own[: update - self.patience + 1].any():
                continue
            if own[update + 1 :].any():
                read += own.sum()
            own[: update + 1] = 0
            if g == group:
                own[coming] += arriving * (self.lanes[coming] == e)
            runs += bool(own.any())
            written += own.sum()
        return runs, written, read

    def runs(self) -> Amounts:
        sizes: Amounts = self.held.sum(axis=2).ravel()
        return sizes[sizes > 0]

    def dead(self, update: int) -> float:
        return float(self.held[:, :, : update + 1].sum())


class _Runs:
    """Runs by range of removing updates, ``fan_in`` of one level becoming one of the next."""

    def __init__(self, layout: PartitionedLayout, updates: int, patience: int) -> None:
        self.layout, self.due = layout, _Due(layout, patience)
        span, levels, inserts = layout.span, 1, layout.rollover + layout.span
        while inserts >= layout.fan_in**levels:
            levels += 1
        slots = layout.slot_of(updates + layout.rollover) + 1
        self.lanes = np.array([layout.lane_of(slot * span + 1) for slot in range(slots)])
        self.before: Counts = np.array(
            [[layout.head_start(slot, level) for slot in range(slots)] for level in range(levels)]
        )
        self.held: Amounts = np.zeros((layout.groups, levels, slots, span))
        self.number: Counts = np.zeros((layout.groups, levels, slots), dtype=np.int64)
        self.oldest = 0

    def change(self, update: int, arriving: Amounts) -> tuple[int, float, float]:
        self._drop(update)
        layout = self.layout
        span, group = layout.span, layout.group_of(update)
        first, last = layout.slot_of(update + 1), layout.slot_of(update + len(arriving))
        carried: Amounts = np.zeros((last - first + 1) * span)
        start = update - first * span
        carried[start : start + len(arriving)] = arriving
        carried = carried.reshape(-1, span)
        active = np.ones(len(carried), dtype=bool)
        read = 0.0
        for level in range(self.held.shape[1]):
            held = self.held[group, level, first : last + 1]
            number = self.number[group, level, first : last + 1]
            higher = self.number[group, level + 1 :, first : last + 1].any(axis=0)
            before = np.where(higher, 0, self.before[level, first : last + 1])
            pays = np.array([layout.merges_pay(s, level, update) for s in range(first, last + 1)])
            taken = active & (number + before >= layout.fan_in - 1) & (pays | (number == 0))
            read += held[taken].sum()
            carried[taken] += held[taken]
            held[taken], number[taken] = 0, 0
            carried[0, :start] = 0  # what has expired is not written again
            placed = active & ~taken & carried.any(axis=1)
            held[placed] += carried[placed]
            number[placed] += 1
            active = taken
        return int(np.count_nonzero(carried.any(axis=1))), float(carried.sum()), float(read)

    def _drop(self, update: int) -> None:
        """Runs that have expired as a whole go unread when their sub-index is touched."""
        over = slice(self.oldest, update // self.layout.span)
        for g, e in self.due.at(update):
            gone = self.lanes[over] == e
            self.held[g, :, over][:, gone] = 0
            self.number[g, :, over][:, gone] = 0
        while self.oldest < over.stop and not self.number[:, :, self.oldest].any():
            self.oldest += 1

    def runs(self) -> Amounts:
        there = self.number > 0
        sizes = self.held.sum(axis=3)[there] / self.number[there]
        return np.repeat(sizes, self.number[there])

    def dead(self, update: int) -> float:
        groups, levels = self.held.shape[:2]
        return float(self.held.reshape(groups, levels, -1)[:, :, :update].sum())
