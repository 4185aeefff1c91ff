"""The order of refreshes in exact mode: every one of them, at its instant.

What is answered by deadline instead is chosen in scheduling/.

Idea: of all queries the next refresh is known; the earliest one below the clock comes first, with
every query that has one there, so that these are read together. Invariant: each refresh is answered
once, in order. Cost: one look at each query per instant with a refresh.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mayfly.errors import LimitExceeded
from mayfly.lifetime import instant_text
from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.sharing.sharing_rule import Access

MOST_REFRESHES = 1_000_000
"""Of one query in one step: each has an answer of its own."""


@dataclass
class RegisteredQuery:
    """A query, how it is answered, and its next refresh (None before the first row)."""

    query: PeriodicQuery
    access: Access
    rule: str
    since: int
    """Its first refresh that can be answered."""
    next: int | None = None

    def start(self, first: int | None, closed: int | None, clock: int | None) -> None:
        """Find the first refresh, once no row can come any more that would be the first.

        ``closed`` is the clock up to which others are answered already.
        """
        if self.next is None and first is not None and clock is not None and first < clock:
            begin = first if closed is None else max(first, closed)
            self.next = self.query.slide.at_or_after(begin)


def due_refreshes(
    queries: Collection[RegisteredQuery], clock: int
) -> Iterator[tuple[int, list[RegisteredQuery]]]:
    """The refreshes below a clock, in order, and the queries that are answered there."""
    while True:
        following = [r.next for r in queries if r.next is not None]
        if not following or min(following) >= clock:
            return
        refresh = min(following)
        due = [r for r in queries if r.next == refresh]
        yield refresh, [r for r in due if r.since <= refresh]
        for registered in due:
            registered.next = refresh + registered.query.period


def check_backlog(queries: Collection[RegisteredQuery], clock: int) -> None:
    """Refuse a step with more refreshes than memory has room for answers."""
    for registered in queries:
        begin = clock if registered.next is None else registered.next
        if (clock - begin) // registered.query.period > MOST_REFRESHES:
            raise LimitExceeded(
                f"{registered.query.name} has more than {MOST_REFRESHES:,} refreshes between "
                f"{instant_text(begin)} and {instant_text(clock)}",
                "advance the clock in smaller steps, or use a longer period",
            )
