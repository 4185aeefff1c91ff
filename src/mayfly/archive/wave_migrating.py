"""Changing the scheme of an archive whose rows live equally long.

Idea: the new layout stands where it would stand had the archive always had it; each of its indexes
is written as one packed run, from the days that the old constituents show. It is one commit.
Invariant: hard reads show the same rows before and after. Cost: all that is alive is read once, and
written once for each index that holds it: temporaries are prepared on the way.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from mayfly.archive.layouts.operations import WaveState
from mayfly.archive.layouts.run_plan import RunPlan, RunWrite, Source
from mayfly.archive.layouts.wave import WaveLayout, WaveScheme
from mayfly.archive.planning import PlannedCommit
from mayfly.archive.state import ArchiveState, ArchiveVersion


def changed_layout(
    now: WaveLayout, scheme: str | None, constituents: int | None, default: int
) -> WaveLayout:
    """The layout with another scheme or number of constituents; what is not given stays, as far
    as the scheme allows."""
    wanted = now.scheme if scheme is None else WaveScheme(scheme)
    if constituents is None:
        allowed = wanted.fewest_constituents <= now.constituents <= now.window
        constituents = now.constituents if allowed else default
    return WaveLayout(wanted, now.window, constituents, now.spread and wanted is now.scheme)


def planned_move(version: ArchiveVersion, layout: WaveLayout) -> PlannedCommit:
    """Every index of the new layout, written from what is stored."""
    state, after = version.state, state_at(layout, version.state.update)
    stored = [run for runs in state.constituent_runs().values() for run in runs]
    stamp, plans = uuid.uuid4().hex[:6], []
    for name, days in {**after.constituents, **after.temporaries}.items():
        sources = tuple(
            Source(run.id, run.live_days & days) for run in stored if run.live_days & days
        )
        write = RunWrite(f"{state.update}m{stamp}.{name}", sources)
        plans.append(RunPlan(name, write=(write,) if sources else ()))
    runs = {plan.target: plan.runs_after for plan in plans}
    return PlannedCommit(state.update, tuple(plans), after, runs, True)


def moved_state(state: ArchiveState, planned: PlannedCommit) -> ArchiveState:
    """The state after the move: days that no index holds any more are forgotten."""
    kept = {day for runs in planned.runs.values() for run in runs for day in run.days}
    rows = {day: count for day, count in state.day_rows.items() if day in kept}
    return replace(state, wave=planned.after, runs=planned.runs, day_rows=rows)


def state_at(layout: WaveLayout, day: int) -> WaveState:
    """The state that so many updates from the start lead to, whole rounds skipped."""
    settled = layout.state_after(min(day, layout.window))
    state = layout.skip_rounds(settled, day)
    for step in layout.run(state, day):
        state = step.after
    return state
