"""Single instants as people write them, and the zones that need no tables to read them by."""

from __future__ import annotations

from datetime import date, datetime

from mayfly.lifetime import instant, zone

PLAIN = ("UTC", "Etc/UTC", "Z", "GMT", "UCT", "+00:00")


def same_zone(name: str, other: str) -> bool:
    """Whether two names stand for one zone, as far as that is plain to see."""
    return name == other or (name in PLAIN and other in PLAIN)


def instant_in_zone(value: int | date | str) -> int:
    """An instant as people give it; without a zone it is of the one in use."""
    moment = instant(value)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if zone() in PLAIN or not is_naive(value):
        return moment
    import numpy as np  # takes longer to load than a query in UTC to check

    from mayfly.plan.time_zones import instants_of

    return int(instants_of(np.array([moment]))[0])


def is_naive(value: object) -> bool:
    """Whether it is a date, or a datetime without a zone."""
    return isinstance(value, date) and getattr(value, "tzinfo", None) is None
