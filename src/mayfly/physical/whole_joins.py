"""What an n-way join needs to be run whole: a key that all its inputs share (thesis 5.2).

Equalities that the key does not imply become conditions like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import pyarrow as pa

from mayfly.kernels.codes import EXACT_KEYS
from mayfly.kernels.evaluation import Evaluation, Measured
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.multiway import MultiwayJoin, SharedKey
from mayfly.optimizer.estimates import equality_classes
from mayfly.optimizer.join_order import JoinInput, choose_order
from mayfly.optimizer.labels import describe
from mayfly.physical.join_conditions import covers
from mayfly.physical.program import Task, shorter
from mayfly.physical.slides import common_slide
from mayfly.plan.expressions import Compare, Expression, conjuncts
from mayfly.plan.logical_operators import Join, Schema


def shared_key(node: Join) -> tuple[SharedKey, tuple[Expression, ...]] | None:
    """The key and the other conditions; None if no value is common to all inputs."""
    keys: list[tuple[Expression, ...]] = [() for _ in node.inputs]
    for members in equality_classes(node.equalities):
        mine = [_member(child.schema, members) for child in node.inputs]
        parts = [part for part in mine if part is not None]
        if len(parts) == len(mine):
            keys = [(*key, part) for key, part in zip(keys, parts, strict=True)]
    if not keys[0]:
        return None
    types = tuple(key.type for key in keys[0])
    exact = len(types) == 1 and types[0].name in EXACT_KEYS
    implied = {part for key in keys for part in key}
    others = [
        equality for equality in node.equalities if not {equality.left, equality.right} <= implied
    ]
    conditions = [Compare("=", equality.left, equality.right) for equality in others]
    return SharedKey(tuple(keys), types, exact), (*conditions, *conjuncts(node.residual))


def whole_join(
    node: Join,
    tasks: Sequence[Task],
    shapes: Sequence[Shape],
    key: SharedKey,
    conditions: tuple[Expression, ...],
    evaluation: Evaluation,
    dual: bool,
) -> Task:
    """All inputs joined at once."""
    strict, slide = any(task.strict for task in tasks), common_slide(node)
    operator = MultiwayJoin(
        describe(node),
        key,
        conditions,
        tuple(task.columns for task in tasks),
        tuple(shapes),
        evaluation,
        CheapestOrder(evaluation.buckets),
        strict,
        slide,
        dual,
    )
    columns = pa.schema([column for task in tasks for column in task.columns])
    return Task(
        operator, tuple(tasks), columns, strict, reduce(shorter, [t.longest for t in tasks])
    )


def _member(schema: Schema, members: Sequence[Expression]) -> Expression | None:
    """The first of some equal expressions that reads this input and no other."""
    return next(
        (member for member in members if any(member.columns()) and covers(schema, member)), None
    )


@dataclass(frozen=True, slots=True)
class CheapestOrder:
    """The probe order that scans the fewest tuples, for what was measured (thesis 5.3)."""

    buckets: int | None = None

    def __call__(self, measured: tuple[Measured, ...]) -> tuple[int, ...]:
        return _cheapest(measured, self.buckets)


@lru_cache(maxsize=1024)
def _cheapest(measured: tuple[Measured, ...], buckets: int | None) -> tuple[int, ...]:
    return choose_order(
        [
            JoinInput(
                measure.rate, measure.size, {"key": measure.values}, buckets or measure.values
            )
            for measure in measured
        ]
    )
