"""What served queries of a file ask of a server: panes read per update, alone and together, memory.

Beside a checkpoint that a server has followed, also what that has measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from mayfly.cli.file_queries import Query
from mayfly.display import counted, size
from mayfly.lifetime import format_micros
from mayfly.periodic.scheduling import ScheduledQuery, policy_named
from mayfly.plan.window_kinds import Range
from mayfly.serving.periodic.planned_window import PlannedWindow, planned_windows
from mayfly.serving.periodic.served_load import (
    VALUE,
    BoardLoad,
    as_scheduled,
    measured_from,
    stretch_of,
)
from mayfly.serving.periodic.served_window import PaneGrid, rows_missing
from mayfly.serving.whole_rows import whole_rows

GROUPS = 1000
"""Of a pane, for which the memory of a query is given."""


def advice(queries: Collection[Query], checkpoint: Path) -> Iterator[str]:
    """A line for each served query, one for those whose panes are updated together, and one about
    what was measured."""
    boards: dict[PaneGrid, list[PlannedWindow]] = defaultdict(list)
    served = {query.name: query.plan for query in queries if query.plan.serve is not None}
    for window in planned_windows(served):
        boards[window.grid].append(window)
    policy = policy_named("late-pending")
    kept = _kept(queries)
    measured = _measured(checkpoint)
    loads = []
    for grid, members in boards.items():
        listed: list[ScheduledQuery] = []
        for window in members:
            problem = rows_missing(window, kept.get(window.stream, 0))
            if problem:
                yield f"{window.name} will not be served: {problem}"
                continue
            before = float(policy.cost(listed)) if listed else 0.0
            listed.append(as_scheduled(window))
            added = float(policy.cost(listed)) - before
            yield (
                f"{window.name} is served: {counted(window.length // grid.length, 'pane')} of "
                f"{format_micros(grid.length)}, every {format_micros(window.period)}; adds "
                f"{added:.2f} reads per pane; {_memory(window)}"
            )
        if not listed:
            continue
        load = BoardLoad(
            grid, policy.cost(listed), measured_from(measured.get(grid.stream), grid.length)
        )
        loads.append(load)
        yield (
            f"served over panes of {format_micros(grid.length)} of {grid.stream}: "
            f"{float(load.reads):.2f} reads in each {format_micros(grid.length)}, by late-pending"
        )
    stretch = stretch_of(loads)
    if stretch is not None:
        yield from (f"by what the last server measured: {load}" for load in loads)
        longer = f"periods become about {float(stretch):.1f} times as long"
        yield f"together: {'it fits' if stretch <= 1 else longer}"


def _kept(queries: Iterable[Query]) -> dict[str, int]:
    """How long rows of streams are kept."""
    kept: dict[str, int] = {}
    for query in queries:
        scan = whole_rows(query.plan) if query.registered else None
        if scan is not None and isinstance(scan.window, Range):
            kept[scan.stream] = max(scan.window.duration, kept.get(scan.stream, 0))
    return kept


def _memory(window: PlannedWindow) -> str:
    if window.serve.scan.of_rows:
        return "holds the rows that KEEP keeps in memory"
    held = VALUE * window.columns * GROUPS * window.panes_held
    return f"about {size(held)} of memory for {GROUPS:,} groups in a pane"


def _measured(checkpoint: Path) -> dict[str, Any]:
    if not checkpoint.is_dir():
        return {}
    # Here: most files are checked before there is a checkpoint.
    from mayfly.serving.periodic.answer_positions import last_measured
    from mayfly.storage import Repository

    if not Repository.exists(checkpoint):
        return {}
    return last_measured(Repository.open(checkpoint).directory)
