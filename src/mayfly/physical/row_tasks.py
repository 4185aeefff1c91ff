"""Selections, projections and derived streams as tasks, over whatever brings the rows."""

from __future__ import annotations

from dataclasses import replace

from mayfly.kernels.delta import payload
from mayfly.kernels.derived_rows import DerivedRows
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.outputs import Sent
from mayfly.kernels.stateless import ProjectRows, SelectRows
from mayfly.kernels.unnest_rows import UnnestRows
from mayfly.optimizer.labels import describe
from mayfly.physical.program import Task
from mayfly.physical.slides import outer_slide
from mayfly.plan.derived_stream import Derived
from mayfly.plan.logical_operators import (
    Node,
    Project,
    Select,
    Shared,
    StreamScan,
)
from mayfly.plan.unnest import Unnest


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


def derived_stream(node: Derived, child: Task, shape: Shape, dual: bool) -> Task:
    """What a stream operator says of an answer, as rows that stay."""
    slide = outer_slide(node.child)
    sent = Sent(node.kind.value, node.kind, child.columns, shape, slide, node.restore)
    operator = DerivedRows(describe(node), sent, tuple(node.child.schema), dual)
    return Task(operator, (child,), child.columns, False)


def stream_below(node: Node) -> bool:
    """Whether rows come from one stream, selected and projected only."""
    while isinstance(node, Select | Project | Shared):
        node = node.child
    return isinstance(node, StreamScan)
