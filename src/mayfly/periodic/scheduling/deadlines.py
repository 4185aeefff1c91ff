"""The local scheduler: which queries run next, by deadlines that count synopsis updates.

Idea: a heap of absolute deadlines D; D = u + period after each execution, early, on time or late,
so overload lengthens periods instead of piling work up (thesis 8.4.1, 8.4.2).
Invariant: every task is in the heap or in an execution that was chosen and not finished; a late
task is overtaken at most once by each other. Cost: O(log tasks) a choice, and the tasks of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heappop, heappush

from mayfly.errors import InvalidSetting
from mayfly.periodic.scheduling.late_pending import LatePending
from mayfly.periodic.scheduling.policy import Overload, Policy, ScheduledQuery, ScheduledTask
from mayfly.periodic.scheduling.query_lateness import LatenessReport, QueryLateness


class Early(Enum):
    """What runs while nothing is due."""

    NONE = "none"
    GRID = "grid"
    """A task whose deadlines have drifted from the multiples of its period, at such a multiple."""
    IDLE = "idle"
    """The most urgent task that an update has reached since it ran."""


@dataclass(frozen=True)
class JointExecution:
    """Tasks that run together, chosen after an update."""

    update: int
    tasks: tuple[ScheduledTask, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(query.name for query in self.queries)

    @property
    def queries(self) -> tuple[ScheduledQuery, ...]:
        return tuple(query for task in self.tasks for query in task.queries)

    def __str__(self) -> str:
        return "+".join(self.names)


@dataclass
class _QueryState:
    query: ScheduledQuery
    due: int
    """Against its own period: what lateness is counted from."""
    last: int
    executions: int = 0
    lateness: int = 0
    worst: int = 0
    skipped: int = 0
    first: int | None = None


class Deadlines:
    """Schedules queries over synopses that are updated together."""

    def __init__(self, policy: Policy | None = None, *, early: Early = Early.NONE) -> None:
        self.policy = policy or LatePending()
        self.early = early
        self.update = 0
        self._states: dict[str, _QueryState] = {}
        self._tasks: list[ScheduledTask] = []
        self._groups: dict[str, list[int]] = {}
        self._deadline: list[int] = []
        self._running: set[int] = set()
        self._changed = False
        self._heap: list[tuple[int, int, int]] = []
        """Deadline, priority reversed, number of the task; stale where the deadline has moved."""

    # ── queries come and go ───────────────────────────────────────────────────────────────

    def register(self, query: ScheduledQuery, *, last: int | None = None) -> None:
        """Schedule a query from now on, first at the next multiple of its period: so sub-groups
        meet; or a period after its ``last`` execution. Adopted periods are chosen anew."""
        if query.name in self._states:
            raise InvalidSetting(
                f"a query {query.name!r} is scheduled already", "remove it, or use another name"
            )
        if query.overload is Overload.EVERY:
            raise InvalidSetting(
                f"{query.name} is to be answered at every refresh, which no deadline decides",
                "answer it with the update, or use OVERLOAD LATE or SKIP",
            )
        due = next_multiple(query.period, self.update)
        if last is not None:
            due = min(due, last + query.period)
        self._states[query.name] = _QueryState(query, due, due - query.period)
        self._changed = True

    def remove(self, name: str) -> None:
        """Schedule a query no more."""
        if name not in self._states:
            raise InvalidSetting(
                f"there is no query {name!r}", f"there are {', '.join(self._states) or 'none'}"
            )
        del self._states[name]
        self._changed = True

    def _plan(self) -> None:
        """Choose tasks and adopted periods anew, once for all queries that came and went since the
        last update."""
        if not self._changed:
            return
        self._changed = False
        before = {
            query.name: (task, self._deadline[number], number in self._running)
            for number, task in enumerate(self._tasks)
            for query in task.queries
        }
        queries = [state.query for state in self._states.values()]
        self._tasks = self.policy.tasks(queries)
        self._groups, self._deadline, self._running = {}, [], set()
        for number, task in enumerate(self._tasks):
            self._groups.setdefault(task.group, []).append(number)
            former = [before[q.name] for q in task.queries if q.name in before]
            if former and former[0][0] == task:
                self._deadline.append(former[0][1])
            else:
                # A newcomer or an adopted period may bring refreshes forward, never put them off.
                own = min(self._states[query.name].due for query in task.queries)
                self._deadline.append(min(own, next_multiple(task.period, self.update)))
            if former and all(running for _, _, running in former):
                self._running.add(number)
        self._heap = [self._entry(number) for number in range(len(self._tasks))]
        heapify(self._heap)

    def _entry(self, number: int) -> tuple[int, int, int]:
        return self._deadline[number], -self._tasks[number].priority, number

    # ── updates and executions ────────────────────────────────────────────────────────────

    def advance(self, updates: int = 1) -> None:
        """Synopses were updated so many times."""
        self._plan()
        self.update += updates

    def choose(self) -> JointExecution | None:
        """What runs now; None while nothing is due. It is out of the queue until it is finished."""
        self._plan()
        self._skip_overdue()
        lead = self._lead()
        if lead is None:
            return None
        if self._deadline[lead] > self.update:
            early = self._early_task()
            return None if early is None else self._take([early])
        slack = {
            number: self._deadline[number] - self.update
            for number in self._groups[self._tasks[lead].group]
            if number not in self._running
        }
        joint = self.policy.members(
            (self._tasks[lead], slack[lead]),
            ((self._tasks[number], left) for number, left in slack.items()),
        )
        chosen = {id(task) for task in joint}
        return self._take([number for number in slack if id(self._tasks[number]) in chosen])

    def finish(
        self, execution: JointExecution, reflected: Mapping[str, int] | None = None
    ) -> Mapping[str, int]:
        """An execution is done; how late each query is, in updates.

        ``reflected`` names the last update that a query's answer shows, where that is not the one
        at the choice; a query that it leaves out has not answered and is due again at once.
        """
        self._plan()
        lateness = {}
        for name in execution.names:
            state = self._states.get(name)
            update = execution.update if reflected is None else reflected.get(name)
            if state is not None and update is not None:
                lateness[name] = self._note(state, update)
        names = set(execution.names)
        for number, task in enumerate(self._tasks):
            mine = [query.name for query in task.queries if query.name in names]
            if not mine:
                continue
            if any(name not in lateness for name in mine):
                self._deadline[number] = min(self._deadline[number], self.update)
            else:
                last = min(self._states[query.name].last for query in task.queries)
                self._deadline[number] = last + task.period
            self._running.discard(number)
            heappush(self._heap, self._entry(number))
        return lateness

    def lateness(self, name: str, update: int) -> int:
        """How late an answer as of an update would be."""
        return max(0, update - self._states[name].due)

    def run(self) -> JointExecution | None:
        """Choose, and finish at once."""
        execution = self.choose()
        if execution is not None:
            self.finish(execution)
        return execution

    def _note(self, state: _QueryState, update: int) -> int:
        late = self.lateness(state.query.name, update)
        state.executions += 1
        state.lateness += late
        state.worst = max(state.worst, late)
        state.first = update if state.first is None else state.first
        state.last, state.due = update, update + state.query.period
        return late

    def _take(self, numbers: list[int]) -> JointExecution:
        self._running.update(numbers)
        return JointExecution(self.update, tuple(self._tasks[number] for number in numbers))

    def _lead(self) -> int | None:
        """The most urgent task that waits."""
        while self._heap:
            deadline, _, number = self._heap[0]
            if deadline == self._deadline[number] and number not in self._running:
                return number
            heappop(self._heap)
        return None

    def _early_task(self) -> int | None:
        waiting = [number for number in range(len(self._tasks)) if number not in self._running]
        if self.early is Early.IDLE:
            ready = [n for n in waiting if self._deadline[n] - self.update < self._tasks[n].period]
        elif self.early is Early.GRID:
            ready = [n for n in waiting if self._drifted(n)]
        else:
            ready = []
        return min(ready, key=self._entry, default=None)

    def _drifted(self, number: int) -> bool:
        period, deadline = self._tasks[number].period, self._deadline[number]
        return deadline % period != 0 and self.update % period == 0

    def _skip_overdue(self) -> None:
        for number, task in self._overdue():
            for query in task.queries:
                state = self._states[query.name]
                following = next_multiple(query.period, self.update - 1)
                state.skipped += -((state.due - following) // query.period)
                state.due = following
            self._deadline[number] = next_multiple(task.period, self.update - 1)
            heappush(self._heap, self._entry(number))

    def _overdue(self) -> Iterator[tuple[int, ScheduledTask]]:
        """Tasks that are to be skipped where they are more than a period late, and are."""
        for number, task in enumerate(self._tasks):
            if task.overload is not Overload.SKIP or number in self._running:
                continue
            if all(self._states[q.name].due + q.period < self.update for q in task.queries):
                yield number, task

    # ── what it has come to ───────────────────────────────────────────────────────────────

    @property
    def tasks(self) -> tuple[ScheduledTask, ...]:
        self._plan()
        return tuple(self._tasks)

    @property
    def overloaded(self) -> bool:
        """Whether some task is late now."""
        self._plan()
        return any(
            deadline < self.update
            for number, deadline in enumerate(self._deadline)
            if number not in self._running
        )

    @property
    def due(self) -> bool:
        """Whether a task waits whose deadline is here."""
        self._plan()
        lead = self._lead()
        return lead is not None and self._deadline[lead] <= self.update

    def hasten(self, name: str) -> None:
        """Make a query due now: its last answer is older than it may be."""
        self._plan()
        for number, task in enumerate(self._tasks):
            if any(query.name == name for query in task.queries):
                self._deadline[number] = min(self._deadline[number], self.update)
                heappush(self._heap, self._entry(number))

    def report(self) -> LatenessReport:
        """How late each query was, and how its period was stretched."""
        self._plan()
        adopted = {q.name: task.period for task in self._tasks for q in task.queries}
        return LatenessReport(
            tuple(
                QueryLateness(
                    query=name,
                    period=state.query.period,
                    adopted=adopted[name],
                    executions=state.executions,
                    total=state.lateness,
                    worst=state.worst,
                    skipped=state.skipped,
                    updates=0 if state.first is None else state.last - state.first,
                    late=max(0, self.update - state.due),
                )
                for name, state in self._states.items()
            )
        )


def next_multiple(period: int, update: int) -> int:
    """The first multiple of a period above an update."""
    return (update // period + 1) * period
