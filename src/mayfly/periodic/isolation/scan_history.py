"""What happened, in order: updates, and what each query read before it committed or aborted.

Recorded by the schedulers while they run, and read by the checker, which trusts nothing else.
The thesis writes a history of one query as ``r0 w5 c5 r1 c``: places of a ring, see ``parsed``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mayfly.errors import BadInput
from mayfly.periodic.isolation.level import IsolationLevel


@dataclass(frozen=True)
class UpdateWritten:
    version: int


@dataclass(frozen=True)
class UpdateCommitted:
    version: int


@dataclass(frozen=True)
class ScanStarted:
    """A scan for queries and the numbers of panes of their windows; ``base`` are the versions in
    an earlier answer that it goes on from."""

    scan: int
    panes: tuple[tuple[str, int], ...]
    base: tuple[int, ...] = ()
    promised: IsolationLevel = IsolationLevel.NONE


@dataclass(frozen=True)
class PaneRead:
    """``undo``: it was read to be taken out again. ``pinned``: not from the ring, but from what the
    scan held of it."""

    scan: int
    version: int
    undo: bool = False
    pinned: bool = False


@dataclass(frozen=True)
class ScanCommitted:
    """A query of a scan has its answer, and claims that it is as of a version."""

    scan: int
    query: str
    as_of: int


@dataclass(frozen=True)
class ScanAborted:
    scan: int
    query: str


@dataclass(frozen=True)
class RingResized:
    size: int


Operation = (
    UpdateWritten
    | UpdateCommitted
    | ScanStarted
    | PaneRead
    | ScanCommitted
    | ScanAborted
    | RingResized
)


@dataclass
class ScanHistory:
    """Of one ring of ``size`` places, with the versions ``first`` to ``top`` written before."""

    size: int
    first: int = 0
    top: int = -1
    operations: list[Operation] = field(default_factory=list)
    recording: bool = True
    oldest: int | None = None
    """The oldest version that the ring held at ``top``, where what was before is forgotten."""

    @property
    def oldest_version(self) -> int:
        return max(self.first, self.top - self.size + 1) if self.oldest is None else self.oldest

    def record(self, *operations: Operation) -> None:
        if self.recording:
            self.operations.extend(operations)

    def __str__(self) -> str:
        """In the thesis's notation, places by number; scans have numbers where there are more."""
        scans = {op.scan for op in self.operations if isinstance(op, ScanStarted)}
        return " ".join(filter(None, (self._word(op, len(scans) > 1) for op in self.operations)))

    def _word(self, operation: Operation, several: bool) -> str:
        match operation:
            case UpdateWritten(version):
                return f"w{version}[{version % self.size}]"
            case UpdateCommitted(version):
                return f"c{version}"
            case PaneRead(scan, version, undo):
                letter = "u" if undo else "r"
                return f"{letter}{f'Q{scan}' if several else ''}[{version % self.size}]"
            case ScanCommitted(_, query):
                return f"c{query}"
            case ScanAborted(_, query):
                return f"a{query}"
        return ""


def parsed(
    text: str, size: int, top: int, *, panes: int | None = None, query: str = "Q"
) -> ScanHistory:
    """A history of one query over a ring, in the thesis's words: ``r0`` reads place 0, ``w5`` and
    ``c5`` are update 5, ``c`` is the commit of the query.

    >>> parsed("r0 w5 c5 r1 c", 5, 4).operations[1]
    PaneRead(scan=1, version=0, undo=False, pinned=False)
    """
    history = ScanHistory(size, top - size + 1, top)
    history.record(ScanStarted(1, ((query, panes or size),)))
    place = {version % size: version for version in range(top - size + 1, top + 1)}
    for word in text.split():
        letter, number = word[0], word[1:]
        if (letter, bool(number)) not in {("r", True), ("w", True), ("c", True), ("c", False)}:
            raise BadInput(f"{word!r} is not an operation of a history", "write r0, w5, c5 or c")
        if letter == "r":
            history.record(PaneRead(1, place[int(number)]))
        elif letter == "w":
            place[int(number) % size] = int(number)
            history.record(UpdateWritten(int(number)))
        elif number:
            history.record(UpdateCommitted(int(number)))
        else:
            as_of = max(_read(history.operations), default=top)
            history.record(ScanCommitted(1, query, as_of))
    return history


def _read(operations: Iterable[Operation]) -> list[int]:
    return [op.version for op in operations if isinstance(op, PaneRead)]
