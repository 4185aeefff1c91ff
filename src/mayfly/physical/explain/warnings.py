"""What a user should know before a plan runs: single tasks, state without bound, dead branches."""

from __future__ import annotations

from collections.abc import Iterator

from mayfly.optimizer.plan_warnings import (
    Warned,
    endless_answer,
    endless_state,
    keyed_state,
    never_true,
    single_task,
)
from mayfly.physical.explain.model import ExplainedOperator, PhysicalPlan
from mayfly.plan.expressions import Literal
from mayfly.plan.logical_operators import Node, Output, Select, StreamScan


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
