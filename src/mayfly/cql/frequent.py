"""FREQUENT needs a first-in first-out window cut into sub-windows (thesis ch. 6)."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from mayfly.cql.context import Context
from mayfly.plan.logical import AggregateCall, GroupAggregate, Node, Project, Select, StreamScan
from mayfly.plan.windows import Range

_ADVICE = "use it over one stream with [RANGE d SLIDE s], where d is a multiple of s"


def with_sub_windows(
    context: Context, node: GroupAggregate, call: AggregateCall, place: exp.Expr
) -> AggregateCall:
    """A FREQUENT call with its number of sub-windows; other calls as they are."""
    if call.function != "frequent":
        return call
    if node.keys:
        raise context.error(place, "FREQUENT looks at the whole window", "leave GROUP BY out")
    scan: Node = node.child
    while isinstance(scan, Select | Project):
        scan = scan.child
    if not isinstance(scan, StreamScan) or not isinstance(scan.window, Range):
        raise context.error(
            place, "FREQUENT needs tuples that leave in the order they came", _ADVICE
        )
    duration, slide = scan.window.duration, scan.window.slide
    if slide is None or slide.period is None:
        raise context.error(place, "FREQUENT counts per sub-window, so it needs a slide", _ADVICE)
    if duration % slide.period:
        raise context.error(place, "FREQUENT needs a range that its slide divides", _ADVICE)
    size, *share = call.parameters
    return replace(call, parameters=(size, duration // slide.period, *share))
