"""What the operations of a day mean for stored runs, under each update technique.

Idea: an index is a list of immutable, key-sorted runs. *In-place* appends a run and hides
deleted days behind a deletion vector; *simple shadow* copies the runs it changes and appends;
*packed shadow* merges everything into one run. The writer carries out exactly this plan.
Invariant: after the plan the runs of every index show exactly the days of its state that have
rows, each row once; no run is read that a write does not need.
Cost: O(runs touched) to plan. A run that would only be a copy of another is referenced instead
(not under simple shadow, which is defined by its copies), and nothing is written twice.
wave-indices-1997, 2.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

from mayfly.archive.layouts.operations import (
    NO_DAYS,
    AddIndex,
    Days,
    DropIndex,
    IndexChange,
    Operation,
    RenameIndex,
    WaveState,
    changes,
    execute,
)
from mayfly.archive.layouts.wave_layouts import Transition
from mayfly.errors import InvalidSetting

_NO_DAY = 0
"""Days count from 1."""
IndexRuns = Mapping[str, "tuple[Run, ...]"]
"""The runs of every index, by its name."""


class UpdateTechnique(StrEnum):
    """How a constituent is changed."""

    IN_PLACE = "in-place"
    SIMPLE_SHADOW = "simple shadow"
    PACKED_SHADOW = "packed shadow"

    @classmethod
    def _missing_(cls, value: object) -> UpdateTechnique:
        for technique in cls:
            if technique.value == str(value).lower().replace("_", " "):
                return technique
        raise InvalidSetting(
            f"there is no update technique {value!r}", f"use one of {', '.join(cls)}"
        )


@dataclass(frozen=True, slots=True)
class Run:
    """An immutable key-sorted piece of an index: the days it has rows of, and those hidden."""

    id: str
    days: Days
    deleted_days: Days = NO_DAYS

    @property
    def live_days(self) -> Days:
        return self.days - self.deleted_days

    def without(self, days: Days) -> Run:
        """The run with more of its days hidden."""
        return Run(self.id, self.days, self.deleted_days | (self.days & days))


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of some days of a stored run."""

    run: str
    days: Days


@dataclass(frozen=True, slots=True)
class RunWrite:
    """A run to be written: rows of stored runs and of the arriving batch, merged by key."""

    id: str
    sources: tuple[Source, ...]
    batch_days: Days = NO_DAYS
    level: int = 0
    """How often its rows have been merged."""
    only: str | None = None
    """Of the arriving rows, those of this sub-index; None where the labels alone tell."""

    @property
    def days(self) -> Days:
        return self.batch_days.union(*(source.days for source in self.sources))


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What becomes of the runs of one index."""

    target: str
    keep: tuple[Run, ...] = ()
    """Runs the index has afterwards that exist already, with their deletion vectors."""
    write: tuple[RunWrite, ...] = ()
    mark_deleted: Mapping[str, Days] = field(default_factory=dict)
    """Days to hide in kept runs, in addition to those hidden before."""
    release: tuple[str, ...] = ()
    """Runs the index had before and has no longer; other indexes may still use them."""

    @property
    def read(self) -> tuple[str, ...]:
        """The stored runs that have to be read."""
        return tuple(dict.fromkeys(s.run for write in self.write for s in write.sources))

    @property
    def runs_after(self) -> tuple[Run, ...]:
        return self.keep + tuple(Run(write.id, write.days) for write in self.write)

    @property
    def packed_after(self) -> bool:
        return is_packed(self.runs_after)


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """What one commit does to the runs, and the runs every index has afterwards."""

    transition: tuple[RunPlan, ...]
    pre_transition: tuple[RunPlan, ...]
    runs: Mapping[str, tuple[Run, ...]]
    runs_arrived: Mapping[str, tuple[Run, ...]]
    """The runs after the transition alone."""

    @property
    def plans(self) -> tuple[RunPlan, ...]:
        return self.transition + self.pre_transition

    @property
    def writes(self) -> tuple[RunWrite, ...]:
        return tuple(write for plan in self.plans for write in plan.write)


OLD = "old"
"""How the names of indexes begin that a former layout left behind, to empty themselves."""


def is_old(name: str) -> bool:
    return name.startswith(OLD)


def set_aside(runs: IndexRuns) -> IndexRuns:
    """The same runs under names that no update inserts into."""
    old_names = {name for name in runs if is_old(name)}
    kept = {name: runs[name] for name in old_names}
    for name in (name for name in runs if name not in old_names):
        number = next(n for n in count(1) if f"{OLD}{n}.{name}" not in kept)
        kept[f"{OLD}{number}.{name}"] = runs[name]
    return kept


def is_packed(runs: Iterable[Run]) -> bool:
    """Whether an index is one contiguous run with nothing hidden in it."""
    runs = tuple(runs)
    return len(runs) <= 1 and not any(run.deleted_days for run in runs)


def plan_update(
    step: Transition, technique: UpdateTechnique, runs: IndexRuns, batch_days: Days
) -> UpdatePlan:
    """The plan of one day, phase by phase.

    ``runs`` are those of every constituent and temporary before it; ``batch_days`` the days the
    arriving batch has rows of (today, and days of late rows), empty for an empty batch.
    """
    planner = _Planner(technique, step.day, runs, batch_days)
    transition = planner.plan_phase(step.transition, step.before.constituents)
    arrived = dict(planner.runs)
    pre_transition = planner.plan_phase(step.pre_transition, step.after.constituents)
    return UpdatePlan(transition, pre_transition, planner.runs, arrived)


def plan_preparation(
    operations: Sequence[Operation], arrived: WaveState, technique: UpdateTechnique, runs: IndexRuns
) -> tuple[tuple[RunPlan, ...], IndexRuns, WaveState]:
    """The plan of pre-transition work in a commit of its own: today's rows are stored by now."""
    planner = _Planner(technique, _NO_DAY, runs, NO_DAYS, label=f"{arrived.day}p")
    plans = planner.plan_phase(operations, arrived.constituents)
    return plans, planner.runs, execute(arrived, operations, arrived.day)


def plan_gap(
    steps: Sequence[Transition], technique: UpdateTechnique, runs: IndexRuns, batch_days: Days
) -> UpdatePlan:
    """The plan of several days in one commit, of which only the last has a batch.

    Runs that would be gone again before the commit are never written: every write is expressed
    in runs that exist, so that the writes are independent of each other.
    """
    before, planned = dict(runs), dict[str, RunWrite]()
    for step in steps:
        arrived = batch_days if step is steps[-1] else NO_DAYS
        plan = plan_update(step, technique, runs, arrived)
        planned |= {write.id: write for write in plan.writes}
        runs = plan.runs
    todo = {run.id: _expanded(planned[run.id], planned) for run in _all(runs) if run.id in planned}
    names = sorted({*before, *runs}, key=lambda name: (len(name), name))
    plans = [
        _net_plan(name, before, runs, todo) for name in names if before.get(name) != runs.get(name)
    ]
    constituents = steps[-1].after.constituents
    after = {**runs, **{plan.target: plan.runs_after for plan in plans if plan.target in runs}}
    return UpdatePlan(
        tuple(plan for plan in plans if plan.target in constituents),
        tuple(plan for plan in plans if plan.target not in constituents),
        after,
        after,
    )


def independent(writes: Sequence[RunWrite]) -> tuple[RunWrite, ...]:
    """The same runs, each expressed in stored runs alone, so that they can be written at once."""
    planned = {write.id: write for write in writes}
    return tuple(_expanded(write, planned) for write in writes)


def _expanded(write: RunWrite, planned: Mapping[str, RunWrite]) -> RunWrite:
    """The same rows, taken only from runs that exist before the commit."""
    taken: dict[str, Days] = {}
    batch_days = write.batch_days
    for source in write.sources:
        if source.run not in planned:
            taken[source.run] = taken.get(source.run, NO_DAYS) | source.days
            continue
        deeper = _expanded(planned[source.run], planned)
        batch_days |= deeper.batch_days & source.days
        for inner in deeper.sources:
            taken[inner.run] = taken.get(inner.run, NO_DAYS) | (inner.days & source.days)
    sources = tuple(Source(run, days) for run, days in taken.items() if days)
    return RunWrite(write.id, sources, batch_days, write.level, write.only)


def _net_plan(name: str, before: IndexRuns, after: IndexRuns, todo: dict[str, RunWrite]) -> RunPlan:
    held, runs = before.get(name, ()), after.get(name, ())
    write = tuple(todo.pop(run.id) for run in runs if run.id in todo)
    written = {w.id for w in write}
    hidden_before = {run.id: run.deleted_days for run in held}
    marked = {
        run.id: run.deleted_days - hidden_before[run.id]
        for run in runs
        if run.id in hidden_before and run.deleted_days > hidden_before[run.id]
    }
    return RunPlan(
        name,
        keep=tuple(run for run in runs if run.id not in written),
        write=write,
        mark_deleted=marked,
        release=tuple(run.id for run in held if run.id not in {r.id for r in runs}),
    )


_Piece = tuple[tuple[Source, ...], Days]
"""The content of a run to be: rows of stored runs, and days of the arriving batch."""


class _Planner:
    """Folds the operations of a day into run plans, keeping account of the runs as it goes."""

    def __init__(
        self,
        technique: UpdateTechnique,
        today: int,
        runs: IndexRuns,
        batch_days: Days,
        label: str = "",
    ) -> None:
        self.technique, self.today, self.batch_days = technique, today, batch_days
        self._label = label or str(today)
        self.runs = dict(runs)
        self._constituents: Collection[str] = ()
        self._planned: dict[_Piece, Run] = {}
        self._writes = 0

    def plan_phase(
        self, operations: Iterable[Operation], constituents: Collection[str]
    ) -> tuple[RunPlan, ...]:
        self._constituents = constituents
        return tuple(plan for change in changes(operations) for plan in self._plan(change))

    @property
    def _constituent_runs(self) -> tuple[Run, ...]:
        """Where the rows of older days are taken from; an index may be rebuilt from its own."""
        return tuple(run for name in self._constituents for run in self.runs.get(name, ()))

    def _plan(self, change: IndexChange | RenameIndex | AddIndex | DropIndex) -> list[RunPlan]:
        match change:
            case AddIndex():
                return []
            case DropIndex(target=target):
                return [RunPlan(target, release=_ids(self.runs.pop(target, ())))]
            case RenameIndex(source=source, target=target):
                moved = self.runs[target] = self.runs.pop(source, ())
                return [RunPlan(source, release=_ids(moved)), RunPlan(target, keep=moved)]
            case IndexChange(target=target):
                plan = self._plan_change(change)
                self.runs[target] = plan.runs_after
                return [plan]

    def _plan_change(self, change: IndexChange) -> RunPlan:
        base = () if change.base is None else self.runs.get(change.base, ())
        older = _sources(self._constituent_runs, change.added - {self.today})
        batch = (change.added & {self.today} | change.late) & self.batch_days
        keep: tuple[Run, ...] = ()
        pieces: list[_Piece] = [(older, batch)]
        if change.built or self.technique is UpdateTechnique.PACKED_SHADOW:
            pieces = [(_live(base, change.deleted) + older, batch)]
        elif self._copies(change):
            pieces = [(_live([run], change.deleted), NO_DAYS) for run in base] + pieces
        else:
            shortened = (run.without(change.deleted) for run in base)
            keep = tuple(run for run in shortened if run.live_days)
        made = [self._made(piece) for piece in pieces if any(piece)]
        keep += tuple(run for run in made if isinstance(run, Run))
        write = tuple(run for run in made if isinstance(run, RunWrite))
        remaining = {run.id for run in keep}
        return RunPlan(
            change.target,
            keep,
            write,
            {run.id: run.days & change.deleted for run in keep if run.days & change.deleted},
            tuple(id for id in _ids(self.runs.get(change.target, ())) if id not in remaining),
        )

    def _copies(self, change: IndexChange) -> bool:
        """Shadows are made for readers; a temporary that is extended has none."""
        extended = change.base == change.target and change.target not in self._constituents
        return self.technique is UpdateTechnique.SIMPLE_SHADOW and not extended

    def _made(self, piece: _Piece) -> Run | RunWrite:
        """A run with this content: one that exists, or one to be written."""
        sources, batch = piece
        if self.technique is not UpdateTechnique.SIMPLE_SHADOW:
            if piece in self._planned:
                return self._planned[piece]
            if len(sources) == 1 and not batch:
                whole = Run(sources[0].run, sources[0].days)
                if whole in self._constituent_runs:
                    return whole
        self._writes += 1
        write = RunWrite(f"{self._label}.{self._writes}", sources, batch)
        self._planned[piece] = Run(write.id, write.days)
        return write


def _live(runs: Iterable[Run], deleted: Days) -> tuple[Source, ...]:
    """The rows of these runs that remain."""
    remaining = (Source(run.id, run.live_days - deleted) for run in runs)
    return tuple(source for source in remaining if source.days)


def _sources(runs: Iterable[Run], days: Days) -> tuple[Source, ...]:
    """Where the rows of these days lie."""
    sources = (Source(run.id, run.live_days & days) for run in runs)
    return tuple(source for source in sources if source.days)


def _ids(runs: Iterable[Run]) -> tuple[str, ...]:
    return tuple(run.id for run in runs)


def _all(runs: IndexRuns) -> Iterable[Run]:
    return (run for held in runs.values() for run in held)
