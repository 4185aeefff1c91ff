"""What a window says of the lives of its rows before the first of them comes."""

from __future__ import annotations

from mayfly.plan.logical_operators import Node, StreamScan, SubqueryWindow
from mayfly.plan.strategy import Strategy
from mayfly.plan.window_kinds import PartitionRows, Window


def window_lives(window: Window, strategy: Strategy) -> tuple[bool, int | None]:
    """Whether the window sends negative tuples, and how long rows are in it at most, if known."""
    expires = window.lifetime is not None or window.counts_rows
    is_cut = window.counts_rows or (strategy is Strategy.NT and expires)
    return is_cut, None if strategy is Strategy.NT else _longest(window)


def _longest(window: Window) -> int | None:
    longest = window.duration if isinstance(window, PartitionRows) else window.lifetime
    by_rows = window.slide is not None and window.slide.rows is not None
    if longest is None or by_rows:
        return None
    period = window.slide.period if window.slide and window.slide.period else 0
    return longest + period


def has_internal(plan: Node) -> bool:
    """Whether some window of a plan is INTERNAL."""
    return any(
        isinstance(node, StreamScan | SubqueryWindow) and node.window.internal
        for node in plan.walk()
    )
