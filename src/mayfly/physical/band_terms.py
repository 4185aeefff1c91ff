"""Finds the band in the condition of a join without equal keys.

Before: a.x BETWEEN b.y − 5 AND b.y + 5, or abs(a.ts − b.ts) <= INTERVAL 5 MIN.
After: −5 <= a.x − b.y <= 5, by which both sides are kept in order; the condition stays beside it.
"""

from __future__ import annotations

import math
from decimal import Decimal

from mayfly.kernels.band_condition import Band, BandCondition
from mayfly.kernels.window_join import Condition
from mayfly.physical.join_conditions import covers
from mayfly.plan.expressions import (
    Arithmetic,
    Cast,
    Compare,
    Expression,
    Function,
    Literal,
    conjuncts,
)
from mayfly.plan.logical_operators import Schema

Bound = tuple[Expression, Expression, float, float]
"""Left and right value, and between what their difference lies."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def banded(condition: Condition, left: Schema, right: Schema) -> Condition:
    """The condition with a band where it has one and no equality."""
    if condition.types:
        return condition
    limits: dict[tuple[Expression, Expression], tuple[float, float]] = {}
    for term in conjuncts(condition.residual):
        bound = _bound(term, left, right)
        if bound is not None:
            low, high = limits.get(bound[:2], (-math.inf, math.inf))
            limits[bound[:2]] = max(low, bound[2]), min(high, bound[3])
    for (mine, other), (low, high) in limits.items():
        if math.isfinite(low) and math.isfinite(high):
            parts = condition.keys, condition.types, condition.exact, condition.residual
            return BandCondition(*parts, Band(mine, other, low, high))
    return condition


def _bound(term: Expression, left: Schema, right: Schema) -> Bound | None:
    if not isinstance(term, Compare) or term.op not in _TURNED:
        return None
    if (near := _distance(term, left, right)) is not None:
        return near
    for first, second, op in ((term.left, term.right, term.op),
                              (term.right, term.left, _TURNED[term.op])):  # fmt: skip
        if not (first.columns() and second.columns()):
            continue
        if covers(left, first) and covers(right, second):
            (mine, moved), (other, shift) = _apart(first), _apart(second)
            if not _is_measured(mine) or not _is_measured(other):
                return None
            # first op second: mine + moved op other + shift.
            limit = shift - moved
            above = op in (">", ">=")
            return mine, other, limit if above else -math.inf, math.inf if above else limit
    return None


def _distance(term: Compare, left: Schema, right: Schema) -> Bound | None:
    """``abs(x − y) <= c``."""
    inside, limit = _plain(term.left), _number(term.right)
    if limit is None or term.op not in ("<", "<=") or not isinstance(inside, Function):
        return None
    difference = _plain(inside.arguments[0]) if inside.name == "abs" else None
    if not isinstance(difference, Arithmetic) or difference.op != "-":
        return None
    mine, other = _plain(difference.left), _plain(difference.right)
    sides = [(mine, other), (other, mine)]
    for first, second in sides:
        if first.columns() and second.columns() and covers(left, first) and covers(right, second):
            measured = _is_measured(first) and _is_measured(second)
            return (first, second, -limit, limit) if measured else None
    return None


def _apart(expression: Expression) -> tuple[Expression, float]:
    """A value and the constant that is added to it."""
    expression = _plain(expression)
    if isinstance(expression, Arithmetic) and expression.op in ("+", "-"):
        amount = _number(expression.right)
        if amount is not None:
            base, moved = _apart(expression.left)
            return base, moved + (amount if expression.op == "+" else -amount)
        amount = _number(expression.left)
        if amount is not None and expression.op == "+":
            base, moved = _apart(expression.right)
            return base, moved + amount
    return expression, 0.0


def _plain(expression: Expression) -> Expression:
    """Without casts that keep the order of numbers."""
    while isinstance(expression, Cast) and _keeps_order(expression):
        expression = expression.child
    return expression


def _keeps_order(cast: Cast) -> bool:
    kinds = cast.child.type, cast.type
    if all(kind.is_integral for kind in kinds):
        return True
    return kinds[0].is_numeric and kinds[1].name in ("double", "decimal")


def _number(expression: Expression) -> float | None:
    expression = _plain(expression)
    if not isinstance(expression, Literal) or not isinstance(
        expression.value, int | float | Decimal
    ):
        return None
    measured = expression.type.is_numeric or expression.type.is_interval
    return float(expression.value) if measured else None


def _is_measured(expression: Expression) -> bool:
    """Whether differences of its values are numbers, or microseconds."""
    return expression.type.is_numeric or expression.type.name.startswith("timestamp")
