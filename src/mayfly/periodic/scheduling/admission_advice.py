"""Advice before a query comes: what it adds to the load, and how it would stretch the others.

The cost of the schedule with and without it is known before anything runs (schedule_cost); beside
what the machine does per update, that says whether it fits. Advice only: every query is admitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from mayfly.errors import InvalidSetting
from mayfly.periodic.scheduling.policy import Policy, ScheduledQuery

LONGEST_PERIOD = 1 << 20


@dataclass(frozen=True)
class AdmissionAdvice:
    """Costs are per update; ``capacity`` is what can be done between two updates."""

    query: str
    before: Fraction
    after: Fraction
    capacity: Fraction
    fitting_period: int | None
    """The shortest period with which it would fit; None where not even the others do."""

    @property
    def adds(self) -> Fraction:
        return self.after - self.before

    @property
    def fits(self) -> bool:
        return self.after <= self.capacity

    @property
    def stretch(self) -> Fraction:
        """How many times longer periods would become, in the mean."""
        return max(Fraction(1), self.after / self.capacity)

    def __str__(self) -> str:
        load = (
            f"{self.query} adds {float(self.adds):.2f} to {float(self.before):.2f} per update, "
            f"of {float(self.capacity):.2f} that can be done"
        )
        if self.fits:
            return f"{load}: it fits"
        remedy = (
            f"every {self.fitting_period} updates it would fit"
            if self.fitting_period
            else "without it the load is too high, too"
        )
        return f"{load}: periods would become {float(self.stretch):.2f} times as long; {remedy}"


def advise(
    policy: Policy,
    queries: Sequence[ScheduledQuery],
    newcomer: ScheduledQuery,
    capacity: Fraction | int,
) -> AdmissionAdvice:
    """What a query would do to a schedule."""
    if capacity <= 0:
        raise InvalidSetting(f"a capacity of {capacity} per update", "give one above 0")
    before = policy.cost(queries)
    after = policy.cost([*queries, newcomer])
    fitting = _fitting_period(policy, queries, newcomer, Fraction(capacity))
    return AdmissionAdvice(newcomer.name, before, after, Fraction(capacity), fitting)


def _fitting_period(
    policy: Policy, queries: Sequence[ScheduledQuery], newcomer: ScheduledQuery, capacity: Fraction
) -> int | None:
    """Periods are doubled, not tried in turn: a schedule is costly to price, and the cost does not
    fall steadily with the period."""
    period = newcomer.period
    while period <= LONGEST_PERIOD:
        if policy.cost([*queries, replace(newcomer, period=period)]) <= capacity:
            return period
        period *= 2
    return None
