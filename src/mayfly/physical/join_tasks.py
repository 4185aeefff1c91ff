"""Joins as tasks: of windows one by one, and with relations whose changes change old results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.window_join import JoinRows
from mayfly.optimizer.join_chains import steps
from mayfly.optimizer.labels import describe
from mayfly.patterns import Label
from mayfly.physical.band_terms import banded
from mayfly.physical.join_conditions import condition_between, condition_of, covers, oriented
from mayfly.physical.program import Task, shorter
from mayfly.plan.expressions import conjunction, conjuncts
from mayfly.plan.logical_operators import Join, PaddedNrrJoin, RelationJoin


@dataclass(frozen=True)
class JoinChain:
    """The inputs of a join, joined one by one; ``shape_of`` says how results are kept."""

    node: Join
    label: Label
    dual: bool
    shape_of: Callable[[Task], Shape]

    def task(self, tasks: Sequence[Task], shapes: Sequence[Shape]) -> Task:
        """Each condition is checked as soon as all that it names is there."""
        node = self.node
        pending, residual = list(node.equalities), list(conjuncts(node.residual))
        joined, schema = tasks[0], node.inputs[0].schema
        shape, nodes = shapes[0], steps(node)
        for number, right in enumerate(tasks[1:], start=1):
            added = node.inputs[number].schema
            here = [oriented(equality, schema, added) for equality in pending]
            usable = [equality for equality in here if equality is not None]
            pending = [
                equality for equality, turned in zip(pending, here, strict=True) if turned is None
            ]
            before, schema = schema, (*schema, *added)
            ready = [term for term in residual if covers(schema, term)]
            residual = [term for term in residual if term not in ready]
            condition = condition_of(usable, conjunction(tuple(ready)))
            operator = JoinRows(
                f"{describe(node)} ({number})" if len(tasks) > 2 else describe(node),
                banded(condition, before, added),
                (joined.columns, right.columns),
                (shape, shapes[number]),
                self.dual,
            )
            joined = Task(
                operator,
                (joined, right),
                pa.schema([*joined.columns, *right.columns]),
                joined.strict or right.strict,
                shorter(joined.longest, right.longest),
                nodes[number - 1],
                self.label,
            )
            shape = self.shape_of(joined)
        return joined


def with_relation(
    node: RelationJoin | PaddedNrrJoin, child: Task, relation: Task, shape: Shape, dual: bool
) -> Task:
    """Results with a relation follow each of its changes."""
    condition = condition_between(
        node.child.schema, node.relation.schema, node.equalities, node.residual
    )
    sides = (child.columns, relation.columns)
    operator = JoinRows(describe(node), condition, sides, (shape, Shape(hashed=True)), dual)
    columns = pa.schema([*child.columns, *relation.columns])
    return Task(operator, (child, relation), columns, True, child.longest)
