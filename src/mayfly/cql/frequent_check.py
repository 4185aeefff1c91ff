"""FREQUENT needs a first-in first-out window cut into sub-windows (thesis ch. 6)."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.plan.frequent_call import Frequency, sub_windows
from mayfly.plan.logical_operators import (
    AggregateCall,
    GroupAggregate,
    Node,
    Project,
    Select,
    StreamScan,
)
from mayfly.plan.window_kinds import Range, RowsWindow

_ADVICE = "use it over one stream with [RANGE d SLIDE s] or [ROWS n SLIDE m ROWS]"


def with_sub_windows(
    context: BindingContext, node: GroupAggregate, call: AggregateCall, place: exp.Expr
) -> AggregateCall:
    """A FREQUENT call with its number of sub-windows; other calls as they are."""
    if not Frequency.is_asked(call):
        return call
    scan: Node = node.child
    while isinstance(scan, Select | Project):
        scan = scan.child
    if not isinstance(scan, StreamScan) or not isinstance(scan.window, Range | RowsWindow):
        raise context.error(
            place, "FREQUENT needs tuples that leave in the order they came", _ADVICE
        )
    length, slide = _measures(scan.window)
    if slide is None:
        raise context.error(place, "FREQUENT counts per sub-window, so it needs a slide", _ADVICE)
    k, *rest = call.parameters
    return replace(call, parameters=(k, sub_windows(length, slide), *rest))


def _measures(window: Range | RowsWindow) -> tuple[int, int | None]:
    """The length of a window and its slide in the same unit, if it has such a one."""
    slide = window.slide
    if isinstance(window, RowsWindow):
        return window.count, slide.rows if slide else None
    return window.duration, slide.period if slide else None
