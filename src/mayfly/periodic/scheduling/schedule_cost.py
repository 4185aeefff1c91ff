"""What a schedule costs per update, without walking it (thesis 8.4.4).

Idea: due tasks of a group run together for the weight of the heaviest; so a task pays at those of
its multiples at which no heavier one is due: a density, by inclusion and exclusion over least
common multiples. Cost: 2^q for q tasks, so above 8 the schedule is walked for ``HORIZON`` updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np

EXACT_TASKS = 8
HORIZON = 5040
"""Divisible by every period up to 10."""


@dataclass(frozen=True)
class Load:
    """A task of a group: its period, what reading costs, and what its queries do afterwards."""

    period: int
    weight: Fraction | int
    post: Fraction | int = 0


def cost_per_update(group: Sequence[Load]) -> Fraction:
    """The cost of the tasks of one group per update, run together where they are due together.

    >>> float(cost_per_update([Load(2, 9), Load(3, 14)])) * 6
    46.0
    """
    after = sum((Fraction(load.post) / load.period for load in group), Fraction(0))
    return after + (_exact(group) if len(group) <= EXACT_TASKS else _walked(group))


def _exact(group: Sequence[Load]) -> Fraction:
    heavier: frozenset[int] = frozenset()
    cost = Fraction(0)
    for load in sorted(group, key=lambda load: load.weight, reverse=True):
        cost += load.weight * density(load.period, heavier)
        heavier |= {load.period}
    return cost


@lru_cache(maxsize=1 << 16)
def density(period: int, heavier: frozenset[int]) -> Fraction:
    """How many updates in all are multiples of a period and of none of the others."""
    multiples = {period: 1}
    for other in heavier:
        for common, sign in list(multiples.items()):
            both = lcm(common, other)
            multiples[both] = multiples.get(both, 0) - sign
    whole = lcm(*multiples)
    return Fraction(sum(sign * (whole // common) for common, sign in multiples.items()), whole)


def _walked(group: Sequence[Load]) -> Fraction:
    whole = min(lcm(*(load.period for load in group)), HORIZON)
    due = np.zeros(whole, np.int64)
    ordered = sorted(group, key=lambda load: load.weight)
    for number, load in enumerate(ordered, 1):
        due[load.period - 1 :: load.period] = number
    times = np.bincount(due, minlength=len(ordered) + 1)[1:].tolist()
    total = sum(times_due * load.weight for times_due, load in zip(times, ordered, strict=True))
    return Fraction(total) / whole
