"""Explains a bound query: optimizes it and shows what would run, and what was passed over."""

from __future__ import annotations

from collections.abc import Collection

from mayfly.optimizer.pipeline import Candidate, Optimized, optimize
from mayfly.optimizer.statistics import Statistics
from mayfly.physical.explain.explanation import Explanation
from mayfly.physical.explain.model import ExplainedPlan, RuleRun
from mayfly.physical.staging import physical_plan
from mayfly.plan.logical import Node
from mayfly.plan.physical import PhysicalPlan
from mayfly.plan.strategy import Strategy


def plan_physically(optimized: Optimized) -> PhysicalPlan:
    """What will run for an optimized query."""
    return _physical(optimized.chosen, optimized)


def explain(
    plan: Node,
    query: str = "",
    statistics: Statistics | None = None,
    strategy: Strategy = Strategy.UPA,
    without: Collection[str] = (),
    compare: bool = False,
) -> Explanation:
    """The chosen plan of a bound query and its rivals."""
    optimized = optimize(plan, statistics, strategy, without)
    shown = optimized.candidates if compare else optimized.candidates[:1]
    plans = tuple(
        ExplainedPlan(
            candidate.title,
            _physical(candidate, optimized),
            tuple(RuleRun(each.rule, each.changed, each.seconds) for each in candidate.applied),
        )
        for candidate in shown
    )
    return Explanation(query, plans, compare)


def _physical(candidate: Candidate, optimized: Optimized) -> PhysicalPlan:
    context = optimized.context
    return physical_plan(candidate.costed, context.statistics, context.strategy)
