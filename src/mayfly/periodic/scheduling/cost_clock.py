"""A clock that costs drive: what a policy does under a load, without a machine.

Update u comes at u × interval; an execution lasts its cost and is not interrupted; updates that
came meanwhile are applied before the next choice. Everything is counted, nothing is measured, so
the figures are the same on every machine (spec of periodic queries, section 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from mayfly.periodic.scheduling.deadlines import Deadlines, Early, JointExecution
from mayfly.periodic.scheduling.policy import Policy, ScheduledQuery
from mayfly.periodic.scheduling.query_lateness import LatenessReport


@dataclass(frozen=True)
class TimedExecution:
    start: Fraction
    execution: JointExecution


@dataclass(frozen=True)
class CostClockRun:
    """A run: what ran when, how late queries were, and how much was done per update."""

    log: tuple[TimedExecution, ...]
    lateness: LatenessReport
    updates: int
    work: Fraction

    @property
    def throughput(self) -> Fraction:
        """Executions of queries per update."""
        return Fraction(sum(q.executions for q in self.lateness.queries), self.updates)

    @property
    def work_per_update(self) -> Fraction:
        return self.work / self.updates


def execution_cost(execution: JointExecution) -> Fraction | int:
    """Tasks of one group are read together, for the cost of the dearest."""
    return max(task.cost for task in execution.tasks) + sum(q.post for q in execution.queries)


def run_on_cost_clock(
    policy: Policy, queries: Iterable[ScheduledQuery], interval: Fraction | int, updates: int
) -> CostClockRun:
    """Schedule queries until so many updates have come."""
    deadlines = Deadlines(policy)
    for query in queries:
        deadlines.register(query)
    now: Fraction | int = 0
    work: Fraction | int = 0
    log = []
    while deadlines.update < updates:
        deadlines.advance(max(0, int(now // interval) - deadlines.update))
        execution = deadlines.run()
        if execution is None:
            now = (deadlines.update + 1) * interval
            continue
        log.append(TimedExecution(Fraction(now), execution))
        cost = execution_cost(execution)
        now, work = now + cost, work + cost
    return CostClockRun(tuple(log), deadlines.report(), deadlines.update, Fraction(work))


def run_in_slots(
    policy: Policy,
    queries: Sequence[ScheduledQuery],
    updates: int,
    *,
    slots: int = 1,
    early: Early = Early.NONE,
) -> tuple[list[list[JointExecution | None]], LatenessReport]:
    """Schedule queries where there is time for a few joint executions after each update, whatever
    they cost; what ran after each, and how late queries were."""
    deadlines = Deadlines(policy, early=early)
    for query in queries:
        deadlines.register(query)
    steps: list[list[JointExecution | None]] = []
    for _ in range(updates):
        deadlines.advance()
        steps.append([deadlines.run() for _ in range(slots)])
    return steps, deadlines.report()
