"""n-way joins as the chains of binary ones that run, which keep every intermediate result.

Join(a, b, c) on a.x = b.x, a.x = c.x   →   Join(Join(a, b) on a.x = b.x, c) on a.x = c.x
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.rules.split_joins import step
from mayfly.plan.logical import Join, Node


def chained(plan: Node) -> Node:
    """The plan with binary joins only, in the order of their inputs."""
    return plan.transform(lambda node: steps(node)[-1] if isinstance(node, Join) else node)


def steps(node: Join) -> tuple[Join, ...]:
    """The binary joins of one join, each condition as soon as it can be checked."""
    if len(node.inputs) < 3:
        return (node,)
    found: list[Join] = []
    joined: Node = node.inputs[0]
    pending = replace(node, inputs=())
    for child in node.inputs[1:]:
        made, pending = step(pending, (joined, child))
        found.append(made)
        joined = made
    return tuple(found)
