"""A materialized result of pattern WK: sub-windows by expiration, into any of which rows may come.

Idea: the sub-window of expiration index e is version e − n; update u drops e = u and begins
e = u + n. What comes into a sub-window that a running query has read is handed to it as well, so
the query has the state as of its commit (thesis 7.4.3). Invariants and costs of ``transactions``.
"""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.errors import BadInput, InvalidSetting
from mayfly.patterns import Kind, Pattern
from mayfly.periodic.isolation.isolation_policy import LatestPolicy
from mayfly.periodic.isolation.transactions import PaneTransactions
from mayfly.synopses.synopsis import Algebra, Value


class MaterializedTransactions(PaneTransactions[Value]):
    """Begins with n empty sub-windows, before update 1. Queries read what expires last first."""

    def __init__(self, algebra: Algebra[Value], size: int, pattern: Pattern) -> None:
        if pattern.kind is Kind.STR:
            raise InvalidSetting(
                "rows of a result with pattern STR may go before they expire",
                "read it between updates, or serve a query whose rows keep their lifetimes",
            )
        super().__init__(algebra, size, first=1 - size)
        for _ in range(size):
            self.update(algebra.merge([]))

    @property
    def last_update(self) -> int:
        return self.ring.top

    def advance(self, inserts: Mapping[int, Value]) -> None:
        """The next update, and what it inserts, by expiration index: after the update, and up to
        n later."""
        with self._lock:
            update, size = self.ring.top + 1, self.ring.size
            for index in inserts:
                if not update < index <= update + size:
                    raise BadInput(
                        f"rows that expire at {index}, in update {update} of a ring of {size}",
                        f"give indexes from {update + 1} to {update + size}",
                    )
            self.update(self.algebra.merge([]))
            for index, value in inserts.items():
                version = index - size
                merged = self.algebra.merge([self.ring.read(version), value])
                self.ring.replace(version, merged)
                for scan in self._running:
                    if version in scan.read and isinstance(scan.policy, LatestPolicy):
                        scan.handed.append(value)
