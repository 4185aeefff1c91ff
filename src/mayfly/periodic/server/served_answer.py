"""How a query is served, and what its answers say about themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from mayfly.errors import InvalidSetting, MayflyError, StaleAnswer
from mayfly.periodic.isolation import IsolationLevel, isolation_named
from mayfly.periodic.scheduling import Overload


class EvaluationWay(Enum):
    """What is read for an answer."""

    SYNOPSIS = "synopsis scan"
    """The summary of every pane of the window."""
    INCREMENTAL_SYNOPSIS = "incremental synopsis scan"
    """The summaries of panes that came or left since the last answer."""
    WINDOW = "window scan"
    """The rows of every pane of the window."""
    INCREMENTAL = "incremental scan"
    """The rows of panes that came or left since the last answer."""

    @property
    def of_rows(self) -> bool:
        return self in (EvaluationWay.WINDOW, EvaluationWay.INCREMENTAL)

    @property
    def incremental(self) -> bool:
        return self in (EvaluationWay.INCREMENTAL, EvaluationWay.INCREMENTAL_SYNOPSIS)


@dataclass(frozen=True)
class ServeOptions:
    """``isolation`` is LATEST, WINDOW, SNAPSHOT, or the name of a policy. ``staleness`` is how far
    an answer may be behind the clock, in microseconds."""

    priority: int = 0
    overload: Overload = Overload.LATE
    isolation: str = "LATEST"
    staleness: int | None = None
    way: EvaluationWay = EvaluationWay.SYNOPSIS

    def __post_init__(self) -> None:
        isolation_named(self.isolation)
        if self.staleness is not None and self.staleness < 0:
            raise InvalidSetting(f"a staleness of {self.staleness} µs", "give one from 0 on")

    @property
    def subtracts(self) -> bool:
        """Whether what left the window is taken out of a total."""
        return self.way.incremental or isolation_named(self.isolation).undoes

    def check_once(self, name: str) -> None:
        """Refuse what a query that is asked once cannot have."""
        if self.subtracts:
            raise InvalidSetting(
                f"{name}: who asks once has nothing to subtract from",
                "use a synopsis scan or a window scan, and no UNDO",
            )


@dataclass(frozen=True)
class ServedAnswer:
    """The keys and the ``value`` of each group, with ``low`` and ``high`` where it is approximate;
    over the window as of ``as_of``. Times are microseconds."""

    query: str
    as_of: int
    rows: pa.Table
    late_by: int
    isolation: str
    level: IsolationLevel
    partial: bool
    since: int
    """Rows after this instant are reflected; the beginning of the window unless it is partial."""
    attempts: int
    behind: int
    """How far ``as_of`` is behind the event clock."""
    answered: int
    """By the wall clock."""


Callback = Callable[[ServedAnswer], None]


@dataclass
class PendingAnswer:
    """A one-time query on its way: it has an answer or an error once it is done."""

    name: str
    query: Any
    panes: int
    options: ServeOptions
    give_up: int
    """By the wall clock."""
    answer: ServedAnswer | None = None
    error: MayflyError | None = None

    @property
    def done(self) -> bool:
        return self.answer is not None or self.error is not None

    def rows(self) -> pa.Table:
        """The rows of the answer; raises what went wrong."""
        if self.error is not None:
            raise self.error
        if self.answer is None:
            raise StaleAnswer(f"{self.name} has no answer yet", "let the server work first")
        return self.answer.rows
