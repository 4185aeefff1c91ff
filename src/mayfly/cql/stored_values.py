"""A value looked up in a relation or NRR by its key: ``(SELECT b FROM r WHERE r.a = s.k)``.

A key has one row at most, so the query is a LEFT JOIN with the stored table; no row is NULL.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.cql.from_clause import BindQuery, bind_items
from mayfly.cql.join_binder import conjuncts_of, split_equalities
from mayfly.cql.outer_joins import stored_left_join
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Scope
from mayfly.plan.expressions import Case, Column, Expression, IsNull, Not, conjunction
from mayfly.plan.logical_operators import Equality, Node, Position, RelationScan

_PARTS = ("from_", "where", "expressions")


@dataclass(frozen=True)
class StoredValue:
    """A stored table, and how its row is found."""

    table: RelationScan
    equalities: tuple[Equality, ...]
    residual: Expression | None
    position: Position | None

    def beside(self, context: BindingContext, rows: Node) -> Node:
        return stored_left_join(
            context, rows, self.table, self.equalities, self.residual, self.position
        )


def looked_up(
    context: BindingContext, around: Scope, block: exp.Expr, bind_query: BindQuery
) -> tuple[Expression, StoredValue] | None:
    """The value and its table, if the block asks for one row of a table by its key."""
    if not isinstance(block, exp.Select) or any(
        value for part, value in block.args.items() if part not in _PARTS
    ):
        return None
    source = block.args["from_"].this if block.args.get("from_") else None
    entry = context.catalog.lookup(source.name) if isinstance(source, exp.Table) else None
    if entry is None or entry.kind not in ("relation", "NRR"):
        return None
    (item,) = bind_items(context, block, bind_query)
    table = item.node
    if not isinstance(table, RelationScan) or not table.key:
        return None
    scope = Scope(context.source, (item,), around)
    where = block.args.get("where")
    binder = ScalarBinder(context.source, scope, "WHERE")
    terms = [binder.condition(place) for place in conjuncts_of(where.this if where else None)]
    own = frozenset({table.alias})
    outside = frozenset(c.relation for entry in around.items for c in entry.node.schema)
    equalities, rest = split_equalities(terms, [outside, own])
    keys = {pair.right.name for pair in equalities if isinstance(pair.right, Column)}
    if not set(table.key) <= keys:
        return None
    value = ScalarBinder(context.source, scope, "SELECT").bind(block.expressions[0].unalias())
    if not isinstance(value, Column):
        # Without a row there is no value, whatever the expression makes of NULLs.
        key = next(column for column in table.schema if column.name == table.key[0])
        value = Case((Not(IsNull(key)),), (value,), None, value.type)
    position = context.position(block)
    return value, StoredValue(table, equalities, conjunction(tuple(rest)), position)
