"""What a user should know before a plan runs: single tasks, state without bound, dead branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mayfly.kernels.operator import Operator
from mayfly.optimizer.labels import describe
from mayfly.optimizer.plan_warnings import (
    Warned,
    endless_answer,
    endless_state,
    keyed_state,
    never_true,
    single_task,
)
from mayfly.physical.closing_keys import Forgetful, forgetful_states
from mayfly.physical.explain.model import ExplainedOperator, PhysicalPlan
from mayfly.physical.program import Program, Task
from mayfly.physical.shared_program import shared
from mayfly.physical.stager import stage_tasks
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.expressions import Literal
from mayfly.plan.logical_operators import Node, Output, Select, StreamScan
from mayfly.plan.plan_text import expression_text


def warnings_of(plan: PhysicalPlan) -> tuple[Warned, ...]:
    """The warnings of a plan, in the order of its operators."""
    return tuple(dict.fromkeys(_warnings(plan.root, plan.output)))


def _warnings(operator: ExplainedOperator, above: Node) -> Iterator[Warned]:
    """What has no node of its own is a part of what is ``above`` it."""
    node = operator.node or above
    yield from _own(operator, node)
    for edge in operator.inputs:
        yield from _warnings(edge.source, node)


def _own(operator: ExplainedOperator, node: Node) -> Iterator[Warned]:
    if operator.alone:
        yield single_task(node)
    if any(state.grows for state in operator.state):
        yield endless_answer(node) if isinstance(node, Output) else endless_state(node)
    if isinstance(node, StreamScan) or any(state.grows_by_key for state in operator.state):
        kept = keyed_state(node)
        if kept is not None:
            yield kept
    if isinstance(node, Select) and isinstance(node.predicate, Literal):
        yield never_true(node)


def with_punctuations(
    warnings: Iterable[Warned], program: Program, catalog: Catalog
) -> tuple[Warned, ...]:
    """The warnings where punctuations close keys: states that forget these do not grow."""
    streams = [catalog.lookup(name) for name in _streams(program.plan)]
    closing = [s for s in streams if isinstance(s, StreamDefinition) and s.punctuation is not None]
    if not closing:
        return tuple(warnings)
    parts: dict[Task, list[Forgetful]] = {}
    for forgetful in forgetful_states(program.tasks()):
        parts.setdefault(forgetful.task, []).append(forgetful)
    bounded = {
        growing: _until_closed(task.node, states)
        for task, states in parts.items()
        if task.node is not None
        for growing in (endless_state(task.node), keyed_state(task.node))
        if growing is not None
        and sum(len(state.parts) for state in states) == len(task.operator.holdings())
    }
    elsewhere = _elsewhere(program)
    notes = [
        _apart(task.node) for task in parts if task.node is not None and task.operator in elsewhere
    ]
    stays = [
        _stays(task, parts.get(task, ()))
        for task in program.tasks()
        if task.node is not None
        and endless_state(task.node) in warnings
        and endless_state(task.node) not in bounded
    ]
    changed = [bounded.get(warned, warned) for warned in warnings]
    return tuple(dict.fromkeys([*changed, *notes, *stays, *map(_noted, closing)]))


def _elsewhere(program: Program) -> list[Operator]:
    """The operators that forget closed keys, but not on Spark: these are in other buckets there."""
    stages, tasks = stage_tasks(shared({"query": program}, {}), together=False)
    beside = {tasks[f.task].operator for closed in stages.closed for f in closed.forgetting}
    return [s.task.operator for s in forgetful_states(program.tasks())
            if s.task.operator not in beside]  # fmt: skip


def _apart(node: Node) -> Warned:
    return Warned(
        f"on Spark {describe(node)} keeps rows of closed keys: they are exchanged by other columns "
        "than the key of PUNCTUATION, so that they lie in other buckets than what is closed",
        "join and group by the key of PUNCTUATION first, or put windows on the streams",
    )


def _stays(task: Task, states: Iterable[Forgetful]) -> Warned:
    assert task.node is not None
    gone = [part for state in states for part in state.parts]
    held = {holding.part: holding.holds or "rows" for holding in task.operator.holdings()}
    kept = ", ".join(dict.fromkeys(what for part, what in held.items() if part not in gone))
    why = "of its state no part has a key"
    if task.operator.forgets():
        why = "not every input has closed them, its key does not have theirs, or rows may leave"
    hint = "write the key of PUNCTUATION into its key, or put windows on the streams"
    if gone:
        why = "they are few numbers for each key"
        hint = "put windows on the streams where keys are too many for that"
    return Warned(
        f"{describe(task.node)} keeps {kept} of closed keys: {why}",
        hint,
    )


def _streams(plan: Node) -> list[str]:
    return list(dict.fromkeys(n.stream for n in plan.walk() if isinstance(n, StreamScan)))


def _until_closed(node: Node, states: Iterable[Forgetful]) -> Warned:
    names = dict.fromkeys(closing.stream for state in states for closing in state.closings)
    streams = " and ".join(names)
    return Warned(
        f"{describe(node)} keeps the rows of a key until PUNCTUATION of {streams} closes it",
        "see that every key is closed some day",
    )


def _noted(stream: StreamDefinition) -> Warned:
    assert stream.punctuation is not None
    keys = ", ".join(stream.punctuation.keys)
    condition = expression_text(stream.punctuation.condition)
    return Warned(
        f"{stream.name} closes {keys} where {condition}: a note stays of each closed {keys}",
        "rows of it that come later are late: use each key once",
    )
