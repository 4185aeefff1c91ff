"""Conservative: sub-groups run together where their deadlines coincide (thesis Algorithm 10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mayfly.periodic.scheduling.policy import (
    Policy,
    ScheduledQuery,
    ScheduledTask,
    Slack,
    sub_groups,
)


class Conservative(Policy):
    name = "conservative"

    def tasks(self, queries: Sequence[ScheduledQuery]) -> list[ScheduledTask]:
        return list(sub_groups(queries))

    def members(self, lead: Slack, mates: Iterable[Slack]) -> list[ScheduledTask]:
        return [task for task, slack in mates if slack == lead[1]]
