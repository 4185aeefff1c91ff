"""Constants: numbers, strings, dates and instants, with the types Spark SQL gives them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal, InvalidOperation

from mayfly.errors import InvalidSetting
from mayfly.lifetime import instant
from mayfly.plan.expressions import Expression, Literal, Value
from mayfly.plan.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    MAX_PRECISION,
    STRING,
    DataType,
    decimal,
)
from mayfly.plan.zone_instants import instant_in_zone

MOST_DIGITS = 1_000
"""Of whole numbers in a text: beyond, reading them takes quadratic time (and Python refuses)."""
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def number(text: str) -> Literal | None:
    """A number as Spark types it: INT, BIGINT, DECIMAL, or DOUBLE with an exponent."""
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)
    value = Decimal(text)
    if "." not in text and len(text) <= MOST_DIGITS:
        whole = int(text)
        if _fits(whole, INT) or _fits(whole, BIGINT):
            return Literal(whole, INT if _fits(whole, INT) else BIGINT)
    kind = _decimal_type(value)
    return Literal(value, kind) if kind else None


def negated(literal: Literal) -> Literal | None:
    """The constant with the other sign, so that -1 is one constant; None where it is no number."""
    if not literal.type.is_numeric or literal.value is None:
        return None
    value = -Decimal(str(literal.value)) if literal.type.name == "decimal" else -literal.value  # type: ignore[operator]
    return Literal(value, literal.type)


def _fits(value: int, kind: DataType) -> bool:
    limit = 2 ** (_BITS[kind.name] - 1)
    return bool(-limit <= value < limit)


def _decimal_type(value: Decimal) -> DataType | None:
    digits, exponent = value.as_tuple().digits, int(value.as_tuple().exponent)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    return decimal(precision, scale) if precision <= MAX_PRECISION else None


def exact_decimal_type(literal: Literal) -> DataType:
    """The narrowest decimal type that holds an integral constant, as Spark narrows it."""
    return decimal(max(1, len(str(abs(int(str(literal.value)))))), 0)


def folded_cast(literal: Literal, kind: DataType) -> Expression | None:
    """The constant in another type where that is plain to see; None leaves it to Spark.

    Raises InvalidSetting for text that is no date or instant, or a number that does not fit.
    """
    if literal.value is None:
        return Literal(None, kind)
    if literal.type == STRING:
        value = _from_text(str(literal.value), kind)
        return Literal(value, kind) if value is not None else None
    if literal.type.is_numeric and kind.is_numeric:
        return _numeric_cast(literal, kind)
    return None


def _from_text(text: str, kind: DataType) -> Value:
    if kind.name == "date":
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise InvalidSetting(f"{text!r} is not a date", "write '2026-01-31'") from None
    if kind.name in ("timestamp", "timestamp_ntz"):
        return instant_in_zone(text) if kind.name == "timestamp" else instant(text)
    if kind.name == "decimal":
        return _exact_decimal(text, kind)
    if kind == BOOLEAN and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text if kind == STRING else None


def _exact_decimal(text: str, kind: DataType) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise InvalidSetting(f"{text!r} is not a number", "write '12.50'") from None
    own = _decimal_type(value) if value.is_finite() else None
    room = kind.params[0] - kind.params[1]
    fits = own and own.params[1] <= kind.params[1] and own.params[0] - own.params[1] <= room
    return value if fits else None


def _numeric_cast(literal: Literal, kind: DataType) -> Expression | None:
    if kind.is_integral and literal.type.is_integral:
        whole = int(str(literal.value))
        if not _fits(whole, kind):
            raise InvalidSetting(f"{whole} does not fit {kind}", "use a wider type")
        return Literal(whole, kind)
    if kind == DOUBLE and literal.type.name != "float":
        return Literal(float(str(literal.value)), DOUBLE)
    if kind.name == "decimal" and literal.type.name not in ("float", "double"):
        value = _exact_decimal(str(literal.value), kind)
        return Literal(value, kind) if value is not None else None
    return None
