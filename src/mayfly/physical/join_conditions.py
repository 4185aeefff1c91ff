"""Which rows of two inputs belong together: equalities as keys, the rest as a residual."""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.kernels.codes import EXACT_KEYS
from mayfly.kernels.delta import column_name
from mayfly.kernels.window_join import Condition
from mayfly.plan.expressions import Expression
from mayfly.plan.logical_operators import Equality, Schema


def condition_of(equalities: Sequence[Equality], residual: Expression | None) -> Condition:
    types = tuple(equality.type for equality in equalities)
    exact = (len(types) == 1 and types[0].name in EXACT_KEYS) or not types
    keys = (
        tuple(equality.left for equality in equalities),
        tuple(equality.right for equality in equalities),
    )
    return Condition(keys, types, exact, residual)


def condition_between(
    left: Schema, right: Schema, equalities: Sequence[Equality], residual: Expression | None
) -> Condition:
    """The condition of two inputs, each equality turned to their order."""
    turned = [oriented(equality, left, right) for equality in equalities]
    return condition_of([equality for equality in turned if equality], residual)


def oriented(equality: Equality, left: Schema, right: Schema) -> Equality | None:
    """The equality with its sides in the order of the inputs; None if it reads others too."""
    for side, other in ((equality.left, equality.right), (equality.right, equality.left)):
        if covers(left, side) and covers(right, other):
            return Equality(side, other)
    return None


def covers(schema: Schema, expression: Expression) -> bool:
    """Whether the columns an expression reads are all offered."""
    offered = {column_name(column) for column in schema}
    return all(column_name(column) in offered for column in expression.columns())
