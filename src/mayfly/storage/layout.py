"""Layouts: the rules that say which rows live together and what an update must touch.

A *cell* holds the rows inserted by one update and removed by one later update. A layout maps
cells to groups of segments; everything else follows: which groups an update inserts into, which
it removes from, and which segments may be dropped whole without being read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mayfly.storage.segment import Segment


class Cell(NamedTuple):
    """Rows inserted by update ``inserted`` that update ``removed`` takes away."""

    inserted: int
    removed: int


@dataclass(frozen=True, slots=True)
class Touched:
    """The groups one update works on."""

    inserts: frozenset[int]
    removes: frozenset[int]
    drops: frozenset[int] = frozenset()
    """Groups in which nothing inserted before the update outlives it: thrown away unread,
    before the update's own rows (which may start the group anew) come in."""

    def __len__(self) -> int:
        return len(self.inserts | self.removes | self.drops)


class Layout(Protocol):
    """The rule cell → group, and what an update does to the groups."""

    @property
    def lifetimes(self) -> range:
        """The numbers of updates a cell may live: ``removed − inserted``, all positive."""

    def group_of(self, cell: Cell) -> int:
        """The group that stores the cell."""

    def touched(self, update: int) -> Touched:
        """The groups that ``update`` inserts into, removes from, and drops.

        A hard layout removes each cell at its own update. A soft one may leave dead cells where
        they are, but must drop their group once nothing in it is alive.
        """


def dead(segments: Iterable[Segment], at: int) -> list[Segment]:
    """Segments in which no row is alive at ``at`` or later: dropped by metadata alone."""
    return [segment for segment in segments if segment.dead_at(at)]
