"""Aggregates the slow and obvious way: rows in lists, grouped by a dictionary."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from math import ceil, isinf, isnan, sqrt
from typing import Any

from mayfly.synopses.contents import Aggregate
from tests.contract.window_model import order, same

Row = tuple[Any, Any]
"""A key and an argument."""


def expected(rows: list[Row], call: Aggregate, keyed: bool) -> dict[Any, Any]:
    """The answer of each group; without keys always one."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    if not keyed:
        groups[None] = []
    for key, value in rows:
        groups[same(key) if keyed else None].append(value)
    return {key: answer(values, call) for key, values in groups.items()}


def answer(values: list[Any], call: Aggregate) -> Any:
    present = sorted((value for value in values if value is not None), key=order)
    if call.function == "COUNT":
        return len(values) if call.argument is None else len(present)
    return FUNCTIONS[call.function](present, call.parameter)


def exact_sum(values: list[Any]) -> Any:
    if not values or not isinstance(values[0], float):
        return sum(values) if values else None
    finite = [value for value in values if not (isnan(value) or isinf(value))]
    odd = sum(value for value in values if value not in finite)
    if len(finite) < len(values):
        return odd
    total = sum(map(Fraction, finite), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")


def mean(values: list[Any], _: Any = None) -> Any:
    total = exact_sum(values)
    return None if total is None else float(total) / len(values)


def variance(values: list[Any]) -> Any:
    if len(values) < 2:
        return None
    exact = [Fraction(value) for value in values]
    middle = sum(exact, Fraction(0)) / len(exact)
    return float(sum((value - middle) ** 2 for value in exact) / (len(exact) - 1))


def top(values: list[Any], k: Any) -> list[dict[str, Any]]:
    counts = Counter(map(same, values))
    values_of = {same(value): value for value in values}
    ordered = sorted(counts, key=lambda key: (-counts[key], order(values_of[key])))
    return [{"value": key, "count": counts[key]} for key in ordered[:k]]


def quantile(values: list[Any], share: Any) -> Any:
    return values[max(1, ceil(share * len(values) - 1e-9)) - 1] if values else None


def median(values: list[Any], _: Any) -> Any:
    if not values:
        return None
    low, high = (float(values[place]) for place in ((len(values) - 1) // 2, len(values) // 2))
    return low if low == high else low * 0.5 + high * 0.5


FUNCTIONS: dict[str, Callable[[list[Any], Any], Any]] = {
    "SUM": lambda values, _: exact_sum(values),
    "AVG": mean,
    "MIN": lambda values, _: values[0] if values else None,
    "MAX": lambda values, _: values[-1] if values else None,
    "VAR": lambda values, _: variance(values),
    "STDDEV": lambda values, _: None if len(values) < 2 else sqrt(variance(values)),
    "COUNT DISTINCT": lambda values, _: len(set(map(same, values))),
    "MEDIAN": median,
    "QUANTILE": quantile,
    "TOP": top,
}
