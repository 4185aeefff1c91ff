"""The figures of the thesis's example of seven queries, and of the overload and cost-clock runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from math import lcm

import pytest

from mayfly.periodic.scheduling import (
    POLICIES,
    Deadlines,
    Early,
    ScheduledQuery,
    ScheduledTask,
)
from mayfly.periodic.scheduling.cost_clock import run_in_slots, run_on_cost_clock
from mayfly.periodic.scheduling.hybrid import (
    Hybrid,
    cheapest_partition,
    greedy_partition,
    partition_cost,
    partitions,
)
from mayfly.periodic.scheduling.schedule_cost import Load, cost_per_update

WINDOWS = [(10, 2), (5, 2), (6, 2), (15, 3), (12, 3), (20, 5), (30, 5)]
QUERIES = [
    ScheduledQuery(f"Q{number}", "G1", period, panes - 1)
    for number, (panes, period) in enumerate(WINDOWS, 1)
]
SUB_GROUPS = (Load(2, 9), Load(3, 14), Load(5, 29))
LOAD = [
    ScheduledQuery(name, name[0], period, cost)
    for name, period, cost in [
        ("A1", 2, 9), ("A2", 3, 14), ("A3", 5, 29), ("B1", 2, 7), ("B2", 4, 11), ("C1", 3, 5),
        ("C2", 4, 20),
    ]
]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "cost"),
    [
        ("edf", 26.93), ("no-s", 14.97), ("aggressive", 14.50), ("conservative", 11.93),
        ("hybrid", 11.40), ("late-sharing", 11.40), ("late-pending", 11.40),
    ],
)  # fmt: skip
def test_cost_of_the_seven_queries_per_minute(policy: str, cost: float) -> None:
    assert round(float(POLICIES[policy].cost(QUERIES)), 2) == cost


def test_cost_of_every_way_to_put_three_sub_groups_together() -> None:
    costs = sorted(round(float(partition_cost(each)), 2) for each in partitions(SUB_GROUPS))
    assert costs == [11.40, 11.93, 12.67, 14.50, 16.83]
    assert cost_per_update(SUB_GROUPS) == Fraction(358, 30)
    assert cost_per_update([Load(2, 15 - 1), Load(5, 29)]) == Fraction(114, 10)
    assert cost_per_update(SUB_GROUPS[:2]) * 6 == 46
    assert partition_cost((SUB_GROUPS[:2],)) == 7
    outside = [Load(2, 9), Load(2, 14), Load(3, 29)]
    assert round(float(cost_per_update(outside)), 2) == 14.33


def test_partitions_are_counted_by_bell_numbers() -> None:
    numbers = [sum(1 for _ in partitions(tuple(Load(n, n) for n in range(q)))) for q in range(1, 9)]
    assert numbers == [1, 2, 5, 15, 52, 203, 877, 4140]


def test_the_hybrid_policy_adopts_the_period_of_two_minutes() -> None:
    tasks = POLICIES["hybrid"].tasks(QUERIES)
    assert [(len(task.queries), task.period) for task in tasks] == [(3, 2), (2, 2), (2, 5)]
    adopted = {
        str(q.name): task.period for task in POLICIES["hybrid"].tasks(LOAD) for q in task.queries
    }
    assert adopted == {"A1": 2, "A2": 2, "A3": 5, "B1": 2, "B2": 4, "C1": 3, "C2": 4}


def test_adopted_periods_follow_queries_that_come_and_go() -> None:
    deadlines = Deadlines(POLICIES["hybrid"])
    for query in LOAD[1:3]:
        deadlines.register(query)
    assert [task.period for task in deadlines.tasks] == [3, 5]
    deadlines.register(LOAD[0])
    assert [task.period for task in deadlines.tasks] == [2, 5, 2]
    deadlines.remove("A1")
    assert [task.period for task in deadlines.tasks] == [3, 5]


def test_many_registrations_are_planned_once() -> None:
    """Thirty periods in a group are merged greedily, which takes a while: not for each of them."""
    planned = []

    class Watched(Hybrid):
        def tasks(self, queries: Sequence[ScheduledQuery]) -> list[ScheduledTask]:
            planned.append(len(queries))
            return super().tasks(queries)

    deadlines = Deadlines(Watched())
    for number in range(12):
        deadlines.register(ScheduledQuery(f"Q{number}", "A", 2 + number, 20 + number))
    deadlines.advance()
    deadlines.run()
    deadlines.remove("Q3")
    deadlines.run()
    assert planned == [12, 11]


def test_greedy_is_near_the_best() -> None:
    """Sixty random groups of two to five sub-groups: 59 optimal, 1.21 times at worst."""
    rng = random.Random(5)
    ratios = []
    for _ in range(60):
        loads = tuple(
            Load(period, rng.randint(2 * period, 100) - 1)
            for period in rng.sample(range(1, 31), rng.randint(2, 5))
        )
        best = partition_cost(cheapest_partition(loads))
        ratios.append(partition_cost(greedy_partition(loads)) / best)
    assert min(ratios) == 1
    assert sum(ratio > 1 for ratio in ratios) <= 2
    assert max(ratios) < 1.25


def test_more_than_eight_sub_groups_are_merged_greedily() -> None:
    loads = tuple(Load(period, 10 * period) for period in range(2, 14))
    partition = cheapest_partition(loads)
    assert sorted(load for block in partition for load in [b.period for b in block]) == [
        *range(2, 14)
    ]
    assert partition_cost(partition) < cost_per_update(loads)
    assert partition == greedy_partition(loads)


def test_a_walked_schedule_costs_what_the_formula_says() -> None:
    loads = [Load(period, weight) for weight, period in enumerate([1, 2, 3, 4, 5, 6, 8, 10, 12], 1)]
    cycle = lcm(*(load.period for load in loads))
    due = [max(load.weight for load in loads if t % load.period == 0) for t in range(1, cycle + 1)]
    assert cost_per_update(loads) == Fraction(sum(due), cycle)


SEQUENCES = {
    "no-s": "- A1 B1 A2 C1 A1 B2 C2 A3 B1 A2 A1 C1 B2 B1 C2 A1 A2 A3 C1",
    "aggressive": "- A B C A B A C B A B C A B A C B A B C",
    "conservative": "- A1 B1 A2 C1 A1 B2 C2 A3 B1 A2 A1 C1 B2 B1 C2 A1+A2+A3 C1 B1 B2",
    "hybrid": "- A1+A2 B1 C1 A1+A2 B2 C2 A3 B1 A1+A2 C1 B2 B1 C2 A1+A2 A3 C1 B1 B2 A1+A2",
    "late-sharing": "- A1+A2 B1 C1 A1+A2 B1+B2 C2 A1+A2+A3 C1 B1 A1+A2 B2 C1+C2 B1 A1+A2+A3 "
    "B1+B2 C1 A1+A2 C2 B1",
    "late-pending": "- A1+A2 B1 C1+C2 A1+A2+A3 B1+B2 A1+A2 C1+C2 B1 A1+A2+A3 B1+B2 C1+C2 A1+A2 B1 "
    "A1+A2+A3 B1+B2 C1+C2 A1+A2 B1 A1+A2+A3",
}
WHOLE_GROUPS = {"A": "A1+A2+A3", "B": "B1+B2", "C": "C1+C2"}


@pytest.mark.parametrize("policy", SEQUENCES)
def test_the_first_twenty_executions_under_overload(policy: str) -> None:
    steps, _ = run_in_slots(POLICIES[policy], LOAD, 20)
    expected = [WHOLE_GROUPS.get(name, name) for name in SEQUENCES[policy].split()]
    assert [str(step[0] or "-") for step in steps] == expected


@pytest.mark.parametrize(
    ("policy", "lateness", "executions"),
    [
        ("no-s", 3.714, 1.0), ("aggressive", 0.316, 2.375), ("conservative", 3.708, 1.001),
        ("hybrid", 2.644, 1.215), ("late-sharing", 1.201, 1.666), ("late-pending", 0.600, 2.0),
    ],
)  # fmt: skip
def test_lateness_and_throughput_under_overload(
    policy: str, lateness: float, executions: float
) -> None:
    steps, report = run_in_slots(POLICIES[policy], LOAD, 6000)
    assert round(float(report.mean), 3) == lateness
    assert round(sum(len(step[0].names) for step in steps if step[0]) / 6000, 3) == executions


def test_early_executions() -> None:
    def trace(early: Early) -> str:
        steps, _ = run_in_slots(POLICIES["no-s"], LOAD[:3], 8, slots=2, early=early)
        return " ".join(",".join(str(run or "-") for run in step) for step in steps)

    assert trace(Early.NONE) == "-,- A1,- A2,- A1,- A3,- A1,A2 -,- A1,-"
    assert trace(Early.IDLE) == "A1,A2 A1,A2 A1,A2 A1,A3 A1,A2 A1,A2 A1,A2 A1,A3"


def test_a_drifted_task_is_brought_back_to_its_grid() -> None:
    deadlines = Deadlines(POLICIES["no-s"], early=Early.GRID)
    deadlines.register(ScheduledQuery("Q", "A", 3, 1))
    deadlines.advance(5)
    runs = [deadlines.run()]
    for _ in range(8):
        deadlines.advance()
        runs.append(deadlines.run())
    assert [run.update for run in runs if run] == [5, 6, 9, 12]


COST_CLOCK = {
    30: [(0, 1.033), (0, 1.5), (0, 1.033), (0, 1.2), (0, 1.2), (0, 1.2)],
    12: [(0.837, 0.775), (0.139, 1.242), (0.333, 0.9), (0.2, 1.0), (0.2, 1.0), (0.2, 1.0)],
    10: [(1.631, 0.638), (0.3, 1.035), (0.666, 0.8), (0.3, 1.0), (0.3, 1.0), (0.3, 1.0)],
    8: [(3.162, 0.462), (0.749, 0.828), (3.154, 0.462), (1.233, 0.698), (1.233, 0.698),
        (0.695, 0.837)],
}  # fmt: skip


@pytest.mark.parametrize("interval", COST_CLOCK)
def test_the_cost_clock_table(interval: int) -> None:
    figures = []
    for policy in SEQUENCES:
        run = run_on_cost_clock(POLICIES[policy], LOAD[:3], interval, 6000)
        figures.append((round(float(run.lateness.mean), 3), round(float(run.throughput), 3)))
    assert figures == COST_CLOCK[interval]


@pytest.mark.parametrize(
    ("policy", "log"),
    [
        ("conservative", "20,2,A1 30,3,A2 44,4,A1 53,5,A3 82,8,A1+A2 100,10,A1+A3"),
        ("hybrid", "20,2,A1+A2 40,4,A1+A2 54,5,A3 83,8,A1+A2 100,10,A1+A2+A3 129,12,A1+A2"),
    ],
)
def test_the_first_executions_on_the_cost_clock(policy: str, log: str) -> None:
    run = run_on_cost_clock(POLICIES[policy], LOAD[:3], 10, 20)
    first = [f"{timed.start},{timed.execution.update},{timed.execution}" for timed in run.log[:6]]
    assert " ".join(first) == log


def test_overload_stretches_periods_and_says_so() -> None:
    run = run_on_cost_clock(POLICIES["late-pending"], LOAD[:3], 8, 600)
    lateness = run.lateness["A1"]
    assert lateness.stretch == 1 + lateness.mean / 2 > 1
    assert lateness.interval is not None
    assert lateness.interval > 2
    text = str(run.lateness)
    assert "period stretched" in text
    assert "A2: every 3 updates, runs every 2" in text
    punctual = run_on_cost_clock(POLICIES["hybrid"], LOAD[:3], 30, 60).lateness
    assert str(punctual).startswith("no query is late")
