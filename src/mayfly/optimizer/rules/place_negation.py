"""Negation above or below joins and DISTINCT: the alternatives of update-pattern simplification.

    AntiJoin(Join(s1, s2), s3)    ⇄   Join(AntiJoin(s1, s3), s2)          (thesis, Fig. 3.5)
    AntiJoin(Distinct(s1), s3)    ⇄   Distinct(AntiJoin(s1, s3))
    Join(RelationJoin(s1, r), s2) →   RelationJoin(Join(s1, s2), r)       for a retroactive r

Pulled up, few operators see negative tuples and DISTINCT can be δ*; pushed down, a selective
negation keeps later operators small. Which is cheaper depends on the data, so cost decides.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.estimates import equality_classes, estimate_plan
from mayfly.optimizer.labels import label_plan
from mayfly.optimizer.rule import Rule, RuleContext, offers, single_steps, substituted
from mayfly.optimizer.rules.merge_joins import merge
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    Equality,
    Join,
    Node,
    Project,
    RelationJoin,
)

MOST_PLANS = 24


def alternatives(plan: Node, context: RuleContext) -> list[Node]:
    """Every plan a few single steps away, the given one first."""

    def steps(node: Node, order_matters: bool) -> list[Node]:
        relations = [] if order_matters else _pull_relation_up(node)
        return [*pull_up(node), *_push_down(node, context), *relations]

    first = plan.transform(_canonical)
    plans = {first: None}
    frontier = [first]
    while frontier and len(plans) < MOST_PLANS:
        reached = [near for seen in frontier for near in single_steps(seen, steps)]
        named = dict.fromkeys(near.transform(_canonical) for near in reached)
        frontier = [near for near in named if near not in plans]
        plans.update(dict.fromkeys(frontier))
    return list(plans)[:MOST_PLANS]


def _canonical(node: Node) -> Node:
    """Of several columns a join equates, a negation above it reads the first."""
    if not isinstance(node, AntiJoin) or not isinstance(node.left, Join):
        return node
    classes = equality_classes(node.left.equalities)
    pairs = tuple(
        Equality(next((c[0] for c in classes if pair.left in c), pair.left), pair.right)
        for pair in node.equalities
    )
    return replace(node, equalities=pairs)


def pull_up(node: Node) -> list[AntiJoin]:
    """The node's negations raised above it, one at a time."""
    match node:
        case Join(inputs=inputs):
            return [
                replace(child, left=merge(_with_input(node, place, child.left)))
                for place, child in enumerate(inputs)
                if isinstance(child, AntiJoin)
            ]
        case Distinct(child=AntiJoin() as child) | RelationJoin(child=AntiJoin() as child):
            return [replace(child, left=replace(node, child=child.left))]
        case Distinct(child=Project(child=AntiJoin()) as project):
            return [
                replace(raised, left=replace(node, child=raised.left))
                for raised in pull_above_projection(project)
            ]
    return []


def pull_above_projection(node: Node) -> list[AntiJoin]:
    """A negation raised above a projection that keeps every column it reads."""
    if not isinstance(node, Project) or not isinstance(node.child, AntiJoin):
        return []
    child = node.child
    kept = {out.expression: column for out, column in zip(node.outputs, node.schema, strict=True)}
    reads = {column for side in left_reads(child) for column in side.columns()}
    if not all(column in kept for column in reads):
        return []

    def renamed(part: Expression) -> Expression:
        return kept[part] if isinstance(part, Column) and part in reads else part

    pairs = tuple(Equality(e.left.transform(renamed), e.right) for e in child.equalities)
    residual = child.residual.transform(renamed) if child.residual else None
    below = replace(node, child=child.left)
    return [replace(child, left=below, equalities=pairs, residual=residual)]


def _push_down(node: Node, context: RuleContext) -> list[Node]:
    """The negation lowered into one input of the join below it, or below DISTINCT."""
    if not isinstance(node, AntiJoin):
        return []
    match node.left:
        case Join() as join:
            return [
                _with_input(join, place, replace(moved, left=join.inputs[place]))
                for place, moved in _places(node, join, context)
            ]
        case AntiJoin() as other:
            below = _push_down(replace(node, left=other.left), context)
            return [replace(other, left=lowered) for lowered in below]
        case Distinct(child=Project(outputs=outputs, alias=alias) as project) as distinct:
            pairs = tuple(
                Equality(substituted(e.left, outputs, alias), e.right) for e in node.equalities
            )
            residual = node.residual and substituted(node.residual, outputs, alias)
            lowered = replace(node, left=project.child, equalities=pairs, residual=residual)
            return [replace(distinct, child=replace(project, child=lowered))]
        case Distinct(child=child) as distinct:
            return [replace(distinct, child=replace(node, left=child))]
    return []


def _places(node: AntiJoin, join: Join, context: RuleContext) -> list[tuple[int, AntiJoin]]:
    """The inputs to lower the negation into: its own, and the smallest that is equated with it."""
    own = [place for place, child in enumerate(join.inputs) if offers(child, *left_reads(node))]
    equated = {
        place: moved
        for place, child in enumerate(join.inputs)
        if place not in own and (moved := _read_from(node, child, join)) is not None
    }
    smallest = min(equated, key=lambda place: _size(join.inputs[place], context), default=None)
    places = [(place, node) for place in own]
    return places if smallest is None else [*places, (smallest, equated[smallest])]


def _size(node: Node, context: RuleContext) -> float:
    return estimate_plan(label_plan(node, context.weak_distinct), context.statistics).flow.size


def _read_from(node: AntiJoin, child: Node, join: Join) -> AntiJoin | None:
    """The negation by columns of one input that the join equates with those it reads."""
    if node.residual is not None:
        return None
    classes = equality_classes(join.equalities)
    pairs = []
    for equality in node.equalities:
        same = next((c for c in classes if equality.left in c), [])
        mine = next((member for member in same if offers(child, member)), None)
        if mine is None:
            return None
        pairs.append(Equality(mine, equality.right))
    return replace(node, equalities=tuple(pairs))


def left_reads(node: AntiJoin) -> list[Expression]:
    """What the negation reads of its left input."""
    residual = node.residual.columns() if node.residual else ()
    return [
        *(equality.left for equality in node.equalities),
        *(column for column in residual if not offers(node.right, column)),
    ]


def _pull_relation_up(node: Node) -> list[Node]:
    """A retroactive join raised above a stream join; an NRR join never moves past one."""
    if not isinstance(node, Join):
        return []
    return [
        replace(child, child=merge(_with_input(node, place, child.child)))
        for place, child in enumerate(node.inputs)
        if isinstance(child, RelationJoin)
        and child.retroactive
        and not _reads_any(node, child.relation)
    ]


def _reads_any(node: Join, relation: Node) -> bool:
    return any(offers(relation, column) for e in node.expressions() for column in e.columns())


def _with_input(node: Join, place: int, child: Node) -> Join:
    return replace(node, inputs=(*node.inputs[:place], child, *node.inputs[place + 1 :]))


PLACE_NEGATION = Rule(
    "place-negation",
    "pull STR operators up or push them down, whichever costs less",
    alternatives=alternatives,
)
