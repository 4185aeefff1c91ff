"""What a user should know before a plan runs: single tasks, state without bound, dead branches."""

from __future__ import annotations

from collections.abc import Iterator

from mayfly.optimizer.labelling import describe
from mayfly.plan.expressions import Literal
from mayfly.plan.logical import (
    AntiJoin,
    GroupAggregate,
    Join,
    Negation,
    Output,
    Select,
    StreamScan,
    SubqueryWindow,
)
from mayfly.plan.physical import Operator, Place, Warned


def warnings_of(root: Operator) -> tuple[Warned, ...]:
    """The warnings of a plan, in the order of its operators."""
    return tuple(dict.fromkeys(w for operator in root.walk() for w in _warnings(operator)))


def _warnings(operator: Operator) -> Iterator[Warned]:
    if operator.place is Place.SINGLE and not _inherits_single_task(operator):
        yield _single_task(operator)
    growing = [state.holds for state in operator.state if state.grows]
    if growing and isinstance(operator.node, Output):
        yield Warned(
            "the answer grows without bound: results never expire",
            "put a window on the stream, or use Istream if new results are enough",
        )
    elif growing:
        yield Warned(
            f"the state of {describe(operator.node)} ({', '.join(growing)}) grows without bound",
            "put a window on the stream",
        )
    node = operator.node
    if isinstance(node, Select) and isinstance(node.predicate, Literal):
        yield Warned(
            f"{describe(node)} is never true: nothing passes it", "check the conditions of WHERE"
        )


def _inherits_single_task(operator: Operator) -> bool:
    """Whether the operator is in one task only because its input already was."""
    streams = [e for e in operator.inputs if not (e.exchange and e.exchange.broadcast)]
    return bool(streams) and all(edge.exchange is None for edge in streams)


def _single_task(operator: Operator) -> Warned:
    node, what = operator.node, describe(operator.node)
    match node:
        case SubqueryWindow(wstream=True):
            hint = "use RANGE if the results of the last while are meant"
        case StreamScan() | SubqueryWindow():
            hint = "add PARTITION BY to the window if the n latest of each key are meant"
        case GroupAggregate():
            hint = "add GROUP BY, or a SLIDE so that less is sent"
        case Join():
            hint = "add an equality between the inputs to the join condition"
        case AntiJoin(kind=Negation.NOT_IN):
            hint = "use NOT EXISTS, or declare both columns NOT NULL"
        case _:
            hint = "add an equality between the inputs"
    return Warned(f"{what} runs in a single task", hint)
