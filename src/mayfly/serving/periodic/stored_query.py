"""A served query of a checkpoint: which panes the pipeline keeps for it, and how it answers.

Idea: the operators that would answer in the pipeline answer here, once, over the panes of one
window: these are fed to them as rows of the one instant that the answer is as of. So an answer is
what the pipeline would have computed. Cost: a step over one row for each group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.cql import bind_query
from mayfly.kernels.delta import Delta, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.kernels.outputs import seen
from mayfly.kernels.pane_store import PaneRows, PaneStore
from mayfly.lifetime import MIN_TIME
from mayfly.optimizer.optimize import optimize
from mayfly.periodic.scheduling import Overload
from mayfly.periodic.server import EvaluationWay, ServeOptions
from mayfly.physical.compiler import compile_plan
from mayfly.physical.program import Program, Task
from mayfly.physical.shared_program import canonical, shared
from mayfly.physical.slides import in_panes, outer_slide
from mayfly.plan.aging_calls import is_bounded
from mayfly.plan.catalog import Catalog
from mayfly.plan.logical_operators import GroupAggregate, Node, Output, StreamScan
from mayfly.plan.window_kinds import Range
from mayfly.serving.periodic.served_window import ServedWindow
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True)
class StoredQuery(ServedWindow):
    """``known_from`` is the instant from which on all its rows are in panes."""

    text: str
    kept: Program
    """What the pipeline runs."""
    answering: Program
    states: tuple[str, str]
    """What the pipeline calls the state of the panes, and of who reads them."""
    known_from: int = MIN_TIME
    group: tuple[str, int] = ("", MIN_TIME)
    """Queries of equal panes, known equally long, read one ring."""

    @staticmethod
    def of(name: str, entry: Mapping[str, Any], catalog: Catalog) -> StoredQuery | None:
        """A query as a checkpoint has registered it; None if it is not to be served."""
        plan = bind_query(entry["text"], catalog)
        if plan.serve is None:
            return None
        return bound_query(name, plan, catalog, entry)

    def with_history(self, known_since: Mapping[str, int]) -> StoredQuery:
        """With what the checkpoint says of readers that came later."""
        instant = known_since.get(self.states[1], MIN_TIME)
        return replace(self, known_from=instant, group=(self.states[0], instant))

    @property
    def synopsis(self) -> str:
        return self.states[0]

    @cached_property
    def store(self) -> PaneStore:
        """What the pipeline keeps for it."""
        store: PaneStore = next(  # type: ignore[assignment]
            t.operator for t in self.kept.tasks() if t.operator.is_standing
        )
        return store

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.answering.plan.schema)

    @property
    def options(self) -> ServeOptions:
        serve = self.serve
        return ServeOptions(
            serve.priority,
            Overload[serve.overload.name],
            serve.isolation_words,
            serve.staleness,
            EvaluationWay[serve.scan.name],
        )

    def answer(self, panes: pa.Table, as_of: int) -> pa.Table:
        """The rows of the answer, from the panes of its window."""
        interval = Interval(as_of, as_of + 1, as_of)
        results: dict[Task, Delta] = {}
        for task in self.answering.tasks():
            if task.operator.is_standing:
                results[task] = _shown(panes, as_of, self.length)
                continue
            inputs = [results[source] for source in task.inputs if isinstance(source, Task)]
            _, results[task] = task.operator.step(task.operator.state(), inputs, interval)
        born = seen(results[self.answering.answer]).born
        alive = (numbers(born, TS) <= as_of) & (numbers(born, EXP) > as_of)
        names = self.answering.answer.columns.names
        return chosen(born, alive).select(names).rename_columns(list(self.columns))

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


def bound_query(
    name: str, plan: Output, catalog: Catalog, entry: Mapping[str, Any] | None = None
) -> StoredQuery:
    """A bound query with SERVE, as it is registered."""
    assert plan.serve is not None
    entry = entry or {}
    (scan,) = (node for node in plan.walk() if isinstance(node, StreamScan))
    assert isinstance(scan.window, Range)
    chosen_plan = optimize(plan).chosen
    output = chosen_plan.plan
    assert isinstance(output, Output)
    kept = compile_plan(canonical(output), catalog, strict=chosen_plan.strict)
    panes = in_panes(canonical(output)).transform(_counted)
    assert isinstance(panes, Output)
    answering = compile_plan(replace(panes, serve=None), catalog, strict=chosen_plan.strict)
    together = shared({name: kept}, {name: entry.get("since")}, {name: entry.get("entry")})
    program = together.members[0].program
    store, reader = "", ""
    for task in program.tasks():
        if task.operator.is_standing:
            store = together.names[task]
        elif task.operator.reads:
            reader = together.names[task]
    text = str(entry.get("text", ""))
    window = replace(scan.window, slide=outer_slide(plan))
    return StoredQuery(
        name, plan.serve, scan.stream, window, text, kept, answering, (store, reader),
        group=(store, MIN_TIME),
    )  # fmt: skip


def _counted(node: Node) -> Node:
    """Panes are counted and summed exactly; a histogram of them would need their rows."""
    if not isinstance(node, GroupAggregate):
        return node
    calls = tuple(call.exact if is_bounded(call) else call for call in node.aggregates)
    return replace(node, aggregates=calls)


def _shown(panes: pa.Table, as_of: int, length: int) -> PaneRows:
    """Panes as rows of one instant."""
    count = panes.num_rows
    times = {TS: np.full(count, as_of), EXP: np.full(count, as_of + length)}
    rows = with_numbers(panes, **times).combine_chunks()
    nothing = rows.slice(0, 0)
    return PaneRows(nothing, nothing, (rows,) if count else ())
