"""From a grouping to groups whose values age: decayed sums, and exponential histograms.

Before: GroupAggregate src: COUNT(*, 0.05) over link1 [RANGE 1 d SLIDE 1 s].
After: a histogram for each src over link1 [UNBOUNDED], asked every second: that rows leave, and
when answers are refreshed, is known to the groups.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.kernels.aging_groups import AgingGroups
from mayfly.kernels.delta import payload
from mayfly.optimizer.labels import describe
from mayfly.physical.program import Task
from mayfly.physical.slides import outer_slide
from mayfly.plan.logical_operators import GroupAggregate, Node, StreamScan
from mayfly.plan.window_kinds import Range, Unbounded


def all_rows(node: GroupAggregate) -> Node:
    """What the grouping is over, with every row at its own time, for ever."""

    def without_window(part: Node) -> Node:
        return replace(part, window=Unbounded()) if isinstance(part, StreamScan) else part

    return node.child.transform(without_window)


def aging_groups(node: GroupAggregate, rows: Task, window: Range | None) -> Task:
    """Summaries of groups in the place of their rows, which are those of ``all_rows``; they count
    as long as they are in the window, or fade where there is none."""
    slide, columns = outer_slide(node), payload(node.schema)
    assert slide is not None
    operator = AgingGroups(
        describe(node), tuple(key.expression for key in node.keys), node.aggregates, columns, slide,
        None if window is None else window.duration, node.having,
    )  # fmt: skip
    return Task(operator, (rows,), columns, not node.keys)
