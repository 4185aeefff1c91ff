"""OVER and ASOF JOIN as tasks, append-only or a view of the rows alive, and RESAMPLE."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mayfly.kernels.asof_rows import AsofRows
from mayfly.kernels.asof_terms import AsofTerms
from mayfly.kernels.asof_view import AsofView
from mayfly.kernels.delta import column_name, payload
from mayfly.kernels.frame_rows import FrameTerms
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.over_rows import OverRows
from mayfly.kernels.over_view import OverView
from mayfly.kernels.resample_rows import ResampleRows
from mayfly.optimizer.labels import describe
from mayfly.physical.join_conditions import oriented
from mayfly.physical.program import Task
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.resample import Resample


def neighbour_task(node: Over | AsofJoin, tasks: Sequence[Task], shapes: Sequence[Shape]) -> Task:
    """Rows with what is computed of their neighbours."""
    if isinstance(node, Over):
        return _over(node, tasks, shapes)
    return _asof(node, tasks, shapes)


def resample_task(node: Resample, child: Task, dual: bool) -> Task:
    """One row per key and multiple of a time."""
    results = payload(node.schema)
    between = frozenset(column_name(c) for c in node.child.schema if node.is_between(c))
    rows = ResampleRows(
        describe(node), node.cql(), child.columns, results, node.partition, column_name(node.time),
        node.period, node.filling, node.ties, between, dual,
    )  # fmt: skip
    return Task(rows, (child,), results, False)


def _over(node: Over, tasks: Sequence[Task], shapes: Sequence[Shape]) -> Task:
    """Functions over frames, of rows that stay or of rows that come and go."""
    (child,), (shape,) = tasks, shapes
    terms = FrameTerms(node.partition, node.order, node.ties, node.calls)
    values = payload(node.schema[len(node.child.schema) :])
    results = pa.schema([*child.columns, *values])
    if node.appends:
        rows = OverRows(describe(node), child.columns, terms, results, node.because)
        return Task(rows, (child,), results, False, child.longest)
    view = OverView(describe(node), child.columns, terms, results, shape, node.because, node.limit)
    return Task(view, (child,), results, True, child.longest)


def _asof(node: AsofJoin, tasks: Sequence[Task], shapes: Sequence[Shape]) -> Task:
    """Each left row with its closest right row, of rows that stay or of rows that come and go."""
    left, right = tasks
    pairs = [oriented(pair, node.left.schema, node.right.schema) for pair in node.equalities]
    equalities = [pair for pair in pairs if pair is not None]
    keys = tuple(pair.left for pair in equalities), tuple(pair.right for pair in equalities)
    types = tuple(pair.type for pair in equalities)
    times = node.left_time, node.right_time
    terms = AsofTerms(keys, types, node.match, times, node.ties)
    sides = left.columns, right.columns
    results = pa.schema([*left.columns, *right.columns])
    if node.appends:
        rows = AsofRows(describe(node), sides, terms, node.padded, node.because)
        return Task(rows, (left, right), results, False, left.longest)
    view = AsofView(describe(node), sides, terms, node.padded, (shapes[0], shapes[1]), node.because)
    return Task(view, (left, right), results, True, left.longest)
