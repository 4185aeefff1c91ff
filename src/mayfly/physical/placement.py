"""Where the operators of a program need rows to be, and where they leave them.

The rules of ``plan.spread`` for kernels. Operators over one input only need equal keys in one
bucket, so rows may stay where part of the key has brought them; operators that let rows of several
inputs meet need the whole key, in its order. Invariant: on every row of a task each column of a key
it is spread by has the value that gave the bucket, and a move to other buckets puts the row where
these values send it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mayfly.kernels.delta import column_name
from mayfly.kernels.difference import ExceptAllRows
from mayfly.kernels.distinct import WeakDistinct
from mayfly.kernels.grouping import GroupRows
from mayfly.kernels.meeting import JoinRows, NrrJoinRows
from mayfly.kernels.multiway import MultiwayJoin
from mayfly.kernels.negation import AntiJoinRows
from mayfly.kernels.stateless import MergeUnion, ProjectRows, SelectRows
from mayfly.kernels.windows import WindowRows
from mayfly.plan.expressions import Column, Expression, same_number
from mayfly.plan.spread import Spread
from mayfly.plan.types import DataType

Key = tuple[str | None, ...]
"""The columns that tell where rows go; None for a part that is no column as it is."""
_ALONE = (GroupRows, WindowRows, WeakDistinct)


def key_of(operator: Any, side: int = 0) -> Key:
    """The key by which rows of an operator's side are sent, if it has one."""
    match operator:
        case (
            JoinRows(condition=condition)
            | NrrJoinRows(condition=condition)
            | AntiJoinRows(condition=condition)
        ):
            return _plain(condition.keys[side], condition.types)
        case MultiwayJoin(key=key):
            return _plain(key.of_inputs[side], key.types)
        case GroupRows(keys=keys):
            return _plain(keys, [key.type for key in keys])
        case WindowRows(partition=names):
            return names
        case WeakDistinct(columns=columns):
            return tuple(columns.names)
        case ExceptAllRows(columns=columns):
            kinds = zip(columns[side], columns[0], strict=True)
            return tuple(one.name if _same(one.type, two.type) else None for one, two in kinds)
    return ()


def _same(one: pa.DataType, other: pa.DataType) -> bool:
    return one == other or all(map(pa.types.is_integer, (one, other)))


def _plain(keys: Sequence[Expression], types: Sequence[DataType]) -> Key:
    """Values of another type may have other codes; whole numbers of any size have the same."""
    return tuple(_column(key, kind) for key, kind in zip(keys, types, strict=True))


def _column(key: Expression, kind: DataType) -> str | None:
    key = same_number(key)
    same = key.type == kind or (key.type.is_integral and kind.is_integral)
    return column_name(key) if isinstance(key, Column) and same else None


def stays(operator: Any, side: int, spread: Spread) -> bool:
    """Whether rows that are spread so need not move for an operator."""
    key = key_of(operator, side)
    return bool(spread.within(key)) if isinstance(operator, _ALONE) else spread.has(key)


def place_of(operator: Any, spread: Spread | None) -> tuple[str, ...]:
    """The columns of its stored rows by which an operator with one input, or one that compares
    whole rows, finds their bucket; ``spread`` is that of an input that stays where it is. Others
    store rows with the code of their key."""
    if isinstance(operator, ExceptAllRows):
        return tuple(operator.columns[0].names)
    if not isinstance(operator, _ALONE):
        return ()
    key, names = key_of(operator), _own_names(operator)
    if spread is None:
        return names
    return tuple(names[key.index(one)] for one in spread.within(key))


def _own_names(operator: Any) -> tuple[str, ...]:
    """What an operator calls the parts of its key."""
    if isinstance(operator, GroupRows):
        return tuple(operator.key_names)
    return tuple(name for name in key_of(operator) if name)


def spread_after(operator: Any, kept: Sequence[Spread | None]) -> Spread:
    """Where results lie. ``kept`` says of each input how its rows are spread, None if they come
    from elsewhere by the operator's key."""
    first = kept[0] or Spread()
    match operator:
        case JoinRows() | MultiwayJoin():
            found = Spread.by(*(key_of(operator, side) for side in range(len(kept))))
            for one in kept:
                found |= one or Spread()
            return found
        case AntiJoinRows(by_identity=False) | ExceptAllRows():
            return first | Spread.by(key_of(operator))
        case GroupRows() | WeakDistinct() if kept[0] is None:
            return Spread.by(_own_names(operator))
        case GroupRows():
            return first.renamed(zip(key_of(operator), _own_names(operator), strict=True))
        case WeakDistinct():
            return first.only(key_of(operator))
        case WindowRows() if kept[0] is None:
            return Spread.by(operator.partition)
        case NrrJoinRows() if first.has(key_of(operator)):
            return first | Spread.by(key_of(operator), key_of(operator, 1))
        case WindowRows() | SelectRows() | NrrJoinRows() | AntiJoinRows():
            return first
        case ProjectRows(outputs=outputs, columns=columns):
            shown = zip(map(same_number, outputs), columns.names, strict=True)
            return first.renamed(
                (column_name(output), name) for output, name in shown if isinstance(output, Column)
            )
    return Spread()


def union_spread(operator: MergeUnion, inputs: Sequence[tuple[pa.Schema, Spread]]) -> Spread:
    """How rows of a union are spread if those of its inputs stay where they are."""
    found: Spread | None = None
    for columns, spread in inputs:
        mine = spread.renamed(
            (old.name, new.name)
            for old, new in zip(columns, operator.columns, strict=True)
            if _same(old.type, new.type)
        )
        found = mine if found is None else found.common(mine)
    return found or Spread()
