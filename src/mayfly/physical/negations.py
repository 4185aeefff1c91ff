"""NOT EXISTS and NOT IN: left rows as long as nothing covers them.

A negation by equal keys counts right rows itself. One with a residual, or without a key, and a NOT
IN that may meet NULL become negations by the left row's identity: a join finds the pairs that
exclude a left row, and each pair covers it for as long as the pair lives.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from mayfly.kernels.anti_join import AntiJoinRows
from mayfly.kernels.difference import ExceptAllRows
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.stateless import MergeUnion, SelectRows
from mayfly.kernels.window_join import Condition, JoinRows
from mayfly.optimizer.labels import describe
from mayfly.physical.band_terms import banded
from mayfly.physical.join_conditions import condition_between
from mayfly.physical.program import Task, shorter
from mayfly.plan.expressions import IsNull, Not
from mayfly.plan.logical_operators import AntiJoin, ExceptAll, Negation

Shapes = tuple[Shape, Shape]
_ALWAYS = Condition(((), ()), (), True)


def except_all(node: ExceptAll, left: Task, right: Task, shapes: Shapes) -> Task:
    """EXCEPT ALL of two inputs, by their values."""
    operator = ExceptAllRows(describe(node), (left.columns, right.columns), shapes)
    return Task(operator, (left, right), left.columns, True, left.longest)


def negation(node: AntiJoin, left: Task, right: Task, shapes: Shapes) -> Task:
    """The operator over both inputs, whose rows are kept in these shapes."""
    name = describe(node)
    condition = condition_between(
        node.left.schema, node.right.schema, node.equalities, node.residual
    )
    if node.kind is Negation.NOT_IN and _may_be_null(condition):
        right = _not_in_matches(name, left, right, condition, shapes)
        condition = _ALWAYS
    elif node.residual is not None or not condition.types:
        near = banded(condition, node.left.schema, node.right.schema)
        right = _matches(f"{name} (pairs)", left, right, near, shapes)
        condition = _ALWAYS
    by_identity = not condition.types
    operator = AntiJoinRows(name, condition, left.columns, shapes, right.strict, by_identity)
    return Task(operator, (left, right), left.columns, True, left.longest)


def _not_in_matches(
    name: str, left: Task, right: Task, condition: Condition, shapes: Shapes
) -> Task:
    """What excludes a left row: an equal value, a NULL on the right, anything if it is NULL."""
    mine, other = condition.keys[0][0], condition.keys[1][0]
    nulls = SelectRows("NULLs on the right", IsNull(other))
    missing = SelectRows("NULLs on the left", IsNull(mine))
    # A left NULL meets right NULLs in the third part.
    values = SelectRows("values on the left", Not(IsNull(mine)))
    only_left = replace(left, operator=missing, inputs=(left,), node=None)
    only_nulls = replace(right, operator=nulls, inputs=(right,), node=None)
    only_known = replace(left, operator=values, inputs=(left,), node=None)
    parts = (
        _matches(f"{name} (equal)", left, right, condition, shapes),
        _matches(f"{name} (right NULL)", only_known, only_nulls, _ALWAYS, shapes),
        _matches(f"{name} (left NULL)", only_left, right, _ALWAYS, shapes),
    )
    union = MergeUnion(f"{name} (pairs)", pa.schema([]), owned=True)
    return Task(union, parts, pa.schema([]), any(part.strict for part in parts), parts[0].longest)


def _matches(name: str, left: Task, right: Task, condition: Condition, shapes: Shapes) -> Task:
    """Pairs of both sides, as cover of the left row they belong to."""
    nothing = pa.schema([])
    operator = JoinRows(name, condition, (nothing, nothing), shapes, owned=True)
    longest = shorter(left.longest, right.longest)
    return Task(operator, (left, right), nothing, left.strict or right.strict, longest)


def _may_be_null(condition: Condition) -> bool:
    return any(key.nullable for side in condition.keys for key in side)
