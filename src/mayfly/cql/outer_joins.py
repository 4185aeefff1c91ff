"""JOIN … ON, LEFT, RIGHT and FULL: the entries of FROM put together, from left to right.

An outer join is the union of the pairs and of the rows without a partner, a negation, padded with
NULLs: ``L LEFT JOIN R ON c`` is ``Join(L, R, c) ∪ (NOT EXISTS(L, R, c), NULL, …)``. So a row is
padded exactly while no partner is alive, and a condition on L alone decides about partners, not
about rows of L. Columns keep their names; those that may be padded may be NULL from there on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.cql.join_binder import conjuncts_of, join_items, split_equalities
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Item, Scope
from mayfly.plan.expressions import Column, Expression, Literal, conjunction
from mayfly.plan.logical_operators import (
    AntiJoin,
    Equality,
    Join,
    Named,
    Node,
    Project,
    RelationScan,
    Schema,
    UnionAll,
)

OUTER = ("LEFT", "RIGHT", "FULL")


@dataclass(frozen=True)
class Entries:
    """The entries of FROM, those of outer joins as one, with the conditions that are left to join
    them by; ``visible`` are all of them as later clauses see them."""

    joined: list[Item]
    conditions: list[Expression]
    visible: tuple[Item, ...]


@dataclass(frozen=True)
class _Offered(Node):
    """The columns of an entry as they are behind an outer join."""

    columns: Schema

    @cached_property
    def schema(self) -> Schema:
        return self.columns


def join_entries(
    context: BindingContext, block: exp.Select, items: list[Item], around: Scope | None
) -> Entries:
    """Put the entries of FROM together as far as outer joins say; ON sees those up to its own."""
    outer, closed = (around.outer, around.closed) if around else (None, "")
    joined, conditions, visible = items[:1], list[Expression](), items[:1]
    pairs = zip(block.args.get("joins") or [], items[1:], strict=True)
    for join, item in pairs:
        _check_join(context, join)
        scope = Scope(context.source, (*visible, item), outer, closed)
        binder = ScalarBinder(context.source, scope, "ON")
        terms = [binder.condition(part) for part in conjuncts_of(join.args.get("on"))]
        side = join.args.get("side") or ""
        if side not in OUTER:
            joined, visible = [*joined, item], [*visible, item]
            conditions += terms
            continue
        left = join_items(context, block, joined, conditions)
        joined, conditions = [Item("", _outer_join(context, join, left, item.node, terms))], []
        if side != "LEFT":
            visible = [_padded(entry) for entry in visible]
        visible = [*visible, item if side == "RIGHT" else _padded(item)]
    return Entries(joined, conditions, tuple(visible))


def _check_join(context: BindingContext, join: exp.Expr) -> None:
    side, kind, method = (join.args.get(key) for key in ("side", "kind", "method"))
    if kind in ("SEMI", "ANTI"):
        hint = "write NOT EXISTS" if kind == "ANTI" else "write EXISTS"
        raise context.error(join, f"{kind} JOIN is not in the language", hint)
    if kind == "OUTER" and not side:
        hint = "write LEFT, RIGHT or FULL JOIN … ON"
        raise context.error(join, "OUTER JOIN does not say which rows stay", hint)
    if method or join.args.get("using"):
        word = method or "JOIN … USING"
        raise context.error(join, f"{word} is not in the language", "write JOIN … ON a.x = b.x")
    if join.args.get("on") is None and (kind != "CROSS" or side):
        word = f"{side} JOIN" if side else "JOIN"
        raise context.error(join, f"{word} needs ON", f"write {word} … ON a.x = b.x, or CROSS JOIN")


def _padded(item: Item) -> Item:
    columns = tuple(replace(column, may_be_null=True) for column in item.node.schema)
    nameless = {name: replace(column, may_be_null=True) for name, column in item.nameless.items()}
    order = tuple(replace(column, may_be_null=True) for column in item.order)
    return Item(item.name, _Offered(columns), nameless, order)


def _outer_join(
    context: BindingContext, join: exp.Expr, left: Node, right: Node, terms: list[Expression]
) -> Node:
    side, position = str(join.args["side"]), context.position(join)
    for stored in (left, right):
        if isinstance(stored, RelationScan):
            raise context.error(
                join,
                f"{side} JOIN with a relation is not in the language",
                "write JOIN … ON; streams only can be padded",
            )
    sides = [frozenset(column.relation for column in node.schema) for node in (left, right)]
    if any(not term.relations() <= sides[0] | sides[1] for term in terms):
        problem = f"ON of {side} JOIN cannot use names of the query around it"
        raise context.error(join, problem, "put that condition into WHERE")
    equalities, rest = split_equalities(terms, sides)
    residual = conjunction(tuple(rest))
    parts: list[Node] = [Join((left, right), equalities, residual, position=position)]
    schema = (*left.schema, *right.schema)
    if side != "RIGHT":
        lonely = AntiJoin(left, right, equalities, residual=residual, position=position)
        parts.append(_unmatched(context, lonely, schema))
    if side != "LEFT":
        turned = tuple(Equality(pair.right, pair.left) for pair in equalities)
        lonely = AntiJoin(right, left, turned, residual=residual, position=position)
        parts.append(_unmatched(context, lonely, schema))
    return UnionAll(tuple(parts), None, position=position)


def _unmatched(context: BindingContext, lonely: AntiJoin, schema: Schema) -> Node:
    """Rows without a partner, with NULL for its columns."""
    own = set(lonely.schema)
    outputs = tuple(
        Named(f"column_{number}", column if column in own else _null(column))
        for number, column in enumerate(schema, start=1)
    )
    alias = context.aliases.fresh("unmatched")
    return Project(lonely, outputs, alias, position=lonely.position)


def _null(column: Column) -> Literal:
    return Literal(None, column.type)
