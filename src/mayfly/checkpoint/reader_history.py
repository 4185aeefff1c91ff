"""Who reads panes that others keep, and since when it knows their rows.

Queries that are answered together are readers of one task. Each that comes later has its own first
instant: the step that gives it its history steps no other reader of the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mayfly.kernels.interval import Interval
from mayfly.physical.shared_program import ClockGroup
from mayfly.physical.stages import StagedProgram, StagedTask
from mayfly.plan.window_kinds import Range


@dataclass(frozen=True)
class Entrance:
    """Readers that come to those of a task, by number, and the first instant of theirs."""

    began: int
    readers: frozenset[int]


@dataclass(frozen=True)
class WindowReading:
    """A window by which a task reads what others keep; under ``key`` stands since when it knows
    all rows. ``reader`` is its number among several."""

    task: StagedTask
    key: str
    window: Range
    group: ClockGroup
    reader: int | None = None

    @staticmethod
    def all_of(stages: StagedProgram) -> list[WindowReading]:
        readings = []
        for task in stages.tasks:
            group = stages.groups[task.group]
            for own in task.operator.readers:
                came = replace(group, since=own.since, entry=own.entry)
                readings.append(
                    WindowReading(task, reader_key(task.name, own), own.window, came, own.number)
                )
            if not task.operator.readers:
                readings += [WindowReading(task, task.name, w, group) for w in task.operator.reads]
        return readings


def reader_key(task: str, reader: Any) -> str:
    """The name of a reader of a task."""
    return f"{task}/{reader.number}"


def interval_of_readers(
    task: StagedTask, interval: Interval, know: Mapping[str, int], entering: Mapping[str, Entrance]
) -> Interval:
    """With what each reader of a task knows; if some have just come, their first instants."""
    keys = {reader.number: reader_key(task.name, reader) for reader in task.operator.readers}
    since = tuple((number, know[key]) for number, key in keys.items() if key in know)
    interval = replace(interval, readers_know_from=since)
    entrance = entering.get(task.name)
    if entrance is None:
        return interval
    return replace(interval, began=entrance.began, entering=entrance.readers)
