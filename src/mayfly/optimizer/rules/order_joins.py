"""Put the inputs of each join in the order that probes the fewest tuples (thesis 5.3).

    Join(fast, slow, rare)   →   Join(rare, fast, slow)

Ties keep the order of the text. A join whose columns are taken by position stays as it is.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.estimates import estimate_plan, join_inputs
from mayfly.optimizer.join_order import choose_order
from mayfly.optimizer.labels import label_plan
from mayfly.optimizer.rule import Rule, RuleContext, rewrite_bottom_up
from mayfly.plan.logical_operators import Join, Node


def rewrite(plan: Node, context: RuleContext) -> Node:
    def order(node: Node, order_matters: bool) -> Node:
        if not isinstance(node, Join) or order_matters:
            return node
        inputs = [
            estimate_plan(label_plan(child, context.weak_distinct), context.statistics)
            for child in node.inputs
        ]
        flows = [child.flow for child in inputs]
        members = join_inputs(node, flows, context.joining.whole)
        chosen = choose_order(members)
        return replace(node, inputs=tuple(node.inputs[place] for place in chosen))

    return rewrite_bottom_up(plan, order)


ORDER_JOINS = Rule("order-joins", "probe the smallest intermediate results first", rewrite)
