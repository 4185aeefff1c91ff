"""Which column of rows is the time of their stream, and in which order a stream's rows stand."""

from __future__ import annotations

from mayfly.cql.context import BindingContext
from mayfly.cql.scope import Scope
from mayfly.plan.catalog import StreamDefinition
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import (
    Node,
    PaddedNrrJoin,
    Project,
    RelationJoin,
    Select,
    Shared,
    StreamScan,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.window_kinds import Unbounded


def stream_time(context: BindingContext, node: Node, windows: bool = False) -> Column | None:
    """The column that says when rows came, where they come from one stream and never expire, or
    ``windows`` may let them."""
    match node:
        case StreamScan(stream=stream, window=window) if windows or window == Unbounded():
            entry = context.catalog.lookup(stream)
            assert isinstance(entry, StreamDefinition)
            return next(column for column in node.columns if column.name == entry.time)
        case Select(child=child) | Shared(child=child) | PaddedNrrJoin(child=child):
            return stream_time(context, child, windows)
        case RelationJoin(child=child) if not node.retroactive:
            return stream_time(context, child, windows)
        case Over(child=child, appends=True) | AsofJoin(left=child, appends=True):
            return stream_time(context, child, windows)
        case Project(child=child, outputs=outputs, alias=alias):
            time = stream_time(context, child, windows)
            same = (out for out in outputs if time is not None and is_column(out.expression, time))
            output = next(same, None)
            return output.column(alias) if output else None
    return None


def is_column(expression: Expression, column: Column) -> bool:
    """Whether an expression is just this column."""
    return isinstance(expression, Column) and (expression.relation, expression.name) == (
        column.relation,
        column.name,
    )


def tie_order(context: BindingContext, scope: Scope, rows: Node) -> tuple[Expression, ...]:
    """What orders rows that are equal otherwise: of a stream its time, SEQUENCE and values, of
    other rows their values."""
    offered = {(column.relation, column.name): column for column in rows.schema}
    columns: list[Expression] = []
    for item in scope.items:
        listed = [*item.order, *item.node.schema]
        columns += [
            offered[column.relation, column.name]
            for column in listed
            if column.type.is_comparable and (column.relation, column.name) in offered
        ]
    return tuple(dict.fromkeys(columns))
