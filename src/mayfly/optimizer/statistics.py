"""What the optimizer assumes or has measured about streams and relations.

Rates are tuples per second. A rate that was not measured has a default, and a plan says which of
its figures rest on it; a column whose values were not counted is taken to have as many as rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mayfly.plan.strategy import CALENDAR_RANGES

DEFAULT_RATE = 100.0
DEFAULT_RELATION_ROWS = 10_000.0


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """Measured figures of one source; None and missing columns mean "not known".

    ``rate`` is new tuples (or changes of a relation) per second, ``rows`` the size of a relation,
    ``distinct`` the number of values a column takes.
    """

    rate: float | None = None
    rows: float | None = None
    distinct: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures by source name, and how many partitions calendar queues have."""

    sources: Mapping[str, SourceStatistics] = field(default_factory=dict)
    calendar_partitions: int = CALENDAR_RANGES

    def has_rate(self, source: str) -> bool:
        return source in self.sources and self.sources[source].rate is not None

    def rate(self, source: str) -> float:
        measured = self._of(source).rate
        return DEFAULT_RATE if measured is None else measured

    def rows(self, source: str) -> float:
        measured = self._of(source).rows
        return DEFAULT_RELATION_ROWS if measured is None else measured

    def distinct(self, source: str) -> Mapping[str, float]:
        """The columns whose values were counted."""
        return self._of(source).distinct

    def _of(self, source: str) -> SourceStatistics:
        return self.sources.get(source, SourceStatistics())
