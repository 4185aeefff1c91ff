"""Late-pending sharing: under overload late and due sub-groups run together (Algorithm 11).

What is due now would be late after the next update; with the late ones it costs little more.
"""

from __future__ import annotations

from collections.abc import Iterable

from mayfly.periodic.scheduling.hybrid import Hybrid
from mayfly.periodic.scheduling.policy import ScheduledTask, Slack


class LatePending(Hybrid):
    name = "late-pending"

    def members(self, lead: Slack, mates: Iterable[Slack]) -> list[ScheduledTask]:
        if lead[1] >= 0:
            return super().members(lead, mates)
        return [task for task, slack in mates if slack <= 0]
