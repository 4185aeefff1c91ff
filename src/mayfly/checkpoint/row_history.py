"""Newcomers over the latest rows: which rows they find in panes of rows that others keep.

Idea: the state of panes numbers the rows of its stream from the first one on, for all that read
it (kernels/row_panes.py). A newcomer knows them since a number, and waits for a row
(awaited_rows.py). A state that begins with a newcomer goes on with the numbers and waiting rows of
another one of its stream; without one it counts from there on, and what was read before and is not
yet closed is missing: until then nothing is known.
Invariant: from ``whole_from`` on the answer is that of the n latest rows. Cost: O(queries).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mayfly.checkpoint.awaited_rows import NOTHING, RowCount
from mayfly.kernels.pane_edges import contains, families_of, next_edges, reach_of
from mayfly.kernels.row_panes import numbered_window
from mayfly.lifetime import NEVER
from mayfly.physical.stages import StagedProgram, StagedTask
from mayfly.plan.pane_functions import ROWS
from mayfly.plan.window_kinds import Range, RowsWindow


@dataclass(frozen=True)
class PaneUse:
    """A window over panes, the numbers that are read by it, and since when it has them all."""

    window: Range
    numbers: tuple[str, ...]
    known_since: int


def panes_known_since(asked: PaneUse, others: Iterable[PaneUse], clock: int) -> int:
    """Since when there are the edges and numbers that a window asks for: as others use them, as
    far back as their own windows reach."""
    since: dict[object, int] = {}
    for other in others:
        own = max(other.known_since, clock - reach_of(other.window))
        for part in (ROWS, *other.numbers, *families_of(other.window)):
            since[part] = min(since.get(part, NEVER), own)
    instants = [since.get(part, NEVER) for part in (ROWS, *asked.numbers)]
    for family in families_of(asked.window):
        finer = [part for part in since if isinstance(part, tuple) and contains(part, family)]
        instants.append(min((since[part] for part in finer), default=NEVER))
    return max(asked.known_since, *instants)


def rows_known_from(
    stages: StagedProgram,
    reader: StagedTask,
    newcomers: Iterable[int],
    known_from: Mapping[str, int],
    count: RowCount,
    clock: int,
) -> int:
    """The number of the first row that a newcomer finds with its numbers and edges; NEVER if
    which one that is will be known later."""
    if not count.is_whole(clock):
        return NEVER
    window = _window_of(reader)
    assert window is not None
    others = []
    for other in stages.tasks:
        read = _window_of(other)
        if read is None or other.local != reader.local or other.group in newcomers:
            continue
        begun = 0 if stages.groups[other.group].since is None else NEVER
        since = known_from.get(other.name, begun)
        others.append(PaneUse(numbered_window(read), other.operator.numbers_read, since))
    asked = PaneUse(numbered_window(window), reader.operator.numbers_read, 0)
    return min(panes_known_since(asked, others, count.rows + 1), count.rows + 1)


def first_pane(window: RowsWindow, known_from: int) -> int:
    """The number of the first row of a pane all of whose rows are known: a window begins with it
    or later, and what it looks at before may become one with rows that it does not know."""
    if known_from <= 1 or known_from == NEVER:
        return known_from
    before = np.array([known_from - 1])
    return int(next_edges(before, families_of(numbered_window(window)))[0]) + 1


def _window_of(task: StagedTask) -> RowsWindow | None:
    return task.operator.reads_rows


def counts_of(
    stages: StagedProgram,
    states: Mapping[str, Mapping[str, Any]],
    largest: Mapping[str, int | None],
    lacks_until: Mapping[str, int],
) -> dict[str, RowCount]:
    """How far each state of panes of rows has counted, or begins to: with another one's count."""
    counts = {
        task.name: RowCount(stored["numbers"]["count"], lacks_until.get(task.name, NOTHING))
        for task in counting(stages)
        if (stored := states.get(f"task/{task.name}/0")) is not None
    }
    for task in counting(stages):
        if task.name not in counts:
            model, arrived = model_of(stages, task, states), largest.get(stream_of(stages, task))
            lacks = NOTHING if arrived is None else arrived
            counts[task.name] = counts[model] if model is not None else RowCount(0, lacks)
    return counts


def counting(stages: StagedProgram) -> list[StagedTask]:
    """The states that number the rows of their stream."""
    return [task for task in stages.tasks if task.operator.numbers_rows]


def model_of(stages: StagedProgram, task: StagedTask, states: Mapping[str, Any]) -> str | None:
    """The state of which a new one takes the count and the rows that wait."""
    stream = stream_of(stages, task)
    others = (other for other in counting(stages) if stream_of(stages, other) == stream)
    return next((o.name for o in others if f"task/{o.name}/0" in states), None)


def stream_of(stages: StagedProgram, task: StagedTask) -> str:
    return next(feed.source.stream for feed in stages.feeds if feed.task == task.number)
