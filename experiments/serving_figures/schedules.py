"""Schedules of many queries on a clock that costs drive (thesis 8.5)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp
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
    interval = interval_of(queries, config["overload"]) / factor
    return points_of(queries, interval, config["updates"])


def interval_of(queries: Sequence[ScheduledQuery], overload: float) -> Fraction:
    """Between two updates, where No-S has so many times the work that can be done."""
    work = policy_named("no-s").cost(queries)
    return Fraction(work).limit_denominator(1000) / Fraction(overload)


def points_of(
    queries: Sequence[ScheduledQuery], interval: Fraction, updates: int
) -> list[dict[str, Any]]:
    points = []
    for name in SHOWN:
        run = run_on_cost_clock(policy_named(name), queries, interval, updates)
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


def distinct(domain: int, rows: int) -> int:
    """How many of a domain's values rows are expected to have, where all are equally likely."""
    return round(domain * (1 - exp(-rows / domain)))


def counted_queries(
    config: dict[str, Any], each: int, factor: int, *, passes: bool
) -> list[ScheduledQuery]:
    """Counters of the values in each pane: to merge one costs its entries. ``passes``: TOP k and
    quantiles go once over the counters of the window afterwards, each query for itself."""
    rng, queries = Random(config["seed"]), []
    rows = config["rows"] * factor
    for group, domain in enumerate(config["domains"]):
        values = factor ** (2 if domain in config["pairs"] else 1) * domain
        for number in range(each):
            window = rng.randint(20, 100)
            slide = rng.randint(1, window // 2)
            merging = (window - 1) * distinct(values, rows)
            post = distinct(values, rows * window) if passes else 0
            queries.append(ScheduledQuery(f"g{group}q{number}", f"g{group}", slide, merging, post))
    return queries


def measured_at_one_rate(
    config: dict[str, Any], factor: int, *, passes: bool
) -> list[dict[str, Any]]:
    """As the thesis has it: one rate, whatever number of queries; the high one doubles rows and
    domains. At the low rate No-S is overloaded by the fewest queries already."""
    fewest = counted_queries(config, min(config["queries"]), 1, passes=passes)
    interval = interval_of(fewest, config["overload"])
    return [
        {**point, "passes": passes}
        for each in config["queries"]
        for point in points_of(
            counted_queries(config, each, factor, passes=passes), interval, config["updates"]
        )
    ]
