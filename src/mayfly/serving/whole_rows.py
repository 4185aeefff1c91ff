"""Which plans keep the rows of a stream as they are, so that others may read them."""

from __future__ import annotations

from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import Output, OutputKind, Project, StreamScan
from mayfly.plan.window_kinds import Range


def whole_rows(plan: Output) -> StreamScan | None:
    """The scan of a plan that passes its rows on as they are."""
    node = plan.child
    if plan.kind is not OutputKind.VIEW or not isinstance(node, Project):
        return None
    scan = node.child
    if not isinstance(scan, StreamScan) or not isinstance(scan.window, Range):
        return None
    plain = all(
        isinstance(output.expression, Column) and output.expression.name == output.name
        for output in node.outputs
    )
    passing = scan.window.slide is None and not scan.window.internal
    return scan if plain and passing else None
