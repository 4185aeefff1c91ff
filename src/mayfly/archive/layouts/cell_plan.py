"""What an update of a doubly partitioned layout does to stored runs.

Idea: the labels of a run are the updates that remove its rows. *Rebuild* merges what is alive in a
touched sub-index with the arriving rows into one packed run. *NoRebuild* adds one run per range of
labels, drops runs whose labels are all past without reading them, and merges ``fan_in`` runs of one
level and range into one of the next: ranges take turns, and what soon expires is left alone.
Invariant: afterwards every live row is in exactly one run of its cell's sub-index; a range of
labels has fewer than ``fan_in`` runs of each level in a sub-index, half as many more at its end.
Cost: Rebuild reads and writes the G + E − 1 touched sub-indices; NoRebuild writes each row about
log(p) times at most, and an update without rows reads nothing.
variable-lifetimes-2006, 3.1; results-index-2005, 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.layouts.operations import NO_DAYS, Days
from mayfly.archive.layouts.run_plan import IndexRuns, Run, RunPlan, RunWrite, Source, is_old


@dataclass(frozen=True)
class CellPlanner:
    """Plans one commit: update ``update`` after update ``last``, with empty ones in between.

    ``levels`` says how often the rows of a stored run have been merged; ``stale`` runs hold rows
    that were invalidated, and are written anew when their sub-index is touched; ``overdue`` ones
    hold rows whose bytes must go now. With ``patience`` a packed sub-index keeps dead rows for so
    many updates.
    """

    layout: PartitionedLayout
    runs: IndexRuns
    last: int
    update: int
    levels: Mapping[str, int]
    stale: frozenset[str] = frozenset()
    overdue: frozenset[str] = frozenset()
    patience: int = 0
    has_batch: bool = True
    examined: frozenset[str] = frozenset()
    """Runs that are given up whole: what is alive in them comes again as if it arrived."""

    def plans(self) -> tuple[RunPlan, ...]:
        """The plan of every sub-index that changes."""
        due = self._due()
        run_plans = []
        for name in (*self.layout.names, *(name for name in self.runs if is_old(name))):
            if name in due or is_old(name):
                rebuilds = self.layout.rebuild and not is_old(name)
                change = self._rebuilt if rebuilds else self._extended
                plan = change(name, self.runs.get(name, ()))
                if plan.write or plan.release:
                    run_plans.append(plan)
        return tuple(run_plans)

    def _due(self) -> frozenset[str]:
        """Sub-indices that these updates may change; two roll-overs after the last update nothing
        of what it left is stored, unless it came before lifetimes were lowered."""
        layout = self.layout
        latest = max((max(r.days) for runs in self.runs.values() for r in runs), default=0)
        lasting = max(self.last + 2 * layout.rollover, latest) + self.patience
        until = min(self.update, lasting)
        updates = range(self.last + 1 - self.patience, until + 1)
        due = frozenset().union(*(layout.removes(u) | layout.throws_away(u) for u in updates))
        changed = self.overdue | self.examined
        due |= {n for n, runs in self.runs.items() if any(r.id in changed for r in runs)}
        return due | layout.inserts(self.update) if self.has_batch else due

    def _arriving(self, name: str) -> Days:
        if not self.has_batch or is_old(name):
            return NO_DAYS
        return self.layout.removals_in(name, self.update)

    def _rebuilt(self, name: str, held: tuple[Run, ...]) -> RunPlan:
        batch = self._arriving(name)
        lasting = self.update - self.patience
        again = self.stale | self.overdue | self.examined
        spoiled = any(min(run.days) <= lasting or run.id in again for run in held)
        if not batch and not spoiled:
            return RunPlan(name, held)
        sources = self._alive(run for run in held if run.id not in self.examined)
        write = (RunWrite(self._id(name, 1), sources, batch),) if sources or batch else ()
        return RunPlan(name, write=write, release=tuple(run.id for run in held))

    def _extended(self, name: str, held: tuple[Run, ...]) -> RunPlan:
        lasting = (run for run in held if run.id not in self.examined)
        kept = tuple(run for run in lasting if max(run.days) > self.update)
        written, merged = [], set[str]()
        for number, labels in enumerate(self._ranges(self._arriving(name)), start=1):
            slot = self.layout.slot_of(min(labels))
            level, taken = self._merged_with([run for run in kept if self._slot(run) == slot], slot)
            merged |= {run.id for run in taken}
            written.append(RunWrite(self._id(name, number), self._alive(taken), labels, level))
        again = self.stale | self.overdue
        for run in (r for r in kept if r.id in again and r.id not in merged):
            merged.add(run.id)
            sources, number = self._alive([run]), len(written) + 1
            written.append(RunWrite(self._id(name, number), sources, level=self.levels[run.id]))
        return RunPlan(
            name,
            keep=tuple(run for run in kept if run.id not in merged),
            write=tuple(written),
            release=tuple(run.id for run in held if run not in kept or run.id in merged),
        )

    def _merged_with(self, same: list[Run], slot: int) -> tuple[int, list[Run]]:
        """The runs of a range that a new one is merged with, and the level of the result."""
        highest = max((self.levels[run.id] for run in same), default=0)
        level, taken = 0, list[Run]()
        while True:
            like = [run for run in same if self.levels[run.id] == level]
            before = self.layout.head_start(slot, level) if level >= highest else 0
            pays = not like or self.layout.merges_pay(slot, level, self.update)
            if len(like) + before < self.layout.fan_in - 1 or not pays:
                return level, taken
            taken += like
            level += 1

    def _ranges(self, labels: Days) -> Iterable[Days]:
        slots: dict[int, set[int]] = {}
        for label in sorted(labels):
            slots.setdefault(self.layout.slot_of(label), set()).add(label)
        return [frozenset(days) for days in slots.values()]

    def _slot(self, run: Run) -> int:
        return self.layout.slot_of(max(run.days))

    def _alive(self, runs: Iterable[Run]) -> tuple[Source, ...]:
        live = (Source(run.id, frozenset(d for d in run.days if d > self.update)) for run in runs)
        return tuple(source for source in live if source.days)

    def _id(self, name: str, number: int) -> str:
        return f"{self.update}.{name}.{number}"


def runs_after(
    runs: IndexRuns, plans: Iterable[RunPlan], days_by_run: Mapping[str, Days]
) -> IndexRuns:
    """The runs of every sub-index, given the days that each new run holds rows of."""
    following = dict(runs)
    for plan in plans:
        new = tuple(Run(w.id, days_by_run[w.id]) for w in plan.write if days_by_run.get(w.id))
        following[plan.target] = plan.keep + new
    return {name: held for name, held in following.items() if held}
