"""What one commit has to write: the layout's steps as a job over stored runs.

Idea: the steps of the wave (missed updates first) become run plans, and only runs that exist after
the commit are written, each from stored runs and the batch alone. Work for later days is left to
a commit of its own, except where missed updates or late rows mix it with the new day's.
Invariant: ``runs`` are what the archive has after the commit, and the job writes just those of
them that are new. Cost: the steps of a gap, of which whole rounds are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mayfly.archive.layouts.cell_plan import CellPlanner, runs_after
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.layouts.operations import Days, WaveState
from mayfly.archive.layouts.run_plan import (
    IndexRuns,
    RunPlan,
    independent,
    is_old,
    plan_gap,
    plan_preparation,
    plan_update,
)
from mayfly.archive.layouts.wave_layouts import Transition
from mayfly.archive.model.row_counts import NO_WINDOWS, Positions
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import DAYS, ArchiveState, ArchiveVersion
from mayfly.archive.write.part_writer import PartResult, WriteJob
from mayfly.storage.directory import Directory


@dataclass(frozen=True)
class PlannedCommit:
    """The plans of one commit, and what the archive is afterwards."""

    update: int
    plans: tuple[RunPlan, ...]
    after: WaveState
    runs: IndexRuns
    complete: bool
    """Whether nothing is left to be done for later days."""

    def settled(self, results: Sequence[PartResult]) -> PlannedCommit:
        """The commit with the labels that the new runs turned out to have.

        A wave knows them beforehand; which updates will remove arriving rows, only the rows say.
        """
        if not self.open_labels:
            return self
        days_by_run: dict[str, Days] = {}
        for segment in (new_segment for result in results for new_segment in result.segments):
            run = segment.group.partition("/")[2]
            days_by_run[run] = days_by_run.get(run, frozenset()) | {
                label for label, _ in segment.tags[DAYS]
            }
        runs = runs_after(self.runs, self.plans, days_by_run)
        if self.days_known:
            return replace(self, runs=runs, open_labels=False)
        held = {
            name: frozenset(label for run in runs.get(name, ()) for label in run.days)
            for name in self.after.constituents
            if name in runs or not is_old(name)
        }
        return replace(self, runs=runs, after=WaveState(self.update, held), open_labels=False)

    positions: Positions = NO_WINDOWS
    """After the commit, of windows of a number of rows."""
    examined: tuple[str, ...] = ()
    """Runs that are read for what is alive in them by its positions."""

    open_labels: bool = False
    """Whether ``runs`` are still those before the commit."""
    days_known: bool = False
    """Whether indexes hold the days of ``after``, also those without rows."""


def plan_cells(
    version: ArchiveVersion,
    layout: PartitionedLayout,
    number: int,
    *,
    has_batch: bool,
    positions: Positions = NO_WINDOWS,
    dead: frozenset[str] = frozenset(),
    examined: frozenset[str] = frozenset(),
) -> PlannedCommit:
    """The commit of update ``number`` of rows with their own lifetimes.

    By their positions, all rows of ``dead`` runs are; in ``examined`` ones some may be.
    """
    state = version.state
    stored = {run.id for held in state.runs.values() for run in held}
    levels = {run: max(s.level for s in version.segments_of(run)) for run in stored}
    contract, calendar = version.settings.contract, version.settings.calendar
    due = contract.due(calendar, number)
    overdue = frozenset[str]()
    if due is not None:
        overdue = frozenset(
            run for run in stored if any(s.exp.low < due for s in version.segments_of(run))
        )
    planner = CellPlanner(
        layout,
        state.runs,
        state.update,
        number,
        levels,
        stale=state.pending_runs,
        overdue=overdue,
        patience=contract.late,
        has_batch=has_batch or bool(examined),
        examined=dead | examined,
    )
    names = (*layout.names, *(name for name in state.runs if name not in layout.names))
    nothing = WaveState(number, dict.fromkeys(names, frozenset[int]()))
    return PlannedCommit(
        number,
        planner.plans(),
        nothing,
        state.runs,
        True,
        open_labels=True,
        positions=positions,
        examined=tuple(sorted(examined)),
    )


def plan_next(
    version: ArchiveVersion,
    missed: range,
    number: int,
    arrived: Days,
    late: Days,
) -> PlannedCommit:
    """The commit of update ``number``, with the empty updates missed before it.

    ``arrived`` are the days the batch may have rows of, ``late`` those of earlier updates.
    """
    settings = version.settings
    steps, runs = _steps(settings, version.state, missed, number, late)
    last = steps[-1]
    if missed:
        gap = plan_gap(steps, settings.technique, runs, arrived)
        return PlannedCommit(number, gap.plans, last.after, gap.runs, True)
    plan = plan_update(last, settings.technique, runs, arrived)
    if late or not plan.pre_transition:
        return PlannedCommit(number, plan.plans, last.after, plan.runs, True)
    return PlannedCommit(number, plan.transition, last.arrived, plan.runs_arrived, False)


def plan_rest(settings: ArchiveSettings, state: ArchiveState) -> PlannedCommit:
    """The pre-transition work of the last update."""
    operations = settings.wave.preparation(state.wave)
    plans, runs, after = plan_preparation(operations, state.wave, settings.technique, state.runs)
    return PlannedCommit(state.update, plans, after, runs, True)


def write_job(
    directory: Directory,
    version: ArchiveVersion,
    planned: PlannedCommit,
    moved_to: ArchiveSettings | None = None,
) -> WriteJob:
    """The runs to be written; those that a later step of the same commit replaces are left out."""
    writes = independent([write for plan in planned.plans for write in plan.write])
    kept = {run.id for held in planned.runs.values() for run in held}
    needed = tuple(write for write in writes if planned.open_labels or write.id in kept)
    read = {source.run for write in needed for source in write.sources} | set(planned.examined)
    if moved_to is not None:
        held = version.state.constituent_runs().values()
        read = {run.id for runs in held for run in runs}
    return WriteJob(
        root=directory.address,
        sync=directory.sync,
        settings=moved_to or version.settings,
        update=planned.update,
        writes=needed,
        sources={run: version.segments_of(run) for run in sorted(read)},
        invalid=tuple(
            (entry, version.invalid_segments[entry.group])
            for entry in version.state.invalid
            if read & entry.pending.keys()
        ),
        moved_from=None if moved_to is None else version.settings,
        positions=planned.positions,
        examined=planned.examined,
    )


def _steps(
    settings: ArchiveSettings, state: ArchiveState, missed: range, number: int, late: Days
) -> tuple[list[Transition], IndexRuns]:
    """The steps up to this update, and the runs they start from."""
    layout, wave = settings.wave, state.wave
    runs = without_expired(state.runs, settings.family.horizon(number))
    steps: list[Transition] = []
    if missed:
        settled = wave
        for step in layout.run(wave, min(settings.window, missed[-1])):
            settled = step.after
        later = layout.skip_rounds(settled, missed[-1])
        if later is not settled:  # nothing that is stored now lasts that long
            wave, runs = later, {}
        steps = list(layout.run(wave, missed[-1]))
    before = steps[-1].after if steps else wave
    return [*steps, layout.transition(before, number, late)], runs


def without_expired(runs: IndexRuns, horizon: int) -> IndexRuns:
    """The runs, of which those that a former layout left show no expired day any more."""
    shown = {name: held for name, held in runs.items() if not is_old(name)}
    for name in (name for name in runs if is_old(name)):
        left = (run.without(frozenset(d for d in run.days if d <= horizon)) for run in runs[name])
        if lasting := tuple(run for run in left if run.live_days):
            shown[name] = lasting
    return shown
