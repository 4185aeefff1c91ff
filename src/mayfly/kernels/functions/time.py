"""Functions of dates and instants, in the time zone in use (``plan.zones``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

from mayfly.kernels.functions.calendar_fields import DAY, SECOND, dates, months, read_instant, years
from mayfly.kernels.functions.casts import shown
from mayfly.kernels.functions.date_parser import NotReadable, read_by_pattern
from mayfly.kernels.functions.date_patterns import formatted
from mayfly.kernels.functions.numbers import EXACT, as_double
from mayfly.kernels.functions.operands import Numbers, Operand, Undefined, columnar, each
from mayfly.lifetime import zone
from mayfly.plan.time_zones import instants_of, moved, wall_clock
from mayfly.plan.types import DataType, arrow_type
from mayfly.plan.zone_instants import PLAIN

Compute = Callable[[Sequence[Operand], DataType], Operand]


def _day(value: Operand) -> Operand:
    """Dates as they are, instants as the day they lie in."""
    if pa.types.is_date32(value.type):
        return value
    return columnar(lambda micros: micros // DAY, (shown(value),), pa.date32())


def _of_days(function: Callable[..., Numbers], dated: int = 1) -> Compute:
    """A function whose first so many arguments are days."""

    def compute(values: Sequence[Operand], kind: DataType) -> Operand:
        operands = [*map(_day, values[:dated]), *values[dated:]]
        return columnar(function, operands, arrow_type(kind))

    return compute


def _of_instant(function: Callable[[Numbers], Numbers]) -> Compute:
    return lambda values, kind: columnar(function, values, arrow_type(kind))


def _of_wall_clock(function: Callable[[Numbers], Numbers]) -> Compute:
    return lambda values, kind: columnar(function, [shown(values[0])], arrow_type(kind))


def _day_of_month(days: Numbers) -> Numbers:
    since = dates(days) - dates(days).astype("datetime64[M]")
    return np.asarray(since.astype(np.int64) + 1)


def _day_of_year(days: Numbers) -> Numbers:
    since = dates(days) - dates(days).astype("datetime64[Y]")
    return np.asarray(since.astype(np.int64) + 1)


def _wrapped(days: Numbers) -> Numbers:
    """Spark adds days in 32 bits and lets them wrap around."""
    return days.astype(np.int64).astype(np.int32)


def _scaled(micros_per_unit: int) -> Callable[[Numbers], Numbers]:
    def compute(numbers: Numbers) -> Numbers:
        wide = numbers.astype(np.int64)
        limit = (2**63 - 1) // micros_per_unit
        if ((wide > limit) | (wide < -limit)).any():
            raise Undefined("overflow: the number lies outside the range of instants")
        return wide * micros_per_unit

    return compute


def _timestamp_seconds(values: Sequence[Operand], kind: DataType) -> Operand:
    source, result = values[0].type, arrow_type(kind)
    if pa.types.is_integer(source):
        return columnar(_scaled(SECOND), values, result)
    if pa.types.is_floating(source):
        return each(_micros_of_float, (as_double(values[0]),), result)
    return each(_micros_of_decimal, values, result)


def _micros_of_float(seconds: float) -> int | None:
    if not abs(seconds) < float("inf"):
        return None
    micros = seconds * 1e6
    if abs(micros) >= 2.0**63:
        # Clipped at the ends, as Java converts.
        return 2**63 - 1 if micros > 0 else -(2**63)
    return int(micros)


def _micros_of_decimal(seconds: Decimal) -> int:
    micros = EXACT.scaleb(seconds, 6)
    if micros != int(micros) or not -(2**63) <= micros < 2**63:
        raise Undefined(f"{seconds} seconds are not a whole number of microseconds in range")
    return int(micros)


def _to_timestamp(values: Sequence[Operand], kind: DataType) -> Operand:
    return each(_instant_in, values, arrow_type(kind))


def _try_to_timestamp(values: Sequence[Operand], kind: DataType) -> Operand:
    def attempt(*arguments: str) -> int | None:
        try:
            return _instant_in(*arguments)
        except NotReadable:
            return None

    return each(attempt, values, arrow_type(kind))


def _instant_in(text: str, pattern: str | None = None) -> int:
    if pattern is None:
        try:
            return read_instant(text, local=instants_of)
        except Undefined as error:
            raise NotReadable(str(error)) from None
    return int(instants_of(np.array([read_by_pattern(text, pattern)]))[0])


_MONTHS_OF = {
    **dict.fromkeys(("year", "yyyy", "yy"), 12),
    "quarter": 3,
    **dict.fromkeys(("month", "mon", "mm"), 1),
}
_MICROS_OF = {
    **dict.fromkeys(("day", "dd"), DAY),
    "hour": 3600 * SECOND,
    "minute": 60 * SECOND,
    "second": SECOND,
    "millisecond": 1000,
    "microsecond": 1,
}


def _truncated(micros: Numbers, unit: str) -> Numbers:
    if unit in _MICROS_OF:
        return np.asarray(micros - micros % _MICROS_OF[unit])
    days = micros // DAY
    if unit == "week":
        # 1970-01-01 was a Thursday, weeks begin on Monday.
        return np.asarray((days - (days + 3) % 7) * DAY)
    size = _MONTHS_OF[unit]
    month = dates(days).astype("datetime64[M]").astype(np.int64)
    first = (month - month % size).astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray(first.astype(np.int64) * DAY)


def _truncated_in_zone(micros: Numbers, unit: str) -> Numbers:
    """Instants cut to a unit of the wall clock; of two that it shows, that of the same offset."""
    if unit not in _MICROS_OF or zone() in PLAIN:
        return instants_of(_truncated(wall_clock(micros), unit))
    return moved(micros, lambda seen: _truncated(seen, unit))


def _date_trunc(values: Sequence[Operand], kind: DataType) -> Operand:
    unit, value = values
    result = arrow_type(kind)
    if pa.types.is_date32(value.type):
        value = columnar(_scaled(DAY), (value,), pa.timestamp("us"))
    if value.type.tz is None:
        value = columnar(instants_of, (value,), result)

    def truncated(name: str, micros: int) -> int | None:
        name = name.lower()
        if name != "week" and name not in _MONTHS_OF and name not in _MICROS_OF:
            return None
        return int(_truncated_in_zone(np.array([micros]), name)[0])

    if isinstance(unit, pa.Scalar) and truncated(unit.as_py() or "", 0) is not None:
        name = unit.as_py().lower()
        return columnar(lambda micros: _truncated_in_zone(micros, name), (value,), result)
    return each(truncated, (unit, value), result)


TIME_FUNCTIONS: dict[str, Compute] = {
    "year": _of_days(years),
    "quarter": _of_days(lambda days: (months(days) - 1) // 3 + 1),
    "month": _of_days(months),
    "day": _of_days(_day_of_month),
    "dayofweek": _of_days(lambda days: (days.astype(np.int64) + 4) % 7 + 1),
    "dayofyear": _of_days(_day_of_year),
    "hour": _of_wall_clock(lambda micros: micros // (3600 * SECOND) % 24),
    "minute": _of_wall_clock(lambda micros: micros // (60 * SECOND) % 60),
    "second": _of_wall_clock(lambda micros: micros // SECOND % 60),
    "to_date": lambda values, kind: _day(values[0]),
    "date_add": _of_days(lambda day, more: _wrapped(day.astype(np.int64) + more)),
    "date_sub": _of_days(lambda day, less: _wrapped(day.astype(np.int64) - less)),
    "datediff": _of_days(lambda end, start: _wrapped(end.astype(np.int64) - start), dated=2),
    "date_trunc": _date_trunc,
    "date_format": lambda values, kind: each(
        formatted, [shown(values[0]), *values[1:]], pa.string()
    ),
    "unix_micros": _of_instant(lambda micros: micros),
    "unix_millis": _of_instant(lambda micros: micros // 1000),
    "unix_seconds": _of_instant(lambda micros: micros // SECOND),
    "timestamp_micros": _of_instant(lambda number: number.astype(np.int64)),
    "timestamp_millis": _of_instant(_scaled(1000)),
    "timestamp_seconds": _timestamp_seconds,
    "to_timestamp": _to_timestamp,
    "try_to_timestamp": _try_to_timestamp,
}
