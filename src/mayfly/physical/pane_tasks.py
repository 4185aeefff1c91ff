"""The task of a grouping that is answered from panes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace

import pyarrow as pa

from mayfly.kernels.delta import payload
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.pane_groups import PaneGroups
from mayfly.kernels.pane_store import PaneStore
from mayfly.kernels.row_panes import RowPaneGroups, RowPaneStore, numbered_window
from mayfly.kernels.served_groups import ServedGroups
from mayfly.kernels.window_assignment import WindowRows
from mayfly.optimizer.labels import Labelled, describe
from mayfly.optimizer.rules.share_panes import CS1, CS2, CS7, CS8, SKETCHES, SS1
from mayfly.physical.pane_plan import PanePlan
from mayfly.physical.program import Task, stream_input
from mayfly.physical.served_plan import for_server
from mayfly.plan.catalog import StreamDefinition
from mayfly.plan.logical_operators import GroupAggregate
from mayfly.plan.serving_terms import ServeClause
from mayfly.plan.types import arrow_type
from mayfly.plan.window_kinds import Range, RowsWindow


def grouping_task(
    node: GroupAggregate,
    window: Range,
    rows: Task,
    scan: Labelled,
    sharing: Collection[str],
    serve: ServeClause | None,
) -> Task:
    """Partial values per pane of the rows of a scan, and the groups made of them."""
    plan = PanePlan.of(
        node, window, alone=SS1.name not in sharing, sketches=SKETCHES.name in sharing
    )
    if serve:
        plan = replace(plan, store=for_server(plan.store, serve))
    child = replace(plan.task(rows), node=scan.node, label=scan.label)
    operator = PaneGroups(
        describe(node), plan.keys, plan.calls, payload(node.schema), node.having, Shape(),
        window=window, weights=plan.weights, asked=node.aggregates,
        finds_once=CS1.name in sharing, scans_once=CS2.name in sharing,
        forwards=CS8.name in sharing, saves_prefixes=CS7.name in sharing,
    )  # fmt: skip
    if serve:
        operator = ServedGroups.of(operator, plan.store)
    return Task(operator, (child,), operator.columns, True)


def row_grouping_task(
    node: GroupAggregate,
    window: RowsWindow,
    stream: StreamDefinition,
    scan: Labelled,
    sharing: Collection[str],
) -> Task:
    """Partial values per pane of the latest rows, and the groups made of them."""
    over = numbered_window(window)
    alone = SS1.name not in sharing
    plan = PanePlan.of(node, over, alone=alone, sketches=False)
    store = row_pane_store(plan.store, stream)
    names = tuple(column.name for column in stream.columns)
    source = stream_input(stream, store.stream, names)
    child = Task(store, (source,), store.columns, False, node=scan.node, label=scan.label)
    operator = RowPaneGroups(
        describe(node), plan.keys, plan.calls, payload(node.schema), node.having, Shape(),
        window=over, weights=plan.weights, asked=node.aggregates,
        finds_once=CS1.name in sharing, scans_once=False, forwards=False,
    )  # fmt: skip
    return Task(operator, (child,), operator.columns, True)


def row_pane_store(store: PaneStore, stream: StreamDefinition) -> RowPaneStore:
    """Panes of a stream's rows by number, that hold what a store of panes by time does."""
    own = {part.name: getattr(store, part.name) for part in fields(PaneStore) if part.init}
    return RowPaneStore(**own, admission=_admission(store.stream, stream))


def _admission(name: str, stream: StreamDefinition) -> WindowRows:
    """What puts all rows of a stream in its order."""
    columns = pa.schema([(f"{name}.{own.name}", arrow_type(own.type)) for own in stream.columns])
    order = dict.fromkeys([*stream.sequence, *(column.name for column in stream.columns)])
    named = tuple(f"{name}.{column}" for column in order)
    return WindowRows(f"rows of {name}", RowsWindow(count=1), columns, named)
