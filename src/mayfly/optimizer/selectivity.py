"""The share of tuples a predicate keeps, where nothing but distinct counts is known."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

from mayfly.plan.expressions import (
    And,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
)

Values: TypeAlias = Callable[[Expression], float | None]

EQUAL_SHARE = 1 / 10
RANGE_SHARE = 1 / 3
PATTERN_SHARE = 1 / 10
OTHER_SHARE = 1 / 2


def selectivity(predicate: Expression | None, values: Values) -> float:
    """Between 0 and 1; ``values`` gives how many values an expression takes, if it is known."""
    if predicate is None:
        return 1.0
    match predicate:
        case And(terms=terms):
            return prod(selectivity(term, values) for term in terms)
        case Or(terms=terms):
            return 1.0 - prod(1.0 - selectivity(term, values) for term in terms)
        case Not(child=child):
            return 1.0 - selectivity(child, values)
        case Literal(value=value):
            return 1.0 if value is True else 0.0
        case Compare(op=op, left=left, right=right):
            counts = [count for side in (left, right) if (count := values(side)) is not None]
            equal = 1.0 / max(counts) if len(counts) == 2 else EQUAL_SHARE
            if op in ("=", "<=>"):
                return equal
            return 1.0 - equal if op == "<>" else RANGE_SHARE
        case InList(child=child, choices=choices):
            return min(1.0, len(choices) / (values(child) or 1 / EQUAL_SHARE))
        case IsNull() | Like():
            return PATTERN_SHARE
    return OTHER_SHARE
