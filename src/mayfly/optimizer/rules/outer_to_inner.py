"""Make an inner join of an outer one where a later condition refuses its NULLs.

    Select(r.bytes > 5, l LEFT JOIN r)   →   Select(r.bytes > 5, l JOIN r)
    (l FULL JOIN r) JOIN c ON r.x = c.x  →   (l RIGHT JOIN r) JOIN c ON r.x = c.x

A padded row has NULL for its partner's columns, and a comparison with NULL is never true. So the
negation that finds rows without a partner, and with it STR, goes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mayfly.optimizer.rule import Rule, RuleContext, substituted
from mayfly.plan.expressions import (
    And,
    Arithmetic,
    Cast,
    Column,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    conjuncts,
)
from mayfly.plan.logical_operators import (
    AntiJoin,
    Equality,
    Join,
    Node,
    Project,
    RelationJoin,
    Select,
    UnionAll,
)
from mayfly.plan.outer_join import OuterJoin, nulls_of

Terms = tuple[Expression, ...]
Names = Collection[tuple[str, str]]


def drop(node: Node, terms: Terms = ()) -> Node:
    """The node, of whose rows only those count for which all terms are true."""
    match node:
        case Select(child=child, predicate=predicate):
            return replace(node, child=drop(child, (*terms, *conjuncts(predicate))))
        case Project(child=child, outputs=outputs, alias=alias):
            below = tuple(substituted(term, outputs, alias) for term in terms)
            return replace(node, child=drop(child, below))
        case Join(equalities=pairs, residual=residual):
            below = (*terms, *_equations(pairs), *conjuncts(residual))
            return replace(node, inputs=tuple(drop(child, below) for child in node.inputs))
        case RelationJoin(child=child, equalities=pairs, residual=residual):
            below = (*terms, *_equations(pairs), *conjuncts(residual))
            return replace(node, child=drop(child, below))
        case AntiJoin(left=left, right=right):
            return replace(node, left=drop(left, terms), right=drop(right))
    rebuilt = node.with_children(tuple(drop(child) for child in node.children()))
    return _without_refused(rebuilt, terms) if isinstance(rebuilt, UnionAll) else rebuilt


def _equations(pairs: tuple[Equality, ...]) -> Terms:
    return tuple(Compare("=", pair.left, pair.right) for pair in pairs)


def _without_refused(node: UnionAll, terms: Terms) -> Node:
    """An outer join without the padded parts of which no row can pass the terms."""
    outer, staying = OuterJoin.of(node), []
    if outer is None:
        return node
    for part in outer.padded:
        nulls = {(column.relation, column.name) for column in nulls_of(part, node.schema)}
        if not any(is_never_true(term, nulls) for term in terms):
            staying.append(part)
    if len(staying) == len(outer.padded):
        return node
    return replace(node, inputs=(outer.pairs, *staying)) if staying else outer.pairs


def is_never_true(term: Expression, nulls: Names) -> bool:
    """Whether a condition is false or NULL wherever these columns are NULL."""
    match term:
        case And(terms=parts):
            return any(is_never_true(part, nulls) for part in parts)
        case Or(terms=parts):
            return all(is_never_true(part, nulls) for part in parts)
        case Not(child=IsNull(child=child)):
            return is_null(child, nulls)
        case Literal(value=value):
            return not value
    return is_null(term, nulls)


def is_null(expression: Expression, nulls: Names) -> bool:
    """Whether an expression is surely NULL wherever these columns are."""
    match expression:
        case Column(relation=relation, name=name):
            return (relation, name) in nulls
        case Literal(value=value):
            return value is None
        case Compare(op=op, left=left, right=right):
            return op != "<=>" and (is_null(left, nulls) or is_null(right, nulls))
        case Arithmetic(left=left, right=right):
            return is_null(left, nulls) or is_null(right, nulls)
        case Like(child=child, pattern=pattern):
            return is_null(child, nulls) or is_null(pattern, nulls)
        case Not(child=child) | Cast(child=child) | InList(child=child):
            return is_null(child, nulls)
    return False


def rewrite(plan: Node, context: RuleContext) -> Node:
    return drop(plan)


OUTER_TO_INNER = Rule("outer-to-inner", "make outer joins inner where NULLs are refused", rewrite)
