"""Binds one SELECT block: FROM, WHERE, GROUP BY, HAVING, the outputs and DISTINCT."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from sqlglot import exp

from mayfly.cql.aggregate_types import has_aggregate
from mayfly.cql.context import BindingContext
from mayfly.cql.frequent_check import with_sub_windows
from mayfly.cql.from_clause import BindQuery, bind_items
from mayfly.cql.group_clause import GroupedBinder, Grouping
from mayfly.cql.grouping_sets import key_sets, united
from mayfly.cql.join_binder import conjuncts_of, join_items
from mayfly.cql.messages import suggestion
from mayfly.cql.outer_joins import Entries, join_entries
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Item, Scope
from mayfly.cql.subquery_conditions import apply_queries, asks_query
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import Distinct, GroupAggregate, Named, Node, Project, Select
from mayfly.plan.types import VOID


@dataclass(frozen=True)
class Block:
    """A bound block, with what ORDER BY needs to look things up."""

    node: Node
    outputs: tuple[Named, ...]
    binder: ScalarBinder


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
    items = bind_items(context, block, bind_query) if items is None else items
    outer, closed = (enclosing.outer, enclosing.closed) if enclosing else (None, "")
    entries = join_entries(context, block, items, enclosing)
    scope = Scope(context.source, entries.visible, outer, closed)
    rows = _rows(context, block, entries, scope, bind_query)
    binder, outputs = _bind_outputs(context, block, scope)
    if isinstance(binder, GroupedBinder):
        rows = _grouped(context, block, rows, binder)
    named = _named(context, outputs)
    node: Node = Project(rows, named, alias, position=context.position(block))
    if block.args.get("distinct"):
        _check_distinct(context, outputs)
        node = Distinct(node, position=context.position(block))
    return Block(node, named, binder)


def _rows(
    context: BindingContext,
    block: exp.Select,
    entries: Entries,
    scope: Scope,
    bind_query: BindQuery,
) -> Node:
    where = block.args.get("where")
    places = conjuncts_of(where.this if where else None)
    binder = ScalarBinder(context.source, scope, "WHERE")
    conditions = [binder.condition(place) for place in places if not asks_query(place)]
    rows = join_items(context, block, entries.joined, [*entries.conditions, *conditions])
    queries = [place for place in places if asks_query(place)]
    return apply_queries(context, rows, scope, queries, bind_query)


# ── outputs ───────────────────────────────────────────────────────────────────────────────


def _bind_outputs(
    context: BindingContext, block: exp.Select, scope: Scope
) -> tuple[ScalarBinder, list[_Output]]:
    having = block.args.get("having")
    candidates = [*block.expressions, *([having.this] if having else [])]
    if not block.args.get("group") and not any(map(has_aggregate, candidates)):
        if having:
            raise context.error(having, "HAVING needs GROUP BY or an aggregate", "use WHERE")
        binder = ScalarBinder(context.source, scope, "SELECT")
        return binder, _outputs(context, block, scope, binder)
    inputs = ScalarBinder(context.source, scope, "GROUP BY")
    grouping = Grouping(context.aliases.fresh("groups"), inputs)
    for keys in key_sets(context, block.args.get("group")):
        grouping.add_set([_group_key(context, block, scope, place) for place in keys])
    grouped = GroupedBinder(grouping, "SELECT")
    return grouped, _outputs(context, block, scope, grouped)


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
        input_column = any(item.column(place.name) for item in scope.items)
        for output in block.expressions:
            if not input_column and isinstance(output, exp.Alias) and output.alias == place.name:
                return output.unalias()
    return place


def _unstarred(context: BindingContext, output: exp.Expr) -> exp.Expr:
    if output.is_star:
        raise context.error(output, "* cannot be counted through in GROUP BY", "name the column")
    return output.unalias()


def _outputs(
    context: BindingContext, block: exp.Select, scope: Scope, binder: ScalarBinder
) -> list[_Output]:
    outputs: list[_Output] = []
    for place in block.expressions:
        if place.is_star:
            if isinstance(binder, GroupedBinder):
                hint = "list the columns of GROUP BY and the aggregates"
                raise context.error(place, "* cannot stand beside GROUP BY or an aggregate", hint)
            outputs.extend(_starred(context, scope, place))
        else:
            outputs.append(_output(place, binder, len(outputs) + 1))
    return outputs


def _starred(context: BindingContext, scope: Scope, place: exp.Expr) -> list[_Output]:
    qualifier = place.table if isinstance(place, exp.Column) else ""
    items = [i for i in scope.items if not qualifier or i.name.casefold() == qualifier.casefold()]
    if not items:
        hint = suggestion(qualifier, [i.name for i in scope.items], "names in FROM")
        raise context.error(place, f"nothing in FROM is called {qualifier}", hint)
    return [
        _Output(column.name, column, place, item.name)
        for item in items
        for column in item.node.schema
    ]


def _output(place: exp.Expr, binder: ScalarBinder, number: int) -> _Output:
    bound = binder.bind(place.unalias())
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


def _grouped(context: BindingContext, block: exp.Select, rows: Node, binder: GroupedBinder) -> Node:
    grouping, having = binder.grouping, block.args.get("having")
    condition = None
    if having:
        condition = GroupedBinder(grouping, "HAVING").condition(having.this)
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
