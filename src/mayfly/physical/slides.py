"""When the windows of a plan refresh their answers."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from mayfly.plan.derived_stream import Derived
from mayfly.plan.finished_operators import InWindows
from mayfly.plan.logical_operators import (
    GroupAggregate,
    Join,
    Node,
    Output,
    Project,
    RelationScan,
    Select,
    StreamScan,
    SubqueryWindow,
)
from mayfly.plan.strategy import Strategy
from mayfly.plan.window_kinds import PartitionRows, Range, RowsWindow, Slide, Window


def outer_slide(plan: Node) -> Slide | None:
    """The slide of the outermost windows."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if isinstance(node, InWindows):
            continue
        if isinstance(node, StreamScan | SubqueryWindow):
            if node.window.slide is not None and node.window.slide.period:
                return node.window.slide
        elif not isinstance(node, Derived):
            waiting.extend(node.children())
    return None


def without_slides(plan: Node) -> Node:
    """The same query answered at every instant: what restore looks at between refreshes."""

    def at_every_instant(node: Node) -> Node:
        if isinstance(node, StreamScan | SubqueryWindow) and node.window.slide is not None:
            return replace(node, window=replace(node.window, slide=None))
        return node

    return plan.transform(at_every_instant)


def common_slide(node: Node) -> Slide | None:
    """The slide of all windows below, if nothing happens between its refreshes."""
    slides: set[Slide | None] = set()
    for part in node.walk():
        if isinstance(part, RelationScan | InWindows):
            return None
        if isinstance(part, StreamScan | SubqueryWindow):
            slides.add(part.window.slide)
    slide = slides.pop() if len(slides) == 1 else None
    return slide if slide is not None and slide.period else None


def runnable(plan: Output) -> Output:
    """The plan that is compiled: restore looks at every instant between two refreshes."""
    output = without_slides(plan) if plan.restore else plan
    assert isinstance(output, Output)
    return output


def in_panes(plan: Output) -> Output:
    """The plan of a query with SERVE, with windows that move by panes.

    ``s [RANGE 10 min SLIDE 4 min]`` → ``s [RANGE 10 min SLIDE 2 min]``: panes are cut where any
    refresh, early or late, may begin and end.
    """

    def cut(node: Node) -> Node:
        if not isinstance(node, StreamScan) or not isinstance(node.window, Range):
            return node
        window, slide = node.window, node.window.slide
        if slide is None or not slide.period:
            return node
        pane = gcd(window.duration, slide.period)
        slide = replace(slide, period=pane, origin=slide.origin % pane)
        return replace(node, window=replace(window, slide=slide))

    output = plan.transform(cut)
    assert isinstance(output, Output)
    return output


def slid_window(node: GroupAggregate) -> Range | None:
    """The window that moves by refreshes, of a grouping over one stream."""
    window = _window_below(node)
    if not isinstance(window, Range) or window.slide is None or not window.slide.period:
        return None
    return window


def slid_rows(node: GroupAggregate) -> RowsWindow | None:
    """The window over the latest rows that moves by rows, of a grouping over one stream."""
    window = _window_below(node)
    if not isinstance(window, RowsWindow) or window.slide is None or not window.slide.rows:
        return None
    return window


def partitions_slid(node: GroupAggregate) -> bool:
    """Whether it is over the latest rows of each partition, which move by rows of the stream."""
    window = _window_below(node)
    by_rows = window is not None and window.slide is not None and bool(window.slide.rows)
    return by_rows and isinstance(window, PartitionRows)


def _window_below(node: GroupAggregate) -> Window | None:
    below: Node = node.child
    while isinstance(below, Select | Project):
        below = below.child
    return below.window if isinstance(below, StreamScan) else None


def slid_join(node: GroupAggregate) -> Join | None:
    """The join that a grouping is over, if some of its windows move by refreshes."""
    below: Node = node.child
    while isinstance(below, Select | Project):
        below = below.child
    if not isinstance(below, Join):
        return None
    scans = (part for part in below.walk() if isinstance(part, StreamScan))
    slides = (scan.window.slide for scan in scans)
    return below if any(slide is not None and slide.period for slide in slides) else None


def rows_because(plan: Node, strategy: Strategy, panes: bool, *, joined: bool = False) -> str:
    """Why no grouping of a plan can have panes for rows, nothing if some may; ``joined``: over the
    results of a join, which come when all its streams have got there."""
    if not panes:
        return "the rule is switched off"
    if strategy is Strategy.NT:
        return "NT announces the end of every row"
    streams = {node.stream for node in plan.walk() if isinstance(node, StreamScan)}
    if not joined and len(streams) > 1:
        return "streams that wait for each other close their instants at other times"
    return ""
