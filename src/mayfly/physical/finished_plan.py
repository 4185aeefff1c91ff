"""From finished windows to the operators that keep them."""

from __future__ import annotations

from mayfly.kernels.delta import payload
from mayfly.kernels.operator import Operator
from mayfly.kernels.sessions import SessionRows
from mayfly.kernels.window_ends import FinishedRows, WindowEnds
from mayfly.optimizer.labels import describe
from mayfly.physical.program import Task
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.finished_windows import Sessions


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
