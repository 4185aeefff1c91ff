"""EXPLAIN: what a query means for the machine, before anything runs.

An ``Explanation`` is a value: it prints, shows itself in notebooks, and can be had as JSON, as a
drawing or as a page. The first of its plans is the one that runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from mayfly.plan.physical import PhysicalPlan


@dataclass(frozen=True, slots=True)
class RuleRun:
    """A rule of the optimizer in the making of a plan."""

    name: str
    changed: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class ExplainedPlan:
    """One candidate: what tells it from the others, and what would run."""

    title: str
    physical: PhysicalPlan
    rules: tuple[RuleRun, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A query, the plan chosen for it, and its rivals, cheapest first."""

    query: str
    plans: tuple[ExplainedPlan, ...]
    compare: bool = False

    @property
    def chosen(self) -> ExplainedPlan:
        return self.plans[0]

    @property
    def shown(self) -> tuple[ExplainedPlan, ...]:
        """All candidates if a comparison was asked for, else the chosen plan."""
        return self.plans if self.compare else self.plans[:1]
