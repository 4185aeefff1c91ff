"""Which periodic queries run when: policies, deadlines, lateness, admission."""

from mayfly.errors import InvalidSetting
from mayfly.periodic.scheduling.admission_advice import AdmissionAdvice, advise
from mayfly.periodic.scheduling.aggressive import Aggressive
from mayfly.periodic.scheduling.conservative import Conservative
from mayfly.periodic.scheduling.deadlines import Deadlines, Early, JointExecution
from mayfly.periodic.scheduling.earliest_deadline import EarliestDeadline
from mayfly.periodic.scheduling.hybrid import Hybrid
from mayfly.periodic.scheduling.late_pending import LatePending
from mayfly.periodic.scheduling.late_sharing import LateSharing
from mayfly.periodic.scheduling.no_sharing import NoSharing
from mayfly.periodic.scheduling.policy import Overload, Policy, ScheduledQuery, ScheduledTask
from mayfly.periodic.scheduling.query_lateness import LatenessReport, QueryLateness

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        EarliestDeadline(), NoSharing(), Aggressive(), Conservative(), Hybrid(), LateSharing(),
        LatePending(),
    )
}  # fmt: skip
"""By name, from no sharing to most."""


def policy_named(name: str) -> Policy:
    """A policy by its name."""
    if name not in POLICIES:
        raise InvalidSetting(f"there is no policy {name!r}", f"use {', '.join(POLICIES)}")
    return POLICIES[name]


__all__ = [
    "POLICIES",
    "AdmissionAdvice",
    "Deadlines",
    "Early",
    "JointExecution",
    "LatenessReport",
    "Overload",
    "Policy",
    "QueryLateness",
    "ScheduledQuery",
    "ScheduledTask",
    "advise",
    "policy_named",
]
