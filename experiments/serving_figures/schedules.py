"""Schedules of many queries on a clock that costs drive (thesis 8.5)."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

from mayfly.periodic.scheduling import POLICIES, ScheduledQuery, policy_named
from mayfly.periodic.scheduling.cost_clock import run_on_cost_clock

SHOWN = tuple(name for name in POLICIES if name != "edf")


def queries_of(groups: int, each: int, rng: Random) -> list[ScheduledQuery]:
    """Windows of 20 to 100 updates, slides of 1 to half the window, a synopsis for each group."""
    queries = []
    for group in range(groups):
        for number in range(each):
            window = rng.randint(20, 100)
            slide = rng.randint(1, window // 2)
            name = f"g{group}q{number}"
            queries.append(ScheduledQuery(name, f"g{group}", slide, window - 1))
    return queries


def measured(config: dict[str, Any], each: int, factor: int) -> list[dict[str, Any]]:
    """Executions per update and mean lateness of every policy; ``factor`` is what work costs."""
    queries = queries_of(config["groups"], each, Random(config["seed"]))
    work = policy_named("no-s").cost(queries)
    interval = Fraction(work).limit_denominator(1000) / Fraction(config["overload"]) / factor
    points = []
    for name in SHOWN:
        run = run_on_cost_clock(policy_named(name), queries, interval, config["updates"])
        tasks = policy_named(name).tasks(queries)
        points.append(
            {
                "policy": name,
                "queries": len(queries),
                "throughput": float(run.throughput),
                "latency": sum(float(q.mean) for q in run.lateness.queries) / len(queries),
                "tasks": len({(task.group, task.period) for task in tasks}),
            }
        )
    return points
