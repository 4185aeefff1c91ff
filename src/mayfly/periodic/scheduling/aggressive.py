"""Aggressive: a whole group runs whenever its shortest period asks for it (thesis 8.4.3).

Least work to decide and most sharing, but long windows are read as often as short ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.periodic.scheduling.policy import Policy, ScheduledQuery, ScheduledTask


class Aggressive(Policy):
    name = "aggressive"

    def tasks(self, queries: Sequence[ScheduledQuery]) -> list[ScheduledTask]:
        groups: dict[tuple[str, str], list[ScheduledQuery]] = {}
        for query in queries:
            groups.setdefault((query.group, query.overload.value), []).append(query)
        return [
            ScheduledTask(group, tuple(members), min(query.period for query in members))
            for (group, _), members in groups.items()
        ]
