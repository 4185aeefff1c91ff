"""Joins with relations whose changes leave old results as they are, as tasks."""

from __future__ import annotations

import pyarrow as pa

from mayfly.kernels.nrr import NrrJoinRows
from mayfly.optimizer.labels import describe
from mayfly.physical.join_conditions import condition_between
from mayfly.physical.program import Task
from mayfly.plan.logical_operators import PaddedNrrJoin, RelationJoin


def with_nrr(node: RelationJoin | PaddedNrrJoin, child: Task, relation: Task, dual: bool) -> Task:
    condition = condition_between(
        node.child.schema, node.relation.schema, node.equalities, node.residual
    )
    sides, padded = (child.columns, relation.columns), isinstance(node, PaddedNrrJoin)
    operator = NrrJoinRows(describe(node), condition, sides, child.strict, dual, padded)
    columns = pa.schema([*child.columns, *relation.columns])
    return Task(operator, (child, relation), columns, child.strict, child.longest)
