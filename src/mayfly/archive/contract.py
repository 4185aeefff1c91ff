"""What an archive of rows with their own lifetimes promises about the dead.

HARD: no dead row is ever returned. SOFT(k): a row may still be returned for k updates after the
one that should have removed it, so that an update may leave more for later. PHYSICAL WITHIN d: d
after a row's expiration, by the archive's updates, none of its bytes is left in the directory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mayfly.archive.calendar import DAY, FixedIntervals, UpdateCalendar
from mayfly.errors import InvalidSetting
from mayfly.lifetime import format_micros, micros

_WORDS = re.compile(
    r"\s*(?:(HARD)|SOFT\s*\(\s*(\d+)\s*\))?\s*(?:PHYSICAL\s+WITHIN\s+(.+?))?\s*", re.IGNORECASE
)


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
        found = _WORDS.fullmatch(text)
        if found is None or not text.strip():
            raise InvalidSetting(
                f"cannot read the contract {text!r}",
                "write HARD or SOFT(k), and PHYSICAL WITHIN a duration if bytes must be gone",
            )
        within = None if found[3] is None else micros(found[3])
        return Contract(int(found[2] or 0), within)

    def check(self, calendar: UpdateCalendar) -> None:
        """Refuse a promise that updates at these times cannot keep."""
        interval = longest_interval(calendar)
        if self.erased_within is not None and self.erased_within < interval:
            raise InvalidSetting(
                f"bytes cannot be gone within {format_micros(self.erased_within)}: a row that "
                f"expires just after an update is removed by the next one",
                f"allow at least {format_micros(interval)}, or refresh more often",
            )

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


def longest_interval(calendar: UpdateCalendar) -> int:
    """The longest time between two updates, µs."""
    return calendar.interval if isinstance(calendar, FixedIntervals) else DAY * 25 // 24
