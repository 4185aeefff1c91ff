"""Result types of arithmetic, as Spark SQL's ANSI mode gives them."""

from __future__ import annotations

from mayfly.cql.literals import exact_decimal_type
from mayfly.plan.expressions import Arithmetic, Expression, Literal, as_type
from mayfly.plan.types import (
    BIGINT,
    DATE,
    DAY_TIME_INTERVAL,
    DOUBLE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    DataType,
    as_decimal,
    bounded_decimal,
    common_type,
)

_INSTANTS = (TIMESTAMP, TIMESTAMP_NTZ)


def arithmetic(op: str, left: Expression, right: Expression) -> Expression | None:
    """``left op right`` with both sides converted as needed; None if the types do not go."""
    left, right = _typed_nulls(left, right)
    if left.type.is_numeric and right.type.is_numeric:
        return _numeric(op, left, right)
    kind = _temporal(op, left.type, right.type)
    return Arithmetic(op, left, right, kind) if kind else None


def _typed_nulls(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    if left.type == VOID:
        return as_type(left, right.type), right
    return left, as_type(right, left.type) if right.type == VOID else right


def _temporal(op: str, left: DataType, right: DataType) -> DataType | None:
    if op == "-" and left == right and left in (*_INSTANTS, DATE):
        return DAY_TIME_INTERVAL
    if op in "+-" and right == DAY_TIME_INTERVAL and left in (*_INSTANTS, DAY_TIME_INTERVAL):
        return left
    if op == "+" and left == DAY_TIME_INTERVAL and right in _INSTANTS:
        return right
    return None


def _numeric(op: str, left: Expression, right: Expression) -> Expression:
    names = {left.type.name, right.type.name}
    if "decimal" in names and not names & {"float", "double"} and op != "div":
        left, right = _as_decimal(left), _as_decimal(right)
        kind = _decimal_result(op, left.type, right.type)
        return Arithmetic(op, left, right, kind)
    if op == "/":
        return Arithmetic(op, as_type(left, DOUBLE), as_type(right, DOUBLE), DOUBLE)
    common = common_type(left.type, right.type) or DOUBLE
    kind = BIGINT if op == "div" else common
    return Arithmetic(op, as_type(left, common), as_type(right, common), kind)


def _as_decimal(side: Expression) -> Expression:
    if isinstance(side, Literal) and side.type.is_integral and side.value is not None:
        return as_type(side, exact_decimal_type(side))
    return as_type(side, as_decimal(side.type))


def _decimal_result(op: str, left: DataType, right: DataType) -> DataType:
    (p1, s1), (p2, s2) = left.params, right.params
    whole = max(p1 - s1, p2 - s2)
    if op == "*":
        return bounded_decimal(p1 + p2 + 1, s1 + s2)
    if op == "/":
        scale = max(6, s1 + p2 + 1)
        return bounded_decimal(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if op == "%":
        return bounded_decimal(min(p1 - s1, p2 - s2) + scale, scale)
    return bounded_decimal(whole + scale + 1, scale)
