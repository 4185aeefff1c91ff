"""Turns the entries of FROM and the conditions over them into joins.

Streams and sub-queries become one n-way ``Join``. Above it each NRR is joined, so that a result
reflects the NRR at its own ts (Definition 3.1); then all retroactive relations in one step, since
the input of a relation join must not be STR (thesis 3.5.3). Conditions over one entry stay in a
``Select`` on top: moving them is the optimizer's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.cql.scope import Item
from mayfly.plan.expressions import Compare, Expression, conjunction
from mayfly.plan.logical_operators import (
    Equality,
    Join,
    Node,
    Position,
    RelationJoin,
    RelationScan,
    Select,
)

_NO_STREAM = (
    'add one to FROM, with its window; relations alone are asked once: execute("SELECT …"), '
    "mayfly sql"
)


def join_items(
    context: BindingContext, block: exp.Select, items: list[Item], conditions: list[Expression]
) -> Node:
    """The rows of FROM that satisfy all conditions."""
    stored: list[Node] = [item.node for item in items if isinstance(item.node, RelationScan)]
    moving = [item.node for item in items if not isinstance(item.node, RelationScan)]
    if not moving:
        if not context.relations_suffice:
            raise context.error(block, "this query reads no stream", _NO_STREAM)
        moving, stored = stored[:1], stored[1:]
    joins = block.args.get("joins") or []
    position = context.position(joins[0]) if joins else None
    sides = [_aliases(item.node) for item in items]
    local = [part for part in conditions if any(part.relations() <= side for side in sides)]
    waiting = [part for part in conditions if part not in local]
    node = moving[0] if len(moving) == 1 else _join(moving, waiting, position)
    for nrr in (relation for relation in stored if not _retroactive(relation)):
        _check_connected(context, node, nrr, waiting)
        node = _relation_join(node, nrr, waiting)
    relations = [relation for relation in stored if _retroactive(relation)]
    if relations:
        side = relations[0] if len(relations) == 1 else _join(relations, waiting, position)
        node = _relation_join(node, side, waiting)
    assert not waiting, "every condition is checked"
    predicate = conjunction(tuple(local))
    return Select(node, predicate, position=_where(context, block)) if predicate else node


def _where(context: BindingContext, block: exp.Select) -> Position:
    place = block.args.get("where")
    return context.position(place if place is not None else block)


def _retroactive(node: Node) -> bool:
    return isinstance(node, RelationScan) and node.retroactive


def _aliases(node: Node) -> frozenset[str]:
    return frozenset(column.relation for column in node.schema)


def _join(inputs: Sequence[Node], waiting: list[Expression], position: Position | None) -> Join:
    within = frozenset[str]().union(*map(_aliases, inputs))
    ready = _take(waiting, within)
    equalities, rest = split_equalities(ready, [_aliases(node) for node in inputs])
    return Join(tuple(inputs), equalities, conjunction(tuple(rest)), position=position)


def _relation_join(child: Node, relation: Node, waiting: list[Expression]) -> RelationJoin:
    ready = _take(waiting, _aliases(child) | _aliases(relation))
    equalities, rest = split_equalities(ready, [_aliases(child), _aliases(relation)])
    position = relation.position
    return RelationJoin(child, relation, equalities, conjunction(tuple(rest)), position=position)


def _take(waiting: list[Expression], within: frozenset[str]) -> list[Expression]:
    """Move the conditions that read nothing else out of the waiting list."""
    ready = [condition for condition in waiting if condition.relations() <= within]
    waiting[:] = [condition for condition in waiting if not condition.relations() <= within]
    return ready


def split_equalities(
    conditions: Iterable[Expression], sides: list[frozenset[str]]
) -> tuple[tuple[Equality, ...], list[Expression]]:
    """Equalities between expressions over two different inputs, and all other conditions."""
    equalities: list[Equality] = []
    rest: list[Expression] = []
    for condition in conditions:
        equality = _equality(condition, sides)
        if equality:
            equalities.append(equality)
        else:
            rest.append(condition)
    return tuple(equalities), rest


def _equality(condition: Expression, sides: list[frozenset[str]]) -> Equality | None:
    if not (isinstance(condition, Compare) and condition.op == "="):
        return None
    left, right = _side(condition.left, sides), _side(condition.right, sides)
    if left is None or right is None or left == right:
        return None
    if left < right:
        return Equality(condition.left, condition.right)
    return Equality(condition.right, condition.left)


def _side(expression: Expression, sides: list[frozenset[str]]) -> int | None:
    read = expression.relations()
    return next((index for index, side in enumerate(sides) if read and read <= side), None)


def _check_connected(
    context: BindingContext, child: Node, nrr: Node, waiting: list[Expression]
) -> None:
    """An NRR reached only through a relation would have to be joined above it, on STR input."""
    own = _aliases(nrr)
    linked = [condition for condition in waiting if condition.relations() & own]
    if linked and not any(condition.relations() <= own | _aliases(child) for condition in linked):
        raise context.error_for(
            nrr,
            "this NRR is joined through a relation, whose changes it could not follow",
            "join the NRR with a stream, or declare it as a RELATION",
        )


def conjuncts_of(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions joined by AND, parentheses opened."""
    conditions: list[exp.Expr] = []
    waiting = [] if node is None else [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, exp.And):
            waiting += (current.expression, current.this)
        elif isinstance(current, exp.Paren) and isinstance(
            current.this, exp.And | exp.Paren | exp.Not
        ):
            waiting.append(current.this)
        else:
            conditions.append(current)
    return conditions
