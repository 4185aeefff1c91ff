"""JOIN … ON, LEFT, RIGHT, FULL, SEMI and ANTI: entries of FROM put together, from left to right.

An outer join is the union of the pairs and of the rows without a partner, a negation, padded with
NULLs: ``L LEFT JOIN R ON c`` is ``Join(L, R, c) ∪ (NOT EXISTS(L, R, c), NULL, …)``. So a row is
padded exactly while no partner is alive, and a condition on L alone decides about partners, not
about rows of L. Columns keep their names; those that may be padded may be NULL from there on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from mayfly.cql.asof_joins import AsofBinder, check_asof, is_asof, read_as_of, reads_version
from mayfly.cql.context import BindingContext
from mayfly.cql.elements import unnested
from mayfly.cql.join_binder import conjuncts_of, join_items, split_equalities
from mayfly.cql.same_names import after_join, merged_pairs
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Item, Merged, Scope
from mayfly.cql.semi_joins import check_stored, with_partner
from mayfly.plan.expressions import Expression, conjunction
from mayfly.plan.logical_operators import (
    AntiJoin,
    Equality,
    Join,
    Node,
    PaddedNrrJoin,
    Position,
    RelationJoin,
    RelationScan,
    Schema,
    Select,
    UnionAll,
)
from mayfly.plan.outer_join import left_join, without_partner

OUTER = ("LEFT", "RIGHT", "FULL")
PARTNER = ("SEMI", "ANTI")
"""Joins that ask whether there is a partner, and give no columns of it."""


@dataclass(frozen=True)
class Entries:
    """The entries of FROM, those of outer joins as one, with the conditions that are left to join
    them by; ``visible`` are all of them as later clauses see them."""

    joined: list[Item]
    conditions: list[Expression]
    visible: tuple[Item, ...]
    merged: tuple[Merged, ...] = ()


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
    merged: tuple[Merged, ...] = ()
    pairs = zip(block.args.get("joins") or [], items[1:], strict=True)
    for join, item in pairs:
        if isinstance(join.this, exp.Unnest):
            before = Scope(context.source, tuple(visible), outer, closed, merged)
            joined, item = unnested(context, join, before, joined)
            visible = [*visible, item]
            binder = ScalarBinder(
                context.source, Scope(context.source, tuple(visible), outer, closed, merged), "ON"
            )
            on = None if join.args.get("side") else join.args.get("on")
            conditions += [binder.condition(part) for part in conjuncts_of(on)]
            continue
        _check_join(context, join)
        near = Scope(context.source, (*visible, item), outer, closed, merged)
        item = read_as_of(context, join, joined, item, ScalarBinder(context.source, near, "ON"))
        scope = Scope(context.source, (*visible, item), outer, closed, merged)
        binder = ScalarBinder(context.source, scope, "ON")
        side = join.args.get("side") or ""
        closest = is_asof(join) and not reads_version(join, item)
        places = [] if closest else conjuncts_of(join.args.get("on"))
        terms = [binder.condition(part) for part in places]
        before = Scope(context.source, tuple(visible), merged=merged)
        pairs_alike = merged_pairs(context, join, before, item)
        terms += [pair.condition(binder, join) for pair in pairs_alike]
        if join.args.get("kind") in PARTNER:
            left = join_items(context, block, joined, conditions)
            joined, conditions = [Item("", _with_partner(context, join, left, item, terms))], []
            continue
        merged = after_join(merged, pairs_alike, side, item)
        if side not in OUTER and not closest:
            joined, visible = [*joined, item], [*visible, item]
            conditions += terms
            continue
        if closest:
            left = join_items(context, block, joined, conditions)
            joined, conditions = [Item("", AsofBinder(context, join, scope).bound(left, terms))], []
            visible = [*visible, _padded(item) if side else item]
            continue
        alone = len(joined) == 1 and isinstance(joined[0].node, RelationScan)
        left = joined[0].node if alone else join_items(context, block, joined, conditions)
        outer_join = _outer_join(context, join, left, item.node, terms)
        context.check_size(join, outer_join)
        joined, conditions = [Item("", outer_join)], []
        if side != "LEFT":
            visible = [_padded(entry) for entry in visible]
        visible = [*visible, item if side == "RIGHT" else _padded(item)]
    return Entries(joined, conditions, tuple(visible), merged)


def _check_join(context: BindingContext, join: exp.Expr) -> None:
    side, kind, method = (join.args.get(key) for key in ("side", "kind", "method"))
    if kind in PARTNER and side in ("RIGHT", "FULL"):
        problem = f"{side} {kind} JOIN is not in the language"
        raise context.error(join, problem, f"write b LEFT {kind} JOIN a, with its sides changed")
    if is_asof(join):
        check_asof(context, join)
        return
    if kind == "OUTER" and not side:
        hint = "write LEFT, RIGHT or FULL JOIN … ON"
        raise context.error(join, "OUTER JOIN does not say which rows stay", hint)
    if method and method != "NATURAL":
        hint = "write JOIN … ON …"
        raise context.error(join, f"{method} JOIN is not in the language", hint)
    named = method or join.args.get("using")
    if named and kind == "CROSS":
        raise context.error(join, "CROSS JOIN has no columns to compare", "leave CROSS out")
    if method and (join.args.get("using") or join.args.get("on")):
        hint = "remove NATURAL, or what follows it"
        raise context.error(join, "NATURAL JOIN compares all columns of one name", hint)
    if join.args.get("on") is None and not named and (kind != "CROSS" or side):
        word = " ".join(part for part in (side, kind if kind in PARTNER else "", "JOIN") if part)
        cross = ", or CROSS JOIN" if kind not in PARTNER else ""
        hint = f"write {word} … ON a.x = b.x, {word} … USING (x){cross}"
        raise context.error(join, f"{word} needs ON or USING", hint)


def _padded(item: Item) -> Item:
    columns = tuple(replace(column, may_be_null=True) for column in item.node.schema)
    nameless = {name: replace(column, may_be_null=True) for name, column in item.nameless.items()}
    order = tuple(replace(column, may_be_null=True) for column in item.order)
    return Item(item.name, _Offered(columns), nameless, order)


def _outer_join(
    context: BindingContext, join: exp.Expr, left: Node, right: Node, terms: list[Expression]
) -> Node:
    side, position = str(join.args["side"]), context.position(join)
    # At one instant a stored table is rows as any others.
    tables = [] if context.one_time else [left, right]
    stored = [node for node in tables if isinstance(node, RelationScan)]
    padded = right if side == "LEFT" else left
    if stored and (side == "FULL" or stored != [padded]):
        word = "relation" if stored[0].retroactive else "NRR"
        raise context.error(
            join,
            f"{side} JOIN would keep rows of the {word} {stored[0].alias} that no stream meets",
            "put the stream on the side whose rows stay: s [RANGE 1 MIN] LEFT JOIN r ON …",
        )
    sides = [frozenset(column.relation for column in node.schema) for node in (left, right)]
    if any(not term.relations() <= sides[0] | sides[1] for term in terms):
        problem = f"ON of {side} JOIN cannot use names of the query around it"
        raise context.error(join, problem, "put that condition into WHERE")
    equalities, rest = split_equalities(terms, sides)
    residual = conjunction(tuple(rest))
    if stored:
        if side == "RIGHT":
            left, right = right, left
            equalities = tuple(Equality(pair.right, pair.left) for pair in equalities)
        return stored_left_join(context, left, right, equalities, residual, position)
    if side == "LEFT":
        alias = context.aliases.fresh("unmatched")
        return left_join(left, right, equalities, residual, alias, position)
    parts: list[Node] = [Join((left, right), equalities, residual, position=position)]
    schema = (*left.schema, *right.schema)
    if side == "FULL":
        lonely = AntiJoin(left, right, equalities, residual=residual, position=position)
        parts.append(without_partner(lonely, schema, context.aliases.fresh("unmatched")))
    turned = tuple(Equality(pair.right, pair.left) for pair in equalities)
    lonely = AntiJoin(right, left, turned, residual=residual, position=position)
    parts.append(without_partner(lonely, schema, context.aliases.fresh("unmatched")))
    return UnionAll(tuple(parts), None, position=position)


def _with_partner(
    context: BindingContext, join: exp.Expr, left: Node, item: Item, terms: list[Expression]
) -> Node:
    """Rows of the left with a partner, of ANTI JOIN those without: as [NOT] EXISTS would say."""
    check_stored(context, item.node)
    sides = [frozenset(column.relation for column in node.schema) for node in (left, item.node)]
    if any(not term.relations() <= sides[0] | sides[1] for term in terms):
        problem = f"ON of {join.args['kind']} JOIN cannot use names of the query around it"
        raise context.error(join, problem, "put that condition into WHERE")
    kind, position = join.args["kind"], context.position(join)
    left_alone = [term for term in terms if kind == "SEMI" and _reads_only(term, sides[0])]
    within = [term for term in terms if term not in left_alone and term.relations() <= sides[1]]
    across = [term for term in terms if term not in left_alone and term not in within]
    left, right = _filtered(left, left_alone, position), _filtered(item.node, within, position)
    equalities, rest = split_equalities(across, sides)
    negation = AntiJoin(
        left, right, equalities, residual=conjunction(tuple(rest)),
        position=position,
    )  # fmt: skip
    return negation if kind == "ANTI" else with_partner(context, join, negation)


def _reads_only(term: Expression, side: frozenset[str]) -> bool:
    return bool(term.relations()) and term.relations() <= side


def _filtered(node: Node, terms: list[Expression], position: Position | None) -> Node:
    predicate = conjunction(tuple(terms))
    return node if predicate is None else Select(node, predicate, position=position)


def stored_left_join(
    context: BindingContext,
    left: Node,
    relation: Node,
    equalities: tuple[Equality, ...],
    residual: Expression | None,
    position: Position | None,
) -> Node:
    """With an NRR padding never changes; a relation's changes end it, as a negation follows."""
    if isinstance(relation, RelationScan) and not relation.retroactive:
        return PaddedNrrJoin(left, relation, equalities, residual, position=position)
    pairs = RelationJoin(left, relation, equalities, residual, position=position)
    lonely = AntiJoin(left, relation, equalities, residual=residual, position=position)
    alias = context.aliases.fresh("unmatched")
    padded = without_partner(lonely, (*left.schema, *relation.schema), alias)
    return UnionAll((pairs, padded), None, position=position)
