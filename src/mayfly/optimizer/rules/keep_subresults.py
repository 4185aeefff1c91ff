"""Keep the join of some inputs where its upkeep costs less than the probes it spares (thesis 5.4).

    Join(a, b, c) on a.k = b.k, a.v = b.v, b.k = c.k
        →   Join(Join(a, b) on a.k = b.k, a.v = b.v, c) on b.k = c.k

That is so where c is fast and few of a and b match. Most joins on one key stay whole.
"""

from __future__ import annotations

from mayfly.optimizer.join_ways import best_way, ways_to_join
from mayfly.optimizer.rule import Rule, RuleContext
from mayfly.plan.logical_operators import Join, Node
from mayfly.plan.strategy import Joining


def rewrite(plan: Node, context: RuleContext) -> Node:
    if context.joining is not Joining.COST:
        return plan

    def choose(node: Node) -> Node:
        if not isinstance(node, Join) or len(node.inputs) < 3:
            return node
        return best_way(ways_to_join(node, context)).plan

    return plan.transform(choose)


KEEP_SUBRESULTS = Rule("keep-subresults", "keep parts of a join that spare more than they cost",
                       rewrite)  # fmt: skip
