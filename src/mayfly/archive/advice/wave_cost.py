"""What a wave layout costs: space, transition time, pre-transition time, work, response.

Idea: no closed formula per scheme. The state machine is run into its steady state, each
operation is priced as it happens, and the measures are averaged over one period of cluster
lengths. So the model prices exactly the work that is done, for every W, n and technique.

With m days in the index it starts from, x days deleted and a days added, a change costs
  BuildIndex                 a·Build
  in-place                   x·Del + a·Add
  simple shadow              m·CP + x·Del + a·Add      (temporaries have no readers: in-place)
  packed shadow              a·Build + (m + a)·SMCP    (x deleted while copying; m = 0: a·Build)
and copying an index first adds m·CP (m·SMCP if it is packed). Dropping and renaming are free.

Space in operation is what all indexes occupy between updates; space in transition is what comes
on top at the worst moment before the new day can be queried: the new version of an index beside
the old one, and with packed shadows the index of the added days. Total work is transition +
pre-transition + probes × probe response + scans × scan response.
Cost: one pass over about 3·W transitions. wave-indices-1997, 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from statistics import fmean
from typing import Any, NamedTuple

from mayfly.archive.advice.cost_parameters import CostParameters
from mayfly.archive.layouts.operations import (
    AddIndex,
    BuildIndex,
    DropIndex,
    IndexChange,
    RenameIndex,
    WaveState,
    changes,
    execute,
)
from mayfly.archive.layouts.run_plan import UpdateTechnique
from mayfly.archive.layouts.wave_layouts import Transition, WaveLayout


@dataclass(frozen=True, slots=True)
class WaveCost:
    """Predicted measures of a wave layout, averages over its steady state."""

    layout: WaveLayout
    technique: UpdateTechnique
    space_in_operation: float
    """Megabytes between updates."""
    space_in_transition: float
    """Megabytes on top of that while the new day is being indexed."""
    largest_space: float
    """Megabytes at the worst moment of all, pre-transition work included."""
    transition: float
    """Seconds until the new day can be queried."""
    pre_transition: float
    """Seconds of preparation for later days."""
    busiest_day: float
    """Seconds of the day with the most transition and pre-transition work."""
    probe: float
    """Seconds of one probe."""
    scan: float
    """Seconds of one scan."""
    queries: float
    """Seconds of all queries of a day."""

    def to_json(self) -> dict[str, Any]:
        """The layout and its figures as plain values."""
        return {
            "scheme": self.layout.scheme.value,
            "technique": self.technique.value,
            "constituents": self.layout.constituents,
            "work_seconds": self.total_work,
            "transition_seconds": self.transition,
            "pre_transition_seconds": self.pre_transition,
            "busiest_day_seconds": self.busiest_day,
            "megabytes": self.space,
            "probe_seconds": self.probe,
            "scan_seconds": self.scan,
        }

    @property
    def maintenance(self) -> float:
        """Seconds of a day that do not answer queries."""
        return self.transition + self.pre_transition

    @property
    def total_work(self) -> float:
        """Seconds of work in a day, done one after the other."""
        return self.maintenance + self.queries

    @property
    def space(self) -> float:
        """Megabytes an update needs: in operation and on top."""
        return self.space_in_operation + self.space_in_transition


@lru_cache(maxsize=8192)
def wave_cost(
    layout: WaveLayout, technique: UpdateTechnique, parameters: CostParameters
) -> WaveCost:
    """The predicted measures of a layout under an update technique."""
    ledger = _Ledger(technique, parameters)
    run = _steady_run(layout)
    for day in run[: -layout.period]:  # what the first ones left is gone by the end of these
        ledger.work(day)
    days = [ledger.account(day) for day in run[-layout.period :]]
    probe, scan = fmean(day.probe for day in days), fmean(day.scan for day in days)
    return WaveCost(
        layout,
        technique,
        space_in_operation=fmean(day.space for day in days),
        space_in_transition=fmean(day.space_on_top for day in days),
        largest_space=max(day.largest_space for day in days),
        transition=fmean(day.transition for day in days),
        pre_transition=fmean(day.pre_transition for day in days),
        busiest_day=max(day.transition + day.pre_transition for day in days),
        probe=probe,
        scan=scan,
        queries=parameters.probes * probe + parameters.scans * scan,
    )


def day_price(
    layout: WaveLayout, technique: UpdateTechnique, parameters: CostParameters, day: int
) -> tuple[float, float]:
    """Seconds of transition and pre-transition work on one day, counted from the archive's first.

    In the steady state days repeat after a period, so no day is far.
    """
    run = _whole_run(layout)
    same = day if day <= len(run) else len(run) - (len(run) - day) % layout.period
    ledger = _Ledger(technique, parameters)
    for workday in run[: same - 1]:
        ledger.work(workday)
    now, later = ledger.work(run[same - 1])
    return now.seconds, later.seconds


_Changes = tuple[IndexChange | RenameIndex | AddIndex | DropIndex, ...]


@dataclass(frozen=True, slots=True)
class _Workday:
    """What happens on a day, without the days of every index: many of these are kept."""

    transition: _Changes
    pre_transition: _Changes
    constituents_before: Collection[str]
    newest_age: Mapping[str, int]
    """For each constituent afterwards, how many days ago its newest day was."""


@lru_cache(maxsize=4)
def _steady_run(layout: WaveLayout) -> tuple[_Workday, ...]:
    """Until a whole period of the steady state is over, with the start made in one day."""
    if layout.spread:  # which prepares temporaries from the first day on
        return _whole_run(layout)
    clusters = enumerate(layout.initial_clusters, start=1)
    built = {f"I{number}": frozenset(cluster) for number, cluster in clusters}
    arrival = tuple(
        operation
        for name, days in built.items()
        for operation in (BuildIndex(days, name), AddIndex(name))
    )
    arrived = execute(WaveState(), arrival, layout.window)
    preparation = layout.preparation(arrived)
    first = _Workday(changes(arrival), changes(preparation), (), _ages(arrived))
    state = execute(arrived, preparation, layout.window)
    return (first, *_workdays(layout.run(state, 2 * layout.window + layout.period)))


@lru_cache(maxsize=4)
def _whole_run(layout: WaveLayout) -> tuple[_Workday, ...]:
    """The days from the first one on, through the start-up of the layout."""
    return tuple(_workdays(layout.run(WaveState(), 2 * layout.window + layout.period)))


def _workdays(steps: Iterable[Transition]) -> Iterator[_Workday]:
    for step in steps:
        before = tuple(step.before.constituents)
        yield _Workday(
            changes(step.transition), changes(step.pre_transition), before, _ages(step.after)
        )


def _ages(state: WaveState) -> dict[str, int]:
    return {name: state.day - max(days) for name, days in state.constituents.items()}


class _Held(NamedTuple):
    """What an index holds: so many days, packed or not."""

    days: int = 0
    packed: bool = True


@dataclass(frozen=True, slots=True)
class _Day:
    """The measures of one day."""

    transition: float
    pre_transition: float
    space: float
    space_on_top: float
    largest_space: float
    probe: float
    scan: float


class _Phase(NamedTuple):
    """The seconds of some work, and the most megabytes occupied during it."""

    seconds: float
    most_space: float


class _Ledger:
    """Keeps account of what every index holds, and prices what happens to it."""

    def __init__(self, technique: UpdateTechnique, parameters: CostParameters) -> None:
        self.technique, self.parameters = technique, parameters
        self.held: dict[str, _Held] = {}
        self.space = 0.0

    def work(self, day: _Workday) -> tuple[_Phase, _Phase]:
        return (
            self._phase(day.transition, day.constituents_before),
            self._phase(day.pre_transition, day.newest_age),
        )

    def account(self, day: _Workday) -> _Day:
        before = self.space
        now, later = self.work(day)
        probed = self._touched(day, self.parameters.probed_days)
        scanned = self._touched(day, self.parameters.scanned_days)
        return _Day(
            transition=now.seconds,
            pre_transition=later.seconds,
            space=self.space,
            space_on_top=now.most_space - before,
            largest_space=max(now.most_space, later.most_space),
            probe=sum(number * self.parameters.probe(*held) for held, number in probed.items()),
            scan=sum(number * self.parameters.scan(*held) for held, number in scanned.items()),
        )

    def _phase(self, work: _Changes, constituents: Collection[str]) -> _Phase:
        seconds, most = 0.0, self.space
        for change in work:
            match change:
                case DropIndex(target=target):
                    self._hold(target, _Held())
                case RenameIndex(source=source, target=target):
                    self.held[target] = self.held.pop(source)
                case IndexChange(target=target):
                    price, beside, after = self._price(change, target in constituents)
                    seconds += price
                    most = max(most, self.space + beside)
                    self._hold(target, after)
                    most = max(most, self.space)
        return _Phase(seconds, most)

    def _hold(self, name: str, after: _Held) -> None:
        before = self.held.get(name, _Held())
        self.held[name] = after
        self.space += self.parameters.size(after.days, after.packed)
        self.space -= self.parameters.size(before.days, before.packed)

    def _price(self, change: IndexChange, has_readers: bool) -> tuple[float, float, _Held]:
        """Seconds, megabytes written beside what is there, and what the index then holds."""
        parameters = self.parameters
        added, deleted = len(change.added), len(change.deleted)
        base = _Held() if change.base is None else self.held.get(change.base, _Held())
        days = base.days - deleted + added
        if change.built:
            return added * parameters.build, parameters.size(added, True), _Held(added)
        if self.technique is UpdateTechnique.PACKED_SHADOW:
            merged = base.days + added if base.days else 0
            seconds = added * parameters.build + merged * parameters.packed_copy
            beside = parameters.size(days + (added if merged else 0), True)
            return seconds, beside, _Held(days)
        after = _Held(days, base.packed and not added and not deleted)
        seconds = deleted * parameters.delete + added * parameters.add
        shadow = self.technique is UpdateTechnique.SIMPLE_SHADOW and has_readers
        if change.base == change.target and not shadow:
            return seconds, 0.0, after
        copy = parameters.packed_copy if base.packed else parameters.copy
        return seconds + base.days * copy, parameters.size(after.days, after.packed), after

    def _touched(self, day: _Workday, last_days: int | None) -> Counter[_Held]:
        """The constituents that a query over the last days must look at: few kinds of them."""
        reach = inf if last_days is None else last_days
        return Counter(self.held[name] for name, age in day.newest_age.items() if age < reach)
