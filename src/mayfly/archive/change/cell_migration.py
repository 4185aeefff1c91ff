"""Changing an archive of cells: all that is alive laid out anew, or left to run empty.

Idea: rebuilt, every cell that may hold a live row belongs to a run of the new layout, and rows say
which of these runs there are. Side by side, the runs stay under names no update inserts into.
Invariant: no row changes its expiration. Cost: one run plan per sub-index and range of labels.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from math import log

from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.layouts.operations import WaveState
from mayfly.archive.layouts.run_plan import RunPlan, RunWrite, set_aside
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveState, ArchiveVersion
from mayfly.archive.write.job_plan import PlannedCommit


def emptying(state: ArchiveState, layout: PartitionedLayout, update: int) -> ArchiveState:
    """The state with all runs under names that no update inserts into."""
    runs = set_aside(state.runs)
    held = {name: frozenset(j for run in runs[name] for j in run.days) for name in runs}
    fresh = dict.fromkeys(layout.names, frozenset[int]())
    return replace(state, wave=WaveState(update, {**fresh, **held}), runs=runs)


def every_run(version: ArchiveVersion, after: ArchiveSettings, update: int) -> PlannedCommit:
    """Every run that the live rows can make up under the new layout."""
    layout = after.cells
    latest = version.settings.family.last_expiration(version, after)
    labels = range(update + 1, after.calendar.update_of(latest) + 1)
    stamp = f"{update}m{uuid.uuid4().hex[:6]}"
    # As often merged as what updates had brought one by one, and not to be merged again soon.
    level = max(after.young, int(log(max(1, layout.rollover), layout.fan_in)))
    plans = []
    for name in layout.names:
        lane = (int(name.removeprefix("I")) - 1) % layout.lanes
        own = [j for j in labels if layout.lane_of(j) == lane]
        ranges = [own] if layout.rebuild else _by_slot(layout, own)
        writes = tuple(
            RunWrite(f"{stamp}.{name}.{number}", (), frozenset(some), level, only=name)
            for number, some in enumerate(ranges, start=1)
            if some
        )
        plans.append(RunPlan(name, write=writes))
    nothing = WaveState(update, dict.fromkeys(layout.names, frozenset[int]()))
    return PlannedCommit(update, tuple(plans), nothing, {}, True, open_labels=True)


def _by_slot(layout: PartitionedLayout, labels: Iterable[int]) -> list[list[int]]:
    slots: dict[int, list[int]] = {}
    for label in labels:
        slots.setdefault(layout.slot_of(label), []).append(label)
    return list(slots.values())
