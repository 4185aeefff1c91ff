"""Ways to run a join of many inputs with one key: all at once, or with some sub-results kept.

Idea: a sub-result that is kept spares its probes to later joins, and costs its upkeep. The
ways: nothing kept (thesis 5.2), the join of the first inputs kept, or all in a chain (thesis 9.2).
Invariant: all ways have the same results, with the same columns in the same order.
Cost: O(inputs) costed plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mayfly.optimizer.join_chains import has_common_key, step, steps
from mayfly.optimizer.plan_cost import cost_plan
from mayfly.optimizer.rule import RuleContext
from mayfly.plan.logical_operators import Join

MOST_PREFIXES = 16
"""Of larger joins no part is kept by itself."""
WORTH = 2.0
"""By so much a sub-result that is kept has to lower the cost: it may need an exchange and a stage
of its own, which numbers of tuples do not show."""


@dataclass(frozen=True, slots=True)
class JoinWay:
    """One way to run a join, and what it touches per second."""

    plan: Join
    cost: float

    @property
    def kept(self) -> Join | None:
        """The largest sub-result it keeps, if any."""
        first = self.plan.inputs[0]
        return first if isinstance(first, Join) else None


def ways_to_join(node: Join, context: RuleContext) -> list[JoinWay]:
    """All at once first."""
    plans = [node]
    if has_common_key(node):
        chain = steps(node)
        plans += [*_prefixes(node), *(chain[-1:] if all(map(has_common_key, chain)) else ())]
    return [JoinWay(plan, _cost(plan, context)) for plan in dict.fromkeys(plans)]


def best_way(ways: Sequence[JoinWay]) -> JoinWay:
    """All at once, unless another way is worth it."""
    whole, *others = ways
    best = min(others, key=lambda way: way.cost, default=whole)
    return best if best.cost * WORTH <= whole.cost else whole


def _prefixes(node: Join) -> list[Join]:
    """The join of the first inputs kept, and joined with the others all at once."""
    if len(node.inputs) > MOST_PREFIXES:
        return []
    joins = []
    for size in range(2, len(node.inputs)):
        first, pending = step(node, node.inputs[:size])
        rest, _ = step(pending, (first, *node.inputs[size:]))
        joins += [rest] if has_common_key(first) and has_common_key(rest) else []
    return joins


def _cost(plan: Join, context: RuleContext) -> float:
    costed = cost_plan(plan, context.statistics, context.strategy, context.weak_distinct)
    return costed.total.total
