"""What an archive of rows with their own lifetimes promises about the dead.

HARD: no dead row is ever returned. SOFT(k): a row may still be returned for k updates after the
one that should have removed it, so that an update may leave more for later. PHYSICAL WITHIN d: d
after a row's expiration, by the archive's updates, none of its bytes is left in the directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mayfly.archive.model.calendar import DAY, FixedIntervals, UpdateCalendar
from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME, format_micros, micros

_WORDS = re.compile(
    r"\s*(?:(HARD)|SOFT\s*\(\s*(\d+)\s*\))?\s*(?:PHYSICAL\s+WITHIN\s+(.+?))?\s*", re.IGNORECASE
)

LATEST = 10_000
"""Updates by which a dead row may be late: every update looks so far back."""


@dataclass(frozen=True)
class Contract:
    """How late a dead row may be returned, in updates, and when its bytes must be gone, µs."""

    late: int = 0
    erased_within: int | None = None

    @staticmethod
    def parse(text: str) -> Contract:
        """
        >>> Contract.parse("SOFT(2) PHYSICAL WITHIN 3 days")
        Contract(late=2, erased_within=259200000000)
        >>> str(Contract.parse("hard"))
        'HARD'
        """
        match = _WORDS.fullmatch(text)
        if match is None or not text.strip():
            raise InvalidSetting(
                f"cannot read the contract {text!r}",
                "write HARD or SOFT(k), and PHYSICAL WITHIN a duration if bytes must be gone",
            )
        within = None if match[3] is None else micros(match[3])
        late = match[2] or "0"
        if len(late) > len(str(LATEST)) or int(late) > LATEST:
            raise InvalidSetting(f"SOFT({late})", f"let rows be late by {LATEST:,} updates at most")
        return Contract(int(late), within)

    def check(self, calendar: UpdateCalendar) -> None:
        """Refuse a promise that updates at these times cannot keep."""
        interval = longest_interval(calendar)
        if self.erased_within is not None and self.erased_within < interval:
            raise InvalidSetting(
                f"bytes cannot be gone within {format_micros(self.erased_within)}: a row that "
                f"expires just after an update is removed by the next one",
                f"allow at least {format_micros(interval)}, or refresh more often",
            )

    def keeps(self, asked: Contract) -> bool:
        """Whether this promises at least what is asked.

        >>> Contract.parse("HARD PHYSICAL WITHIN 1 day").keeps(Contract.parse("SOFT(2)"))
        True
        >>> HARD.keeps(Contract.parse("PHYSICAL WITHIN 1 day"))
        False
        """
        if asked.erased_within is None:
            return self.late <= asked.late
        soon = self.erased_within is not None and self.erased_within <= asked.erased_within
        return soon and self.late <= asked.late

    def returned_until(self, calendar: UpdateCalendar, moment: int) -> int:
        """Rows that expired up to this instant are not returned at ``moment``."""
        if not self.late:
            return moment
        return min(moment, calendar.time_of(calendar.update_of(moment) - self.late))

    def due(self, calendar: UpdateCalendar, update: int) -> int | None:
        """Rows that expired before this instant must be gone when the update is done.

        Nothing happens before the next update, so whatever falls due until then goes now.
        """
        if self.erased_within is None:
            return None
        return calendar.time_of(update + 1) - self.erased_within

    def __str__(self) -> str:
        read = f"SOFT({self.late})" if self.late else "HARD"
        if self.erased_within is None:
            return read
        return f"{read} PHYSICAL WITHIN {format_micros(self.erased_within)}"

    def to_json(self) -> dict[str, Any]:
        return {"late": self.late, "erased_within": self.erased_within}


HARD = Contract()


@dataclass(frozen=True)
class Promise:
    """What PHYSICAL WITHIN asks of a query that feeds the archive.

    Bytes are gone ``within`` so many µs of an expiration; updates come every ``interval``.
    Invariant: ``due_at`` is not before the instant up to which the archive itself erases with the
    updates that the same clock brings, wherever its intervals begin, and not beyond the clock.
    """

    within: int
    interval: int

    def due_at(self, clock: int) -> int:
        """Rows that expired before this instant must be gone when the clock is there."""
        if clock == MIN_TIME:
            return MIN_TIME
        # The archive looks ahead to its next update, which is less than an interval away; rounded
        # up, so that runs are written anew once per interval and not with every batch.
        ahead = (clock // self.interval + 2) * self.interval
        return min(clock, ahead - self.within)

    @property
    def history(self) -> int:
        """How long dead results may be kept at most; the last closed instant is always known."""
        return max(1, self.within - 2 * self.interval)


def due_at(promises: Iterable[Promise], clock: int) -> int | None:
    """What all promises together ask for; None if there are none."""
    return max((promise.due_at(clock) for promise in promises), default=None)


def longest_interval(calendar: UpdateCalendar) -> int:
    """The longest time between two updates, µs."""
    return calendar.interval if isinstance(calendar, FixedIntervals) else DAY * 25 // 24
