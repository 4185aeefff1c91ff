"""Make one n-way join of nested joins, so that the whole of it can be ordered.

Join(Join(a, b) on a.x = b.x, c) on b.y = c.y   →   Join(a, b, c) on a.x = b.x, b.y = c.y
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.rule import Rule, RuleContext
from mayfly.plan.expressions import conjunction, conjuncts
from mayfly.plan.logical_operators import Join, Node


def merge(node: Node) -> Node:
    """A join whose inputs are no joins themselves; other nodes as they are."""
    if not isinstance(node, Join) or not any(isinstance(child, Join) for child in node.inputs):
        return node
    inner = [child for child in node.inputs if isinstance(child, Join)]
    inputs = (child.inputs if isinstance(child, Join) else (child,) for child in node.inputs)
    terms = (conjuncts(join.residual) for join in (*inner, node))
    return replace(
        node,
        inputs=tuple(child for group in inputs for child in group),
        equalities=tuple(
            dict.fromkeys(equality for join in (*inner, node) for equality in join.equalities)
        ),
        residual=conjunction(tuple(term for group in terms for term in group)),
    )


def rewrite(plan: Node, context: RuleContext) -> Node:
    return plan.transform(merge)


MERGE_JOINS = Rule("merge-joins", "make one join of nested joins", rewrite)
