"""What is said of finished windows without their operators: which groupings keep totals only."""

from __future__ import annotations

from mayfly.plan.expressions import Column
from mayfly.plan.finished_operators import InWindows
from mayfly.plan.finished_windows import Sessions
from mayfly.plan.logical_operators import AggregateCall, GroupAggregate, Node
from mayfly.plan.plan_text import aggregate_text


def is_per_window(node: Node) -> bool:
    """Whether it assigns finished windows, or groups the rows of each as it does so."""
    if isinstance(node, GroupAggregate):
        return any(isinstance(part, InWindows) for part in node.walk())
    return isinstance(node, InWindows)


def groups_sessions(node: GroupAggregate) -> bool:
    """Whether each group is one session, and totals are enough to make it."""
    return _sessions_of(node) is not None and not why_no_totals(node)


def why_no_totals(node: GroupAggregate) -> str:
    """What makes a grouping of sessions keep rows; nothing if it keeps totals, or has none."""
    windows = _sessions_of(node)
    if windows is None:
        return ""
    listed = {key.expression for key in node.keys}
    if listed != {windows.start, windows.end, *partition_of(windows)}:
        return "a group is not one session, by its partition and both bounds"
    if not node.aggregates:
        return "groups of sessions without an aggregate have no totals"
    short = [call for call in node.aggregates if not _has_totals(call)]
    if not short:
        return ""
    return f"the totals of a session do not tell its {aggregate_text((), short, None)}"


def _sessions_of(node: GroupAggregate) -> InWindows | None:
    windows = node.child
    if isinstance(windows, InWindows) and isinstance(windows.windows, Sessions):
        return windows
    return None


def partition_of(windows: InWindows) -> tuple[Column, ...]:
    """The columns by which sessions are kept apart."""
    assert isinstance(windows.windows, Sessions)
    columns = {column.name: column for column in windows.child.schema}
    return tuple(columns[name] for name in windows.windows.partition_by)


def _has_totals(call: AggregateCall) -> bool:
    """Whether values of two parts of a session give that of both."""
    kind = None if call.argument is None else call.argument.type
    if call.distinct or call.approximate:
        return False
    if call.function == "count" or kind is None:
        return call.function == "count"
    if call.function in ("sum", "avg"):
        return kind.is_integral
    return call.function in ("min", "max") and not kind.is_nested
