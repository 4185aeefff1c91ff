"""The task of a grouping that is answered from panes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mayfly.kernels.delta import payload
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.pane_groups import PaneGroups
from mayfly.kernels.served_groups import ServedGroups
from mayfly.optimizer.labels import Labelled, describe
from mayfly.optimizer.rules.share_panes import CS1, CS2, CS8, SKETCHES, SS1
from mayfly.physical.pane_plan import PanePlan
from mayfly.physical.program import Task
from mayfly.physical.served_plan import for_server
from mayfly.plan.logical_operators import GroupAggregate
from mayfly.plan.serving_terms import ServeClause
from mayfly.plan.window_kinds import Range


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
        forwards=CS8.name in sharing,
    )  # fmt: skip
    if serve:
        operator = ServedGroups.of(operator, plan.store)
    return Task(operator, (child,), operator.columns, True)
