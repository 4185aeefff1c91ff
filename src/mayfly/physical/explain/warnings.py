"""What a user should know before a plan runs: single tasks, state without bound, dead branches."""

from __future__ import annotations

from collections.abc import Iterator

from mayfly.optimizer.labels import describe
from mayfly.optimizer.plan_warnings import ENDLESS_ANSWER, Warned, never_true, single_task
from mayfly.physical.explain.model import ExplainedOperator, PhysicalPlan
from mayfly.plan.expressions import Literal
from mayfly.plan.logical_operators import Node, Output, Select


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
    growing = [state.holds for state in operator.state if state.grows]
    if growing and isinstance(node, Output):
        yield ENDLESS_ANSWER
    elif growing:
        yield Warned(
            f"the state of {describe(node)} ({', '.join(growing)}) grows without bound",
            "put a window on the stream",
        )
    if isinstance(node, Select) and isinstance(node.predicate, Literal):
        yield never_true(node)
