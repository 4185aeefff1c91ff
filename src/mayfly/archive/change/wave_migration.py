"""Changing an archive of a window: the new layout stands where it would had it always been so.

Idea: rebuilt, each index is one packed run of what is alive of its days. Side by side, its indexes
have their days and none of their rows, as if those updates had brought none: the old constituents
keep them, hidden day by day as they expire, until nothing of one is alive.
Invariant: hard reads show the rows of the last W updates, before and after. Cost: all that is alive
is read once and written once for each index that holds it; side by side, nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from mayfly.archive.layouts.operations import WaveState
from mayfly.archive.layouts.run_plan import IndexRuns, RunPlan, RunWrite, set_aside
from mayfly.archive.layouts.wave_layouts import WaveLayout
from mayfly.archive.model.state import ArchiveState, ArchiveVersion
from mayfly.archive.write.job_plan import PlannedCommit, without_expired


def every_index(layout: WaveLayout, update: int) -> PlannedCommit:
    """Every index of the new layout, written from what is alive of its days."""
    state, stamp = state_at(layout, update), uuid.uuid4().hex[:6]
    plans = tuple(
        RunPlan(name, write=(RunWrite(f"{update}m{stamp}.{name}", (), days),) if days else ())
        for name, days in {**state.constituents, **state.temporaries}.items()
    )
    return PlannedCommit(update, plans, state, {}, True, open_labels=True, days_known=True)


def left_aside(version: ArchiveVersion, layout: WaveLayout) -> ArchiveState:
    """The state after a change side by side."""
    state, horizon = version.state, version.settings.family.horizon(version.state.update)
    runs: IndexRuns = {name: held for name, held in state.constituent_runs().items() if held}
    runs = without_expired(set_aside(runs), horizon)
    return replace(
        state,
        wave=state_at(layout, state.update),
        runs=runs,
        day_rows={day: rows for day, rows in state.day_rows.items() if day > horizon},
    )


def state_at(layout: WaveLayout, day: int) -> WaveState:
    """The state that so many updates from the start lead to, whole rounds skipped."""
    settled = layout.state_after(min(day, layout.window))
    state = layout.skip_rounds(settled, day)
    for step in layout.run(state, day):
        state = step.after
    return state
