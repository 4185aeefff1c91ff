"""No-S: sub-groups, the queries of a group with one period, run alone (thesis 8.5.1)."""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.periodic.scheduling.policy import Policy, ScheduledQuery, ScheduledTask, sub_groups


class NoSharing(Policy):
    name = "no-s"
    joint = False

    def tasks(self, queries: Sequence[ScheduledQuery]) -> list[ScheduledTask]:
        return list(sub_groups(queries))
