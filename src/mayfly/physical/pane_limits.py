"""Whether a grouping can be answered from panes in the place of rows, or what stands in the way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mayfly.optimizer.rules.keep_panes import ROW_PANES
from mayfly.plan.aggregate_families import COUNTED, SPREADS
from mayfly.plan.logical_operators import (
    AggregateCall,
    GroupAggregate,
)
from mayfly.plan.plan_text import aggregate_text
from mayfly.plan.window_kinds import Range, RowsWindow, Slide

MOST_PANES = 10_000
"""More of them in one window are no longer fewer than rows."""
WIDEST, _SPARE = 38, 10
"""Digits of a decimal, and how many of these are left for the number of rows in a pane."""


def obstacle(node: GroupAggregate, window: Range, *, exact_sums: bool = False) -> str:
    """Why the grouping cannot be answered from panes, nothing if it can; with ``exact_sums`` what
    is rounded in a pane cannot."""
    if window.internal:
        return "what was an answer stays one (INTERNAL)"
    assert window.slide is not None
    count = 2 * window.duration // (window.slide.period or 1)
    if count > MOST_PANES:
        return f"{count:,} panes are no fewer than rows"
    return next((why for call in node.aggregates if (why := _unfit(call, exact_sums))), "")


def row_obstacle(
    node: GroupAggregate, window: RowsWindow, rules: Collection[str], *, exact_sums: bool = False
) -> str:
    """Why a grouping over the latest rows cannot be answered from panes of rows by some rules,
    nothing if it can."""
    if ROW_PANES.name not in rules:
        return "the rule is switched off"
    assert window.slide is not None
    if window.slide.rows == 1:
        return "a pane of one row is no fewer than rows"
    over = Range(duration=window.count, slide=Slide(period=window.slide.rows))
    return obstacle(node, replace(over, internal=window.internal), exact_sums=exact_sums)


def _unfit(call: AggregateCall, exact_sums: bool) -> str:
    function, kind = call.function, None if call.argument is None else call.argument.type
    words = aggregate_text((), [call], None)
    if function in ("count", "frequency", "min", "max", "collect_set", *COUNTED):
        nested = kind is not None and kind.is_nested
        return f"{words} counts combinations of values" if nested else ""
    if call.distinct:
        return f"{words} needs every value"
    if function in ("sum", "avg") and kind is not None:
        if kind.is_integral:
            return ""
        if kind.name == "decimal":
            return "" if kind.params[0] <= WIDEST - _SPARE else f"{words} may not fit a pane"
    if function in ("sum", "avg", *SPREADS):
        return f"{words} is to be exact (FLOAT SUMS EXACT)" if exact_sums else ""
    return f"{words} needs every value"
