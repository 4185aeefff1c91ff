"""Merge planning: few segments, bounded rewriting, kept order, respected cap."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from mayfly.errors import InvalidSetting
from mayfly.storage import Bounds, plan_merge
from mayfly.storage.merge import FAN_IN, LIMIT


@dataclass(frozen=True)
class Run:
    rows: int
    exp: Bounds
    level: int = 0


def merged(level: int, members: list[Run]) -> Run:
    exp = members[0].exp
    for one in members[1:]:
        exp = exp.union(one.exp)
    return Run(sum(one.rows for one in members), exp, level)


@dataclass
class Simulation:
    """A window of ``window`` instants; each instant one run arrives and dead runs go."""

    window: int
    cap: int
    limit: int = LIMIT
    spread: int = 0
    """How much earlier than its last row the first row of a run expires."""
    runs: list[Run] = field(default_factory=list)
    most: int = 0
    rows_written: int = 0
    rows_arrived: int = 0
    over_cap: int = 0

    def play(self, batches: int) -> Simulation:
        for now in range(batches):
            self.runs = [run for run in self.runs if run.exp.high > now]
            last = now + self.window
            self.runs.append(Run(1, Bounds(last - self.spread, last)))
            self.rows_arrived += 1
            self.rows_written += 1
            self.merge()
            self.most = max(self.most, len(self.runs))
        return self

    def merge(self) -> None:
        plan = plan_merge(self.runs, cap=self.cap, limit=self.limit)
        results = {id(members[0]): merged(level, members) for level, members in plan}
        absorbed = {id(run) for _, members in plan for run in members[1:]}
        self.runs = [results.get(id(run), run) for run in self.runs if id(run) not in absorbed]
        for run in results.values():
            self.rows_written += run.rows
            self.over_cap += run.exp.high - run.exp.low > self.cap

    @property
    def amplification(self) -> float:
        return self.rows_written / self.rows_arrived


def bound(window: int, cap: int) -> float:
    levels = math.ceil(math.log(max(cap, 1), FAN_IN)) + 1
    return 2 * window / cap + (FAN_IN - 1) * levels + 2


@pytest.mark.parametrize("window", [8, 10, 30, 64, 100, 500, 1000, 4096, 10_000])
def test_the_number_of_segments_and_the_rewriting_are_bounded(window: int) -> None:
    cap = max(1, window // 8)
    played = Simulation(window, cap).play(min(3 * window, 12_000))
    assert played.most < min(bound(window, cap), LIMIT)
    assert played.over_cap == 0
    levels = math.floor(math.log(cap + 1, FAN_IN))
    assert played.amplification <= 1 + levels + 1


@pytest.mark.parametrize(
    ("window", "batches"), [(4_000, 20_000), pytest.param(20_000, 100_000, marks=pytest.mark.slow)]
)
def test_many_batches(window: int, batches: int) -> None:
    played = Simulation(window=window, cap=window // 8).play(batches)
    assert played.most <= LIMIT
    assert played.over_cap == 0
    assert played.amplification < 8
    assert sum(run.rows for run in played.runs) >= window


@pytest.mark.parametrize(("limit", "most_writes"), [(2, 36), (4, 14), (8, 10), (32, 5)])
def test_a_tight_limit_costs_rewriting_but_not_quadratically(limit: int, most_writes: int) -> None:
    """A calendar group: everything fits the cap, nothing dies before the end."""
    played = Simulation(window=10**9, cap=2**62, limit=limit).play(1_000)
    assert played.most <= limit
    assert played.amplification < most_writes


def test_runs_wider_than_the_cap_are_held_by_the_limit_alone() -> None:
    played = Simulation(window=10**9, cap=10, spread=1_000).play(3_000)
    assert played.most == LIMIT
    assert played.amplification < 12


def test_four_neighbours_of_a_level_become_one_and_cascade() -> None:
    def run(level: int, at: int) -> Run:
        return Run(1, Bounds(at, at), level)

    small = [run(0, at) for at in range(4)]
    assert plan_merge(small[:3], cap=100) == []
    assert plan_merge(small, cap=100) == [(1, small)]
    cascade = [run(1, 1), run(1, 2), run(1, 3), *(run(0, at) for at in range(4, 8))]
    assert plan_merge(cascade, cap=100) == [(2, cascade)]


def test_neighbours_beyond_the_cap_stay_apart() -> None:
    runs = [Run(1, Bounds(at, at)) for at in (0, 1, 2, 53)]
    assert plan_merge(runs, cap=50) == [(1, runs[:3])]
    assert plan_merge(runs[:3], cap=50) == [], "the stretch may still grow"
    assert plan_merge(runs, cap=53) == [(1, runs)]


def test_equal_runs_are_told_apart() -> None:
    twins = [Run(1, Bounds(5, 5))] * 8
    ((level, members),) = plan_merge(twins, cap=0, limit=1)
    assert (level, len(members)) == (1, 8)


def test_nothing_to_merge() -> None:
    assert plan_merge([], cap=10) == []
    assert plan_merge([Run(1, Bounds(0, 100))], cap=10, limit=1) == []


@pytest.mark.parametrize("settings", [{"fan_in": 1}, {"limit": 0}])
def test_senseless_settings_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting, match="not possible"):
        plan_merge([], cap=1, **settings)


def test_small_runs_are_merged_beyond_the_cap() -> None:
    """Rows that are few are rewritten sooner than looked for in several runs."""
    runs = [Run(10, Bounds(100 * i, 100 * i + 50)) for i in range(5)]
    assert plan_merge(runs, cap=60) == []
    assert plan_merge(runs, cap=60, small=39) == [(1, runs[:3])], "four rows too many for all"
    assert plan_merge(runs, cap=60, small=40) == [(1, runs[:4])]
