"""Panes: the pieces of time that every window of some queries is made of.

Idea: panes are cut only at edges that a query uses, refreshes u·p and window starts u·p − d; a pane
is known by its last instant and exists only where there are rows, so neither a small greatest
common divisor nor silence costs anything. A newcomer's edges count from the *horizon* on, the last
pane that rows have been put into.
Invariant: a pane that has rows is never cut again. Cost: one pass over the instants for each
distinct (period, phase) that no other one contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from mayfly.arrays.order import Int64s
from mayfly.kernels.lifetime_rows import Bools
from mayfly.lifetime import MIN_TIME
from mayfly.periodic.query import PeriodicQuery

Progression = tuple[int, int]
"""Period and phase of edges: phase, phase + period, …"""


def progressions(queries: Iterable[PeriodicQuery]) -> frozenset[Progression]:
    """The edges that queries use, without those that others contain."""
    edges = {
        (query.period, (query.origin - back) % query.period)
        for query in queries
        for back in (0, *query.lengths)
    }
    periods = {period for period, _ in edges}
    return frozenset(
        (period, phase)
        for period, phase in edges
        if not any(period % p == 0 and (p, phase % p) in edges for p in periods - {period})
    )


def panes_within(edges: Iterable[Progression], length: int, end: int) -> int:
    """How many panes the window of a length up to an instant has; edges that meet count twice."""
    return max(1, sum((end - phase) // p - (end - length - phase) // p for p, phase in edges))


def next_edges(instants: Int64s, edges: Iterable[Progression]) -> Int64s:
    """The first edge at or after each instant."""
    ups = (instants + (phase - instants) % period for period, phase in edges)
    following: Int64s = np.minimum.reduce([*ups])
    return following


def are_edges(instants: Int64s, edges: Iterable[Progression]) -> Bools:
    """Whether each instant is an edge."""
    matches = [(instants - phase) % period == 0 for period, phase in edges]
    whole: Bools = np.logical_or.reduce(matches)
    return whole


@dataclass(frozen=True)
class Cut:
    """The edges in use behind an instant, up to the next cut."""

    behind: int
    edges: frozenset[Progression]


class Panes:
    """Which pane each instant is in, while queries come and go."""

    def __init__(self) -> None:
        self.cuts: list[Cut] = []
        self.horizon = MIN_TIME

    @property
    def edges(self) -> frozenset[Progression]:
        """Those in use from now on."""
        return self.cuts[-1].edges if self.cuts else frozenset()

    def use(self, queries: Iterable[PeriodicQuery]) -> None:
        """Cut at the edges of these queries behind the horizon."""
        edges = progressions(queries)
        if not edges or edges == self.edges:
            return
        self.cuts = [cut for cut in self.cuts if cut.behind < self.horizon]
        self.cuts.append(Cut(self.horizon, edges))

    def ends_of(self, instants: Int64s) -> Int64s:
        """The last instant of the pane of each instant."""
        ends = np.empty(len(instants), np.int64)
        for number, inside in self._places(instants):
            ends[inside] = next_edges(instants[inside], self.cuts[number].edges)
        self.horizon = max(self.horizon, int(ends.max(initial=MIN_TIME)))
        return ends

    def close(self, instant: int) -> None:
        """No row up to an instant will come any more."""
        self.horizon = max(self.horizon, instant)

    def forget(self, instant: int) -> None:
        """No window that begins before an instant will be asked for."""
        self.cuts = [
            cut
            for cut, following in zip(self.cuts, [*self.cuts[1:], None], strict=True)
            if following is None or following.behind >= instant
        ]

    def whole(self, instants: Int64s) -> Bools:
        """Whether no pane has instants on both sides of each: it is an edge where panes are cut
        already, or cut will be behind the horizon by its users."""
        whole = (instants >= self.horizon) | np.isin(instants, [cut.behind for cut in self.cuts])
        for number, inside in self._places(instants):
            whole[inside] |= are_edges(instants[inside], self.cuts[number].edges)
        return whole

    def _places(self, instants: Int64s) -> Sequence[tuple[int, Int64s]]:
        """The instants of each cut, by its number."""
        number = np.searchsorted([cut.behind for cut in self.cuts], instants, side="left") - 1
        number = np.maximum(number, 0)
        return [(cut, np.flatnonzero(number == cut)) for cut in np.unique(number).tolist()]


def grid_of(queries: Iterable[PeriodicQuery]) -> int:
    """The length of panes that would serve all queries if panes were equally long."""
    return gcd(*(time for query in queries for time in (query.period, *query.lengths)))
