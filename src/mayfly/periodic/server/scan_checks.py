"""What the checker has found in the histories of a server, while that goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from mayfly.periodic.isolation import BrokenHistory, ScanHistory, forget_checked


@dataclass
class ScanChecks:
    """``broken`` is the first scan that did not keep what its isolation promised."""

    broken: BrokenHistory | None = None
    _levels: Counter[str] = field(default_factory=Counter)

    def read(self, history: ScanHistory) -> None:
        """Check what was recorded, and forget the scans that have ended."""
        try:
            self._levels.update(verdict.level.value for verdict in forget_checked(history))
        except BrokenHistory as error:
            # What comes after it would be found broken again and again.
            history.recording, history.operations = False, []
            self.broken = self.broken or error

    def take_levels(self) -> Counter[str]:
        """How many scans that were checked since the last time had which level."""
        levels, self._levels = self._levels, Counter()
        return levels
