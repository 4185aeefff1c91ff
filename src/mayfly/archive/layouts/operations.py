"""What can be done to the indexes of a wave, as small values.

Idea: a scheme describes its work as a sequence of operations on named indexes; executing them
on sets of days gives the next state, planning them on stored runs gives the files to write
(``run_plan``), and pricing them gives the cost model (``cost``). All three read the same values.
Invariant: ``execute`` refuses an operation that makes no sense on the state it meets.
Cost: proportional to the days named. wave-indices-1997, 2.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mayfly.errors import InvalidEdit

Days = frozenset[int]
NO_DAYS: Days = frozenset()


@dataclass(frozen=True, slots=True)
class BuildIndex:
    """Make ``target`` a packed index of exactly these days."""

    days: Days
    target: str

    def __str__(self) -> str:
        return f"{self.target} ← BuildIndex({format_days(self.days)})"


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Make ``target`` an empty index."""

    target: str

    def __str__(self) -> str:
        return f"{self.target} ← {{}}"


@dataclass(frozen=True, slots=True)
class CopyIndex:
    """Make ``target`` a copy of ``source``."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.target} ← {self.source}"


@dataclass(frozen=True, slots=True)
class AddToIndex:
    """Add the rows of these days, which ``target`` does not hold yet."""

    days: Days
    target: str

    def __str__(self) -> str:
        return f"AddToIndex({format_days(self.days)}, {self.target})"


@dataclass(frozen=True, slots=True)
class AddLateRows:
    """Add rows that came late for days which ``target`` already holds."""

    days: Days
    target: str

    def __str__(self) -> str:
        return f"AddLateRows({format_days(self.days)}, {self.target})"


@dataclass(frozen=True, slots=True)
class DeleteFromIndex:
    """Remove the rows of these days."""

    days: Days
    target: str

    def __str__(self) -> str:
        return f"DeleteFromIndex({format_days(self.days)}, {self.target})"


@dataclass(frozen=True, slots=True)
class RenameIndex:
    """Give ``source`` the name ``target``, which must be free."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"Rename {self.source} as {self.target}"


@dataclass(frozen=True, slots=True)
class AddIndex:
    """Let queries see ``target``: it becomes a constituent of the wave."""

    target: str

    def __str__(self) -> str:
        return f"AddIndex({self.target})"


@dataclass(frozen=True, slots=True)
class DropIndex:
    """Take ``target`` away with everything in it."""

    target: str

    def __str__(self) -> str:
        return f"DropIndex({self.target})"


ContentOperation = BuildIndex | CreateIndex | CopyIndex | AddToIndex | AddLateRows | DeleteFromIndex
Operation = ContentOperation | RenameIndex | AddIndex | DropIndex


def _frozen(indexes: Mapping[str, Days]) -> Mapping[str, Days]:
    by_number = sorted(indexes, key=lambda name: (len(name), name))
    return MappingProxyType({name: indexes[name] for name in by_number})


@dataclass(frozen=True, slots=True)
class WaveState:
    """The days held by every constituent and every temporary after the update of ``day``."""

    day: int = 0
    constituents: Mapping[str, Days] = field(default_factory=dict)
    temporaries: Mapping[str, Days] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constituents", _frozen(self.constituents))
        object.__setattr__(self, "temporaries", _frozen(self.temporaries))

    @property
    def stored_days(self) -> Days:
        """Every day that some constituent holds."""
        return frozenset().union(*self.constituents.values())

    def oldest(self) -> str:
        """The constituent that holds the oldest day."""
        return min(self.constituents, key=lambda name: min(self.constituents[name]))

    def youngest(self) -> str:
        """The constituent that holds the newest day."""
        return max(self.constituents, key=lambda name: max(self.constituents[name]))

    def holder_of(self, day: int) -> str:
        """The constituent that holds ``day``."""
        for name, days in self.constituents.items():
            if day in days:
                return name
        raise InvalidEdit(
            f"day {day} is in no constituent after day {self.day}",
            "the state was not made by this scheme and window; open it with its own settings",
        )


def execute(state: WaveState, operations: Iterable[Operation], day: int) -> WaveState:
    """The state of ``day``, after the operations were carried out on ``state``."""
    constituents, temporaries = dict(state.constituents), dict(state.temporaries)
    for operation in operations:
        problem = _problem(operation, constituents, temporaries)
        if problem:
            raise InvalidEdit(
                f"day {day}: {operation} is impossible: {problem}",
                "the state was not made by this scheme and window; open it with its own settings",
            )
        _execute_one(operation, constituents, temporaries)
    return WaveState(day, constituents, temporaries)


def _execute_one(
    operation: Operation, constituents: dict[str, Days], temporaries: dict[str, Days]
) -> None:
    target = operation.target
    place = constituents if target in constituents else temporaries
    match operation:
        case BuildIndex(days=days):
            place[target] = days
        case CreateIndex():
            place[target] = NO_DAYS
        case CopyIndex(source=source):
            place[target] = (constituents if source in constituents else temporaries)[source]
        case AddToIndex(days=days):
            place[target] |= days
        case AddLateRows():
            pass  # the days are there already; only rows are added
        case DeleteFromIndex(days=days):
            place[target] -= days
        case RenameIndex(source=source):
            origin = constituents if source in constituents else temporaries
            temporaries[target] = origin.pop(source)
        case AddIndex():
            constituents[target] = temporaries.pop(target)
        case DropIndex():
            del place[target]


def _problem(
    operation: Operation, constituents: Mapping[str, Days], temporaries: Mapping[str, Days]
) -> str:
    """Why the operation makes no sense on these indexes, or nothing."""
    held = constituents.get(operation.target, temporaries.get(operation.target))
    match operation:
        case RenameIndex(source=source, target=target):
            if source not in constituents and source not in temporaries:
                return f"there is no index {source}"
            return f"{target} exists already" if held is not None else ""
        case CopyIndex(source=source):
            missing = source not in constituents and source not in temporaries
            return f"there is no index {source}" if missing else ""
        case BuildIndex() | CreateIndex():
            return ""
    if held is None:
        return f"there is no index {operation.target}"
    match operation:
        case AddToIndex(days=days) if days & held:
            return f"{operation.target} holds {format_days(days & held)} already"
        case DeleteFromIndex(days=days) | AddLateRows(days=days) if not days <= held:
            return f"{operation.target} does not hold {format_days(days - held)}"
    return ""


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The net effect of consecutive operations on one index: rewrite it once, not twice.

    ``base`` names the index whose content it starts from (itself, or the source of a copy), or
    is None for a fresh one. ``built`` says that it is made by BuildIndex, so packed.
    """

    target: str
    base: str | None
    added: Days = NO_DAYS
    deleted: Days = NO_DAYS
    late: Days = NO_DAYS
    built: bool = False


def changes(
    operations: Iterable[Operation],
) -> tuple[IndexChange | RenameIndex | AddIndex | DropIndex, ...]:
    """The operations, with consecutive ones on the content of one index folded together."""
    folded: list[IndexChange | RenameIndex | AddIndex | DropIndex] = []
    for operation in operations:
        if isinstance(operation, RenameIndex | AddIndex | DropIndex):
            folded.append(operation)
            continue
        last = folded[-1] if folded else None
        if isinstance(last, IndexChange) and last.target == operation.target:
            folded[-1] = _fold(last, operation)
        else:
            folded.append(_fold(IndexChange(operation.target, operation.target), operation))
    return tuple(folded)


def _fold(change: IndexChange, operation: ContentOperation) -> IndexChange:
    match operation:
        case BuildIndex(days=days, target=target):
            return IndexChange(target, None, added=days, built=True)
        case CreateIndex(target=target):
            return IndexChange(target, None)
        case CopyIndex(source=source, target=target):
            return IndexChange(target, source)
        case AddLateRows(days=days):
            return replace(change, late=change.late | days)
        case AddToIndex(days=days):
            return replace(change, added=change.added | days)
        case DeleteFromIndex(days=days):
            return replace(change, deleted=change.deleted | days)


def format_days(days: Iterable[int]) -> str:
    """A set of days as text; four or more in a row are shortened.

    >>> format_days([3, 1, 2]), format_days([1, 6, 7, 8, 9]), format_days([])
    ('{1,2,3}', '{1,6..9}', '{}')
    """
    runs: list[list[int]] = []
    for day in sorted(days):
        if runs and day == runs[-1][-1] + 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    parts = [f"{run[0]}..{run[-1]}" if len(run) > 3 else ",".join(map(str, run)) for run in runs]
    return "{" + ",".join(parts) + "}"
