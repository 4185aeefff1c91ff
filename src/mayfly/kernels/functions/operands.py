"""Operands of expressions, and the two ways in which functions work on them.

``columnar`` runs a function once over NumPy arrays; ``each`` runs a Python function once per
distinct combination of operands, for what Arrow does not mean the way Spark does. In both, dates
are days and instants and intervals are µs, as plain integers: Python's own date ends at 9999.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.plan.expressions import LONGEST_TEXT

Operand: TypeAlias = pa.Array | pa.Scalar
Numbers: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]


class Undefined(ValueError):
    """The expression has no value for these operands: ANSI mode makes that an error."""


def check_length(characters: int) -> None:
    """Refuse to make a text that would fill the memory."""
    if characters > LONGEST_TEXT:
        raise Undefined(f"a text of {characters:,} characters: at most {LONGEST_TEXT:,} are made")


def each(
    function: Callable[..., Any],
    operands: Sequence[Operand],
    result: pa.DataType,
    *,
    nulls: bool = False,
) -> Operand:
    """``function`` of every row's operands; NULL where one is NULL, unless it takes ``nulls``."""

    def value(choice: tuple[Any, ...]) -> Any:
        return None if not nulls and None in choice else function(*choice)

    coded = [_coded(operand) for operand in operands]
    arrays = [codes for codes, _ in coded if codes is not None]
    if not arrays:
        return pa.array([value(tuple(choices[0] for _, choices in coded))], result)[0]
    combined, picks = _combined(coded, len(arrays[0]))
    rows = [choices for _, choices in coded]
    outcomes = [value(tuple(c[code] for c, code in zip(rows, pick, strict=True))) for pick in picks]
    return pa.array(outcomes, result).take(pa.array(combined))


def _coded(operand: Operand) -> tuple[Numbers | None, list[Any]]:
    """Per row the number of its value, and the values; a scalar has no rows."""
    if isinstance(operand, pa.Scalar):
        return None, plain(pa.repeat(operand, 1))
    bits = operand
    if pa.types.is_floating(operand.type):
        # As bits, so that 0.0 and -0.0 stay apart.
        bits = operand.view(pa.int64() if operand.type.bit_width == 64 else pa.int32())
    encoded = bits.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(), plain(encoded.dictionary.view(operand.type))


def _combined(
    coded: list[tuple[Numbers | None, list[Any]]], rows: int
) -> tuple[Numbers, list[tuple[int, ...]]]:
    """One number per row for its combination of operands, and the combinations."""
    combined: Numbers = np.zeros(rows, np.int64)
    picks: list[tuple[int, ...]] = [()] if rows else []
    for codes, choices in coded:
        if codes is None:
            picks = [(*pick, 0) for pick in picks]
        elif len(picks) == 1:
            combined, picks = codes, [(*picks[0], code) for code in range(len(choices))]
        else:
            distinct, combined = np.unique(combined * len(choices) + codes, return_inverse=True)
            picks = [
                (*picks[code // len(choices)], code % len(choices)) for code in distinct.tolist()
            ]
    return combined, picks


def plain(values: pa.Array) -> list[Any]:
    """Python values; dates as days, instants and intervals as µs."""
    return list(_whole_times(values).to_pylist())


def _whole_times(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_date32(kind):
        return values.view(pa.int32())
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return values.view(pa.int64())
    return values


def columnar(
    function: Callable[..., Any], operands: Sequence[Operand], result: pa.DataType, fill: Any = 0
) -> Operand:
    """``function`` over NumPy arrays, in which ``fill`` stands where any operand is NULL."""
    lengths = [len(operand) for operand in operands if isinstance(operand, pa.Array)]
    rows = lengths[0] if lengths else 1
    columns = [broadcast(operand, rows) for operand in operands]
    valid = np.ones(rows, np.bool_)
    for column in columns:
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    null_mask = None if valid.all() else ~valid
    numbers = [_filled(numbers_of(column), null_mask, fill) for column in columns]
    with np.errstate(all="ignore"):
        array = from_numpy(function(*numbers), result, null_mask)
    return array if lengths else array[0]


def numbers_of(column: pa.Array) -> Numbers:
    """The column in NumPy, with 0 for NULL."""
    column = _whole_times(column)
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, pa.int8()).cast(column.type))
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _filled(numbers: Numbers, unknown: Mask | None, fill: Any) -> Numbers:
    return numbers if unknown is None else np.where(unknown, numbers.dtype.type(fill), numbers)


def from_numpy(numbers: Numbers, result: pa.DataType, unknown: Mask | None = None) -> pa.Array:
    """An Arrow array of the wanted type; instants, dates and intervals come as integers."""
    if pa.types.is_date32(result):
        return pa.array(numbers.astype(np.int32), mask=unknown).view(result)
    if pa.types.is_timestamp(result) or pa.types.is_duration(result):
        return pa.array(numbers.astype(np.int64), mask=unknown).view(result)
    return pa.array(numbers.astype(result.to_pandas_dtype()), result, mask=unknown)


def broadcast(operand: Operand, rows: int) -> pa.Array:
    """The operand as an array of so many rows."""
    return pa.repeat(operand, rows) if isinstance(operand, pa.Scalar) else operand


def refuse(where: Mask, problem: str) -> None:
    """Raise if the mask is true anywhere."""
    if where.any():
        raise Undefined(problem)
