"""Late sharing: under overload all late sub-groups of a group run together (thesis 8.4.5)."""

from __future__ import annotations

from collections.abc import Iterable

from mayfly.periodic.scheduling.hybrid import Hybrid
from mayfly.periodic.scheduling.policy import ScheduledTask, Slack


class LateSharing(Hybrid):
    name = "late-sharing"

    def members(self, lead: Slack, mates: Iterable[Slack]) -> list[ScheduledTask]:
        if lead[1] >= 0:
            return super().members(lead, mates)
        return [task for task, slack in mates if slack < 0]
