"""What a user should know before a plan runs, in words: what is said of an operator."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mayfly.optimizer.labels import describe
from mayfly.plan.derived_stream import Derived
from mayfly.plan.finished_operators import InWindows
from mayfly.plan.logical_operators import (
    AntiJoin,
    GroupAggregate,
    Join,
    Negation,
    Node,
    Project,
    Select,
    StreamScan,
    SubqueryWindow,
    Top,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.plan_text import expression_text
from mayfly.plan.resample import Resample
from mayfly.plan.window_kinds import PartitionRows, Unbounded


@dataclass(frozen=True, slots=True)
class Warned:
    """Something a user should know before running the plan, and what to do about it."""

    message: str
    hint: str


def endless_answer(node: Node) -> Warned:
    """Of a view whose results never leave (thesis 2.2.1)."""
    if any(isinstance(part, InWindows) for part in node.walk()):
        hint = "write Istream(…) in SELECT: each window is sent once, and no answer is kept"
    elif any(isinstance(part, StreamScan) and part.window.internal for part in node.walk()):
        hint = "write Istream(…) in SELECT, or leave INTERNAL out: its results stay for good"
    else:
        hint = f"{_bounds(node)}, or use Istream if new results are enough"
    return Warned("the answer grows without bound: results never expire", hint)


def endless_state(node: Node) -> Warned:
    """Of an operator that keeps rows that never leave."""
    return Warned(f"the state of {describe(node)} grows without bound", _bounds(node))


def _is_of_slid_join(node: Node) -> bool:
    """Whether what is grouped are results of a join of windows that move by refreshes."""
    while isinstance(node, GroupAggregate | Select | Project):
        node = node.child
    scans = (part for part in node.walk() if isinstance(part, StreamScan))
    return isinstance(node, Join) and any(scan.window.slide is not None for scan in scans)


def _bounds(node: Node) -> str:
    """What would bound what grows with the rows of streams."""
    names = [
        part.alias
        for part in node.walk()
        if isinstance(part, StreamScan) and isinstance(part.window, Unbounded)
    ]
    names = list(dict.fromkeys(names))
    if not names:
        return "put a window on the stream"
    windows = " and ".join(f"{name} [RANGE 1 HOUR]" for name in names[:3])
    return f"put {'a window' if len(names) == 1 else 'windows'} on what goes on for ever: {windows}"


def keyed_state(node: Node) -> Warned | None:
    """Of an operator that keeps something for every value of a key that ever came: it is bounded
    if the values are."""
    match node:
        case StreamScan(window=PartitionRows(partition_by=keys, duration=None) as window) if keys:
            words, ended = keys, replace(window, duration=86_400_000_000)
            hint = f"if there is no end of new values, say when they are over: {ended.cql()}"
        case Over(appends=True, partition=keys) if keys:
            words = tuple(map(expression_text, keys))
            hint = (
                "if there is no end of new values, use RANGE BETWEEN INTERVAL d PRECEDING AND "
                "CURRENT ROW, which forgets old rows, or put a window on the stream"
            )
        case AsofJoin(appends=True, equalities=pairs) if pairs:
            words = tuple(expression_text(pair.right) for pair in pairs)
            hint = "if there is no end of new values, put windows on both streams"
        case Resample(partition=keys) if keys:
            words = tuple(map(expression_text, keys))
            hint = "if there is no end of new values, use TUMBLE with LAST or AVG in its place"
        case _:
            return None
    shown = ", ".join(words)
    return Warned(f"{describe(node)} keeps rows for every {shown} that ever came", hint)


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
        case GroupAggregate(child=InWindows()) | InWindows():
            hint = "add PARTITION BY to SESSION if the sessions of each key are meant"
        case Top():
            hint = "use ROW_NUMBER() OVER (PARTITION BY …) if the first rows of each key are meant"
        case Derived():
            hint = "use Istream if new results are enough"
        case GroupAggregate() if _is_of_slid_join(node):
            hint = "add GROUP BY, so that values are kept by key"
        case GroupAggregate():
            hint = "add GROUP BY, or a SLIDE so that less is sent"
        case Resample():
            hint = "add PARTITION BY to RESAMPLE if the rows of each key are meant"
        case Over():
            hint = "add PARTITION BY to OVER if the rows of each key are meant"
        case Join():
            hint = "add an equality between the inputs to the join condition"
        case AntiJoin(kind=Negation.NOT_IN):
            hint = "use NOT EXISTS, or declare both columns NOT NULL"
        case _:
            hint = "add an equality between the inputs"
    return Warned(f"{describe(node)} runs in a single task", hint)
