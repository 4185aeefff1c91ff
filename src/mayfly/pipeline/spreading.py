"""By which columns rows are spread over buckets: what is there already need not move again.

Idea: an operator with a key of one column sends each row to the bucket of its value there, and
equal values have one code, whichever operator asks for it. A join's results lie where both of its
keys send them, so another join or a group by one of these columns can run beside it.
Invariant: on every row of a task, each column it is spread by has the value that gave the bucket,
and a move to other buckets puts the row where that value sends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mayfly.kernels.delta import column_name
from mayfly.kernels.distinct import WeakDistinct
from mayfly.kernels.grouping import GroupRows
from mayfly.kernels.meeting import JoinRows
from mayfly.kernels.multiway import MultiwayJoin
from mayfly.kernels.negation import AntiJoinRows
from mayfly.kernels.stateless import ProjectRows, SelectRows
from mayfly.kernels.windows import WindowRows
from mayfly.plan.expressions import Column, Expression, same_number
from mayfly.plan.types import DataType

Columns = frozenset[str]


def key_column(operator: Any, side: int = 0) -> str | None:
    """The one column that tells where rows of an operator's side go, if one does."""
    match operator:
        case JoinRows(condition=condition):
            return _plain(condition.keys[side], condition.types)
        case AntiJoinRows(condition=condition) if side == 1:
            # On the left a row without a key counts, and has its place in bucket 0.
            return _plain(condition.keys[side], condition.types)
        case MultiwayJoin(key=key):
            return _plain(key.of_inputs[side], key.types)
        case GroupRows(keys=keys):
            return _plain(keys, [key.type for key in keys])
        case WindowRows(partition=(name,)):
            return str(name)
        case WeakDistinct(columns=columns) if len(columns) == 1:
            return str(columns.names[0])
    return None


def _plain(keys: Sequence[Expression], types: Sequence[DataType]) -> str | None:
    """Values of another type may have other codes; whole numbers of any size have the same."""
    if len(keys) != 1:
        return None
    key = same_number(keys[0])
    same = key.type == types[0] or (key.type.is_integral and types[0].is_integral)
    return column_name(key) if isinstance(key, Column) and same else None


def spread_after(operator: Any, kept: Columns, sides: int = 1) -> Columns:
    """The columns that results are spread by, if inputs that stay where they are were by ``kept``.

    Left rows of a negation may lie in a bucket without having a key, and rows that wait in a window
    over results are moved to other buckets by their time: nothing is said of these.
    """
    match operator:
        case JoinRows() | MultiwayJoin():
            return kept | {one for side in range(sides) if (one := key_column(operator, side))}
        case GroupRows(key_names=names) if key_column(operator) is not None:
            return frozenset(names)
        case WeakDistinct() if (name := key_column(operator)) is not None:
            return frozenset([name])
        case SelectRows():
            return kept
        case WindowRows():
            return frozenset(one for one in [key_column(operator)] if one)
        case ProjectRows(outputs=outputs, columns=columns):
            return frozenset(
                field.name
                for output, field in zip(outputs, columns, strict=True)
                if isinstance(output, Column) and column_name(output) in kept
            )
    return frozenset()
