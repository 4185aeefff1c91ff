"""Functions of arrays, maps and structs, over the flat values that Arrow keeps under them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.kernels.functions.comparisons import compare
from mayfly.kernels.functions.operands import Numbers, Operand, Undefined, broadcast
from mayfly.plan.types import DataType, arrow_type


def member(value: Operand, name: str) -> Operand:
    """One member of a struct; NULL where the struct is."""
    return pc.struct_field(value, name)


def _rows(operands: Sequence[Operand]) -> list[pa.Array]:
    lengths = [len(operand) for operand in operands if isinstance(operand, pa.Array)]
    return [broadcast(operand, lengths[0] if lengths else 1) for operand in operands]


def _bounds(nested: pa.Array) -> tuple[Numbers, Numbers]:
    """Where each row's values begin and how many there are; none where the row is NULL."""
    offsets = nested.offsets.to_numpy()
    validity = nested.is_valid().to_numpy(zero_copy_only=False)
    return offsets[:-1].astype(np.int64), np.where(validity, np.diff(offsets), 0)


def _expanded(starts: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers]:
    """For every flat value its row and its place."""
    rows = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return rows, np.arange(len(rows)) - np.repeat(before, lengths) + np.repeat(starts, lengths)


def _like(operands: Sequence[Operand], result: pa.Array) -> Operand:
    return result if any(isinstance(operand, pa.Array) for operand in operands) else result[0]


def _size(values: Sequence[Operand], kind: DataType) -> Operand:
    (nested,) = _rows(values)
    _, lengths = _bounds(nested)
    unknown = nested.is_null().to_numpy(zero_copy_only=False)
    return _like(values, pa.array(lengths.astype(np.int32), mask=unknown))


def _element_at(values: Sequence[Operand], kind: DataType) -> Operand:
    nested, subscripts = _rows(values)
    starts, lengths = _bounds(nested)
    if pa.types.is_map(nested.type):
        rows, places = _expanded(starts, lengths)
        keys = nested.keys.take(pa.array(places))
        needles = subscripts.take(pa.array(rows)).cast(keys.type)
        same = pc.fill_null(compare("=", keys, needles), False).to_numpy(zero_copy_only=False)
        # Written last to first, so that the first of equal keys counts.
        positions = np.full(len(starts), -1, np.int64)
        positions[rows[same][::-1]] = places[same][::-1]
        return _like(values, nested.items.take(pa.array(positions, mask=positions < 0)))
    validity = nested.is_valid().to_numpy(zero_copy_only=False) & subscripts.is_valid().to_numpy(
        zero_copy_only=False
    )
    index = pc.fill_null(subscripts, 1).to_numpy(zero_copy_only=False).astype(np.int64)
    if (validity & (index == 0)).any():
        raise Undefined("element_at counts from 1, there is no element 0")
    if (validity & (np.abs(index) > lengths)).any():
        raise Undefined("element_at reaches beyond the end of an array")
    place = starts + np.where(index > 0, index - 1, lengths + index)
    return _like(values, nested.values.take(pa.array(place, mask=~validity)))


def _array_contains(values: Sequence[Operand], kind: DataType) -> Operand:
    nested, targets = _rows(values)
    starts, lengths = _bounds(nested)
    rows, places = _expanded(starts, lengths)
    elements = nested.values.take(pa.array(places))
    needles = targets.take(pa.array(rows))
    if elements.type != needles.type:
        common = _wider(elements.type, needles.type)
        elements, needles = elements.cast(common, safe=False), needles.cast(common, safe=False)
    same = compare("=", elements, needles)
    hit = np.zeros(len(starts), np.bool_)
    doubt = np.zeros(len(starts), np.bool_)
    hit[rows[pc.fill_null(same, False).to_numpy(zero_copy_only=False)]] = True
    doubt[rows[elements.is_null().to_numpy(zero_copy_only=False)]] = True
    unknown = (
        nested.is_null().to_numpy(zero_copy_only=False)
        | targets.is_null().to_numpy(zero_copy_only=False)
        | (doubt & ~hit)
    )
    return _like(values, pa.array(hit, mask=unknown))


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    from mayfly.plan.types import common_type, from_arrow

    common = common_type(from_arrow(left), from_arrow(right))
    if common is None:
        raise Undefined(f"array_contains cannot compare {left} with {right}")
    return arrow_type(common)


def entry(values: Sequence[Operand], kind: DataType) -> Operand:
    """A struct of the values; it is there where they are NULL, too."""
    fields = list(arrow_type(kind))
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(_rows(values), fields, strict=True)
    ]
    return _like(values, pa.StructArray.from_arrays(columns, fields=fields))


NESTED_FUNCTIONS: dict[str, Callable[[Sequence[Operand], DataType], Operand]] = {
    "size": _size,
    "element_at": _element_at,
    "array_contains": _array_contains,
}
