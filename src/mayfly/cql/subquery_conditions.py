"""Conditions with queries: EXISTS, IN and their negations, as joins of the block around them.

EXISTS may use names of the block directly around it; those conditions become the equalities and the
residual of an anti-join, or of its opposite. IN compares one column; where its WHERE uses names of
the block around it, it is an EXISTS with one comparison more, otherwise it stands alone, and a NULL
on the right of NOT IN empties the whole answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from mayfly.cql.aggregate_functions import has_aggregate
from mayfly.cql.context import BindingContext
from mayfly.cql.from_clause import BindQuery, bind_items
from mayfly.cql.join_binder import conjuncts_of, join_items, split_equalities
from mayfly.cql.named_queries import with_common_queries
from mayfly.cql.outer_joins import join_entries
from mayfly.cql.output_kind import drop_rstream
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Item, Scope
from mayfly.cql.semi_joins import check_stored, with_partner
from mayfly.plan.expressions import Compare, Expression, IsNull, Or, conjunction
from mayfly.plan.logical_operators import (
    AntiJoin,
    Equality,
    Negation,
    Node,
)

_AN = {"IN": "an IN", "NOT IN": "a NOT IN"}


def asks_query(node: exp.Expr) -> bool:
    """Whether a condition is [NOT] EXISTS (…) or x [NOT] IN (SELECT …)."""
    inner = _asked(node)
    return isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and "query" in inner.args)


def _asked(place: exp.Expr) -> exp.Expr:
    """The condition without NOT."""
    inner = place.unnest()
    return inner.this.unnest() if isinstance(inner, exp.Not) else inner


def apply_queries(
    context: BindingContext, left: Node, scope: Scope, places: list[exp.Expr], bind_query: BindQuery
) -> Node:
    """The block's rows for which the conditions with queries hold: the negations come last."""
    for place in sorted(places, key=_is_negation):
        bind = _exists if isinstance(_asked(place), exp.Exists) else _in
        left = bind(context, left, scope, place, bind_query)
    return left


def _is_negation(place: exp.Expr) -> bool:
    return isinstance(place.unnest(), exp.Not)


def _exists(
    context: BindingContext, left: Node, scope: Scope, place: exp.Expr, bind_query: BindQuery
) -> Node:
    word = "NOT EXISTS" if _is_negation(place) else "EXISTS"
    return _matched(context, left, scope, place, bind_query, _asked(place).this, word)


def _matched(
    context: BindingContext, left: Node, scope: Scope, place: exp.Expr, bind_query: BindQuery,
    block: Any, word: str, value: Expression | None = None,
) -> Node:  # fmt: skip
    """Rows with, or without, a row of the block for which its WHERE holds; where a value is given,
    also one that is equal to the block's column, or may be."""
    context = with_common_queries(context, block, bind_query)
    while isinstance(block, exp.Subquery):
        block = block.this
        context = with_common_queries(context, block, bind_query)
    check_plain(context, block, word)
    drop_rstream(context, block, word)
    items = bind_items(context, block, bind_query)
    entries = join_entries(context, block, items, Scope(context.source, (), outer=scope))
    inner = Scope(context.source, entries.visible, scope, merged=entries.merged)
    _check_outputs(context, block, inner)
    places = conjuncts_of(block.args["where"].this if block.args.get("where") else None)
    binder = ScalarBinder(context.source, inner, "WHERE")
    conditions = [binder.condition(part) for part in places if not asks_query(part)]
    conditions += entries.conditions
    if value is not None:
        conditions.append(_equal(context, binder, place, block, value, word))
    own = frozenset(column.relation for item in inner.items for column in item.node.schema)
    within = [condition for condition in conditions if condition.relations() <= own]
    across = [condition for condition in conditions if not condition.relations() <= own]
    right = _negated_side(context, block, entries.joined, within)
    nested = [part for part in places if asks_query(part)]
    right = apply_queries(context, right, inner, nested, bind_query)
    outer = frozenset(column.relation for column in left.schema)
    equalities, rest = split_equalities(across, [outer, own])
    negation = AntiJoin(
        left, right, equalities, Negation.NOT_EXISTS, conjunction(tuple(rest)),
        position=context.position(place),
    )  # fmt: skip
    return negation if _is_negation(place) else with_partner(context, place, negation)


def _in(
    context: BindingContext, left: Node, scope: Scope, place: exp.Expr, bind_query: BindQuery
) -> Node:
    inner, word = _asked(place), "NOT IN" if _is_negation(place) else "IN"
    exists = word.replace("IN", "EXISTS")
    binder = ScalarBinder(context.source, scope, "WHERE")
    if isinstance(inner.this.unnest(), exp.Tuple):
        problem = f"{word} compares one column"
        raise context.error(inner.this, problem, f"write {exists} (SELECT … WHERE a.x = b.x AND …)")
    value = binder.bind(inner.this)
    query = inner.args["query"].this
    if _depends(query, scope):
        return _matched(context, left, scope, place, bind_query, query, word, value)
    hint = f"write {exists} (SELECT … WHERE a.x = b.y) instead of {_AN[word]} that depends on it"
    closed = Scope(context.source, (), outer=scope, closed=hint)
    inside = replace(context, in_negation=True)
    right = bind_query(inside, query, context.aliases.fresh("not_in"), closed)
    check_stored(context, right)
    if len(right.schema) != 1:
        problem = f"the query of {word} has {len(right.schema)} columns"
        raise context.error(query, problem, "select exactly the column to compare with")
    sides = binder.alike(inner, value, right.schema[0], word)
    negation = AntiJoin(
        left, right, (Equality(*sides),), Negation.NOT_IN, position=context.position(place)
    )
    return negation if _is_negation(place) else with_partner(context, place, negation)


def _depends(query: exp.Expr, scope: Scope) -> bool:
    """Whether the WHERE of an IN names entries of the block around it."""
    where = query.args.get("where") if isinstance(query, exp.Select) else None
    if where is None or query.args.get("with_") or not query.args.get("from_"):
        return False
    joins = query.args.get("joins") or []
    entries = [query.args["from_"].this, *(join.this for join in joins)]
    inside = {entry.alias_or_name.casefold() for entry in entries}
    around = {item.name.casefold() for item in scope.items} - inside
    within = where.walk(prune=lambda part: isinstance(part, exp.Query))
    return any(isinstance(part, exp.Column) and part.table.casefold() in around for part in within)


def _equal(
    context: BindingContext, binder: ScalarBinder, place: exp.Expr, block: exp.Expr,
    value: Expression, word: str,
) -> Expression:  # fmt: skip
    """That a value is equal to the column of a block; of NOT IN that it may be, as NULL may."""
    outputs = [part.this if isinstance(part, exp.Alias) else part for part in block.expressions]
    if len(outputs) != 1 or outputs[0].is_star:
        problem = f"the query of {word} has {len(outputs)} columns"
        problem = f"the query of {word} selects *" if outputs[0].is_star else problem
        raise context.error(block, problem, "select exactly the column to compare with")
    sides = binder.alike(_asked(place), value, binder.bind(outputs[0]), word)
    equal = Compare("=", *sides)
    unknown = [IsNull(side) for side in sides if side.nullable and word == "NOT IN"]
    return Or((equal, *unknown)) if unknown else equal


def check_plain(context: BindingContext, block: exp.Expr, word: str) -> None:
    """Refuse what changes nothing inside EXISTS, or hides what it looks for."""
    if not isinstance(block, exp.Select):
        raise context.error(block, f"{word} takes one SELECT", f"write one {word} per part")
    if block.args.get("having"):
        raise context.error(
            block.args["having"],
            f"HAVING is not allowed inside {word}",
            f"write k {word.replace('EXISTS', 'IN')} (SELECT k FROM … GROUP BY k HAVING …)",
        )
    for part in ("distinct", "group", "order", "limit", "offset"):
        if block.args.get(part):
            raise context.error(
                block.args[part] if part != "distinct" else block,
                f"{part.upper()} changes nothing inside {word}, or hides what it looks for",
                f"write {word} (SELECT * FROM … WHERE …)",
            )
    for output in block.expressions:
        if has_aggregate(output):
            raise context.error(
                output,
                "an aggregate always gives a row, so "
                f"{word} would {'never' if word != 'EXISTS' else 'always'} hold",
                f"select *, or use {word.replace('EXISTS', 'IN')} (SELECT … GROUP BY … HAVING …)",
            )


def _check_outputs(context: BindingContext, block: exp.Select, scope: Scope) -> None:
    """What EXISTS selects does not matter, but its names must exist."""
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
    check_stored(context, right)
    return right
