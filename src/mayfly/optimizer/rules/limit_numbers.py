"""Number only the rows that a later condition lets through (top-N of each partition).

    Select(n <= 3, Over(ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS n, s))
    → Select(n <= 3, Over(… at most 3, s))

Over time windows OVER then forgets rows that enough better ones of their partition outlive. Beside
calls that read more than the order of rows, such as SUM or LAG, all rows stay.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.rule import Rule, RuleContext, substituted
from mayfly.plan.expressions import Cast, Column, Compare, Expression, Literal, conjuncts
from mayfly.plan.logical_operators import Node, Project, Select
from mayfly.plan.over_frames import NUMBERINGS, NumberLimit, Over

LARGEST = 1_000
"""More rows of a partition than these are not sought one by one."""


def limit(node: Node) -> Node:
    if not isinstance(node, Select):
        return node
    terms = conjuncts(node.predicate)
    changed = _limited(node.child, terms)
    return node if changed is node.child else replace(node, child=changed)


def _limited(node: Node, terms: tuple[Expression, ...]) -> Node:
    match node:
        case Project(child=child, outputs=outputs, alias=alias):
            below = _limited(child, tuple(substituted(term, outputs, alias) for term in terms))
            return node if below is child else replace(node, child=below)
        case Select(child=child):
            below = _limited(child, terms)
            return node if below is child else replace(node, child=below)
        case Over(calls=calls, appends=False, limit=None) if all(
            call.function in NUMBERINGS for call in calls
        ):
            limits = [bound for term in terms if (bound := _limit(term, node)) is not None]
            smallest = min(limits, key=lambda bound: bound.most, default=None)
            return node if smallest is None else replace(node, limit=smallest)
    return node


def _limit(term: Expression, node: Over) -> NumberLimit | None:
    """``n <= 3``, ``n < 4``, ``n = 1`` or the same turned around."""
    if not isinstance(term, Compare):
        return None
    for number, bound, ops in (
        (term.left, term.right, ("<=", "<", "=")),
        (term.right, term.left, (">=", ">", "=")),
    ):
        most = _whole(bound)
        names = [call.name for call in node.calls]
        while isinstance(number, Cast) and number.type.is_integral:
            number = number.child
        if most is None or term.op not in ops or not isinstance(number, Column):
            continue
        if number.relation == node.alias and number.name in names:
            most -= term.op in ("<", ">")
            return NumberLimit(number.name, most) if 1 <= most <= LARGEST else None
    return None


def _whole(bound: Expression) -> int | None:
    while isinstance(bound, Cast) and bound.type.is_integral:
        bound = bound.child
    value = bound.value if isinstance(bound, Literal) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def rewrite(plan: Node, context: RuleContext) -> Node:
    return plan.transform(limit)


LIMIT_NUMBERS = Rule("limit-numbers", "number only rows that a condition lets through", rewrite)
