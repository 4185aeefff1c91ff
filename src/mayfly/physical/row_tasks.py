"""Selections, projections and derived streams as tasks, over whatever brings the rows."""

from __future__ import annotations

from dataclasses import replace

from mayfly.errors import InvalidSetting
from mayfly.kernels.delta import payload
from mayfly.kernels.derived_rows import DerivedRows
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.outputs import Sent
from mayfly.kernels.stateless import ProjectRows, SelectRows
from mayfly.kernels.unnest_rows import UnnestRows
from mayfly.optimizer.labels import Labelled, describe
from mayfly.physical.program import Entering, RelationInput, Task
from mayfly.physical.slides import outer_slide
from mayfly.plan.derived_stream import Derived
from mayfly.plan.logical_operators import (
    Project,
    RelationScan,
    Select,
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


def stored_table(labelled: Labelled, dual: bool) -> Task:
    """The stored table, perhaps selected and projected."""
    node = labelled.node
    if isinstance(node, RelationScan):
        columns = payload(node.schema)
        named = tuple(column.name for column in node.schema)
        source = RelationInput(node.relation, node.alias, named)
        operator = Entering(describe(node), columns, dual)
        return Task(operator, (source,), columns, True, None, node, labelled.label)
    if isinstance(node, Select | Project):
        task = row_by_row(node, stored_table(labelled.inputs[0], dual))
        return replace(task, node=node, label=labelled.label)
    raise InvalidSetting(
        f"{describe(node)} over a relation cannot be run in this process",
        "join the relation itself",
    )
