"""Binds whole queries: blocks, UNION, EXCEPT, INTERSECT, ORDER BY, and how results leave."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from mayfly.cql.blocks import Block, bind_block
from mayfly.cql.context import BindingContext
from mayfly.cql.finished_blocks import check_kind
from mayfly.cql.group_clause import GroupedBinder
from mayfly.cql.literals import MOST_DIGITS
from mayfly.cql.messages import CqlError, listing
from mayfly.cql.named_queries import inlined, with_common_queries
from mayfly.cql.order_aggregates import add_order_aggregates
from mayfly.cql.output_kind import (
    StreamOperator,
    drop_rstream,
    refuse_operator,
    take_derived,
    take_operator,
)
from mayfly.cql.restrictions import check_plan
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Aliases, Item, Scope
from mayfly.cql.wstream import bind_wstream, has_wstream
from mayfly.plan.derived_stream import Derived
from mayfly.plan.expressions import Column, Expression, as_type
from mayfly.plan.logical_operators import (
    Distinct,
    ExceptAll,
    Named,
    Node,
    Output,
    OutputKind,
    Project,
    Sort,
    SortKey,
    Top,
    UnionAll,
)
from mayfly.plan.serving_terms import Isolation
from mayfly.plan.types import DataType, common_type


def bind_output(
    context: BindingContext,
    tree: exp.Expr,
    isolation: Isolation | None = None,
    staleness: int | None = None,
    exact_sums: bool = False,
) -> Output:
    """The plan of an outermost query."""
    query, context = tree, with_common_queries(context, tree, bind_subquery)
    while isinstance(query, exp.Subquery):
        query = query.this
        context = with_common_queries(context, query, bind_subquery)
    operator = take_operator(context, query) if isinstance(query, exp.Select) else None
    hidden = add_order_aggregates(query) if context.one_time else 0
    block, node = _outermost(context, query, operator)
    kind = operator.kind if operator and operator.kind else OutputKind.VIEW
    if context.one_time:
        node = _listed(context, query, node, block, hidden)
    else:
        is_list = kind is OutputKind.RSTREAM
        node = (_sorted if is_list else _topped)(context, query, node, block)
    if block is not None and kind is not OutputKind.RSTREAM:
        node = block.finished(context, node)
    restore = operator is not None and operator.restore
    position = context.position(operator.place if operator else _first(query))
    names = tuple(named.name for named in context.inlined.values())
    output = Output(
        node, kind, restore, isolation, context.one_time, staleness, exact_sums, names,
        position=position,
    )  # fmt: skip
    output = inlined(output)
    check_kind(context, output)
    check_plan(context, output)
    return output


def _first(query: exp.Expr) -> exp.Expr:
    """The SELECT a set operation begins with."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query


def _outermost(
    context: BindingContext, query: exp.Expr, operator: StreamOperator | None
) -> tuple[Block | None, Node]:
    if isinstance(query, exp.Select):
        if has_wstream(query) or (operator and operator.kind is None):
            return None, bind_wstream(context, query, operator, bind_subquery)
        block = bind_block(context, query, "", bind_subquery)
        return block, block.node
    return None, _part(context, query, "", None)[1]


def bind_subquery(
    context: BindingContext, tree: exp.Expr, alias: str, enclosing: Scope | None = None
) -> Node:
    """A query inside another, or a part of a set operation; its columns are ``alias.…``."""
    context = with_common_queries(context, tree, bind_subquery)
    if isinstance(tree, exp.Subquery):
        return bind_subquery(context, tree.this, alias, enclosing)
    operator = None
    if enclosing is None and isinstance(tree, exp.Select):
        operator = take_derived(context, tree)
    block, node = _part(context, tree, alias, enclosing)
    node = _topped(context, tree, node, block)
    node = node if block is None else block.finished(context, node)
    if operator is None or operator.kind is None:
        return node
    return Derived(node, operator.kind, operator.restore, position=context.position(operator.place))


def _part(
    context: BindingContext, tree: exp.Expr, alias: str, enclosing: Scope | None
) -> tuple[Block | None, Node]:
    """A query without its order."""
    if isinstance(tree, exp.Select):
        unwrap = drop_rstream if enclosing else refuse_operator
        unwrap(context, tree, "a sub-query")
        block = bind_block(context, tree, alias, bind_subquery, enclosing)
        return block, block.node
    if isinstance(tree, exp.SetOperation):
        return None, _set_operation(context, tree, alias, enclosing)
    raise context.error(tree, "expected a query", "write SELECT …")


# ── set operations ────────────────────────────────────────────────────────────────────────


def _set_operation(
    context: BindingContext, tree: exp.SetOperation, alias: str, enclosing: Scope | None
) -> Node:
    parts = _operands(tree)
    for part in parts:
        if isinstance(part, exp.Select):
            refuse_operator(context, part, f"a part of {_operation(tree)}")
    nodes = [
        bind_subquery(context, part, context.aliases.fresh(f"part_{number}"), enclosing)
        for number, part in enumerate(parts, start=1)
    ]
    types = _common_types(context, tree, parts, nodes)
    nodes = [_conformed(context, node, types) for node in nodes]
    place, is_set = context.position(tree), bool(tree.args.get("distinct"))
    if isinstance(tree, exp.Union):
        union = UnionAll(tuple(nodes), alias, position=place)
        return Distinct(union, position=place) if is_set else union
    if is_set:
        # EXCEPT is not DISTINCT over EXCEPT ALL: of 1, 1 without 1 nothing is left.
        nodes = [Distinct(node, position=place) for node in nodes]
    left, right = nodes
    if isinstance(tree, exp.Intersect):
        # As many as on both sides, min(v1, v2), is v1 - max(v1 - v2, 0).
        right = ExceptAll(left, right, position=place)
    return ExceptAll(_renamed(left, alias), right, position=place)


def _operation(tree: exp.Expr) -> str:
    return type(tree).__name__.upper() + ("" if tree.args.get("distinct") else " ALL")


def _operands(tree: exp.SetOperation) -> list[exp.Expr]:
    """The parts of a chain of one kind of UNION; the others always have two."""
    parts = [tree.expression]
    left = tree.this
    word = _operation(tree)
    while isinstance(tree, exp.Union) and type(left) is exp.Union and _operation(left) == word:
        parts.append(left.expression)
        left = left.this
    return [left, *reversed(parts)]


def _common_types(
    context: BindingContext, tree: exp.Expr, parts: list[exp.Expr], nodes: list[Node]
) -> list[DataType]:
    types = [column.type for column in nodes[0].schema]
    for part, node in zip(parts[1:], nodes[1:], strict=True):
        if len(node.schema) != len(types):
            raise context.error(
                tree,
                f"the parts have {len(types)} and {len(node.schema)} columns",
                "select equally many columns in every part",
            )
        for index, column in enumerate(node.schema):
            common = common_type(types[index], column.type)
            if common is None:
                problem = f"column {index + 1} is {types[index]} in one part and {column.type} here"
                raise context.error(part, problem, "CAST one of them")
            if _operation(tree) != "UNION ALL" and not common.is_comparable:
                problem = f"{_operation(tree)} cannot compare values of type {common}"
                raise context.error(tree, problem, "leave the column out")
            types[index] = common
    return types


def _conformed(context: BindingContext, node: Node, types: list[DataType]) -> Node:
    if [column.type for column in node.schema] == types:
        return node
    outputs = tuple(
        Named(column.name, as_type(column, kind))
        for column, kind in zip(node.schema, types, strict=True)
    )
    return Project(node, outputs, context.aliases.fresh("part"), position=node.position)


def _renamed(node: Node, alias: str) -> Node:
    """The query with its columns under another alias."""
    match node:
        case Project() | UnionAll():
            return replace(node, alias=alias)
        case Distinct(child=child):
            return replace(node, child=_renamed(child, alias))
        case ExceptAll(left=left):
            return replace(node, left=_renamed(left, alias))
    outputs = tuple(Named(column.name, column) for column in node.schema)
    return Project(node, outputs, alias, position=node.position)


# ── ORDER BY and LIMIT ────────────────────────────────────────────────────────────────────


def _topped(context: BindingContext, query: exp.Expr, node: Node, block: Block | None) -> Node:
    """Top-N, where rows are a set: an order without a limit would mean nothing."""
    wide = _with_order_columns(context, query, node, block)
    whole = node if wide is None else wide.node
    ordered = _sorted(context, query, whole, wide or block)
    if ordered is whole:
        return node
    assert isinstance(ordered, Sort)
    if ordered.limit is None:
        raise context.error(
            query.args.get("order") or query.args["offset"],
            f"{'ORDER BY' if ordered.keys else 'OFFSET'} needs LIMIT here: rows have no order",
            "add LIMIT n to get the first n at every instant, or write "
            "Rstream(SELECT … ORDER BY …) to get rows in order",
        )
    top = Top(whole, ordered.keys, ordered.limit, ordered.offset, position=ordered.position)
    if whole is node:
        return top
    outputs = tuple(Named(column.name, column) for column in node.schema)
    return Project(top, outputs, node.schema[0].relation, position=node.position)


def _listed(
    context: BindingContext, query: exp.Expr, node: Node, block: Block | None, hidden: int
) -> Node:
    """An answer in order; its last ``hidden`` outputs are there for the order alone."""
    wide = _with_order_columns(context, query, node, block, grouped=True)
    ordered = _sorted(context, query, node if wide is None else wide.node, wide or block)
    added = hidden + (0 if wide is None else len(wide.node.schema) - len(node.schema))
    return replace(ordered, hidden=added) if isinstance(ordered, Sort) and added else ordered


def _with_order_columns(
    context: BindingContext,
    query: exp.Expr,
    node: Node,
    block: Block | None,
    *,
    grouped: bool = False,
) -> Block | None:
    """A block without DISTINCT, and without groups if these are not allowed, that also offers what
    ORDER BY asks for beside its outputs, if it does."""
    order = query.args.get("order")
    if not order or block is None or not isinstance(node, Project):
        return None
    if isinstance(block.binder, GroupedBinder) and not grouped:
        return None
    places = [place.this for place in order.expressions]
    beside = [place for place in places if not _is_output(context, place, node, block)]
    names = Aliases(column.name for column in node.schema)
    added = tuple(Named(names.fresh("order"), block.binder.bind(place)) for place in beside)
    outputs = (*block.outputs, *added)
    return Block(replace(node, outputs=outputs), outputs, block.binder) if added else None


def _is_output(context: BindingContext, place: exp.Expr, node: Node, block: Block) -> bool:
    if isinstance(place, exp.Literal):
        return True
    try:
        _sort_expression(context, place, node, block)
    except CqlError:
        return False
    return True


def _sorted(context: BindingContext, query: exp.Expr, node: Node, block: Block | None) -> Node:
    order, limit, offset = (query.args.get(key) for key in ("order", "limit", "offset"))
    first = next((part for part in (order, limit, offset) if part is not None), None)
    if first is None:
        return node
    places = order.expressions if order else []
    keys = tuple(_sort_key(context, place, node, block) for place in places)
    size = _whole(context, limit) if limit else None
    skipped = _whole(context, offset) if offset else 0
    return Sort(node, keys, size, skipped, position=context.position(first))


def _whole(context: BindingContext, clause: exp.Expr) -> int:
    value = clause.args.get("expression")
    word = type(clause).__name__.upper()
    if value is None or not (isinstance(value, exp.Literal) and value.name.isdecimal()):
        raise context.error(clause, f"{word} needs a whole number", f"write {word} 10")
    if len(value.name) > MOST_DIGITS:
        problem = f"{word} of a number of {len(value.name):,} digits"
        raise context.error(clause, problem, f"use at most {MOST_DIGITS} digits")
    return int(value.name)


def _sort_key(context: BindingContext, place: exp.Expr, node: Node, block: Block | None) -> SortKey:
    expression = _sort_expression(context, place.this, node, block)
    if not expression.type.is_comparable:
        problem = f"values of type {expression.type} have no order"
        raise context.error(place, problem, "order by a member of it")
    return SortKey(expression, bool(place.args.get("desc")), bool(place.args.get("nulls_first")))


def _sort_expression(
    context: BindingContext, place: exp.Expr, node: Node, block: Block | None
) -> Expression:
    if isinstance(place, exp.Literal) and place.name.isdecimal():
        number = int(place.name[:MOST_DIGITS])
        if not 1 <= number <= len(node.schema):
            problem = f"there is no output column {number}"
            raise context.error(place, problem, f"use a number from 1 to {len(node.schema)}")
        return node.schema[number - 1]
    scope = Scope(context.source, (Item("", node),))
    try:
        return ScalarBinder(context.source, scope, "ORDER BY").bind(place)
    except CqlError:
        same = _same_output(place, block)
        if same is not None:
            return same
    names = [column.name for column in node.schema]
    problem = "ORDER BY may only use output columns"
    raise context.error(place, problem, f"the output columns are {listing(names)}")


def _same_output(place: exp.Expr, block: Block | None) -> Column | None:
    """The output column that is written the same way in the SELECT list."""
    if block is None:
        return None
    bound = block.binder.bind(place)
    match = next((output for output in block.outputs if output.expression == bound), None)
    return match.column(block.node.schema[0].relation) if match else None
