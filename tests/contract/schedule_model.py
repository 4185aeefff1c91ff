"""Schedules, slow and obvious: every task counts down to its deadline at every update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mayfly.periodic.scheduling import Policy, ScheduledQuery


@dataclass
class ScheduleModel:
    """All queries registered before the first update."""

    policy: Policy
    queries: list[ScheduledQuery]
    update: int = 0
    left: list[int] = field(default_factory=list)
    """Updates until the deadline of each task."""
    last: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tasks = self.policy.tasks(self.queries)
        self.left = [task.period for task in self.tasks]
        self.last = {query.name: 0 for query in self.queries}

    def advance(self) -> None:
        self.update += 1
        self.left = [left - 1 for left in self.left]

    @property
    def lead(self) -> int | None:
        lowest = min(self.left)
        if lowest > 0:
            return None
        return min(
            (number for number, left in enumerate(self.left) if left == lowest),
            key=lambda number: (-max(q.priority for q in self.tasks[number].queries), number),
        )

    def members(self) -> list[int]:
        lead = self.lead
        if lead is None:
            return []
        lowest = self.left[lead]
        allowed: Callable[[int], bool] = {
            "conservative": lambda left: left == lowest,
            "hybrid": lambda left: left == lowest,
            "late-sharing": lambda left: left < 0 if lowest < 0 else left == lowest,
            "late-pending": lambda left: left <= 0 if lowest < 0 else left == lowest,
        }.get(self.policy.name, lambda left: False)
        group = self.tasks[lead].group
        return [
            number
            for number, task in enumerate(self.tasks)
            if number == lead or (task.group == group and allowed(self.left[number]))
        ]

    def run(self) -> dict[str, int]:
        """The queries that run now, and how late each is."""
        late = {}
        for number in self.members():
            for query in self.tasks[number].queries:
                late[query.name] = max(0, self.update - self.last[query.name] - query.period)
                self.last[query.name] = self.update
            self.left[number] = self.tasks[number].period
        return late
