"""From finished windows to the operators that keep them."""

from __future__ import annotations

from mayfly.kernels.delta import column_name, payload
from mayfly.kernels.operator import Operator
from mayfly.kernels.session_groups import SessionGroups
from mayfly.kernels.sessions import SessionRows
from mayfly.kernels.window_ends import FinishedRows, WindowEnds
from mayfly.optimizer.labels import describe
from mayfly.physical.program import Task
from mayfly.physical.session_totals import partition_of
from mayfly.plan.expressions import Column
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.finished_windows import Sessions
from mayfly.plan.logical_operators import GroupAggregate
from mayfly.storage.segment import EXP, TS


def finished_windows(node: InWindows | Finished, child: Task) -> Task:
    """Rows at the last instants of their windows, or what these gave, for ever."""
    name = describe(node)
    if isinstance(node, Finished):
        kept = FinishedRows(name, child.columns)
        return Task(kept, (child,), child.columns, False)
    columns, windows = payload(node.schema), node.windows
    operator: Operator
    if isinstance(windows, Sessions):
        named = (f"{node.start.relation}.{part}" for part in windows.partition_by)
        operator = SessionRows(name, windows, columns, tuple(named))
    else:
        operator = WindowEnds(name, windows, columns, child.operator.opens is not None)
    return Task(operator, (child,), columns, False, 1)


def session_groups(node: GroupAggregate, rows: Task) -> Task:
    """Totals of sessions in the place of their rows, which are the child's."""
    windows, columns = node.child, payload(node.schema)
    assert isinstance(windows, InWindows)
    assert isinstance(windows.windows, Sessions)
    places = {windows.start: TS, windows.end: EXP}
    keys = [key.expression for key in node.keys if isinstance(key.expression, Column)]
    operator = SessionGroups(
        describe(node), windows.windows, partition_of(windows),
        tuple(places.get(key) or column_name(key) for key in keys), node.aggregates, columns,
        node.having,
    )  # fmt: skip
    return Task(operator, (rows,), columns, False, 1)
