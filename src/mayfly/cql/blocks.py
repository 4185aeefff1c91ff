"""Binds one SELECT block: FROM, WHERE, GROUP BY, HAVING, the outputs and DISTINCT."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from sqlglot import exp

from mayfly.cql.aggregate_functions import has_aggregate, is_aggregate
from mayfly.cql.context import BindingContext
from mayfly.cql.finished_blocks import continued, finished, group_bounds, is_per_window
from mayfly.cql.frequent_check import with_sub_windows
from mayfly.cql.from_clause import BindQuery, bind_items
from mayfly.cql.group_clause import GroupedBinder, Grouping
from mayfly.cql.grouping_sets import key_sets, united
from mayfly.cql.join_binder import conjuncts_of, join_items
from mayfly.cql.messages import suggestion
from mayfly.cql.outer_joins import Entries, join_entries
from mayfly.cql.over_clause import with_frames
from mayfly.cql.query_marks import mark_queries
from mayfly.cql.same_names import with_aliases_meant
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scalar_queries import attached_values, values_in, with_values
from mayfly.cql.scope import Item, Scope
from mayfly.cql.spark_windows import move_window_calls
from mayfly.cql.subquery_conditions import apply_queries, asks_query
from mayfly.plan.expressions import Column, Expression, conjunction
from mayfly.plan.logical_operators import Distinct, GroupAggregate, Named, Node, Project, Select
from mayfly.plan.types import VOID


@dataclass(frozen=True)
class Block:
    """A bound block, with what ORDER BY needs to look things up."""

    node: Node
    outputs: tuple[Named, ...]
    binder: ScalarBinder
    per_window: bool = False
    """Whether it is about finished windows."""

    def finished(self, context: BindingContext, node: Node) -> Node:
        """What it gives, perhaps cut by LIMIT: of finished windows for ever."""
        return finished(context, node) if self.per_window else continued(node)


@dataclass(frozen=True)
class _Output:
    name: str
    expression: Expression
    place: exp.Expr
    relation: str = ""
    """The entry of FROM a plain column came from, to tell apart columns of one name."""


def bind_block(
    context: BindingContext,
    block: exp.Select,
    alias: str,
    bind_query: BindQuery,
    enclosing: Scope | None = None,
    items: list[Item] | None = None,
) -> Block:
    """Bind a block whose columns are to be called ``alias.…``; ``items`` replaces its FROM."""
    move_window_calls(context, block)
    items = bind_items(context, block, bind_query) if items is None else items
    outer, closed = (enclosing.outer, enclosing.closed) if enclosing else (None, "")
    entries = join_entries(context, block, items, enclosing)
    scope = Scope(context.source, entries.visible, outer, closed, entries.merged)
    mark_queries(context, block, where_of(block))
    rows = filtered_rows(context, block, entries, scope, where_of(block), bind_query)
    per_window = is_per_window(items)
    binder = _binder(context, block, scope, per_window)
    within, above = _values_of_outputs(block, isinstance(binder, GroupedBinder))
    rows = with_values(context, rows, scope, within, bind_query)
    rows = with_frames(context, block, scope, rows)
    if isinstance(binder, GroupedBinder):
        rows, outputs = _grouped_outputs(context, block, rows, binder, above, bind_query)
    else:
        outputs = _outputs(context, block, scope, binder)
    named = _named(context, outputs)
    node: Node = Project(rows, named, alias, position=context.position(block))
    if block.args.get("distinct"):
        _check_distinct(context, outputs)
        node = Distinct(node, position=context.position(block))
    return Block(node, named, binder, per_window)


def where_of(block: exp.Select) -> list[exp.Expr]:
    """The conditions of WHERE."""
    where = block.args.get("where")
    return conjuncts_of(where.this if where else None)


def filtered_rows(
    context: BindingContext,
    block: exp.Select,
    entries: Entries,
    scope: Scope,
    places: list[exp.Expr],
    bind_query: BindQuery,
) -> Node:
    """The rows of FROM for which the conditions hold: those with values of queries, and
    negations, come last."""
    binder = ScalarBinder(context.source, scope, "WHERE")
    queries = [place for place in places if asks_query(place)]
    plain = [place for place in places if place not in queries and not values_in(place)]
    conditions = [binder.condition(place) for place in plain]
    rows = join_items(context, block, entries.joined, [*entries.conditions, *conditions])
    valued = [place for place in places if place not in queries and values_in(place)]
    asked = [query for place in valued for query in values_in(place)]
    rows = with_values(context, rows, scope, asked, bind_query)
    predicate = conjunction(tuple(binder.condition(place) for place in valued))
    if predicate is not None:
        rows = Select(rows, predicate, position=context.position(valued[0]))
    return apply_queries(context, rows, scope, queries, bind_query)


# ── outputs ───────────────────────────────────────────────────────────────────────────────


def _binder(
    context: BindingContext, block: exp.Select, scope: Scope, per_window: bool
) -> ScalarBinder:
    """For the outputs of a block: above its groups, if it has some."""
    having = block.args.get("having")
    candidates = [*block.expressions, *([having.this] if having else [])]
    if not block.args.get("group") and not any(map(has_aggregate, candidates)):
        if having:
            raise context.error(having, "HAVING needs GROUP BY or an aggregate", "use WHERE")
        return ScalarBinder(context.source, scope, "SELECT")
    inputs = ScalarBinder(context.source, scope, "GROUP BY")
    grouping = Grouping(context.aliases.fresh("groups"), inputs)
    for keys in _key_sets(context, block, scope):
        grouping.add_set([_group_key(context, block, scope, place) for place in keys])
    if per_window:
        grouping.add_to_all(group_bounds(context, block, scope))
    return GroupedBinder(grouping, "SELECT")


def _key_sets(context: BindingContext, block: exp.Select, scope: Scope) -> list[list[exp.Expr]]:
    """The groupings that GROUP BY asks for; ALL means every output without an aggregate."""
    group = block.args.get("group")
    places = group.expressions if group else []
    is_column = len(places) == 1 and isinstance(places[0], exp.Column) and not places[0].table
    if not is_column or places[0].name.upper() != "ALL" or scope.has_column("ALL"):
        return key_sets(context, group)
    return [[output.unalias() for output in block.expressions if not has_aggregate(output)]]


def _group_key(
    context: BindingContext, block: exp.Select, scope: Scope, place: exp.Expr
) -> exp.Expr:
    """GROUP BY 2 and GROUP BY alias mean an output, unless an input column has that name."""
    if isinstance(place, exp.Literal) and not place.is_string:
        number = int(place.name) if place.name.isdecimal() else 0
        if not 1 <= number <= len(block.expressions):
            problem = f"there is no output column {place.name}"
            raise context.error(place, problem, f"use a number from 1 to {len(block.expressions)}")
        return _unstarred(context, block.expressions[number - 1])
    if isinstance(place, exp.Column) and not place.table:
        return with_aliases_meant(scope, place, block.expressions)
    return place


def _unstarred(context: BindingContext, output: exp.Expr) -> exp.Expr:
    if output.is_star:
        raise context.error(output, "* cannot be counted through in GROUP BY", "name the column")
    return output.unalias()


def _outputs(
    context: BindingContext, block: exp.Select, scope: Scope, binder: ScalarBinder
) -> list[_Output]:
    outputs: list[_Output] = []
    for number, place in enumerate(block.expressions):
        if place.is_star:
            if isinstance(binder, GroupedBinder):
                hint = "list the columns of GROUP BY and the aggregates"
                raise context.error(
                    place, "* cannot be combined with GROUP BY or an aggregate", hint
                )
            outputs.extend(_starred(context, scope, place))
        else:
            earlier = block.expressions[:number]
            outputs.append(_output(place, earlier, binder, len(outputs) + 1))
    return outputs


def _starred(context: BindingContext, scope: Scope, place: exp.Expr) -> list[_Output]:
    qualifier = place.table if isinstance(place, exp.Column) else ""
    items = [i for i in scope.items if not qualifier or i.name.casefold() == qualifier.casefold()]
    if not items:
        hint = suggestion(qualifier, [i.name for i in scope.items], "names in FROM")
        raise context.error(place, f"nothing in FROM is called {qualifier}", hint)
    merged = () if qualifier else scope.merged
    hidden = {(entry, same.name.casefold()) for same in merged for entry in same.entries}
    return [_Output(same.name, same.value, place) for same in merged] + [
        _Output(column.name, column, place, item.name)
        for item in items
        for column in item.node.schema
        if (item.name, column.name.casefold()) not in hidden
    ]


def _output(place: exp.Expr, earlier: list[exp.Expr], binder: ScalarBinder, number: int) -> _Output:
    bound = binder.bind(with_aliases_meant(binder.scope, place.unalias(), earlier))
    if bound.type == VOID:
        raise binder.error(place, "a bare NULL has no type", "write CAST(NULL AS INT)")
    if isinstance(place, exp.Alias):
        return _Output(place.alias, bound, place)
    if isinstance(place, exp.Column | exp.Dot):
        name = place.name if isinstance(place, exp.Column) else place.expression.name
        relation = place.table if isinstance(place, exp.Column) else ""
        named = bound.name if isinstance(bound, Column) else name
        return _Output(named, bound, place, relation)
    if isinstance(bound, Column):
        return _Output(bound.name, bound, place)
    return _Output(f"column_{number}", bound, place)


def _named(context: BindingContext, outputs: list[_Output]) -> tuple[Named, ...]:
    """Output columns with different names; plain columns of one name get their entry in front."""
    counts = Counter(output.name.casefold() for output in outputs)
    folded: set[str] = set()
    named: list[Named] = []
    for output in outputs:
        name = output.name
        if counts[name.casefold()] > 1 and output.relation:
            name = f"{output.relation}_{name}"
        if name.casefold() in folded:
            problem = f"two output columns are called {name}"
            raise context.error(output.place, problem, f"rename one: … AS {name}_2")
        folded.add(name.casefold())
        named.append(Named(name, output.expression))
    return tuple(named)


def _check_distinct(context: BindingContext, outputs: list[_Output]) -> None:
    for output in outputs:
        if not output.expression.type.is_comparable:
            raise context.error(
                output.place,
                f"DISTINCT cannot compare values of type {output.expression.type}",
                "leave the column out, or select a member of it",
            )


# ── groups ────────────────────────────────────────────────────────────────────────────────


def _values_of_outputs(
    block: exp.Select, grouped: bool
) -> tuple[list[exp.Subquery], list[exp.Subquery]]:
    """The queries used as values in SELECT and HAVING: those that rows need, also inside of
    aggregates, and those that groups need."""
    having = block.args.get("having")
    places = [*block.expressions, *([having.this] if having else [])]
    queries = [query for place in places for query in values_in(place)]
    above = [query for query in queries if grouped and not _is_aggregated(query)]
    return [query for query in queries if query not in above], above


def _is_aggregated(query: exp.Expr) -> bool:
    parent = query.parent
    while parent is not None and not isinstance(parent, exp.Query):
        if is_aggregate(parent):
            return True
        parent = parent.parent
    return False


def _grouped_outputs(
    context: BindingContext,
    block: exp.Select,
    rows: Node,
    binder: GroupedBinder,
    values: list[exp.Subquery],
    bind_query: BindQuery,
) -> tuple[Node, list[_Output]]:
    """The groups with the values of queries beside them, and the outputs over both."""
    attached = attached_values(context, binder, values, bind_query)
    outputs = _outputs(context, block, binder.scope, binder)
    names = [query.meta["value"] for query in values]
    own, above = list[Expression](), list[Expression]()
    for place in _having_of(block, binder.scope):
        valued = any(query.meta["value"] in names for query in values_in(place))
        condition = GroupedBinder(binder.grouping, "HAVING").condition(place)
        (above if valued else own).append(condition)
    node = grouped(context, block, rows, binder, conjunction(tuple(own)))
    return attached.beside(node, conjunction(tuple(above))), outputs


def _having_of(block: exp.Select, scope: Scope) -> list[exp.Expr]:
    having = block.args.get("having")
    if having is None:
        return []
    return conjuncts_of(with_aliases_meant(scope, having.this, block.expressions))


def grouped(
    context: BindingContext,
    block: exp.Select,
    rows: Node,
    binder: GroupedBinder,
    condition: Expression | None,
) -> Node:
    """The groups of a block whose outputs have been bound."""
    grouping = binder.grouping
    several = len(grouping.sets) > 1
    group = block.args.get("group")
    first = group if group is not None else (grouping.places or [block])[0]
    node = GroupAggregate(
        rows,
        tuple(grouping.keys),
        tuple(grouping.aggregates),
        grouping.alias,
        None if several else condition,
        position=context.position(first),
    )
    pairs = zip(grouping.aggregates, grouping.places, strict=True)
    calls = tuple(with_sub_windows(context, node, call, place) for call, place in pairs)
    node = replace(node, aggregates=calls)
    if not several:
        return node
    groups = united(context, node, grouping)
    return Select(groups, condition, position=node.position) if condition else groups
