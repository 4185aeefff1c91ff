"""Earliest deadline first: every query is a task of its own (thesis Algorithm 9)."""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.periodic.scheduling.policy import Policy, ScheduledQuery, ScheduledTask


class EarliestDeadline(Policy):
    name = "edf"
    joint = False

    def tasks(self, queries: Sequence[ScheduledQuery]) -> list[ScheduledTask]:
        return [ScheduledTask(query.group, (query,), query.period) for query in queries]
