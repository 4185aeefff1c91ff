"""n-way joins as they run: whole where all inputs share a key, otherwise as chains of binary ones.

Join(a, b, c) on a.x = b.x, a.y = c.y   →   Join(Join(a, b) on a.x = b.x, c) on a.y = c.y
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.estimates import equality_classes
from mayfly.optimizer.rule import offers
from mayfly.plan.expressions import Expression, conjunction, conjuncts
from mayfly.plan.logical_operators import Join, Node
from mayfly.plan.strategy import Joining


def executed(plan: Node, joining: Joining) -> Node:
    """The plan with its joins as they run."""

    def change(node: Node) -> Node:
        if not isinstance(node, Join) or (joining.whole and has_common_key(node)):
            return node
        return steps(node)[-1]

    return plan.transform(change)


def has_common_key(node: Join) -> bool:
    """Whether a value is the same in all inputs, so that rows that match meet in one place."""
    return any(
        all(any(_reads(child, member) for member in members) for child in node.inputs)
        for members in equality_classes(node.equalities)
    )


def _reads(node: Node, member: Expression) -> bool:
    return bool(member.columns()) and offers(node, member)


def steps(node: Join) -> tuple[Join, ...]:
    """The binary joins of one join, each condition as soon as it can be checked."""
    if len(node.inputs) < 3:
        return (node,)
    joins: list[Join] = []
    joined: Node = node.inputs[0]
    pending = replace(node, inputs=())
    for child in node.inputs[1:]:
        made, pending = step(pending, (joined, child))
        joins.append(made)
        joined = made
    return tuple(joins)


def step(pending: Join, inputs: tuple[Node, ...]) -> tuple[Join, Join]:
    """The join of some inputs by the conditions that can be checked there, and what is left."""
    here = replace(pending, inputs=inputs)
    pairs = tuple(each for each in pending.equalities if offers(here, each.left, each.right))
    terms = tuple(term for term in conjuncts(pending.residual) if offers(here, term))
    left = replace(
        pending,
        equalities=tuple(each for each in pending.equalities if each not in pairs),
        residual=conjunction(tuple(t for t in conjuncts(pending.residual) if t not in terms)),
    )
    return replace(here, equalities=pairs, residual=conjunction(terms)), left
