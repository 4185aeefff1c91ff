"""Move joins with relations below what makes their input STR (thesis 3.5.3).

    RelationJoin(AntiJoin(w1, w2), r)       →   AntiJoin(RelationJoin(w1, r), w2)
    RelationJoin(RelationJoin(w, r1), r2)   →   RelationJoin(w, Join(r1, r2))
    RelationJoin(RelationJoin(w, r), nrr)   →   RelationJoin(RelationJoin(w, nrr), r)

A join with a relation cannot process negative tuples: the row they refer to may have changed.
What is still STR below such a join after this rule is refused when the plan is labelled. An NRR
join keeps its place among stream joins, since its results reflect the state at their own ts.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.rule import Rule, RuleContext, offers, rewrite_bottom_up
from mayfly.optimizer.rules.place_negation import pull_above_projection, pull_up
from mayfly.plan.expressions import Compare, conjunction, conjuncts
from mayfly.plan.logical_operators import AntiJoin, Distinct, Join, Node, Project, RelationJoin


def _lower(node: Node, order_matters: bool) -> Node:
    """A relation join sunk below the STR operators right under it."""
    if not isinstance(node, RelationJoin):
        return node
    child = _with_negations_on_top(node.child)
    node = replace(node, child=child)
    match child:
        case AntiJoin(left=left):
            return replace(child, left=_lower(replace(node, child=left), order_matters))
        case RelationJoin(retroactive=True) if node.retroactive:
            return _together(node, child)
        case RelationJoin(retroactive=True, child=below) if not order_matters and _reads_only(
            node, below
        ):
            return replace(child, child=_lower(replace(node, child=below), order_matters))
    return node


def _with_negations_on_top(node: Node) -> Node:
    """The joins, projections and DISTINCTs below with their negations pulled up to the top."""
    match node:
        case Join() | Project() | Distinct() | RelationJoin():
            node = node.with_children(tuple(_with_negations_on_top(c) for c in node.children()))
        case AntiJoin(left=left):
            node = replace(node, left=_with_negations_on_top(left))
    raised = pull_up(node) or pull_above_projection(node)
    if not raised:
        return node
    return replace(raised[0], left=_with_negations_on_top(raised[0].left))


def _reads_only(node: RelationJoin, child: Node) -> bool:
    """Whether the join reads nothing but this child and its own relation."""
    return all(
        offers(child, column) or offers(node.relation, column)
        for expression in node.expressions()
        for column in expression.columns()
    )


def _together(outer: RelationJoin, inner: RelationJoin) -> Node:
    """Two retroactive relations joined with the stream in one step."""
    between = tuple(e for e in outer.equalities if offers(inner.relation, e.left))
    rest = tuple(e for e in outer.equalities if e not in between)
    direct = tuple(e for e in rest if offers(inner.child, e.left))
    mixed = tuple(Compare("=", e.left, e.right) for e in rest if e not in direct)
    tables = Join((inner.relation, outer.relation), between, position=outer.position)
    terms = (*conjuncts(inner.residual), *conjuncts(outer.residual), *mixed)
    return replace(
        inner,
        relation=tables,
        equalities=(*inner.equalities, *direct),
        residual=conjunction(terms),
    )


def rewrite(plan: Node, context: RuleContext) -> Node:
    return rewrite_bottom_up(plan, _lower)


JOIN_RELATIONS_FIRST = Rule(
    "join-relations-first", "keep STR inputs away from joins with relations", rewrite
)
