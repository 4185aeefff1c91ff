"""Logical plans of several queries as programs: optimized, with aliases that depend on no text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.physical.program import Program
from mayfly.physical.shared_program import canonical
from mayfly.plan.catalog import Catalog
from mayfly.plan.logical_operators import Output
from mayfly.plan.strategy import Strategy


def programs_of_plans(
    plans: Mapping[str, Output],
    catalog: Catalog,
    strategy: Strategy = Strategy.UPA,
    without: Sequence[str] = (),
    peers: Mapping[str, Sequence[Output]] | None = None,
) -> dict[str, Program]:
    """What would run for each query, without some rules; ``peers`` are, by name, the plans of those
    that share its join."""
    programs = {}
    for name, plan in plans.items():
        optimized = optimize(plan, strategy=strategy, without=without)
        assert isinstance(optimized.plan, Output)
        context = optimized.context
        programs[name] = compile_plan(
            canonical(optimized.plan), catalog, strategy, context.weak_distinct,
            panes=context.panes, sharing=context.sharing, peers=(peers or {}).get(name, ()),
        )  # fmt: skip
    return programs
