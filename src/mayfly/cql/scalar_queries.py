"""Queries used as values, in SELECT, WHERE and HAVING.

Accepted where one row at most is provable, so that no batch can die of a second one: an aggregate
without GROUP BY, ORDER BY … LIMIT 1, or a relation by its key (stored_values.py). A query on its
own is joined as the one row it is. An aggregate that depends on the row around it by equalities is
decorrelated: grouped by its own sides of them and joined LEFT by them, COUNT with 0 where there is
no group. No row is NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from mayfly.cql import functions
from mayfly.cql.aggregate_functions import has_aggregate
from mayfly.cql.context import BindingContext
from mayfly.cql.from_clause import BindQuery, bind_items
from mayfly.cql.group_clause import GroupedBinder, Grouping
from mayfly.cql.join_binder import split_equalities
from mayfly.cql.named_queries import with_common_queries
from mayfly.cql.outer_joins import join_entries
from mayfly.cql.output_kind import drop_rstream
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Scope
from mayfly.cql.stored_values import StoredValue, looked_up
from mayfly.plan.expressions import Column, Expression, Literal
from mayfly.plan.logical_operators import DECORRELATED, Equality, Join, Node, Position, Select
from mayfly.plan.outer_join import left_join

_ONE_ROW = (
    "write an aggregate such as MAX(x), or ORDER BY … LIMIT 1; name the whole KEY of a relation; "
    "or join it in FROM"
)


@dataclass(frozen=True)
class QueryValue:
    """The rows of a query, at most one for each row beside them."""

    node: Node
    equalities: tuple[Equality, ...]
    is_certain: bool
    """Whether there is always one row."""
    place: exp.Expr
    position: Position | None
    stored: StoredValue | None = None
    """A row of a relation, found by its key."""


@dataclass(frozen=True)
class QueryValues:
    """Queries to be joined with the rows, or groups, that use them."""

    context: BindingContext
    values: tuple[QueryValue, ...]

    def beside(self, rows: Node, condition: Expression | None = None) -> Node:
        """The rows with the values beside them, where the condition holds."""
        for value in self.values:
            if value.stored is not None:
                rows = value.stored.beside(self.context, rows)
            elif value.is_certain:
                rows = Join((rows, value.node), (), None, position=value.position)
            else:
                alias = self.context.aliases.fresh("unmatched")
                rows = left_join(rows, value.node, value.equalities, None, alias, value.position)
                self.context.check_size(value.place, rows)
        return rows if condition is None else Select(rows, condition, position=rows.position)


def values_in(place: exp.Expr) -> list[exp.Subquery]:
    """The queries that an expression uses as values."""
    within = place.walk(prune=lambda part: isinstance(part, exp.Query))
    return [
        part
        for part in within
        if isinstance(part, exp.Subquery) and not isinstance(part.parent, exp.In | exp.Exists)
    ]


def with_values(
    context: BindingContext,
    rows: Node,
    scope: Scope,
    queries: list[exp.Subquery],
    bind_query: BindQuery,
) -> Node:
    """Rows with the values of queries beside them, by which expressions of the scope mean them."""
    binder = ScalarBinder(context.source, scope, "SELECT")
    return attached_values(context, binder, queries, bind_query).beside(rows)


def attached_values(
    context: BindingContext,
    binder: ScalarBinder,
    queries: list[exp.Subquery],
    bind_query: BindQuery,
) -> QueryValues:
    """The queries bound, and what they stand for told to the binder's scope."""
    values = []
    for query in queries:
        name = context.aliases.fresh("value")
        expression, value = _bound(context, binder, query, bind_query, name)
        query.meta["value"] = name
        binder.scope.values[name] = expression
        values.append(value)
    return QueryValues(context, tuple(values))


def _bound(
    context: BindingContext,
    binder: ScalarBinder,
    query: exp.Subquery,
    bind_query: BindQuery,
    name: str,
) -> tuple[Expression, QueryValue]:
    tree: exp.Expr = query
    while isinstance(tree, exp.Subquery):
        tree = tree.this
        context = with_common_queries(context, tree, bind_query)
    if isinstance(tree, exp.Select):
        drop_rstream(context, tree, "a value")
        if len(tree.expressions) != 1 or tree.expressions[0].is_star:
            problem = f"a value has one column, this query has {len(tree.expressions)}"
            problem = "a value has one column" if tree.expressions[0].is_star else problem
            raise context.error(query, problem, "select exactly the value")
        if has_aggregate(tree.expressions[0]) and not tree.args.get("group"):
            return _Aggregate(context, binder, tree, bind_query).bound(name)
        if (lookup := looked_up(context, binder.scope, tree, bind_query)) is not None:
            expression, table = lookup
            value = QueryValue(table.table, (), False, query, table.position, table)
            return _padded(expression), value
    limit = tree.args.get("limit")
    first = limit is not None and limit.args["expression"].name in ("0", "1")
    if not first or not tree.args.get("order"):
        raise context.error(query, "this query may give more than one row", _ONE_ROW)
    hint = "only an aggregate may depend on the row around it: write MAX(x) … WHERE a.k = b.k"
    closed = Scope(context.source, (), outer=binder.scope, closed=hint)
    node = bind_query(context, tree, name, closed)
    value = QueryValue(node, (), False, query, context.position(query))
    return replace(node.schema[0], may_be_null=True), value


def _padded(expression: Expression) -> Expression:
    """The expression where there may be no row."""
    return expression.transform(
        lambda part: replace(part, may_be_null=True) if isinstance(part, Column) else part
    )


@dataclass(frozen=True)
class _Aggregate:
    """An aggregate without GROUP BY, used as a value."""

    context: BindingContext
    binder: ScalarBinder
    block: exp.Select
    bind_query: BindQuery

    def bound(self, name: str) -> tuple[Expression, QueryValue]:
        # Blocks hold queries used as values, and these are blocks again.
        from mayfly.cql.blocks import filtered_rows, grouped, where_of

        context, block, outer = self.context, self.block, self.binder.scope
        items = bind_items(context, block, self.bind_query)
        entries = join_entries(context, block, items, Scope(context.source, ()))
        closed = "it may only depend on the row around it by a.k = b.k in WHERE"
        inner = Scope(context.source, entries.visible, outer, closed, entries.merged)
        places = where_of(block)
        across = [place for place in places if self._reaches_out(place, inner)]
        within = [place for place in places if place not in across]
        equalities = self._equalities(across, replace(inner, closed=""))
        rows = filtered_rows(context, block, entries, inner, within, self.bind_query)
        alias = context.aliases.fresh(DECORRELATED) if equalities else name
        grouping = Grouping(alias, ScalarBinder(context.source, inner, "SELECT"))
        keys = [grouping.add_bound_key(pair.right) for pair in equalities]
        expression = GroupedBinder(grouping, "SELECT").bind(block.expressions[0].unalias())
        having = block.args.get("having")
        if having and equalities:
            hint = "write CASE WHEN … THEN … END around the aggregate"
            raise context.error(
                having, "HAVING is not allowed where rows decide about groups", hint
            )
        above = GroupedBinder(grouping, "HAVING")
        condition = above.condition(having.this) if having else None
        node = grouped(context, block, rows, above, condition)
        pairs = zip(equalities, keys, strict=True)
        equated = tuple(Equality(self._outside(pair.left), key) for pair, key in pairs)
        certain = not equalities and condition is None
        if not certain:
            expression = self._over_nothing(grouping, expression, bool(equalities))
        return expression, QueryValue(node, equated, certain, block, context.position(block))

    def _reaches_out(self, place: exp.Expr, inner: Scope) -> bool:
        """Whether a condition uses names of the query around."""
        outside = inner.outer
        columns = place.walk(prune=lambda part: isinstance(part, exp.Query))
        parts = [part for part in columns if isinstance(part, exp.Column)]
        assert outside is not None
        return any(not inner.knows(part) and outside.knows(part) for part in parts)

    def _equalities(self, places: list[exp.Expr], scope: Scope) -> tuple[Equality, ...]:
        binder = ScalarBinder(self.context.source, scope, "WHERE")
        assert scope.outer is not None
        own, outside = (
            frozenset(column.relation for item in items for column in item.node.schema)
            for items in (scope.items, scope.outer.items)
        )
        equalities: list[Equality] = []
        for place in places:
            pairs, rest = split_equalities([binder.condition(place)], [outside, own])
            if rest:
                problem = "a value depends on the row around it by equalities only"
                raise self.context.error(place, problem, "write b.k = a.k, or join it in FROM")
            equalities += pairs
        return tuple(equalities)

    def _outside(self, side: Expression) -> Expression:
        """The outer side of an equality: of groups, their keys."""
        if not isinstance(self.binder, GroupedBinder):
            return side
        grouping, context, block = self.binder.grouping, self.context, self.block
        if (key := grouping.key(side)) is not None:
            return key

        def change(part: Expression) -> Expression:
            if not isinstance(part, Column):
                return part
            if (key := grouping.key(part)) is None:
                problem = f"{part.name} is not in GROUP BY, and this value depends on it"
                raise context.error(block, problem, "add it to GROUP BY, or use the value in WHERE")
            return key

        return side.transform(change)

    def _over_nothing(
        self, grouping: Grouping, expression: Expression, grouped: bool
    ) -> Expression:
        """The expression where there may be no row: COUNT of nothing is 0, all else is NULL."""
        counts = {
            call.column(grouping.alias): call for call in grouping.aggregates if not call.nullable
        }

        def change(part: Expression) -> Expression:
            if not isinstance(part, Column):
                return part
            padded = replace(part, may_be_null=True)
            if part not in counts or not grouped:
                return padded
            if not part.type.is_integral:
                problem = f"{counts[part].function.upper()} cannot depend on the row around it"
                raise self.context.error(self.block, problem, "join the grouped query in FROM")
            return functions.call("coalesce", [padded, Literal(0, part.type)])

        return expression.transform(change)
