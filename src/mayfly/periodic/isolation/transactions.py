"""Updates and scans of one ring: updates first, then one read at a time, by priority.

Idea: an update is written at once (or waits, where the policy says so) and aborts the queries whose
reads it spoils; they start again. A read takes a reference under the lock and is merged outside it;
a query commits with its last read, and merges what it holds afterwards (thesis 7.4).
Invariant: the recorded history satisfies the level of the policy. Cost: n_k reads an attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Generic

from mayfly.errors import InvalidSetting
from mayfly.periodic.isolation.isolation_policy import IsolationPolicy, LatestPolicy
from mayfly.periodic.isolation.pane_versions import PaneRing
from mayfly.periodic.isolation.pinned_snapshot import PinnedSnapshot
from mayfly.periodic.isolation.scan import Load, PaneScan, ScanAnswer
from mayfly.periodic.isolation.scan_history import (
    PaneRead,
    RingResized,
    ScanAborted,
    ScanCommitted,
    ScanHistory,
    ScanStarted,
    UpdateCommitted,
    UpdateWritten,
)
from mayfly.periodic.isolation.time_to_update import TimeToUpdate
from mayfly.synopses.synopsis import Algebra, Value

MOST_ABORTS = 3
"""After so many a query reads a snapshot."""


@dataclass
class PaneReading(Generic[Value]):
    """A read that was taken and is not merged yet."""

    scan: PaneScan[Value]
    value: Any = None
    undo: bool = False
    empty: bool = True
    """Whether there was nothing to read."""
    answered: list[tuple[str, int, bool, int]] = field(default_factory=list)
    """Queries that committed with it, what they are as of, whether they are partial, and how many
    sub-windows they have read."""


class PaneTransactions(Generic[Value]):
    """``undo``: all queries do as under the policy "undo": one that has read what left its window
    subtracts it instead of aborting, where contents can be subtracted. May be used by several
    threads."""

    def __init__(
        self,
        algebra: Algebra[Value],
        size: int,
        policy: IsolationPolicy | None = None,
        *,
        first: int = 0,
        undo: bool = False,
        most_aborts: int | None = MOST_ABORTS,
    ) -> None:
        self.algebra, self.policy = algebra, policy or TimeToUpdate()
        self.undo, self.most_aborts = undo, most_aborts
        self.ring: PaneRing[Any] = PaneRing(size, first=first)
        self.history = ScanHistory(size, first, first - 1)
        self.aborts = self.reads = 0
        self._pending: list[Any] = []
        self._waiting: list[PaneScan[Value]] = []
        self._running: list[PaneScan[Value]] = []
        self.watch: Callable[[int], None] | None = None
        """Called with every version that was written, before anything else is read."""
        self._last: dict[str, tuple[tuple[int, ...], Value]] = {}
        self._numbers = 0
        self._lock = RLock()

    # ── updates ───────────────────────────────────────────────────────────────────────────

    def update(self, value: Any) -> None:
        """A sub-window is complete."""
        with self._lock:
            if self.policy.waits and (self._running or self._pending):
                self._pending.append(value)
            else:
                self._write(value)

    def resize(self, size: int) -> None:
        """Hold so many sub-windows from now on."""
        with self._lock:
            self.ring.resize(size)
            self.history.record(RingResized(size))

    def _write(self, value: Any) -> None:
        version = self.ring.write(value)
        self.history.record(UpdateWritten(version), UpdateCommitted(version))
        for scan in list(self._running):
            for query in scan.policy.slide(scan, self.ring, version):
                if self._undoes(scan) and len(scan.panes) == 1:
                    self._undo(scan, version - scan.longest)
                else:
                    self._abort(scan, query)
        if self.watch is not None:
            self.watch(version)

    def _undoes(self, scan: PaneScan[Value]) -> bool:
        return scan.policy.undoes or (self.undo and isinstance(scan.policy, LatestPolicy))

    def _undo(self, scan: PaneScan[Value], version: int) -> None:
        scan.read.discard(version)
        scan.undone.append(scan.pinned[version])
        scan.reads += 1
        self.reads += 1
        self.history.record(PaneRead(scan.number, version, undo=True, pinned=True))

    def _abort(self, scan: PaneScan[Value], query: str) -> None:
        self.aborts += 1
        self.history.record(ScanAborted(scan.number, query))
        panes = scan.panes.pop(query)
        if not scan.panes:
            self._running.remove(scan)
        again = self._scan({query: panes}, scan.policy, scan)
        again.arrival, again.attempt = scan.arrival, scan.attempt + 1
        if self.most_aborts is not None and scan.attempt >= self.most_aborts:
            again.policy = PinnedSnapshot()
        self._begin(again)

    # ── scans ─────────────────────────────────────────────────────────────────────────────

    def start(
        self,
        panes: Mapping[str, int],
        *,
        priority: int = 0,
        policy: IsolationPolicy | None = None,
        algebra: Algebra[Value] | None = None,
        load: Load | None = None,
        at_once: bool = False,
    ) -> None:
        """Queries want the values of their windows, read together where the policy can; ``at_once``
        also where updates wait."""
        policy = policy or self.policy
        for query, length in panes.items():
            if not 1 <= length <= self.ring.size:
                raise InvalidSetting(
                    f"{query}: a window of {length} sub-windows over a ring of {self.ring.size}",
                    "resize the ring first, or ask for a window between 1 and that",
                )
        with self._lock:
            parts = [dict(panes)] if policy.joint else [{query: n} for query, n in panes.items()]
            for part in parts:
                scan = self._scan(part, policy, None, algebra, load)
                scan.priority, scan.arrival = priority, scan.number
                if policy.incremental:
                    scan.base = self._last.get(next(iter(part)))
                if self._pending and not at_once:
                    self._waiting.append(scan)
                else:
                    self._begin(scan)

    def cancel(self, query: str) -> None:
        """Answer a query no more."""
        with self._lock:
            for scan in [*self._running, *self._waiting]:
                if scan.panes.pop(query, None) is None:
                    continue
                if scan in self._running:
                    self.history.record(ScanAborted(scan.number, query))
            self._running = [scan for scan in self._running if scan.panes]
            self._waiting = [scan for scan in self._waiting if scan.panes]
            self._last.pop(query, None)

    def _scan(
        self,
        panes: dict[str, int],
        policy: IsolationPolicy,
        former: PaneScan[Value] | None,
        algebra: Algebra[Value] | None = None,
        load: Load | None = None,
    ) -> PaneScan[Value]:
        self._numbers += 1
        scan = PaneScan(self._numbers, panes, policy, algebra or self.algebra, load=load)
        if former is not None:
            scan.algebra, scan.load, scan.priority = former.algebra, former.load, former.priority
        return scan

    def _begin(self, scan: PaneScan[Value]) -> None:
        scan.policy.begin(scan, self.ring)
        self.history.record(
            ScanStarted(
                scan.number,
                tuple(scan.panes.items()),
                tuple(sorted(scan.read)),
                scan.policy.level,
            )
        )
        self._running.append(scan)

    @property
    def idle(self) -> bool:
        with self._lock:
            return not (self._running or self._waiting or self._pending)

    def step(self) -> list[ScanAnswer[Value]]:
        """Read one sub-window for the most important scan; the answers that came of it."""
        reading = self.reserve()
        return [] if reading is None else self.complete(reading)

    def run(self) -> list[ScanAnswer[Value]]:
        """Read until every query is answered."""
        answers = []
        while (reading := self.reserve()) is not None:
            answers += self.complete(reading)
        return answers

    def reserve(self, queries: Container[str] | None = None) -> PaneReading[Value] | None:
        """Take the next read, of any or only of some queries; None where there is none to take."""
        with self._lock:
            self._admit()
            ready = [
                scan
                for scan in self._running
                if not scan.busy and (queries is None or any(q in queries for q in scan.panes))
            ]
            if not ready:
                return None
            scan = min(ready, key=self._rank)
            scan.busy = True
            reading = PaneReading(scan)
            if not scan.policy.answered(scan, self.ring):
                self._read(scan, reading)
            for query in scan.policy.answered(scan, self.ring):
                self._commit(scan, query, reading)
            return reading

    def _rank(self, scan: PaneScan[Value]) -> tuple[bool, int, int, int]:
        """The highest priority first, then the oldest; where updates wait, nothing is suspended."""
        begun = self.policy.waits and bool(scan.read)
        return not begun, -scan.priority, scan.arrival, scan.number

    def complete(self, reading: PaneReading[Value]) -> list[ScanAnswer[Value]]:
        """Merge what was read; the answers of the queries that committed with it."""
        scan, algebra = reading.scan, reading.scan.algebra
        value = reading.value
        if not reading.empty and scan.load is not None:
            value = scan.load(value)
        with self._lock:
            handed, scan.handed = scan.handed, []
            undone, scan.undone = scan.undone, []
        if reading.empty:
            total = algebra.merge([]) if scan.total is None else scan.total
        elif reading.undo:
            assert scan.total is not None, "what is undone was read before"
            total = algebra.subtract(scan.total, value)
        else:
            parts = [value, *handed] if scan.total is None else [scan.total, value, *handed]
            total = algebra.merge(parts)
        for part in undone:
            total = algebra.subtract(total, part if scan.load is None else scan.load(part))
        with self._lock:
            scan.total, scan.busy = total, False
            return [self._answer(scan, *answered, total) for answered in reading.answered]

    def _admit(self) -> None:
        """Where nothing runs, updates that waited are written, then queries that waited begin."""
        if self._running:
            return
        while self._pending:
            self._write(self._pending.pop(0))
        waiting, self._waiting = self._waiting, []
        for scan in waiting:
            self._begin(scan)

    def _read(self, scan: PaneScan[Value], reading: PaneReading[Value]) -> None:
        version = scan.policy.choose(scan, self.ring)
        pinned = version in scan.pinned
        reading.value = scan.pinned[version] if pinned else self.ring.read(version)
        reading.undo, reading.empty = version in scan.read, False
        if reading.undo:
            scan.read.discard(version)
        else:
            scan.read.add(version)
        if self._undoes(scan) and not pinned:
            scan.pinned = {**scan.pinned, version: reading.value}
        scan.reads += 1
        self.reads += 1
        self.history.record(PaneRead(scan.number, version, reading.undo, pinned))

    def _commit(self, scan: PaneScan[Value], query: str, reading: PaneReading[Value]) -> None:
        partial = len(scan.read) < scan.panes.pop(query)
        reading.answered.append((query, scan.aim, partial, len(scan.read)))
        self.history.record(ScanCommitted(scan.number, query, scan.aim))
        if not scan.panes:
            self._running.remove(scan)

    def _answer(
        self,
        scan: PaneScan[Value],
        query: str,
        as_of: int,
        partial: bool,
        panes: int,
        total: Value,
    ) -> ScanAnswer[Value]:
        if scan.policy.incremental:
            self._last[query] = (tuple(sorted(scan.read)), total)
        policy = scan.policy
        return ScanAnswer(
            query, total, as_of, policy.name, policy.level, scan.attempt, scan.reads, partial, panes
        )
