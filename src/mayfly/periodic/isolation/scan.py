"""A query, or several together, on its way through the sub-windows of a ring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from mayfly.periodic.isolation.level import IsolationLevel
from mayfly.synopses.synopsis import Algebra, Value

if TYPE_CHECKING:
    from mayfly.periodic.isolation.isolation_policy import IsolationPolicy

Load = Callable[[Any], Any]
"""Makes of a sub-window what is merged: of raw rows their summary."""


@dataclass
class PaneScan(Generic[Value]):
    """One attempt. ``panes`` has the queries without an answer yet, and the lengths of windows."""

    number: int
    panes: dict[str, int]
    policy: IsolationPolicy
    algebra: Algebra[Value]
    priority: int = 0
    arrival: int = 0
    """Kept by a further attempt, so that a query that was aborted is not put last."""
    attempt: int = 1
    load: Load | None = None
    base: tuple[tuple[int, ...], Value] | None = None
    """An earlier answer and the versions in it, to go on from."""
    aim: int = -1
    """The version that the answer is as of."""
    read: set[int] = field(default_factory=set)
    plan: list[int] = field(default_factory=list)
    """The versions to read, where a policy decides them ahead."""
    pinned: Mapping[int, Any] = field(default_factory=dict)
    """What the scan can read whatever is written."""
    undone: list[Value] = field(default_factory=list)
    """What is to be taken out of the total."""
    handed: list[Value] = field(default_factory=list)
    """What came into sub-windows that were read already, and belongs to the total."""
    total: Value | None = None
    reads: int = 0
    busy: bool = False

    @property
    def longest(self) -> int:
        return max(self.panes.values())


@dataclass(frozen=True)
class ScanAnswer(Generic[Value]):
    """What a query read: the value of its window as of a version."""

    query: str
    value: Value
    as_of: int
    isolation: str
    level: IsolationLevel
    attempts: int
    reads: int
    partial: bool
    """Whether there were fewer sub-windows than the window has."""
    panes: int
    """How many sub-windows the value is of."""
