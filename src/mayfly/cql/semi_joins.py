"""EXISTS, IN (SELECT …), SEMI JOIN: rows while a partner is alive, by what there is already.

By equal keys it is a join with the distinct keys of the other side: δ* re-issues a key with what is
left of a later partner, so the row comes again, and never twice (WK where both sides are at most
WK). By other conditions it is what a negation leaves out, L EXCEPT ALL (L NOT EXISTS R): equal rows
have the same partners. A relation is joined by its key, of which there is one row at most.
"""

from __future__ import annotations

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.plan.expressions import Column, Literal
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    Equality,
    ExceptAll,
    Join,
    Named,
    Node,
    Project,
    RelationJoin,
    RelationScan,
    Select,
    StreamScan,
)
from mayfly.plan.types import BOOLEAN


def with_partner(context: BindingContext, place: exp.Expr, negation: AntiJoin) -> Node:
    """The left rows of a negation that it leaves out."""
    left, right, position = negation.left, negation.right, negation.position
    reads_stream = any(isinstance(node, StreamScan) for node in right.walk())
    if not reads_stream and not context.one_time:
        return _stored_partner(context, negation)
    if negation.residual is not None:
        for column in left.schema:
            if not column.type.is_comparable:
                raise context.error(
                    place,
                    f"this condition is more than equalities, and {column.name} has no equality",
                    "compare by =, or select the columns that are needed in a sub-query first",
                )
        return ExceptAll(left, negation, position=position)
    alias = context.aliases.fresh("partner")
    keys = [Named(f"key_{n}", pair.right) for n, pair in enumerate(negation.equalities, start=1)]
    whole = keys or [Named("some", Literal(True, BOOLEAN))]
    partners = Distinct(Project(right, tuple(whole), alias, position=position), position=position)
    pairs = zip(negation.equalities, keys, strict=True)
    equalities = tuple(Equality(pair.left, key.column(alias)) for pair, key in pairs)
    return Join((left, partners), equalities, position=position)


def _stored_partner(context: BindingContext, negation: AntiJoin) -> Node:
    right, pairs = negation.right, negation.equalities
    sources = [node for node in right.walk() if isinstance(node, RelationScan)]
    compared = {_stored_name(right, pair.right) for pair in pairs}
    if len(sources) == 1 and sources[0].key and set(sources[0].key) <= compared:
        residual, position = negation.residual, negation.position
        return RelationJoin(negation.left, right, pairs, residual, position=position)
    raise context.error_for(
        sources[0],
        "a partner in a relation is found by the relation's KEY",
        "compare all columns of its KEY by =, or join it",
    )


def _stored_name(node: Node, expression: object) -> str:
    """The column of a relation that an expression over it stands for, if it is one."""
    while isinstance(expression, Column):
        if isinstance(node, RelationScan):
            return expression.name
        if isinstance(node, Project):
            name = expression.name
            expression = next(out.expression for out in node.outputs if out.name == name)
        if not isinstance(node, Project | Select):
            return ""
        node = node.child
    return ""


def check_stored(context: BindingContext, right: Node) -> None:
    """Partners that are stored are of relations, whose changes count for tuples of before too."""
    for node in () if any(isinstance(n, StreamScan) for n in right.walk()) else right.walk():
        if isinstance(node, RelationScan) and not node.retroactive:
            raise context.error_for(
                node,
                f"{node.relation} is an NRR: its changes concern later tuples only",
                "a negation looks at what is there now; declare it as a RELATION",
            )
