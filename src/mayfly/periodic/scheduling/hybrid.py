"""Hybrid: conservative, but a sub-group adopts a shorter period where that is cheaper (8.4.4).

Idea: each set partition of a group's sub-groups is a schedule; a block runs with its shortest
period and its longest window. The cheapest is taken, of equal ones that with most blocks.
Cost: up to 8 sub-groups all partitions (4,140) are tried; above, pairs of blocks are merged
greedily while that lowers the cost. Done when a query comes or goes, never at an update.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import lcm

from mayfly.periodic.scheduling.conservative import Conservative
from mayfly.periodic.scheduling.policy import ScheduledQuery, ScheduledTask, sub_groups
from mayfly.periodic.scheduling.schedule_cost import (
    EXACT_TASKS,
    Load,
    cost_per_update,
    cycle_cost,
)

Block = tuple[Load, ...]
Partition = tuple[Block, ...]


class Hybrid(Conservative):
    name = "hybrid"

    def tasks(self, queries: Sequence[ScheduledQuery]) -> list[ScheduledTask]:
        tasks = list(sub_groups(queries))
        adopted: dict[tuple[str, Load], int] = {}
        for group in dict.fromkeys(task.group for task in tasks):
            loads = tuple(task.load for task in tasks if task.group == group)
            for block in cheapest_partition(loads):
                period = min(load.period for load in block)
                adopted.update({(group, load): period for load in block})
        return [replace(task, period=adopted[task.group, task.load]) for task in tasks]


@lru_cache(maxsize=1024)
def cheapest_partition(loads: Block) -> Partition:
    """How the sub-groups of a group are put together."""
    ordered = tuple(sorted(loads, key=lambda load: (load.period, load.weight, load.post)))
    if len(ordered) > EXACT_TASKS:
        return greedy_partition(ordered)
    cycle = lcm(*(load.period for load in ordered))

    def price(partition: Partition) -> tuple[Fraction | int, int]:
        return cycle_cost(map(_load, partition), cycle), -len(partition)

    lowest = min(map(price, partitions(ordered)))
    return min((p for p in partitions(ordered) if price(p) == lowest), key=_names)


def greedy_partition(loads: Block) -> Partition:
    """Blocks merged in pairs, that which lowers the cost most first, until none does."""
    best: Partition = tuple((load,) for load in loads)
    cost = partition_cost(best)
    while len(best) > 1:
        merged = min(_merged(best), key=lambda choice: (partition_cost(choice), _names(choice)))
        if partition_cost(merged) >= cost:
            break
        best, cost = merged, partition_cost(merged)
    return best


def partition_cost(partition: Partition) -> Fraction:
    """The cost per update where each block runs with its shortest period and longest window."""
    return cost_per_update([_load(block) for block in partition])


def partitions(loads: Block) -> Iterator[Partition]:
    """All set partitions.

    >>> sum(1 for _ in partitions(tuple(Load(n, n) for n in range(5))))
    52
    """
    if not loads:
        yield ()
        return
    first, rest = loads[0], loads[1:]
    for partition in partitions(rest):
        yield ((first,), *partition)
        for number, block in enumerate(partition):
            yield (*partition[:number], (first, *block), *partition[number + 1 :])


@lru_cache(maxsize=1 << 14)
def _load(block: Block) -> Load:
    period = min(load.period for load in block)
    return Load(period, max(load.weight for load in block), sum(load.post for load in block))


def _merged(partition: Partition) -> Iterator[Partition]:
    for left, right in combinations(partition, 2):
        rest = tuple(block for block in partition if block is not left and block is not right)
        yield (*rest, left + right)


def _names(partition: Partition) -> list[list[tuple[int, Fraction | int]]]:
    return sorted(sorted((load.period, load.weight) for load in block) for block in partition)
