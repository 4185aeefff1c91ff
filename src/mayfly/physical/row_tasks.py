"""Selections and projections as tasks: row by row, over whatever brings the rows."""

from __future__ import annotations

from dataclasses import replace

from mayfly.kernels.delta import payload
from mayfly.kernels.stateless import ProjectRows, SelectRows
from mayfly.kernels.unnest import UnnestRows
from mayfly.optimizer.labels import describe
from mayfly.physical.program import Task
from mayfly.plan.logical_operators import Node, Project, Select, Shared, StreamScan, Unnest


def row_by_row(node: Select | Project | Unnest, child: Task) -> Task:
    """A selection, projection or UNNEST, whose results live as its input does."""
    if isinstance(node, Select):
        chosen = SelectRows(describe(node), node.predicate)
        return replace(child, operator=chosen, inputs=(child,), node=None, label=None)
    columns = payload(node.schema)
    if isinstance(node, Unnest):
        unnested = UnnestRows(
            describe(node), node.value, columns, len(node.columns), node.outer, node.counts_from
        )
        return replace(
            child, operator=unnested, inputs=(child,), columns=columns, node=None, label=None
        )
    listed = tuple(output.expression for output in node.outputs)
    projected = ProjectRows(describe(node), listed, columns)
    return replace(
        child, operator=projected, inputs=(child,), columns=columns, node=None, label=None
    )


def stream_below(node: Node) -> bool:
    """Whether rows come from one stream, selected and projected only."""
    while isinstance(node, Select | Project | Shared):
        node = node.child
    return isinstance(node, StreamScan)
