"""When the windows of a plan refresh their answers."""

from __future__ import annotations

from dataclasses import replace

from mayfly.plan.derived_stream import Derived
from mayfly.plan.finished_operators import InWindows
from mayfly.plan.logical_operators import Node, Output, RelationScan, StreamScan, SubqueryWindow
from mayfly.plan.window_kinds import Slide


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
