"""From a grouping to groups whose values age: decayed sums, and exponential histograms.

Before: GroupAggregate src: COUNT(*, 0.05) over link1 [RANGE 1 d SLIDE 1 s].
After: a histogram for each src over link1 [RANGE 1 d 1 s], asked every second: when rows leave, and
when answers are refreshed, is known to the groups. Rows come at their own times, and those that
matter to the last refresh say from when a query that came later is whole.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.kernels.aging_groups import AgingGroups
from mayfly.kernels.delta import payload
from mayfly.kernels.pane_edges import period_of
from mayfly.optimizer.labels import describe
from mayfly.physical.program import Task
from mayfly.physical.slides import outer_slide
from mayfly.plan.logical_operators import GroupAggregate, Node, StreamScan
from mayfly.plan.window_kinds import Range, Unbounded, Window


def rows_at_their_times(node: GroupAggregate, window: Range | None) -> Node:
    """What the grouping is over, without a slide; as long as a refresh may need a row, or for
    ever."""
    reach: Window = Unbounded()
    if window is not None:
        reach = Range(duration=window.duration + period_of(window))

    def without_slide(part: Node) -> Node:
        return replace(part, window=reach) if isinstance(part, StreamScan) else part

    return node.child.transform(without_slide)


def aging_groups(node: GroupAggregate, rows: Task, window: Range | None) -> Task:
    """Summaries of groups in the place of their rows, which come ``at_their_times``; they count
    as long as they are in the window, or fade where there is none."""
    slide, columns = outer_slide(node), payload(node.schema)
    assert slide is not None
    operator = AgingGroups(
        describe(node), tuple(key.expression for key in node.keys), node.aggregates, columns, slide,
        None if window is None else window.duration, node.having,
    )  # fmt: skip
    return Task(operator, (rows,), columns, not node.keys)
