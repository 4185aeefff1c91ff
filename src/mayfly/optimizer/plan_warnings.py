"""What a user should know before a plan runs, in words: what is said of an operator."""

from __future__ import annotations

from dataclasses import dataclass

from mayfly.optimizer.labels import describe
from mayfly.plan.logical_operators import (
    AntiJoin,
    GroupAggregate,
    Join,
    Negation,
    Node,
    StreamScan,
    SubqueryWindow,
)
from mayfly.plan.over_frames import Over


@dataclass(frozen=True, slots=True)
class Warned:
    """Something a user should know before running the plan, and what to do about it."""

    message: str
    hint: str


ENDLESS_ANSWER = Warned(
    "the answer grows without bound: results never expire",
    "put a window on the stream, or use Istream if new results are enough",
)


def never_true(node: Node) -> Warned:
    """Of a condition that is a constant."""
    return Warned(
        f"{describe(node)} is never true: nothing passes it", "check the conditions of WHERE"
    )


def single_task(node: Node) -> Warned:
    """Of an operator that needs all rows in one place."""
    match node:
        case SubqueryWindow(wstream=True):
            hint = "use RANGE if the results of the last while are meant"
        case StreamScan(window=window) if not window.counts_rows and window.slide is not None:
            hint = "add GROUP BY, so that panes are kept by key"
        case StreamScan(window=window) if not window.counts_rows:
            hint = "select and project after the window that counts rows"
        case StreamScan() | SubqueryWindow():
            hint = "add PARTITION BY to the window if the n latest of each key are meant"
        case GroupAggregate():
            hint = "add GROUP BY, or a SLIDE so that less is sent"
        case Over():
            hint = "add PARTITION BY to OVER if the rows of each key are meant"
        case Join():
            hint = "add an equality between the inputs to the join condition"
        case AntiJoin(kind=Negation.NOT_IN):
            hint = "use NOT EXISTS, or declare both columns NOT NULL"
        case _:
            hint = "add an equality between the inputs"
    return Warned(f"{describe(node)} runs in a single task", hint)
