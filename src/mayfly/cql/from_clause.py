"""Binds FROM: streams behind their windows, relations, and sub-queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from sqlglot import exp

from mayfly.cql.aggregate_functions import is_aggregate
from mayfly.cql.context import BindingContext
from mayfly.cql.element_parser import UNNEST_FORM
from mayfly.cql.elements import name_of
from mayfly.cql.finished_blocks import call_of, check_entries, is_per_window, windowed
from mayfly.cql.messages import error_at, suggestion, with_article
from mayfly.cql.named_queries import column_names, named_query, read_by_name, recursion_hint
from mayfly.cql.places import error_on
from mayfly.cql.resample_clause import resample_of, source_of
from mayfly.cql.resample_source import resampled
from mayfly.cql.scope import Item, Scope
from mayfly.plan.catalog import (
    ColumnDefinition,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
    ViewDefinition,
)
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import (
    Named,
    Node,
    Project,
    RelationScan,
    Schema,
    StreamScan,
    SubqueryWindow,
)
from mayfly.plan.window_kinds import PartitionRows, Unbounded, Window

MOST_JOINED = 64
"""Entries of one FROM: orders and costs of a join take quadratic time and more."""


_NO_ROWS = Node()


class BindQuery(Protocol):
    """Binds a sub-query whose columns get the given alias; ``enclosing`` is for negations."""

    def __call__(
        self, context: BindingContext, tree: exp.Expr, alias: str, enclosing: Scope | None = None
    ) -> Node: ...


def bind_items(context: BindingContext, block: exp.Select, bind_query: BindQuery) -> list[Item]:
    """The entries of FROM in order; aliases must differ."""
    origin = block.args.get("from_")
    if origin is None:
        what = f"a {context.catalog.offers}" if context.one_time else "a stream"
        hint = f"name {what}: FROM {'v' if context.one_time else 's [RANGE 10 MIN]'}"
        raise context.error(block, "this SELECT has no FROM", hint)
    if "version" in origin.this.meta:
        hint = "write FROM s JOIN r FOR SYSTEM_TIME AS OF s.ts ON r.k = s.k"
        raise context.error(origin, "FOR SYSTEM_TIME AS OF belongs after JOIN", hint)
    places = [origin.this, *(join.this for join in block.args.get("joins") or [])]
    if len(places) > MOST_JOINED:
        raise context.error(
            places[MOST_JOINED],
            f"{len(places)} entries in one FROM are too many",
            f"join at most {MOST_JOINED} streams and relations",
        )
    if isinstance(origin.this, exp.Unnest):
        problem = "UNNEST belongs after the entry whose array it takes"
        raise context.error(origin.this, problem, UNNEST_FORM)
    items: list[Item] = []
    for place in places:
        item = _item(context, place, bind_query)
        if call_of(place) is not None:
            item = replace(item, node=windowed(context, place, item.node))
        if any(item.name.casefold() == other.name.casefold() for other in items):
            raise context.error(
                place,
                f"two entries of FROM are called {item.name}",
                "give each its own alias: s [RANGE 10 MIN] a, s [RANGE 10 MIN] b",
            )
        items.append(item)
    if is_per_window(items):
        check_entries(context, block, items)
    return items


def _item(context: BindingContext, place: exp.Expr, bind_query: BindQuery) -> Item:
    call = resample_of(place)
    if call is not None:
        source = _item(context, source_of(place), bind_query)
        node = _windowed(context, place, resampled(context, place, call, source))
        return Item(source.name, node)
    if isinstance(place, exp.Subquery):
        return _subquery(context, place, bind_query)
    if isinstance(place, exp.Unnest):
        # What it is made of stands before it: it is bound where entries are put together.
        return Item(name_of(place), _NO_ROWS)
    if (named := named_query(context, place)) is not None:
        alias = context.aliases.fresh(place.alias or place.name)
        node = _windowed(context, place, read_by_name(context, place, named, alias))
        return Item(place.alias or place.name, _called(context, place, node))
    entry = context.catalog.lookup(place.name)
    if entry is None:
        readable = StreamDefinition | RelationDefinition | ViewDefinition | QueryDefinition
        names = [e.name for e in context.catalog if isinstance(e, readable)]
        names += [query.name for query in context.common.values()]
        hint = recursion_hint(context, place.name) or suggestion(place.name, names, "declared")
        raise context.error(
            place, f"there is no {context.catalog.offers} called {place.name}", hint
        )
    name = place.alias or place.name
    if _column_aliases(place):
        hint = f"name them in a sub-query: (SELECT a AS x FROM {place.name}) {name}"
        raise context.error(place.args["alias"], f"{name} keeps the names of its columns", hint)
    if isinstance(entry, StreamDefinition):
        scan = _stream(context, place, entry, context.aliases.fresh(name))
        return Item(name, scan, order=_order(entry, scan.columns))
    if isinstance(entry, RelationDefinition):
        return Item(name, _relation(context, place, entry, context.aliases.fresh(name)))
    advice = {
        "archive": "read it with probe() and scan(), or spark.read.format('mayfly')",
        "aggregate": f"it belongs in SELECT: SELECT k, {entry.name}(x) FROM s [RANGE 1 MIN] "
        "GROUP BY k",
    }
    if isinstance(entry, QueryDefinition):
        advice["query"] = (
            f"it sends {entry.plan.kind.value} and keeps no answer: mayfly query --changes "
            f"{entry.name} shows what it has sent; to read it, write CREATE STREAM name AS SELECT "
            f"{entry.plan.kind.value}(…)"
        )
    raise context.error(
        place,
        f"{entry.name} is {with_article(entry.kind)}, not a {context.catalog.offers}",
        advice[entry.kind],
    )


def _order(entry: StreamDefinition, columns: Schema) -> tuple[Column, ...]:
    """Time, SEQUENCE or, where there is none, the values of the row (spec: order of a stream)."""
    named = {column.name: column for column in columns}
    rest = entry.sequence or [c.name for c in columns if c.type.is_comparable]
    return (named[entry.time], *(named[name] for name in rest if name != entry.time))


def _stream(
    context: BindingContext, place: exp.Expr, entry: StreamDefinition, alias: str
) -> StreamScan:
    columns = tuple(
        Column(alias, c.name, c.type, c.nullable and c.name != entry.time) for c in entry.columns
    )
    window = _partitioned(context, place, place.meta.get("window", Unbounded()), columns)
    return StreamScan(entry.name, alias, window, columns, position=context.position(place))


def _relation(
    context: BindingContext, place: exp.Expr, entry: RelationDefinition, alias: str
) -> RelationScan:
    if "window" in place.meta:
        raise error_at(
            context.source,
            place.meta["window_span"],
            f"{entry.name} is {'a relation' if entry.retroactive else 'an NRR'}: it has no window",
            "windows are for streams; a relation is always used as it is now",
        )
    columns = _columns(entry.columns, alias)
    position = context.position(place)
    return RelationScan(entry.name, alias, columns, entry.retroactive, entry.key, position=position)


def _columns(declared: tuple[ColumnDefinition, ...], alias: str) -> Schema:
    return tuple(Column(alias, column.name, column.type, column.nullable) for column in declared)


def _subquery(context: BindingContext, place: exp.Subquery, bind_query: BindQuery) -> Item:
    name = place.alias or "subquery"
    node = bind_query(context, place.this, context.aliases.fresh(name))
    windowed = _windowed(context, place, node)
    if _column_aliases(place):
        return Item(name, _called(context, place, windowed))
    return Item(name, windowed, _nameless(place.this, node.schema))


def _column_aliases(place: exp.Expr) -> list[exp.Expr]:
    alias = place.args.get("alias")
    return (alias.args.get("columns") or []) if alias is not None else []


def _called(context: BindingContext, place: exp.Expr, node: Node) -> Node:
    """A sub-query under the names that its alias gives to columns: ``(SELECT …) q(a, b)``."""
    if not _column_aliases(place):
        return node
    pairs = zip(column_names(context, place, node), node.schema, strict=True)
    outputs = tuple(Named(name, column) for name, column in pairs)
    alias = context.aliases.fresh(place.alias)
    return Project(node, outputs, alias, position=context.position(place))


def _windowed(context: BindingContext, place: exp.Expr, node: Node) -> Node:
    """A sub-query, or what is read by name, behind its window if it has one."""
    if not context.relations_suffice and not any(isinstance(n, StreamScan) for n in node.walk()):
        raise context.error(
            place, "this sub-query reads no stream", "join the relation itself in FROM"
        )
    if "window" not in place.meta:
        return node
    window = _partitioned(context, place, place.meta["window"], node.schema)
    return SubqueryWindow(node, window, position=context.position(place))


def _nameless(block: exp.Expr, columns: Schema) -> dict[str, Column]:
    """By the column it aggregates, the only output like SUM(a) that has no alias."""
    if not isinstance(block, exp.Select) or len(block.expressions) != len(columns):
        return {}
    candidates: dict[str, list[Column]] = {}
    for place, column in zip(block.expressions, columns, strict=True):
        arguments = place.expressions if is_aggregate(place) else []
        if len(arguments) == 1 and isinstance(arguments[0], exp.Column):
            candidates.setdefault(arguments[0].name.casefold(), []).append(column)
    return {name: matches[0] for name, matches in candidates.items() if len(matches) == 1}


def _partitioned(
    context: BindingContext, place: exp.Expr, window: Window, columns: Schema
) -> Window:
    """The window with the columns of PARTITION BY as the stream spells them."""
    if not isinstance(window, PartitionRows):
        return window
    names = {column.name.casefold(): column for column in columns}
    spellings: list[str] = []
    for name in window.partition_by:
        column = names.get(name.casefold())
        if column is None:
            hint = suggestion(name, [c.name for c in columns], "columns")
            span = place.meta["window_span"]
            raise error_at(context.source, span, f"there is no column {name} to partition by", hint)
        if not column.type.is_comparable:
            problem = f"{name} has type {column.type}, which cannot partition a window"
            raise error_on(context.source, place, problem, "partition by a member of it")
        spellings.append(column.name)
    return replace(window, partition_by=tuple(spellings))
