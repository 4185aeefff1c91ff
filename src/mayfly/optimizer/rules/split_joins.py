"""Cut an n-way join into steps that each have one key, so that buckets can work apart.

    Join(a, b, c) on a.x = b.x, b.y = c.y   →   Join(Join(a, b) on a.x = b.x, c) on b.y = c.y

Each step takes the next input, in the order given, that shares an attribute with what is joined so
far, and all others that share it too. A join on one common attribute stays whole.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.estimates import equality_classes
from mayfly.optimizer.join_chains import has_common_key, step
from mayfly.optimizer.rule import Rule, RuleContext, offers, rewrite_bottom_up
from mayfly.plan.expressions import Expression
from mayfly.plan.logical_operators import Join, Node


def split(node: Node, order_matters: bool) -> Node:
    if not isinstance(node, Join) or order_matters or len(node.inputs) < 3:
        return node
    classes = equality_classes(node.equalities)
    if has_common_key(node):
        return node
    joined, rest = node.inputs[0], list(node.inputs[1:])
    pending = replace(node, inputs=())
    while rest:
        group = _next_group(joined, rest, classes)
        rest = [child for child in rest if child not in group]
        joined, pending = step(pending, (joined, *group))
    return joined


def _next_group(
    joined: Node, rest: list[Node], classes: list[list[Expression]]
) -> tuple[Node, ...]:
    """The inputs that share one attribute with what is joined; a cross product as a last resort."""
    for child in rest:
        for members in classes:
            if _member(joined, members) and _member(child, members):
                return tuple(other for other in rest if _member(other, members))
    return (rest[0],)


def _member(node: Node, members: list[Expression]) -> Expression | None:
    return next((member for member in members if offers(node, member)), None)


def rewrite(plan: Node, context: RuleContext) -> Node:
    return rewrite_bottom_up(plan, split)


SPLIT_JOINS = Rule("split-joins", "give each join step one key", rewrite)
