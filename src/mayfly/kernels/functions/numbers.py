"""Arithmetic and the functions of numbers, as Spark computes them in ANSI mode.

Whole numbers that overflow and divisions by zero are errors. Decimals are computed exactly and
then rounded half up into the type of the result. Transcendental functions may differ from Java's
in the last binary digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Context,
    Decimal,
)
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.kernels.functions.java_numbers import exact
from mayfly.kernels.functions.operands import (
    Mask,
    Numbers,
    Operand,
    Undefined,
    columnar,
    each,
    refuse,
)
from mayfly.lifetime import zone
from mayfly.plan.time_zones import DAY, moved, wall_clock
from mayfly.plan.types import MAX_PRECISION, DataType, arrow_type
from mayfly.plan.zone_instants import PLAIN

EXACT = Context(prec=200)
"""Wide enough for sums, products and quotients of decimals; Python's own context is not."""
_JAVA_NEGATION = Context(prec=34, rounding=ROUND_HALF_EVEN)
_DIVISION = Context(prec=MAX_PRECISION + 1, rounding=ROUND_DOWN)
_MOST = 2**63 - 1
_FAR = 2**60
"""Beyond so many µs from 1970 calendars are not looked at."""


def fitted(value: Decimal, kind: DataType, rounding: str = ROUND_HALF_UP) -> Decimal:
    """The value rounded into decimal(p, s); an error where it has too many digits."""
    precision, scale = kind.params
    if value and value.adjusted() > precision - scale:
        raise Undefined(f"overflow: {value} does not fit {kind}")
    rounded = value.quantize(Decimal(1).scaleb(-scale), rounding, EXACT)
    if rounded.copy_abs() >= Decimal(1).scaleb(precision - scale):
        raise Undefined(f"overflow: {value} does not fit {kind}")
    return rounded


def arithmetic(op: str, left: Operand, right: Operand, kind: DataType) -> Operand:
    """``left op right`` for op + - * / % div, the result being of the given type."""
    result = arrow_type(kind)
    if not kind.is_numeric:
        return _temporal(op, left, right, result)
    if pa.types.is_decimal(left.type):
        return _decimal(op, left, right, kind)
    if op in _CHECKED:
        return _CHECKED[op](left, right)
    if op == "/":
        _refuse_zero(left, right)
        return pc.divide(left, right)
    if op == "div":
        if pa.types.is_floating(left.type):
            raise Undefined("div divides whole numbers: CAST the operands to BIGINT")
        return columnar(_quotient, (left, right), result, fill=1)
    return columnar(_remainder, (left, right), result, fill=1)


_CHECKED: dict[str, Callable[[Operand, Operand], Operand]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


def _refuse_zero(left: Operand, right: Operand) -> None:
    zero = pc.and_(pc.equal(right, pa.scalar(0, right.type)), pc.is_valid(left))
    if pc.any(zero).as_py() if isinstance(zero, pa.Array) else zero.as_py():
        raise Undefined("division by zero")


def _remainder(left: Numbers, right: Numbers) -> Numbers:
    refuse(right == 0, "division by zero")
    if left.dtype.kind == "i":
        right = np.where(right == -1, right.dtype.type(1), right)
    return np.fmod(left, right)


def _quotient(left: Numbers, right: Numbers) -> Numbers:
    left, right = left.astype(np.int64), right.astype(np.int64)
    refuse(right == 0, "division by zero")
    refuse((left == -_MOST - 1) & (right == -1), "overflow")
    return (left - np.fmod(left, right)) // right


def _pmod(left: Numbers, right: Numbers) -> Numbers:
    if left.dtype.kind == "i" and left.dtype.itemsize < 4:
        left, right = left.astype(np.int32), right.astype(np.int32)
    rest = _remainder(left, right)
    # The sum of a negative remainder and a negative divisor may wrap around, as it does in Java.
    return np.where(rest < 0, _remainder(rest + right, right), rest)


def _temporal(op: str, left: Operand, right: Operand, result: pa.DataType) -> Operand:
    """Instants, dates and intervals: everything in µs. In a zone a day is one of its calendar, and
    between two instants lies what its clocks show."""
    if pa.types.is_timestamp(left.type) and left.type.tz and zone() not in PLAIN:
        compute = _between if left.type == right.type else _later if op == "+" else _earlier
        return columnar(compute, (left, right), result)
    if pa.types.is_timestamp(right.type) and right.type.tz and zone() not in PLAIN:
        return columnar(_later, (right, left), result)
    sides = []
    for side in (left, right):
        if pa.types.is_date32(side.type):
            days = side.cast(pa.int32()).cast(pa.int64())
            sides.append(pc.multiply_checked(days, DAY))
        else:
            sides.append(side.cast(pa.int64()))
    return _CHECKED[op](*sides).cast(result)


def _later(instants: Numbers, interval: Numbers) -> Numbers:
    total = np.asarray(pc.add_checked(pa.array(instants), pa.array(interval)))
    rest = np.fmod(interval, DAY)
    within = (np.abs(instants) < _FAR) & (np.abs(interval) < _FAR) & (interval != rest)
    days = np.where(within, interval - rest, 0)
    start = np.where(within, instants, 0)
    return np.where(within, moved(start, lambda seen: seen + days) + rest, total)


def _earlier(instants: Numbers, interval: Numbers) -> Numbers:
    return _later(instants, np.asarray(pc.negate_checked(pa.array(interval))))


def _between(end: Numbers, start: Numbers) -> Numbers:
    return np.asarray(pc.subtract_checked(pa.array(wall_clock(end)), pa.array(wall_clock(start))))


def _decimal(op: str, left: Operand, right: Operand, kind: DataType) -> Operand:
    result = arrow_type(kind)
    if op in _CHECKED and _exactly(op, left.type, right.type) == result:
        return {"+": pc.add, "-": pc.subtract, "*": pc.multiply}[op](left, right)
    compute = _DECIMALS[op]
    if op == "div":
        return each(compute, (left, right), result)
    return each(lambda a, b: fitted(compute(a, b), kind), (left, right), result)


def _exactly(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which Arrow adds or multiplies without losing anything; None if too wide."""
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    if op == "*":
        scale, digits = left.scale + right.scale, left.precision + right.precision + 1
    return pa.decimal128(digits, scale) if digits <= MAX_PRECISION else None


def _checked_divisor(divide: Callable[[Decimal, Decimal], Any]) -> Callable[..., Any]:
    def compute(left: Decimal, right: Decimal) -> Any:
        if not right:
            raise Undefined("division by zero")
        return divide(left, right)

    return compute


def _with_quotient(divide: Callable[[Decimal, Decimal], Any]) -> Callable[..., Any]:
    """Java refuses a remainder whose quotient has more than 39 digits."""

    def compute(left: Decimal, right: Decimal) -> Any:
        rest = EXACT.subtract(left, EXACT.multiply(_DIVISION.divide(left, right), right))
        if rest.copy_abs() >= right.copy_abs():
            raise Undefined(f"overflow: the quotient of {left} and {right} is too large")
        return divide(left, right)

    return compute


def _whole_quotient(left: Decimal, right: Decimal) -> int:
    # Spark keeps the low 64 bits of a quotient that is too large.
    return (int(EXACT.divide_int(left, right)) + _MOST + 1) % 2**64 - _MOST - 1


def _decimal_pmod(left: Decimal, right: Decimal) -> Decimal:
    rest = EXACT.remainder(left, right)
    return EXACT.remainder(EXACT.add(rest, right), right) if rest < 0 else rest


_DECIMALS: dict[str, Callable[..., Any]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": _checked_divisor(EXACT.divide),
    "%": _checked_divisor(_with_quotient(EXACT.remainder)),
    "div": _checked_divisor(_with_quotient(_whole_quotient)),
    "pmod": _checked_divisor(_with_quotient(_decimal_pmod)),
}


def as_double(value: Operand) -> Operand:
    """Any number as DOUBLE, rounded to the nearest."""
    if pa.types.is_decimal(value.type):
        return each(float, (value,), pa.float64())
    return pc.cast(value, pa.float64(), safe=False)


def _real(
    function: Callable[..., Numbers], undefined: Callable[[Numbers], Mask] | None = None
) -> Callable[[Sequence[Operand], DataType], Operand]:
    """A function of doubles; NULL where it is undefined."""

    def compute(values: Sequence[Operand], kind: DataType) -> Operand:
        doubles = [as_double(value) for value in values]
        result = columnar(function, doubles, pa.float64(), fill=1)
        if undefined is None:
            return result
        outside = columnar(undefined, doubles, pa.bool_(), fill=1)
        return pc.if_else(outside, pa.scalar(None, pa.float64()), result)

    return compute


def _not_positive(value: Numbers) -> Mask:
    return np.asarray(value <= 0)


def _power(base: Numbers, exponent: Numbers) -> Numbers:
    """Java knows no value for 1 to an infinite or undefined power."""
    unknown = (np.abs(base) == 1) & ~np.isfinite(exponent)
    return np.where(unknown, np.nan, np.power(base, exponent))


def _sign(value: Numbers) -> Numbers:
    return np.where(value > 0, 1.0, np.where(value < 0, -1.0, value))


def _whole(
    numpy_rounding: Callable[[Numbers], Numbers], rounding: str
) -> Callable[[Sequence[Operand], DataType], Operand]:
    """ceil and floor: to BIGINT, NaN to 0; decimals to scale 0."""

    def whole(value: Numbers) -> Numbers:
        value = np.where(np.isnan(value), 0.0, numpy_rounding(value))
        refuse(
            (value >= 2.0**63) | (value < -(2.0**63)), "overflow: the number does not fit BIGINT"
        )
        return value.astype(np.int64)

    def compute(values: Sequence[Operand], kind: DataType) -> Operand:
        value = values[0]
        if pa.types.is_decimal(value.type):
            return each(lambda v: fitted(v, kind, rounding), values, arrow_type(kind))
        if pa.types.is_integer(value.type):
            return pc.cast(value, pa.int64())
        return columnar(whole, (as_double(value),), pa.int64())

    return compute


def _round(values: Sequence[Operand], kind: DataType) -> Operand:
    """Half up at so many places; places below 0 round before the point."""
    source, result = values[0].type, arrow_type(kind)
    operands = values if len(values) > 1 else (values[0], pa.scalar(0, pa.int32()))
    if pa.types.is_decimal(source):
        return each(lambda v, places: fitted(_placed(v, places), kind), operands, result)
    if pa.types.is_integer(source):
        limit = 2 ** (source.bit_width - 1)

        def whole(value: int, places: int) -> int:
            rounded = value if places >= 0 else int(_placed(Decimal(value), places))
            if not -limit <= rounded < limit:
                raise Undefined(f"overflow: {rounded} does not fit {kind}")
            return rounded

        return each(whole, operands, result)

    def real(value: float, places: int) -> float:
        if value != value or value in (float("inf"), float("-inf")):
            return value
        return float(_placed(exact(value), places))

    return each(real, operands, result)


def _placed(value: Decimal, places: int) -> Decimal:
    if -value.as_tuple().exponent <= places:  # type: ignore[operator]
        return EXACT.add(value, Decimal(0))
    rounded = value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT)
    return EXACT.add(rounded, Decimal(0))


def _negative(values: Sequence[Operand], kind: DataType) -> Operand:
    return _negated(values, kind) or pc.negate_checked(values[0])


def _abs(values: Sequence[Operand], kind: DataType) -> Operand:
    return _negated(values, kind, lambda value: value < 0) or pc.abs_checked(values[0])


def _negated(
    values: Sequence[Operand],
    kind: DataType,
    which: Callable[[Decimal], bool] = lambda value: True,
) -> Operand | None:
    """Decimals with the other sign; Spark rounds those to 34 digits. None for narrower types."""
    if kind.name != "decimal" or kind.params[0] <= _JAVA_NEGATION.prec:
        return None

    def negated(value: Decimal) -> Decimal:
        return fitted(_JAVA_NEGATION.minus(value), kind) if which(value) else value

    return each(negated, values, arrow_type(kind))


def _pmods(values: Sequence[Operand], kind: DataType) -> Operand:
    if kind.name == "decimal":
        return _decimal("pmod", values[0], values[1], kind)
    return columnar(_pmod, values, arrow_type(kind), fill=1)


def _isnan(values: Sequence[Operand], kind: DataType) -> Operand:
    return pc.fill_null(pc.is_nan(as_double(values[0])), False)


NUMBER_FUNCTIONS: dict[str, Callable[[Sequence[Operand], DataType], Operand]] = {
    "abs": _abs,
    "negative": _negative,
    "sign": _real(_sign),
    "ceil": _whole(np.ceil, ROUND_CEILING),
    "floor": _whole(np.floor, ROUND_FLOOR),
    "round": _round,
    "sqrt": _real(np.sqrt),
    "exp": _real(np.exp),
    "ln": _real(np.log, _not_positive),
    "log2": _real(lambda value: np.log(value) / np.log(2.0), _not_positive),
    "log10": _real(np.log10, _not_positive),
    "power": _real(_power),
    "sin": _real(np.sin),
    "cos": _real(np.cos),
    "tan": _real(np.tan),
    # Adding 0.0 turns -0.0 into 0.0, which decides on which side of the circle the angle lies.
    "atan2": _real(lambda y, x: np.arctan2(y + 0.0, x + 0.0)),
    "radians": _real(np.radians),
    "degrees": _real(np.degrees),
    "pmod": _pmods,
    "isnan": _isnan,
}
