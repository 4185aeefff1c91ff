"""What every scheduling policy says: which tasks there are, and which of them run together.

A *task* is a set of queries with one period that always run together; its deadline counts synopsis
updates. A policy never sees time or costs of the machine, only periods, groups and deadlines, so
that the same file serves a simulation and a server (thesis 8.4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import groupby
from typing import ClassVar

from mayfly.errors import InvalidSetting
from mayfly.periodic.scheduling.schedule_cost import Load, cost_per_update


class Overload(Enum):
    """What becomes of a refresh that cannot be answered in time."""

    LATE = "LATE"
    """It is answered late, and the next one is a period after it."""
    SKIP = "SKIP"
    """It is dropped and counted once it is more than a period late; the next is on the grid."""
    EVERY = "EVERY"
    """Every multiple of the period is answered, with the update itself."""


@dataclass(frozen=True)
class ScheduledQuery:
    """A query as schedulers see it: between two executions its synopsis should be updated at most
    ``period`` times. Queries of a group that run together cost what the dearest costs alone, and
    ``post`` for each."""

    name: str
    group: str
    period: int
    cost: Fraction | int
    post: Fraction | int = 0
    priority: int = 0
    overload: Overload = Overload.LATE

    def __post_init__(self) -> None:
        if self.period < 1 or self.cost < 0 or self.post < 0:
            raise InvalidSetting(
                f"{self.name}: a period of {self.period} updates, costs {self.cost} {self.post}",
                "give a period of at least one update, and costs that are not negative",
            )


@dataclass(frozen=True)
class ScheduledTask:
    """Queries that always run together, and the period with which they do."""

    group: str
    queries: tuple[ScheduledQuery, ...]
    period: int

    @property
    def priority(self) -> int:
        return max(query.priority for query in self.queries)

    @property
    def overload(self) -> Overload:
        return self.queries[0].overload

    @property
    def cost(self) -> Fraction | int:
        return max(query.cost for query in self.queries)

    @property
    def load(self) -> Load:
        return Load(self.period, self.cost, sum(query.post for query in self.queries))


Slack = tuple[ScheduledTask, int]
"""A task, and how many updates are left until its deadline: negative where it is late."""


class Policy(ABC):
    """One way to schedule periodic queries."""

    name: ClassVar[str]
    joint: ClassVar[bool] = True
    """Whether tasks of a group may run together."""

    @abstractmethod
    def tasks(self, queries: Sequence[ScheduledQuery]) -> list[ScheduledTask]:
        """The tasks of queries, in the order of their first registrations."""

    def members(self, lead: Slack, mates: Iterable[Slack]) -> list[ScheduledTask]:
        """The tasks that run together with the most urgent one: of its group, itself included."""
        return [lead[0]]

    def cost(self, queries: Sequence[ScheduledQuery]) -> Fraction:
        """What the schedule costs per update while nothing is late."""
        loads: dict[str, list[Load]] = {}
        for number, task in enumerate(self.tasks(queries)):
            loads.setdefault(task.group if self.joint else str(number), []).append(task.load)
        return sum((cost_per_update(group) for group in loads.values()), Fraction(0))

    def __repr__(self) -> str:
        return f"<policy {self.name}>"


def sub_groups(queries: Sequence[ScheduledQuery]) -> Iterator[ScheduledTask]:
    """The queries of a group that have the same period, as tasks; what overload does to them is
    the same, too."""

    def sub_group(query: ScheduledQuery) -> tuple[str, int, str]:
        return query.group, query.period, query.overload.value

    first = {sub_group(query): number for number, query in reversed(list(enumerate(queries)))}
    ordered = sorted(queries, key=lambda query: first[sub_group(query)])
    for (group, period, _), members in groupby(ordered, key=sub_group):
        yield ScheduledTask(group, tuple(members), period)
