"""Explains a bound query: optimizes it and shows what would run, and what was not chosen."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mayfly.optimizer.join_chains import executed
from mayfly.optimizer.optimize import Candidate, Optimized, optimize
from mayfly.optimizer.plan_cost import cost_plan
from mayfly.optimizer.statistics import Statistics
from mayfly.physical.compiler import compile_plan
from mayfly.physical.explain.explanation import Explanation
from mayfly.physical.explain.joins import reasons_of_joins
from mayfly.physical.explain.model import ExplainedPlan, PhysicalPlan, RuleRun
from mayfly.physical.explain.picture import picture
from mayfly.physical.explain.warnings import with_punctuations
from mayfly.physical.explain.zone_notes import zone_uses
from mayfly.physical.slides import runnable
from mayfly.plan.catalog import Catalog
from mayfly.plan.logical_operators import Output
from mayfly.plan.strategy import Joining, Strategy


def plan_physically(optimized: Optimized, catalog: Catalog) -> PhysicalPlan:
    """What will run for an optimized query."""
    return _physical(optimized.chosen, optimized, catalog)


def explain(
    plan: Output,
    catalog: Catalog,
    query: str = "",
    statistics: Statistics | None = None,
    strategy: Strategy = Strategy.UPA,
    without: Collection[str] = (),
    compare: bool = False,
    joining: Joining = Joining.COST,
) -> Explanation:
    """The chosen plan of a bound query and its rivals, as programs that run."""
    optimized = optimize(plan, statistics, strategy, without, joining=joining)
    shown = optimized.candidates if compare else optimized.candidates[:1]
    plans = tuple(
        ExplainedPlan(
            candidate.title,
            _physical(candidate, optimized, catalog),
            tuple(RuleRun(each.rule, each.changed, each.seconds) for each in candidate.applied),
        )
        for candidate in shown
    )
    return Explanation(query, plans, compare)


def _physical(candidate: Candidate, optimized: Optimized, catalog: Catalog) -> PhysicalPlan:
    plan, context = candidate.plan, optimized.context
    assert isinstance(plan, Output)
    program = compile_plan(
        plan, catalog, context.strategy, context.weak_distinct, context.joining, candidate.strict,
        context.early_pruning, context.panes, context.sharing,
    )  # fmt: skip
    runs = runnable(plan)
    costed = cost_plan(
        executed(runs, context.joining), context.statistics, context.strategy,
        context.weak_distinct,
    )  # fmt: skip
    drawn = picture(program, costed, context, reasons_of_joins(runs, context))
    warnings = with_punctuations(drawn.warnings, program, catalog)
    return replace(drawn, zones=zone_uses(plan, catalog), warnings=warnings)
