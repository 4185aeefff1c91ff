"""What is decided for all queries of a server, when it is started."""

from __future__ import annotations

from mayfly.errors import InvalidSetting
from mayfly.periodic.scheduling import Early, Policy, policy_named

LATEST_POLICIES = ("ttu", "lws", "serial")
"""How ISOLATION LATEST may be kept."""


def checked_choices(policy: str, isolation: str, early: str) -> tuple[Policy, str, Early]:
    """The schedule, how ISOLATION LATEST is kept, and what runs while nothing is due, by name."""
    if isolation not in LATEST_POLICIES:
        raise InvalidSetting(
            f"ISOLATION LATEST is not kept by {isolation!r}", f"use {', '.join(LATEST_POLICIES)}"
        )
    names = [choice.value for choice in Early]
    if early not in names:
        raise InvalidSetting(f"nothing runs early by {early!r}", f"use {', '.join(names)}")
    return policy_named(policy), isolation, Early(early)
