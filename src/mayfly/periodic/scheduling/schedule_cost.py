"""What a schedule costs per update, without walking it (thesis 8.4.4).

Idea: due tasks of a group run together for the weight of the heaviest; so a task pays at those of
its multiples at which no heavier one is due: a density, by inclusion and exclusion over least
common multiples. Cost: 2^q for q tasks, so above 8 the schedule is walked for ``HORIZON`` updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm

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
    if len(group) > EXACT_TASKS:
        after = sum((Fraction(load.post) / load.period for load in group), Fraction(0))
        return after + _walked(group)
    whole = lcm(*(load.period for load in group))
    return Fraction(cycle_cost(group, whole)) / whole


def cycle_cost(group: Iterable[Load], cycle: int) -> Fraction | int:
    """The cost of as many updates as a cycle has: a multiple of all periods."""
    heavier: frozenset[int] = frozenset()
    cost: Fraction | int = 0
    for load in sorted(group, key=lambda load: load.weight, reverse=True):
        alone = lone_multiples(load.period, heavier, cycle)
        cost += load.weight * alone + load.post * (cycle // load.period)
        heavier |= {load.period}
    return cost


@lru_cache(maxsize=1 << 16)
def lone_multiples(period: int, heavier: frozenset[int], cycle: int) -> int:
    """How many updates of a cycle are multiples of a period and of none of the others."""
    multiples = {period: 1}
    for other in heavier:
        for common, sign in list(multiples.items()):
            shared = lcm(common, other)
            multiples[shared] = multiples.get(shared, 0) - sign
    return sum(sign * (cycle // common) for common, sign in multiples.items())


def _walked(group: Sequence[Load]) -> Fraction:
    import numpy as np  # here: a file with few queries is checked in less time than it loads

    whole = min(lcm(*(load.period for load in group)), HORIZON)
    due = np.zeros(whole, np.int64)
    ordered = sorted(group, key=lambda load: load.weight)
    for number, load in enumerate(ordered, 1):
        due[load.period - 1 :: load.period] = number
    times = np.bincount(due, minlength=len(ordered) + 1)[1:].tolist()
    total = sum(times_due * load.weight for times_due, load in zip(times, ordered, strict=True))
    return Fraction(total) / whole
