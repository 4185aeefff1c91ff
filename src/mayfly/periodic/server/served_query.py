"""A periodic query as a server holds it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mayfly.periodic.isolation import IsolationPolicy, isolation_named
from mayfly.periodic.isolation.incremental import Incremental
from mayfly.periodic.scheduling import JointExecution, Overload, ScheduledQuery
from mayfly.periodic.server.pane_input import PaneLoad, PaneQuery, RingInput
from mayfly.periodic.server.served_answer import Callback, ServedAnswer, ServeOptions


@dataclass
class RunningExecution:
    """Queries that run together: those without an answer yet, as of when the others were."""

    execution: JointExecution
    waiting: set[str]
    reflected: dict[str, int] = field(default_factory=dict)


@dataclass
class ServedQuery:
    """A periodic query, what it reads, and where its answers go."""

    key: str
    """Its name, or that and a number where another query had that name before."""
    query: PaneQuery
    options: ServeOptions
    panes: int
    period: int
    input: RingInput
    group: str
    summary: PaneLoad | None
    callback: Callback
    order: deque[int] = field(default_factory=deque)
    """Of OVERLOAD EVERY: the updates whose answers are on their way."""
    early: dict[int, ServedAnswer] = field(default_factory=dict)
    """Those that are ready before an earlier one."""
    stale: int = 0
    """Answers that were not given, as they were too old."""

    @property
    def size(self) -> int:
        """How many panes are to be held for it."""
        return self.panes + (self.period if self.options.way.incremental else 0)

    @property
    def every(self) -> bool:
        return self.options.overload is Overload.EVERY

    @property
    def scheduled(self) -> ScheduledQuery:
        options = self.options
        return ScheduledQuery(
            self.query.name,
            self.group,
            self.period,
            self.panes,
            priority=options.priority,
            overload=options.overload,
        )

    @property
    def isolation(self) -> IsolationPolicy:
        if self.options.way.incremental:
            return Incremental()
        return isolation_named(self.options.isolation)
