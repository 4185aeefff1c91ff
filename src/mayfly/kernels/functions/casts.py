"""CAST and TRY_CAST between the atomic types, as Spark's ANSI mode casts.

What does not fit is an error, or NULL under TRY_CAST. Whole columns go through NumPy or Arrow
where they mean the same; text, decimals and what is written as text go value by value.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.errors import InvalidSetting
from mayfly.kernels.functions import calendar_fields
from mayfly.kernels.functions.java_numbers import exact, read_float, shortest
from mayfly.kernels.functions.numbers import EXACT, fitted
from mayfly.kernels.functions.operands import Mask, Numbers, Operand, Undefined, columnar, each
from mayfly.plan.time_zones import instants_of, wall_clock
from mayfly.plan.types import DataType, arrow_type

Reading: TypeAlias = Callable[[Any], Any]
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")
_INSTANTS = ("timestamp", "timestamp_ntz")


def shown(value: Operand) -> Operand:
    """A column of instants as wall-clock times; one of those as it is."""
    if not pa.types.is_timestamp(value.type) or value.type.tz is None:
        return value
    return columnar(wall_clock, (value,), pa.timestamp("us"))


def cast(value: Operand, source: DataType, target: DataType, safe: bool) -> Operand:
    """The value in another type; with ``safe``, NULL where it does not fit."""
    if source.name == "void":
        return pc.cast(value, arrow_type(target))
    whole_columns = _columnar_cast(value, source, target, safe)
    if whole_columns is not None:
        return whole_columns
    reading = _reading(source, target)
    if reading is None:
        raise InvalidSetting(
            f"{source} cannot be cast to {target}", "cast it to STRING or a number between"
        )
    return each(_tolerant(reading) if safe else reading, (value,), arrow_type(target))


def _tolerant(reading: Reading) -> Reading:
    def read(value: Any) -> Any:
        try:
            return reading(value)
        except Undefined:
            return None

    return read


# ── whole columns ─────────────────────────────────────────────────────────────────────────


def _columnar_cast(
    value: Operand, source: DataType, target: DataType, safe: bool
) -> Operand | None:
    result = arrow_type(target)
    plain = source.name != "decimal" and (source.is_numeric or source.name == "boolean")
    if plain and target.is_integral:
        return _to_integer(value, target, safe)
    if plain and target.name in ("float", "double"):
        return pc.cast(
            pc.cast(value, pa.int8()) if source.name == "boolean" else value, result, safe=False
        )
    if target.name == "boolean" and source.is_numeric:
        return pc.not_equal(value, pa.scalar(0, value.type))
    if target.name == "string" and (source.is_integral or source.name == "boolean"):
        return pc.cast(value, result)
    if {source.name, target.name} == {"string", "binary"}:
        return value.view(result) if isinstance(value, pa.Array) else value.cast(result)
    if source.name in _INSTANTS and target.name in (*_INSTANTS, "date"):
        if source.name == target.name:
            return columnar(lambda t: t, (value,), result)
        if target.name == "timestamp":
            return columnar(instants_of, (value,), result)
        shift = (lambda t: t // calendar_fields.DAY) if target.name == "date" else (lambda t: t)
        return columnar(shift, (shown(value),), result)
    if source.name == "timestamp" and target.name == "double":
        return columnar(lambda t: t / 1e6, (value,), result)
    if source.name == "timestamp" and target.name == "float":
        return columnar(lambda t: (t / 1e6).astype(np.float32), (value,), result)
    if source.name == "timestamp" and target.is_integral:
        seconds = columnar(lambda t: t // calendar_fields.SECOND, (value,), pa.int64())
        return _to_integer(seconds, target, safe)
    return None


def _to_integer(value: Operand, target: DataType, safe: bool) -> Operand:
    result = arrow_type(target)
    limit = 2 ** (result.bit_width - 1)

    def outside(numbers: Numbers) -> Mask:
        if numbers.dtype.kind == "f":
            inside = (np.floor(numbers) < limit) & (np.ceil(numbers) >= -limit)
            return np.asarray(~inside)
        if numbers.dtype.itemsize * 8 <= result.bit_width:
            return np.zeros(len(numbers), np.bool_)
        return np.asarray((numbers < -limit) | (numbers >= limit))

    unfit = columnar(outside, (value,), pa.bool_())
    any_unfit = pc.any(unfit).as_py() if isinstance(unfit, pa.Array) else unfit.as_py()
    if any_unfit and not safe:
        raise Undefined(f"overflow: a value does not fit {target}")
    if any_unfit:
        value = pc.if_else(unfit, pa.scalar(None, value.type), value)
    return columnar(lambda numbers: numbers.astype(result.to_pandas_dtype()), (value,), result)


# ── value by value ────────────────────────────────────────────────────────────────────────


def _reading(source: DataType, target: DataType) -> Reading | None:
    """What makes one value of the target type out of one of the source type."""
    if target.name == "string":
        return _WRITTEN.get(source.name)
    if source.name == "string":
        return _from_text(target)
    if target.name == "decimal":
        return _to_decimal(source, target)
    if source.name == "decimal" and target.is_integral:
        return lambda value: _ranged(int(value), target)
    if source.name == "decimal" and target.name in ("float", "double"):
        return float
    if source.name == "date" and target.name in _INSTANTS:
        zoned = target.name == "timestamp"
        return lambda day: _instant_at(_ranged(day * calendar_fields.DAY, target), zoned)
    if target.name == "timestamp":
        return _to_instant(source)
    if target.name == "interval day to second" and (source.is_integral or source.name == "decimal"):
        return lambda value: _ranged(_half_up(Decimal(value) * calendar_fields.SECOND), target)
    if source.name == "interval day to second" and target.is_integral:
        return lambda micros: _ranged(_truncated(micros), target)
    return None


def _truncated(micros: int) -> int:
    whole = abs(micros) // calendar_fields.SECOND
    return whole if micros >= 0 else -whole


def _instant_at(local: int, zoned: bool) -> int:
    return int(instants_of(np.array([local]))[0]) if zoned else local


def _half_up(value: Decimal) -> int:
    return int(value.to_integral_value("ROUND_HALF_UP"))


_WRITTEN: dict[str, Reading] = {
    "float": lambda value: shortest(value, single=True),
    "double": shortest,
    "decimal": lambda value: f"{value:f}",
    "date": calendar_fields.date_text,
    "timestamp": lambda t: calendar_fields.timestamp_text(int(wall_clock(np.array([t]))[0])),
    "timestamp_ntz": calendar_fields.timestamp_text,
    "interval day to second": calendar_fields.interval_text,
}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32}
MOST_DIGITS = 100
"""Of whole numbers that are looked at; Python refuses to read several thousand."""


def _ranged(value: int, target: DataType) -> int:
    limit = 2 ** (_BITS.get(target.name, 64) - 1)
    if not -limit <= value < limit:
        raise Undefined(f"overflow: {value} does not fit {target}")
    return value


def _from_text(target: DataType) -> Reading:
    if target.is_integral:
        return lambda text: _read_integer(text, target)
    return {
        "boolean": _read_boolean,
        "float": _read_number,
        "double": _read_number,
        "decimal": lambda text: _read_decimal(text, target),
        "date": calendar_fields.read_date,
        "timestamp": lambda text: calendar_fields.read_instant(text, local=instants_of),
        "timestamp_ntz": lambda text: calendar_fields.read_instant(text, zoned=False),
        "interval day to second": calendar_fields.read_interval,
    }[target.name]


def _read_boolean(text: str) -> bool:
    word = calendar_fields.trimmed(text).lower()
    if word not in (*_TRUE, *_FALSE):
        raise Undefined(f"{text!r} is neither true nor false")
    return word in _TRUE


def _read_integer(text: str, target: DataType) -> int:
    digits = calendar_fields.trimmed(text)
    bare = digits[1:] if digits[:1] in ("+", "-") else digits
    if not (bare.isascii() and bare.isdigit()):
        raise Undefined(f"{text!r} is not a whole number")
    significant = bare.lstrip("0") or "0"
    if len(significant) > MOST_DIGITS:
        raise Undefined(f"overflow: a number of {len(significant):,} digits does not fit {target}")
    return _ranged(-int(significant) if digits[0] == "-" else int(significant), target)


def _read_number(text: str) -> float:
    value = read_float(text)
    if value is None:
        raise Undefined(f"{text!r} is not a number")
    return value


def _read_decimal(text: str, target: DataType) -> Decimal:
    word = text.strip("".join(map(chr, range(33))))
    try:
        value = Decimal(word)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or "_" in word or word != word.strip():
        raise Undefined(f"{text!r} is not a number")
    return fitted(value, target)


def _to_decimal(source: DataType, target: DataType) -> Reading | None:
    if source.name in ("float", "double"):
        return lambda value: _finite_decimal(value, target)
    if source.name in ("timestamp", "interval day to second"):
        return lambda micros: fitted(Decimal(micros) / calendar_fields.SECOND, target)
    if source.is_numeric or source.name == "boolean":
        return lambda value: fitted(Decimal(value), target)
    return None


def _finite_decimal(value: float, target: DataType) -> Decimal | None:
    # Spark gives NULL for NaN and the infinities, even in ANSI mode.
    return fitted(exact(value), target) if abs(value) < float("inf") else None


def _to_instant(source: DataType) -> Reading | None:
    if source.is_integral:
        return lambda seconds: min(max(seconds * calendar_fields.SECOND, -(2**63)), 2**63 - 1)
    if source.name in ("float", "double"):
        return _instant_of_float
    if source.name == "decimal":
        return _instant_of_decimal
    return None


def _instant_of_float(seconds: float) -> int:
    micros = seconds * 1e6
    if not -(2.0**63) <= micros < 2.0**63:
        raise Undefined(f"overflow: {seconds} seconds lie outside the range of instants")
    return int(micros)


def _instant_of_decimal(seconds: Decimal) -> int:
    # Spark keeps the low 64 bits here.
    return (int(EXACT.scaleb(seconds, 6)) + 2**63) % 2**64 - 2**63
