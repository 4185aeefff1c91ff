"""NOT EXISTS and NOT IN: anti-joins of the block around them.

NOT EXISTS may use names of the block directly around it; those conditions become the equalities
and the residual of the anti-join. NOT IN compares one column and stands alone, because a NULL on
its right empties the whole answer.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from mayfly.cql.aggregate_types import has_aggregate
from mayfly.cql.context import BindingContext
from mayfly.cql.from_clause import BindQuery, bind_items
from mayfly.cql.join_binder import join_items, split_equalities
from mayfly.cql.operators import drop_rstream
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Item, Scope
from mayfly.plan.expressions import Expression, conjunction
from mayfly.plan.logical import AntiJoin, Equality, Negation, Node, RelationScan, StreamScan

_CLOSED = "write NOT EXISTS (SELECT … WHERE a.x = b.y) instead of a NOT IN that depends on it"


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


def is_negation(node: exp.Expr) -> bool:
    """Whether a condition is NOT EXISTS (…) or x NOT IN (SELECT …)."""
    inner = node.this if isinstance(node, exp.Not) else None
    while isinstance(inner, exp.Paren):
        inner = inner.this
    return isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and "query" in inner.args)


def apply_negations(
    context: BindingContext, left: Node, scope: Scope, places: list[exp.Expr], bind_query: BindQuery
) -> Node:
    """The block's rows without those the negations exclude."""
    for place in places:
        inner = place.this.unnest()
        if isinstance(inner, exp.Exists):
            left = _not_exists(context, left, scope, place, bind_query)
        else:
            left = _not_in(context, left, scope, place, bind_query)
    return left


def _not_exists(
    context: BindingContext, left: Node, scope: Scope, place: exp.Expr, bind_query: BindQuery
) -> Node:
    block = place.this.unnest().this
    while isinstance(block, exp.Subquery):
        block = block.this
    _check_plain(context, block)
    drop_rstream(context, block, "NOT EXISTS")
    items = bind_items(context, block, bind_query)
    inner = Scope(context.source, tuple(items), outer=scope)
    _check_outputs(context, block, inner)
    places = conjuncts_of(block.args["where"].this if block.args.get("where") else None)
    binder = ScalarBinder(context.source, inner, "WHERE")
    conditions = [binder.condition(conjunct) for conjunct in places if not is_negation(conjunct)]
    conditions += on_conditions(context, block, items, inner)
    own = frozenset(column.relation for item in items for column in item.node.schema)
    within = [condition for condition in conditions if condition.relations() <= own]
    across = [condition for condition in conditions if not condition.relations() <= own]
    right = _negated_side(context, block, items, within)
    nested = [conjunct for conjunct in places if is_negation(conjunct)]
    right = apply_negations(context, right, inner, nested, bind_query)
    outer = frozenset(column.relation for column in left.schema)
    equalities, rest = split_equalities(across, [outer, own])
    position = context.position(place)
    residual = conjunction(tuple(rest))
    return AntiJoin(left, right, equalities, Negation.NOT_EXISTS, residual, position=position)


def _not_in(
    context: BindingContext, left: Node, scope: Scope, place: exp.Expr, bind_query: BindQuery
) -> Node:
    inner = place.this.unnest()
    binder = ScalarBinder(context.source, scope, "WHERE")
    if isinstance(inner.this.unnest(), exp.Tuple):
        problem = "NOT IN compares one column"
        raise context.error(
            inner.this, problem, "write NOT EXISTS (SELECT … WHERE a.x = b.x AND …)"
        )
    value = binder.bind(inner.this)
    query = inner.args["query"].this
    closed = Scope(context.source, (), outer=scope, closed=_CLOSED)
    inside = replace(context, in_negation=True)
    right = bind_query(inside, query, context.aliases.fresh("not_in"), closed)
    _check_stored(context, right)
    if len(right.schema) != 1:
        problem = f"the query of NOT IN has {len(right.schema)} columns"
        raise context.error(query, problem, "select exactly the column to compare with")
    sides = binder.alike(inner, value, right.schema[0], "NOT IN")
    position = context.position(place)
    return AntiJoin(left, right, (Equality(*sides),), Negation.NOT_IN, position=position)


def on_conditions(
    context: BindingContext, block: exp.Select, items: list[Item], scope: Scope
) -> list[Expression]:
    """The conditions of JOIN … ON; each sees the entries up to its own."""
    conditions: list[Expression] = []
    for number, join in enumerate(block.args.get("joins") or [], start=2):
        _check_join(context, join)
        seen = Scope(context.source, tuple(items[:number]), scope.outer, scope.closed)
        binder = ScalarBinder(context.source, seen, "ON")
        conditions.extend(binder.condition(place) for place in conjuncts_of(join.args.get("on")))
    return conditions


def _check_join(context: BindingContext, join: exp.Expr) -> None:
    side, kind, method = (join.args.get(key) for key in ("side", "kind", "method"))
    if kind in ("SEMI", "ANTI"):
        hint = "write NOT EXISTS" if kind == "ANTI" else "join (SELECT DISTINCT …)"
        raise context.error(join, f"{kind} JOIN is not in the language", hint)
    if side or kind in ("OUTER", "FULL"):
        raise context.error(
            join,
            f"{side or kind} JOIN is not in the language",
            "write JOIN … ON; rows without a partner are what NOT EXISTS finds",
        )
    if method or join.args.get("using"):
        word = method or "JOIN … USING"
        raise context.error(join, f"{word} is not in the language", "write JOIN … ON a.x = b.x")
    if join.args.get("on") is None and kind != "CROSS":
        raise context.error(join, "JOIN needs ON", "write JOIN … ON a.x = b.x, or CROSS JOIN")


def _check_plain(context: BindingContext, block: exp.Expr) -> None:
    if not isinstance(block, exp.Select):
        raise context.error(block, "NOT EXISTS takes one SELECT", "write one NOT EXISTS per part")
    for part in ("distinct", "group", "having", "order", "limit", "offset"):
        if block.args.get(part):
            raise context.error(
                block.args[part] if part != "distinct" else block,
                f"{part.upper()} changes nothing inside NOT EXISTS, or hides what it looks for",
                "write NOT EXISTS (SELECT * FROM … WHERE …)",
            )
    for output in block.expressions:
        if has_aggregate(output):
            raise context.error(
                output,
                "an aggregate always gives a row, so NOT EXISTS would never hold",
                "select *, or use NOT IN (SELECT … GROUP BY … HAVING …)",
            )


def _check_outputs(context: BindingContext, block: exp.Select, scope: Scope) -> None:
    """What NOT EXISTS selects does not matter, but its names must exist."""
    binder = ScalarBinder(context.source, scope, "SELECT")
    for output in block.expressions:
        expression = output.this if isinstance(output, exp.Alias) else output
        if not expression.is_star:
            binder.bind(expression)


def _negated_side(
    context: BindingContext, block: exp.Select, items: list[Item], conditions: list[Expression]
) -> Node:
    """The rows a negation looks for; they may come from a relation alone."""
    right = join_items(replace(context, in_negation=True), block, items, conditions)
    _check_stored(context, right)
    return right


def _check_stored(context: BindingContext, right: Node) -> None:
    for node in () if any(isinstance(n, StreamScan) for n in right.walk()) else right.walk():
        if isinstance(node, RelationScan) and not node.retroactive:
            raise context.error_for(
                node,
                f"{node.relation} is an NRR: its changes concern later tuples only",
                "a negation looks at what is there now; declare it as a RELATION",
            )
