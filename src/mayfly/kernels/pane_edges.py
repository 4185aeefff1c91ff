"""Edges of panes: the instants at which some windows with SLIDE move on, begin or end.

Idea: a window [RANGE d SLIDE p] uses the edges u·p and u·p − d, two families (period, phase); panes
are cut at the union of those that are in use, never at a common divisor (spec/periodic 1).
Invariant: rows between two neighbouring edges come and go together in every window.
Cost: one pass over the instants for each family; in the place of more than MOST_FAMILIES, or of
some that have as many edges together, one finer family that has all their edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import gcd

import numpy as np

from mayfly.arrays.order import Int64s
from mayfly.lifetime import NEVER
from mayfly.plan.window_kinds import Range

Family = tuple[int, int]
"""Period and phase of edges: phase, phase + period, …"""
MOST_FAMILIES = 64
"""Each is looked at for every row."""
FAR = 4 * 10**18
"""Times beyond this are panes of their own: the next edge might not be a number any more."""


def period_of(window: Range) -> int:
    assert window.slide is not None
    assert window.slide.period
    return window.slide.period


def reach_of(window: Range) -> int:
    """How long a row may be needed: until the refresh that no longer shows it."""
    return min(window.duration + period_of(window), NEVER)


def families_of(window: Range) -> tuple[Family, Family]:
    """Those of its refreshes, and of the beginnings of its extents."""
    assert window.slide is not None
    period, origin = period_of(window), window.slide.origin
    return (period, origin % period), (period, (origin - window.duration) % period)


def contains(finer: Family, family: Family) -> bool:
    """Whether every edge of a family is one of another."""
    return family[0] % finer[0] == 0 and (family[1] - finer[1]) % finer[0] == 0


def edges(windows: Iterable[Range]) -> list[Family]:
    """The families that windows use, without those that others contain."""
    families = {family for window in windows for family in families_of(window)}
    alone = sorted(
        family
        for family in families
        if not any(finer != family and contains(finer, family) for finer in families)
    )
    if len(alone) <= 2:
        return alone
    first = alone[0][1]
    step = reduce(gcd, [number for period, phase in alone for number in (period, phase - first)])
    # One family is cheaper to look at than many; of many, edges are seldom the same.
    dense = sum(step / period for period, _ in alone) >= 1
    return [(step, first % step)] if dense or len(alone) > MOST_FAMILIES else alone


def next_edges(instants: Int64s, families: Sequence[Family]) -> Int64s:
    """The first edge that is not before each instant."""
    following: Int64s = np.minimum.reduce(
        [instants + (phase - instants) % period for period, phase in families]
    )
    near = np.abs(instants) <= FAR
    return following if near.all() else np.where(near, following, instants)
