"""Remove duplicates before a join or union instead of only after it, where that costs less.

    Distinct(Project(a.x, Join(a, b)))   →   Distinct(Project(a.x, Join(Distinct(a), Distinct(b))))
    Distinct(Join(a, b))                 →   Join(Distinct(a), Distinct(b))
    Distinct(UnionAll(a, b))             →   Distinct(UnionAll(Distinct(a), Distinct(b)))

Each input first loses its unread columns. Not where an NRR is joined, since its results
depend on when each duplicate arrived, and not onto STR inputs, where δ* cannot be used.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.labels import label_plan
from mayfly.optimizer.rule import Rule, RuleContext, rewrite_bottom_up
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import (
    Distinct,
    Join,
    Named,
    Node,
    Project,
    RelationJoin,
    UnionAll,
)


def alternatives(plan: Node, context: RuleContext) -> list[Node]:
    """The plan, and the plan with every DISTINCT pushed as far as it goes."""

    def push(node: Node, order_matters: bool) -> Node:
        return _pushed(node) if isinstance(node, Distinct) else node

    if any(isinstance(node, RelationJoin) and not node.retroactive for node in plan.walk()):
        return [plan]
    pushed = rewrite_bottom_up(plan, push)
    return [plan] if pushed == plan else [plan, pushed]


def _pushed(node: Distinct) -> Node:
    match node.child:
        case UnionAll() as union:
            return replace(node, child=_in_parts(union))
        case Project(child=UnionAll() as union) as project:
            return replace(node, child=replace(project, child=_in_parts(union)))
        case Project(child=Join() as join) as project:
            reads = (*project.expressions(), *join.expressions())
            inputs = tuple(_narrowed(child, reads) for child in join.inputs)
            return replace(node, child=replace(project, child=replace(join, inputs=inputs)))
        case Join(inputs=inputs) as join:
            distinct = tuple(_whole(child) for child in inputs)
            pushed = replace(join, inputs=distinct)
            free = all(isinstance(child, Distinct) for child in distinct)
            return pushed if free else replace(node, child=pushed)
    return node


def _in_parts(union: UnionAll) -> UnionAll:
    return replace(union, inputs=tuple(_whole(child) for child in union.inputs))


def _whole(child: Node) -> Node:
    """DISTINCT over all columns of an input."""
    if isinstance(child, Distinct) or not label_plan(child).pattern.predictable:
        return child
    return Distinct(child, position=child.position)


def _narrowed(child: Node, reads: tuple[Expression, ...]) -> Node:
    """DISTINCT over the columns of an input that are read above it."""
    read = {column for expression in reads for column in expression.columns()}
    used = tuple(column for column in child.schema if column in read)
    relations = {column.relation for column in used}
    if isinstance(child, Distinct) or len(relations) != 1:
        return child
    projected = _projected(child, used, relations.pop())
    distinct = _whole(projected)
    return child if distinct is projected else distinct


def _projected(child: Node, used: tuple[Column, ...], alias: str) -> Node:
    if used == child.schema:
        return child
    outputs = tuple(Named(column.name, column) for column in used)
    return Project(child, outputs, alias, position=child.position)


PUSH_DISTINCT = Rule(
    "push-distinct", "remove duplicates before joins where it pays", alternatives=alternatives
)
