"""Move every term of a selection as far down as it keeps its meaning.

    Select(l.src = r.src AND l.proto = 'ftp', Join(l, r))
    → Join(Select(l.proto = 'ftp', l), r) on l.src = r.src

A selection commutes with a time window, so one right above a scan runs before the window; it never
passes a window that counts rows, since tuples it would drop still push others out. It passes
GROUP BY only on keys, and neither a LIMIT, a session nor the right side of a negation.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.rule import Rule, RuleContext, moved, offers, substituted
from mayfly.plan.expressions import Compare, Expression, conjunction, conjuncts
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.finished_windows import PeriodicWindows
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    Equality,
    ExceptAll,
    GroupAggregate,
    Join,
    Negation,
    Node,
    Output,
    Project,
    RelationJoin,
    Select,
    Sort,
    SubqueryWindow,
    UnionAll,
)
from mayfly.plan.unnest import Unnest

Terms = tuple[Expression, ...]


def push(node: Node, terms: Terms = ()) -> Node:
    """The node filtered by the terms, each applied as low as possible."""
    match node:
        case Select(child=child, predicate=predicate):
            return push(child, (*conjuncts(predicate), *terms))
        case Project(child=child, outputs=outputs, alias=alias):
            below = tuple(substituted(term, outputs, alias) for term in terms)
            return replace(node, child=push(child, below))
        case Unnest(child=child):
            below = tuple(term for term in terms if term.columns() and offers(child, term))
            above = tuple(term for term in terms if term not in below)
            return _filtered(replace(node, child=push(child, below)), above)
        case Join():
            return _push_join(node, terms)
        case RelationJoin():
            return _push_relation_join(node, terms)
        case AntiJoin():
            return _push_anti_join(node, terms)
        case ExceptAll(left=left, right=right):
            matched = tuple(moved(term, left.schema, right) for term in terms)
            return replace(node, left=push(left, terms), right=push(right, matched))
        case UnionAll(inputs=inputs):
            return replace(
                node,
                inputs=tuple(
                    push(child, tuple(moved(term, node.schema, child) for term in terms))
                    for child in inputs
                ),
            )
        case Distinct(child=child) | Sort(child=child, limit=None, offset=0):
            return node.with_children((push(child, terms),))
        case GroupAggregate():
            return _push_aggregate(node, terms)
        case SubqueryWindow(child=child, window=window) if not window.counts_rows:
            return replace(node, child=push(child, terms))
        case InWindows(child=child, windows=PeriodicWindows()):
            below = tuple(term for term in terms if offers(child, term))
            above = tuple(term for term in terms if term not in below)
            return _filtered(replace(node, child=push(child, below)), above)
        case Output(child=child) | Finished(child=child):
            return node.with_children((push(child, terms),))
    children = tuple(push(child) for child in node.children())
    return _filtered(node.with_children(children) if children else node, terms)


def _filtered(node: Node, terms: Terms) -> Node:
    predicate = conjunction(terms)
    if predicate is None:
        return node
    return Select(node, predicate, position=node.position)


def _push_join(node: Join, terms: Terms) -> Node:
    pending: list[Terms] = [() for _ in node.inputs]
    equalities, residual = list(node.equalities), []
    for term in (*conjuncts(node.residual), *terms):
        home = next((i for i, child in enumerate(node.inputs) if offers(child, term)), None)
        if home is not None:
            pending[home] = (*pending[home], term)
        elif (equality := _as_equality(term, node.inputs)) is not None:
            equalities.append(equality)
        else:
            residual.append(term)
    return replace(
        node,
        inputs=tuple(push(c, mine) for c, mine in zip(node.inputs, pending, strict=True)),
        equalities=tuple(dict.fromkeys(equalities)),
        residual=conjunction(tuple(residual)),
    )


def _as_equality(term: Expression, inputs: tuple[Node, ...]) -> Equality | None:
    """A term that equates two inputs, as a join condition."""
    if not isinstance(term, Compare) or term.op != "=":
        return None
    homes = [
        next((child for child in inputs if side.columns() and offers(child, side)), None)
        for side in (term.left, term.right)
    ]
    return Equality(term.left, term.right) if None not in homes else None


def _push_relation_join(node: RelationJoin, terms: Terms) -> Node:
    every = (*conjuncts(node.residual), *terms)
    child = tuple(term for term in every if offers(node.child, term))
    relation = tuple(t for t in every if t not in child and offers(node.relation, t))
    rest = tuple(term for term in every if term not in child and term not in relation)
    return replace(
        node,
        child=push(node.child, child),
        relation=push(node.relation, relation),
        residual=conjunction(rest),
    )


def _push_anti_join(node: AntiJoin, terms: Terms) -> Node:
    """Terms go to the left; a residual that reads the right alone decides what can match."""
    matching = conjuncts(node.residual) if node.kind is Negation.NOT_EXISTS else ()
    right = tuple(term for term in matching if term.columns() and offers(node.right, term))
    rest = tuple(term for term in conjuncts(node.residual) if term not in right)
    return replace(
        node,
        left=push(node.left, terms),
        right=push(node.right, right),
        residual=conjunction(rest),
    )


def _push_aggregate(node: GroupAggregate, terms: Terms) -> Node:
    keys = Project(node.child, node.keys, node.alias)
    every = (*conjuncts(node.having), *terms)
    below = tuple(term for term in every if term.columns() and offers(keys, term))
    having = tuple(term for term in conjuncts(node.having) if term not in below)
    above = tuple(term for term in terms if term not in below)
    pushed = tuple(substituted(term, node.keys, node.alias) for term in below)
    changed = replace(node, child=push(node.child, pushed), having=conjunction(having))
    return _filtered(changed, above)


def rewrite(plan: Node, context: RuleContext) -> Node:
    return push(plan)


PUSH_PREDICATES = Rule("push-predicates", "filter as early as possible", rewrite)
