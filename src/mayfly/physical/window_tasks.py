"""The windows of a plan as tasks: over streams, and over the results of sub-queries."""

from __future__ import annotations

from mayfly.kernels.delta import payload
from mayfly.kernels.window_assignment import RANK, WindowRows
from mayfly.optimizer.labels import describe
from mayfly.physical.program import Task, stream_input
from mayfly.physical.window_lives import window_lives
from mayfly.plan.catalog import StreamDefinition
from mayfly.plan.logical_operators import StreamScan, SubqueryWindow
from mayfly.plan.strategy import Strategy
from mayfly.plan.window_kinds import PartitionRows, Window


def stream_window(
    node: StreamScan, stream: StreamDefinition, strategy: Strategy, dual: bool, ordered: bool
) -> Task:
    """A window over a stream; ``ordered`` where what is above it asks for the stream's order."""
    window, columns, alias = node.window, payload(node.schema), node.alias
    partition = _partition(window)
    order: list[str] = []
    if window.counts_rows or ordered:
        order = [*stream.sequence, *(column.name for column in stream.columns)]
    named = [column.name for column in node.schema]
    needed = tuple(dict.fromkeys([*named, *order, *partition]))
    operator = WindowRows(
        describe(node),
        window,
        columns,
        tuple(dict.fromkeys(f"{alias}.{name}" for name in order)) if order else None,
        tuple(f"{alias}.{name}" for name in partition),
        strategy is Strategy.NT,
        dual,
    )
    source = stream_input(stream, alias, needed)
    return Task(operator, (source,), columns, *window_lives(window, strategy))


def subquery_window(
    node: SubqueryWindow, child: Task, ranked: bool, strategy: Strategy, dual: bool
) -> Task:
    """A window over the results of a task; ``ranked`` if they keep the order of their stream."""
    window, columns, relation = node.window, payload(node.schema), node.schema[0].relation
    order = RANK if ranked else tuple(columns.names)
    operator = WindowRows(
        describe(node),
        window,
        columns,
        order if window.counts_rows else None,
        tuple(f"{relation}.{name}" for name in _partition(window)),
        strategy is Strategy.NT,
        dual,
    )
    return Task(operator, (child,), columns, *window_lives(window, strategy))


def _partition(window: Window) -> tuple[str, ...]:
    return window.partition_by if isinstance(window, PartitionRows) else ()
