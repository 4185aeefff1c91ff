"""From DISTINCT over the window of a stream to the first and last row of each value and pane.

Before: δ* ← Window [RANGE 10 min] ← every row of the stream.
After: δ* ← Window [RANGE 10 min] ← the first and last row of each value in 10 minutes, of a batch.
The same for a grouping whose functions ask which values there are, and not how often.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.kernels.delta import payload
from mayfly.kernels.stateless import ProjectRows
from mayfly.kernels.value_spans import ValueSpans
from mayfly.optimizer.labels import Labelled, describe
from mayfly.optimizer.rules.first_last import FIRST_LAST
from mayfly.physical.pane_sources import PaneSource
from mayfly.physical.program import Task
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.derived_stream import Derived
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import (
    AggregateCall,
    Distinct,
    GroupAggregate,
    Node,
    Output,
    PaddedNrrJoin,
    Project,
    RelationJoin,
    Select,
    StreamScan,
    SubqueryWindow,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.plan_text import aggregate_text
from mayfly.plan.resample import Resample
from mayfly.plan.strategy import Strategy
from mayfly.plan.window_kinds import Range, Slide

_SETS = ("min", "max", "collect_set")
_OVER_SETS = ("count", "sum", "avg")
"""Functions that with DISTINCT ask which values there are."""


def asks_values(node: GroupAggregate) -> bool:
    """Whether a grouping asks which values there are: then fewer rows are likely."""
    return any(call.distinct or call.function == "collect_set" for call in node.aggregates)


def every_row_because(plan: Output, strategy: Strategy, rules: frozenset[str]) -> str:
    """Why no DISTINCT of a plan can do without any row, nothing if some may."""
    if FIRST_LAST.name not in rules:
        return "the rule is switched off"
    if strategy is Strategy.NT:
        return "NT announces the end of every row"
    if plan.restore:
        return "RESTORE tells when rows come and go"
    if any(map(_looks_at_lifetimes, plan.walk())):
        return "what reads the answer asks when its rows came"
    return ""


def _looks_at_lifetimes(node: Node) -> bool:
    forgetful = isinstance(node, RelationJoin) and not node.retroactive
    looking = PaddedNrrJoin | SubqueryWindow | Derived | Over | AsofJoin | Resample
    return forgetful or isinstance(node, looking)


def obstacle(node: Distinct | GroupAggregate, catalog: Catalog) -> str:
    """Why a DISTINCT or grouping needs every row, nothing if it does not."""
    if isinstance(node, GroupAggregate):
        for call in node.aggregates:
            if not _is_of_set(call):
                return f"{aggregate_text((), [call], None)} needs every row"
    below = node.child
    while isinstance(below, Select | Project):
        below = below.child
    if not isinstance(below, StreamScan):
        return "only rows of one stream live equally long"
    window = below.window
    if type(window) is not Range or (window.slide is not None and window.slide.rows):
        return f"rows of {window.cql()} do not live equally long"
    if window.internal:
        return "what was an answer stays one (INTERNAL)"
    stream, source = _stream(below, catalog), PaneSource.of(node.child)
    for column in _values(node):
        if column.type.is_nested:
            return f"{column.name} is a combination of values"
        origin = source.over(column)
        if isinstance(origin, Column) and origin.name == stream.time:
            return f"every row has a {column.name} of its own"
    return ""


def _is_of_set(call: AggregateCall) -> bool:
    return call.function in _SETS or (call.distinct and call.function in _OVER_SETS)


def _values(node: Distinct | GroupAggregate) -> tuple[Column, ...]:
    """The columns of its input that it reads."""
    if isinstance(node, Distinct):
        return tuple(node.child.schema)
    keys = (key.expression for key in node.keys)
    arguments = (call.argument for call in node.aggregates if call.argument is not None)
    read = {column for part in (*keys, *arguments) for column in part.columns()}
    return tuple(column for column in node.child.schema if column in read)


def first_and_last(
    source: Labelled, child: Task, node: Distinct | GroupAggregate, catalog: Catalog, because: str
) -> tuple[Task, str]:
    """The rows of a task that a DISTINCT or grouping needs, and why that is every row, if it is;
    ``because`` is a reason that the plan has."""
    because = because or obstacle(node, catalog)
    if because:
        return child, because
    return _thinned(source, child, node, catalog), ""


def _thinned(
    source: Labelled, child: Task, node: Distinct | GroupAggregate, catalog: Catalog
) -> Task:
    """The rows of a task without those that others stand for, and without columns not read."""
    scan: Node = node.child
    while isinstance(scan, Select | Project):
        scan = scan.child
    assert isinstance(scan, StreamScan)
    assert isinstance(scan.window, Range)
    values, length = _values(node), scan.window.duration
    gap = _stream(scan, catalog).max_gap
    # In a replay, gaps between rows are seen between panes only.
    length = length if gap is None else max(1, min(length, gap))
    panes = replace(scan.window, duration=length, slide=Slide(period=length))
    is_slid = scan.window.slide is not None
    if is_slid:
        panes = scan.window
    if values != tuple(node.child.schema):
        columns = payload(values)
        narrow = ProjectRows(describe(node), values, columns)
        child = replace(child, operator=narrow, inputs=(child,), columns=columns)
        child = replace(child, node=source.node, label=source.label)
    spans = ValueSpans(describe(node), values, panes, is_slid)
    return replace(child, operator=spans, inputs=(child,), node=source.node, label=source.label)


def _stream(scan: StreamScan, catalog: Catalog) -> StreamDefinition:
    stream = catalog.lookup(scan.stream)
    assert isinstance(stream, StreamDefinition)
    return stream
