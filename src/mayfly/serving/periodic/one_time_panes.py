"""A one-time query over a window of a stream as one over panes that are kept for served ones."""

from __future__ import annotations

from dataclasses import replace

from mayfly.cql.serve_clause import served_obstacle
from mayfly.errors import InvalidSetting
from mayfly.plan.catalog import Catalog
from mayfly.plan.logical_operators import Node, Output, Sort, StreamScan
from mayfly.plan.serving_terms import Isolation, ServeClause
from mayfly.plan.window_kinds import Range, Slide
from mayfly.serving.periodic.served_window import PaneGrid
from mayfly.serving.periodic.stored_query import StoredQuery, bound_query


def over_panes(sql: str, plan: Output, grid: PaneGrid, catalog: Catalog) -> StoredQuery | None:
    """The query with a window that moves by panes; None if that is not what it asks for."""
    scans = [node for node in plan.walk() if isinstance(node, StreamScan)]
    if isinstance(plan.child, Sort) or len(scans) != 1 or scans[0].stream != grid.stream:
        return None
    window = scans[0].window
    if not isinstance(window, Range) or window.slide is not None or window.internal:
        return None
    if window.duration % grid.length:
        return None

    def sliding(node: Node) -> Node:
        if not isinstance(node, StreamScan):
            return node
        return replace(node, window=replace(window, slide=Slide(grid.length, origin=grid.origin)))

    output = plan.transform(sliding)
    assert isinstance(output, Output)
    clause = ServeClause(isolation=plan.isolation or Isolation.LATEST, staleness=plan.staleness)
    output = replace(output, one_time=False, serve=clause)
    if served_obstacle(output) is not None:
        return None
    try:
        return bound_query("one-time", output, catalog, {"text": sql})
    except InvalidSetting:
        return None
