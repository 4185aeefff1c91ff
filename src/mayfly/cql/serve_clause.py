"""Reads ``SERVE [PRIORITY p] [OVERLOAD …] [ISOLATION … [UNDO]] [BOUNDED STALENESS d] [SCAN …]``.

And says of which queries that can be asked.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import gcd
from typing import Any, TypeVar

from mayfly.cql.context import BindingContext
from mayfly.cql.tokens import Cursor
from mayfly.lifetime import format_micros
from mayfly.plan.logical_operators import (
    GroupAggregate,
    Node,
    Output,
    OutputKind,
    Project,
    Select,
    StreamScan,
)
from mayfly.plan.serving_terms import Isolation, Overloaded, Scanned, ServeClause
from mayfly.plan.window_kinds import Range

MOST_PRIORITY = 1000
MOST_PANES = 10_000
"""Of a window: each is an object in the memory of the server."""
_Choice = TypeVar("_Choice", bound=Enum)
_FORM = "write SERVE … AS SELECT a, SUM(x) AS x FROM s [RANGE 10 MIN SLIDE 1 MIN] GROUP BY a"


def read_serve_clause(cursor: Cursor) -> ServeClause:
    """What stands behind SERVE, up to AS or something else."""
    readers: dict[str, tuple[str, Callable[[Cursor], Any]]] = {
        "PRIORITY": ("priority", _priority),
        "OVERLOAD": ("overload", lambda c: _choice(c, Overloaded, "LATE, SKIP or EVERY")),
        "ISOLATION": ("isolation", lambda c: _choice(c, Isolation, "LATEST, WINDOW or SNAPSHOT")),
        "BOUNDED STALENESS": ("staleness", read_staleness),
        "SCAN": ("scan", _scan),
    }
    settings: dict[str, Any] = {}
    begin = cursor.place
    while (place := cursor.place) and (
        word := next((word for word in readers if cursor.take(*word.split())), None)
    ):
        name, read = readers[word]
        if name in settings:
            raise cursor.error(f"{word} is given twice", "keep one of them", place)
        settings[name] = read(cursor)
        if settings[name] is Isolation.LATEST and cursor.take("UNDO"):
            settings["undo"] = True
    if cursor.current and cursor.word() not in ("AS", "TO"):
        left = [word for word, (name, _) in readers.items() if name not in settings]
        cursor.finish("SERVE", [*left, "TO", "AS"])
    clause = ServeClause(**settings)
    if clause.undo and clause.scan.incremental:
        problem = f"UNDO has no effect: SCAN {clause.scan.value} reads a snapshot"
        raise cursor.error(problem, "leave one of them out", begin)
    return clause


def read_staleness(cursor: Cursor) -> int:
    return cursor.duration("the staleness", "write BOUNDED STALENESS 5 SECONDS", zero=True)


def _priority(cursor: Cursor) -> int:
    if cursor.take("0"):
        return 0
    place = cursor.place
    priority = cursor.count("a priority")
    if priority > MOST_PRIORITY:
        raise cursor.error(f"there is no priority {priority}", f"up to {MOST_PRIORITY}", place)
    return priority


def _choice(cursor: Cursor, choices: type[_Choice], words: str) -> _Choice:
    return choices(cursor.one_of([choice.value for choice in choices], words))


def _scan(cursor: Cursor) -> Scanned:
    for scan in (
        Scanned.INCREMENTAL_SYNOPSIS,
        Scanned.SYNOPSIS,
        Scanned.INCREMENTAL,
        Scanned.WINDOW,
    ):
        if cursor.take(*scan.value.split()):
            return scan
    allowed = ", ".join(scan.value for scan in Scanned)
    raise cursor.error(f"expected what to scan, found {cursor.shown}", f"allowed: {allowed}")


def check_served(context: BindingContext, output: Output) -> None:
    """Refuse a query that panes of one stream cannot answer."""
    problem = served_obstacle(output)
    if problem is not None:
        raise context.error_for(*problem)


def served_obstacle(output: Output) -> tuple[Node, str, str] | None:
    """What makes a query one that panes of a stream cannot answer: where, what, what to write."""
    if output.kind is not OutputKind.VIEW:
        problem = f"a served query has no {output.kind.value}: each answer is whole"
        return output, problem, "write the SELECT list without it"
    groups = [node for node in output.walk() if isinstance(node, GroupAggregate)]
    scans = [node for node in output.walk() if not node.children()]
    if not groups or len(scans) != 1 or not isinstance(scans[0], StreamScan):
        return (
            scans[-1] if len(scans) > 1 else output,
            "a served query is an aggregate over the panes of one stream",
            f"{_FORM}; joins and plain rows are for CREATE QUERY without SERVE",
        )
    below: Node = groups[-1].child
    while isinstance(below, Select | Project):
        below = below.child
    if below is not scans[0]:
        return below, "a served query groups rows of its stream, and nothing else", _FORM
    return _window_obstacle(scans[0])


def _window_obstacle(scan: StreamScan) -> tuple[Node, str, str] | None:
    window, slide = scan.window, scan.window.slide
    if not isinstance(window, Range) or window.internal or slide is None or not slide.period:
        return scan, f"a served query moves by SLIDE, and this window is {window.cql()}", _FORM
    pane = gcd(window.duration, slide.period)
    most = max(window.duration, slide.period) // pane
    if most > MOST_PANES:
        return (
            scan,
            f"this window and its SLIDE have {most:,} panes of {format_micros(pane)}, and a server "
            f"keeps {MOST_PANES:,}",
            "use lengths with a larger common divisor, like RANGE 1 HOUR SLIDE 1 MIN",
        )
    return None
