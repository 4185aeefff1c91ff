"""Aggregates whose values change with the age of rows: names, and what their parameters say."""

from __future__ import annotations

from math import ceil

from mayfly.plan.logical_operators import AggregateCall, GroupAggregate
from mayfly.plan.window_kinds import Cumulative, Range

SUM, COUNT, AVERAGE = "decayed_sum", "decayed_count", "decayed_avg"
DECAYED = (SUM, COUNT, AVERAGE)
LIVES = 1000
"""After so many half-lives nothing is left of a row: 2^-1000 of it is no number that counts."""
_SIZES = 32
"""Sizes of buckets that a histogram of four thousand million units has."""


def is_decayed(call: AggregateCall) -> bool:
    return call.function in DECAYED


def half_life_of(call: AggregateCall) -> int:
    """In µs."""
    return int(str(call.parameters[0]))


def error_of(call: AggregateCall) -> float:
    """How far APPROX_COUNT and APPROX_SUM may be off, as a share of the exact value."""
    return float(str(call.parameters[0]))


def decays(node: GroupAggregate) -> bool:
    return any(map(is_decayed, node.aggregates))


def has_histograms(node: GroupAggregate, window: Range) -> bool:
    """Whether a grouping is answered by exponential histograms: all of it may be, and buckets are
    fewer than panes."""
    assert window.slide is not None
    if not node.aggregates or not all(map(is_bounded, node.aggregates)):
        return False
    if isinstance(window, Cumulative):
        return False
    panes = 2 * window.duration // (window.slide.period or 1)
    return any(panes > buckets_of(call) for call in node.aggregates)


def is_bounded(call: AggregateCall) -> bool:
    """Whether it is APPROX_COUNT or APPROX_SUM."""
    return call.approximate and not call.distinct and call.function in ("count", "sum")


def buckets_of(call: AggregateCall) -> int:
    """The most that a histogram has, of each size ⌈1 / 2ε⌉ + 2."""
    return _SIZES * (ceil(1 / (2 * error_of(call))) + 2)
