"""Evaluating the listed expressions over Arrow columns, with Spark's meaning (ANSI).

The set is what ``plan.expressions.is_kernel_expression`` admits; each member is tested against
Spark. Differences from Arrow that matter: NaN equals itself and is larger than any number, and
integer overflow is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import BadInput, InvalidSetting
from mayfly.plan import expressions as ex
from mayfly.plan.types import arrow_type

Resolve: TypeAlias = Callable[[ex.Column], pa.Array]
Operand: TypeAlias = pa.Array | pa.Scalar


def holds(condition: ex.Expression, resolve: Resolve, rows: int) -> pa.Array:
    """Where the condition is TRUE (neither FALSE nor NULL), one boolean per row."""
    value = evaluate(condition, resolve)
    if isinstance(value, pa.Scalar):
        return pa.array([bool(value.as_py())] * rows, pa.bool_())
    return pc.fill_null(value, False)


def evaluate(expression: ex.Expression, resolve: Resolve) -> Operand:
    """The value of an expression for every row; a scalar where it reads no column."""
    try:
        return _evaluate(expression, resolve)
    except pa.ArrowInvalid as error:
        raise BadInput(
            f"cannot evaluate {expression.sql()}: {error}",
            "guard the expression, or cast its operands to a wider type",
        ) from error


def _evaluate(node: ex.Expression, resolve: Resolve) -> Operand:
    match node:
        case ex.Column():
            return resolve(node)
        case ex.Literal(value=value, data_type=kind):
            return pa.scalar(value, arrow_type(kind))
        case ex.Compare(op=op, left=left, right=right):
            return _compare(op, _evaluate(left, resolve), _evaluate(right, resolve))
        case ex.Arithmetic(op=op, left=left, right=right):
            return _ARITHMETIC[op](_evaluate(left, resolve), _evaluate(right, resolve))
        case ex.And(terms=terms):
            return reduce(pc.and_kleene, (_evaluate(term, resolve) for term in terms))
        case ex.Or(terms=terms):
            return reduce(pc.or_kleene, (_evaluate(term, resolve) for term in terms))
        case ex.Not(child=child):
            return pc.invert(_evaluate(child, resolve))
        case ex.IsNull(child=child):
            return pc.is_null(_evaluate(child, resolve))
        case ex.InList(child=child, choices=choices):
            value = _evaluate(child, resolve)
            tests = (_compare("=", value, _evaluate(one, resolve)) for one in choices)
            return reduce(pc.or_kleene, tests)
        case ex.Function(name=name, arguments=arguments) if name in _FUNCTIONS:
            return _FUNCTIONS[name]([_evaluate(one, resolve) for one in arguments])
        case ex.Cast(child=child, data_type=kind, safe=False):
            return pc.cast(_evaluate(child, resolve), arrow_type(kind))
    raise InvalidSetting(
        f"{node.sql()} cannot be evaluated inside a join",
        "compute it on one stream before the join, or filter the join's results",
    )


_ARITHMETIC: dict[str, Callable[[Operand, Operand], Operand]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


def _floating(value: Operand) -> bool:
    return bool(pa.types.is_floating(value.type))


def _compare(op: str, left: Operand, right: Operand) -> Operand:
    if op == "<=>":
        both = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both, pc.fill_null(_compare("=", left, right), False))
    if op in ("<>", ">=", "<="):
        return pc.invert(_compare({"<>": "=", ">=": "<", "<=": ">"}[op], left, right))
    if op == ">":
        return _compare("<", right, left)
    if op == "=":
        same = pc.equal(left, right)
        return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right))) if _floating(left) else same
    less = pc.less(left, right)
    if _floating(left):
        return pc.or_(less, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    return less


def _extreme(better: str) -> Callable[[list[Operand]], Operand]:
    def pick(left: Operand, right: Operand) -> Operand:
        # Of equal ones the first is taken (0.0 or -0.0), and NULLs are passed over, as in Spark.
        replace = pc.fill_null(_compare(better, right, left), False)
        return pc.if_else(pc.or_(replace, pc.is_null(left)), right, left)

    return lambda values: reduce(pick, values)


_FUNCTIONS: dict[str, Callable[[list[Operand]], Operand]] = {
    "abs": lambda values: pc.abs_checked(values[0]),
    "negative": lambda values: pc.negate_checked(values[0]),
    "coalesce": lambda values: pc.coalesce(*values),
    "least": _extreme("<"),
    "greatest": _extreme(">"),
}
