"""RESAMPLE: the rows of an entry of FROM at the multiples of a time."""

from __future__ import annotations

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.cql.messages import error_at, suggestion
from mayfly.cql.resample_clause import ResampleCall
from mayfly.cql.restrictions import kind_of
from mayfly.cql.scope import Item, Scope
from mayfly.cql.stream_time import stream_time, tie_order
from mayfly.patterns import Kind
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import Node, RelationScan
from mayfly.plan.resample import Resample


def resampled(context: BindingContext, place: exp.Expr, call: ResampleCall, item: Item) -> Node:
    """The rows of an entry at the multiples of a time."""
    node = item.node
    if isinstance(node, RelationScan):
        problem = f"{item.name} is a {'relation' if node.retroactive else 'NRR'}: it has no times"
        raise context.error(place, problem, "resample a stream")
    time = stream_time(context, node)
    if time is None:
        raise context.error(place, *_no_stream(node, item.name))
    partition = tuple(_named(context, call, node, name) for name in call.partition_by)
    if context.one_time:
        hint = "declare it: CREATE QUERY q AS SELECT …, and ask SELECT … FROM q"
        raise context.error(place, "RESAMPLE is answered as time goes on, not once", hint)
    own = Scope(context.source, (item,))
    ties = tuple(tie for tie in tie_order(context, own, node) if tie not in (time, *partition))
    alias = context.aliases.fresh(item.name)
    return Resample(
        node, partition, time, call.period, call.filling, ties, alias,
        position=context.position(place),
    )  # fmt: skip


def _no_stream(node: Node, name: str) -> tuple[str, str]:
    if kind_of(node) is not Kind.MON:
        problem = f"RESAMPLE reads a whole stream, and rows of {name} expire"
        return problem, "put the window at the end: RESAMPLE s EVERY 10 SECONDS LAST [RANGE 1 HOUR]"
    problem = f"rows of {name} have no column that says when they came"
    return problem, "RESAMPLE a stream, or a query over one that selects its time"


def _named(context: BindingContext, call: ResampleCall, node: Node, name: str) -> Column:
    column = next((c for c in node.schema if c.name.casefold() == name.casefold()), None)
    if column is None:
        hint = suggestion(name, [c.name for c in node.schema], "columns")
        problem = f"there is no column {name} to partition by"
        raise error_at(context.source, call.span, problem, hint)
    if not column.type.is_comparable:
        problem = f"{name} has type {column.type}, which cannot partition rows"
        raise error_at(context.source, call.span, problem, "partition by a member of it")
    return column
