"""What EXPLAIN has to say, as values: the chosen plan, its rivals, and how they were made."""

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


@dataclass(frozen=True)
class Explained:
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
