"""What lateness has come to: per query, and how fairly periods were stretched.

Overload lengthens periods instead of dropping queries (thesis 8.4.1); this says by how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from mayfly.display import counted


@dataclass(frozen=True)
class QueryLateness:
    """Of one query, in updates of its synopsis; against its own period, not the adopted one."""

    query: str
    period: int
    adopted: int
    executions: int
    total: int
    worst: int
    skipped: int
    updates: int
    """Between its first and its last execution."""
    late: int
    """How late it is now."""

    @property
    def mean(self) -> Fraction:
        return Fraction(self.total, max(1, self.executions))

    @property
    def interval(self) -> Fraction | None:
        """The updates between two executions, in the mean."""
        return Fraction(self.updates, self.executions - 1) if self.executions > 1 else None

    @property
    def stretch(self) -> Fraction:
        """How many times longer than asked its period was: 1 where it was never late."""
        return 1 + self.mean / self.period

    def __str__(self) -> str:
        adopted = f", runs every {self.adopted}" if self.adopted != self.period else ""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return (
            f"{self.query}: every {counted(self.period, 'update')}{adopted}; "
            f"{counted(self.executions, 'execution')}, late by {float(self.mean):.2f} "
            f"in the mean and {self.worst} at most{skipped}; "
            f"period stretched {float(self.stretch):.2f} times"
        )


@dataclass(frozen=True)
class LatenessReport:
    queries: tuple[QueryLateness, ...]

    def __getitem__(self, query: str) -> QueryLateness:
        return next(lateness for lateness in self.queries if lateness.query == query)

    @property
    def mean(self) -> Fraction:
        """Per execution; 0 where there is no overload."""
        executions = sum(lateness.executions for lateness in self.queries)
        return Fraction(sum(lateness.total for lateness in self.queries), max(1, executions))

    @property
    def overloaded(self) -> bool:
        """Whether some query is late now."""
        return any(lateness.late for lateness in self.queries)

    @property
    def spread(self) -> Fraction:
        """How much more the mean lateness of one query is than that of another, in updates."""
        means = [lateness.mean for lateness in self.queries if lateness.executions]
        return max(means) - min(means) if means else Fraction(0)

    def __str__(self) -> str:
        head = (
            "no query is late"
            if not self.mean
            else f"overload: late by {float(self.mean):.2f} updates in the mean, "
            f"{float(self.spread):.2f} apart between queries"
        )
        return "\n".join([head, *(f"  {lateness}" for lateness in self.queries)])
