"""Says which isolation level a recorded history satisfies, from the versions that were read.

Window-serializable: a query has read exactly the window as of some update before its commit.
Latest-window-serializable: as of the last one before its commit (thesis 7.3.2, by versions, as the
graph tests 7.1 and 7.2 are wrong for windows shorter than the ring). Cost: one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mayfly.errors import MayflyError
from mayfly.periodic.isolation.level import IsolationLevel
from mayfly.periodic.isolation.scan_history import (
    Operation,
    PaneRead,
    RingResized,
    ScanAborted,
    ScanCommitted,
    ScanHistory,
    ScanStarted,
    UpdateCommitted,
    UpdateWritten,
)


class BrokenHistory(MayflyError):
    """A history that did not keep what was promised, or cannot have happened."""


@dataclass(frozen=True)
class ScanVerdict:
    """About one query that committed."""

    scan: int
    query: str
    versions: tuple[int, ...]
    top: int
    """The last update written before the commit."""
    as_of: int
    """What the query claimed."""
    level: IsolationLevel
    promised: IsolationLevel


@dataclass
class _ScanState:
    panes: dict[str, int]
    versions: set[int]
    promised: IsolationLevel
    done: set[str] = field(default_factory=set)


def verdicts(history: ScanHistory) -> list[ScanVerdict]:
    """One for each commit of a query, in order."""
    return list(_Replay(history).run())


def check_history(
    history: ScanHistory, promised: IsolationLevel = IsolationLevel.NONE
) -> list[ScanVerdict]:
    """Every query that committed must have read what its scan, and the caller, promised, and claim
    what it has read."""
    checked = verdicts(history)
    for verdict in checked:
        expected = max(promised, verdict.promised)
        if verdict.level < expected:
            raise BrokenHistory(
                f"{verdict.query} read the versions {verdict.versions} and committed after update "
                f"{verdict.top}: {verdict.level.value}, not {expected.value}",
                f"the history is: {history}",
            )
        if verdict.versions and verdict.as_of != verdict.versions[-1]:
            raise BrokenHistory(
                f"{verdict.query} claims to be as of {verdict.as_of}, but read up to "
                f"{verdict.versions[-1]}",
                f"the history is: {history}",
            )
    return checked


class _Replay:
    def __init__(self, history: ScanHistory) -> None:
        self.history = history
        self.size, self.top = history.size, history.top
        self.oldest = {self.top: history.oldest_version}
        """After each update: the oldest version in the ring."""
        self.scans: dict[int, _ScanState] = {}

    def run(self) -> Iterator[ScanVerdict]:
        for operation in self.history.operations:
            match operation:
                case UpdateWritten(version):
                    self._require(version == self.top + 1, f"update {version} after {self.top}")
                    self.oldest[version] = max(self.oldest[self.top], version - self.size + 1)
                    self.top = version
                case RingResized(size):
                    self.size = size
                case ScanStarted(scan, panes, base, promised):
                    self.scans[scan] = _ScanState(dict(panes), set(base), promised)
                case PaneRead():
                    self._read(operation)
                case ScanCommitted(scan, query, as_of):
                    yield self._verdict(scan, query, as_of)
                case ScanAborted(scan, query):
                    self._finish(scan, query)

    def _read(self, read: PaneRead) -> None:
        versions = self.scans[read.scan].versions
        exists = self.history.first <= read.version <= self.top
        self._require(exists, f"version {read.version} was read before it was written")
        if not read.pinned and not read.undo:
            in_ring = read.version >= self.oldest[self.top]
            self._require(in_ring, f"version {read.version} was read after it was overwritten")
        if read.undo:
            self._require(read.version in versions, f"{read.version} undone, but never read")
            versions.discard(read.version)
        else:
            self._require(read.version not in versions, f"version {read.version} read twice")
            versions.add(read.version)

    def _verdict(self, scan: int, query: str, as_of: int) -> ScanVerdict:
        state = self.scans[scan]
        self._finish(scan, query)
        versions = tuple(sorted(state.versions))
        last = versions[-1] if versions else self.history.first - 1
        # A ring that is not full yet, or grew, has less than a window.
        first = max(self.oldest.get(last, last + 1), last - state.panes[query] + 1)
        level = IsolationLevel.NONE
        if versions == tuple(range(first, last + 1)):
            level = IsolationLevel.LATEST if last == self.top else IsolationLevel.WINDOW
        return ScanVerdict(scan, query, versions, self.top, as_of, level, state.promised)

    def _finish(self, scan: int, query: str) -> None:
        state = self.scans[scan]
        self._require(query in state.panes, f"scan {scan} is not for {query}")
        self._require(query not in state.done, f"{query} ended twice in scan {scan}")
        state.done.add(query)

    def _require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise BrokenHistory(
                f"this cannot have happened: {problem}", f"the history is: {self.history}"
            )


def forget_checked(history: ScanHistory) -> list[ScanVerdict]:
    """Check a history, and keep of it only what scans that have not ended need: their own
    operations, and updates from the start of the oldest of them on. What the others came to."""
    checked = check_history(history)
    open_queries: dict[int, set[str]] = {}
    for operation in history.operations:
        match operation:
            case ScanStarted(scan, panes):
                open_queries[scan] = {query for query, _ in panes}
            case ScanCommitted(scan, query) | ScanAborted(scan, query):
                open_queries[scan].discard(query)
    running = {scan for scan, queries in open_queries.items() if queries}
    kept: list[Operation] = []
    for operation in history.operations:
        owner = getattr(operation, "scan", None)
        if owner in running or (owner is None and kept):
            kept.append(operation)
        elif isinstance(operation, UpdateWritten):
            history.oldest = max(history.oldest_version, operation.version - history.size + 1)
            history.top = operation.version
        elif isinstance(operation, RingResized):
            history.size = operation.size
    history.operations = kept
    return [verdict for verdict in checked if verdict.scan not in running]


@dataclass(frozen=True)
class Conflicts:
    """The updates that come before and after a query, by reads and writes of the same place; and
    whether commits are in the same order (CPS)."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    commit_order_preserved: bool


def conflicts(history: ScanHistory, query: str = "Q") -> Conflicts:
    """The edges of the thesis's serialization graph around one query that is alone in its scan."""
    read: dict[int, int] = {}
    written: dict[int, int] = {}
    committed: dict[int, int] = {}
    end = len(history.operations)
    for number, operation in enumerate(history.operations):
        match operation:
            case PaneRead(_, version):
                read[version % history.size] = number
            case UpdateWritten(version):
                written[version] = number
            case UpdateCommitted(version):
                committed[version] = number
            case ScanCommitted(_, name) if name == query:
                end = number
    touched = [v for v in written if v % history.size in read]
    before = tuple(v for v in touched if written[v] < read[v % history.size])
    after = tuple(v for v in touched if written[v] > read[v % history.size])
    in_order = all(committed.get(v, -1) < end for v in before) and all(
        committed.get(v, end + 1) > end for v in after
    )
    return Conflicts(before, after, in_order)
