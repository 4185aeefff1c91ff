"""Which column of rows is the time of their stream, and in which order a stream's rows stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mayfly.cql.context import BindingContext
from mayfly.cql.finished_blocks import window_bounds
from mayfly.cql.scope import Scope
from mayfly.plan.catalog import StreamDefinition
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.finished_windows import PeriodicWindows
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
from mayfly.plan.resample import Interpolation, Resample
from mayfly.plan.window_kinds import Unbounded


def stream_time(context: BindingContext, node: Node, windows: bool = False) -> Column | None:
    """The column that says when rows came, where they come from one stream and never expire, or
    ``windows`` may let them."""
    return next(iter(_times(context, node, windows)), None)


def orders_of_arrival(context: BindingContext, node: Node) -> tuple[Column, ...]:
    """The columns that order rows as they came: the time of a stream, the bounds of windows whose
    results these are."""
    return _times(context, node, False, results=True)


def _times(
    context: BindingContext, node: Node, windows: bool, *, results: bool = False
) -> tuple[Column, ...]:
    match node:
        case StreamScan(stream=stream, window=window) if windows or window == Unbounded():
            entry = context.catalog.lookup(stream)
            assert isinstance(entry, StreamDefinition)
            return tuple(column for column in node.columns if column.name == entry.time)
        case Finished() if results:
            return _bounds_in_order(node)
        case Resample(filling=Interpolation.LAST, time=time, alias=alias):
            return (replace(time, relation=alias),)
        case Select(child=child) | Shared(child=child) | PaddedNrrJoin(child=child):
            return _times(context, child, windows, results=results)
        case RelationJoin(child=child) if not node.retroactive:
            return _times(context, child, windows, results=results)
        case Over(child=child, appends=True) | AsofJoin(left=child, appends=True):
            return _times(context, child, windows, results=results)
        case Project(child=child, outputs=outputs, alias=alias):
            below = _times(context, child, windows, results=results)
            same = [out for time in below for out in outputs if is_column(out.expression, time)]
            return tuple(output.column(alias) for output in same)
    return ()


def _bounds_in_order(node: Finished) -> tuple[Column, ...]:
    """Results come when their windows end; where all are of one length, their starts do as well."""
    starts, ends = (sorted(side, key=lambda column: column.name) for side in window_bounds(node))
    kinds = {part.windows for part in _windows(node)}
    fixed = all(isinstance(kind, PeriodicWindows) and not kind.cumulative for kind in kinds)
    return (*ends, *(starts if fixed and len(kinds) == 1 else ()))


def _windows(node: Node) -> Iterator[InWindows]:
    if isinstance(node, InWindows):
        yield node
        return
    for child in node.children():
        yield from _windows(child)


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
