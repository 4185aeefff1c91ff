"""Serves periodic and one-time queries from panes in memory: by deadline, isolated from updates.

Idea: an update slides every ring and advances the deadlines; work is done one pane at a time: a
read of the scan that matters most, or the next execution by deadline. One-time queries go first,
but get at most every second read while periodic ones are due.
Invariant: an answer is over exactly the panes it claims (``as_of``); no update waits for a query,
unless the isolation is serial. Cost: what the scheduling policy says; see ``scheduling``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Condition, RLock
from typing import Any

import pyarrow as pa

from mayfly.errors import InvalidSetting, StaleAnswer
from mayfly.lifetime import format_micros
from mayfly.periodic.isolation import (
    IsolationPolicy,
    ScanAnswer,
    ScanHistory,
    ScanVerdict,
    check_history,
    isolation_named,
)
from mayfly.periodic.isolation.pinned_snapshot import PinnedSnapshot
from mayfly.periodic.isolation.transactions import PaneReading
from mayfly.periodic.scheduling import (
    AdmissionAdvice,
    Deadlines,
    Early,
    LatenessReport,
    Policy,
    ScheduledQuery,
    advise,
)
from mayfly.periodic.server.outbox import Outbox
from mayfly.periodic.server.pane_input import (
    InputRings,
    PaneInputs,
    PaneLoad,
    PaneQuery,
    RingInput,
)
from mayfly.periodic.server.scan_checks import ScanChecks
from mayfly.periodic.server.served_answer import (
    Callback,
    PendingAnswer,
    ServedAnswer,
    ServeOptions,
)
from mayfly.periodic.server.served_query import RunningExecution, ServedQuery

ONE_TIME = "one-time "
ONE_TIME_OPTIONS = ServeOptions(priority=1)
EVERY_PRIORITY = 1 << 30
"""What is answered with the update goes before everything else."""


def wall_clock() -> int:
    return time.time_ns() // 1000


class PeriodicServer:
    """Over rows of a schema with a column of times, or over inputs of another kind. A pane is
    ``pane`` microseconds, and the first one begins after ``begin``; ``updates`` of them are gone.
    ``keep`` is how many panes of raw rows are kept for one-time queries that no synopsis answers.
    ``record`` keeps the histories of all scans, for ``check``; a number is how many operations of
    each ring are kept, after which they are checked and forgotten. ``outbox`` is that of a server
    which this one takes over from."""

    def __init__(
        self,
        rows: pa.Schema | InputRings[Any],
        *,
        pane: int,
        begin: int = 0,
        time: str = "ts",
        policy: Policy | None = None,
        isolation: str = "LATEST",
        keep: int = 0,
        early: Early = Early.GRID,
        clock: Callable[[], int] = wall_clock,
        record: bool | int = False,
        updates: int = 0,
        outbox: Outbox | None = None,
    ) -> None:
        named = [time] if isinstance(rows, InputRings) else rows.names
        if pane < 1 or keep < 0 or time not in named:
            raise InvalidSetting(
                f"panes of {pane} µs, {keep} of them kept, by the column {time!r}",
                f"give a length above 0, a number from 0 on, a column of {', '.join(named)}",
            )
        self.pane, self.begin = pane, begin
        self.isolation, self.clock, self.record = isolation, clock, record
        self.deadlines = Deadlines(policy, early=early)
        self.queries: dict[str, ServedQuery] = {}
        self.inputs: InputRings[Any] = (
            rows if isinstance(rows, InputRings) else PaneInputs(rows, time, keep)
        )
        self.inputs.isolation, self.inputs.record = isolation_named(isolation), bool(record)
        self.inputs.watch, self.inputs.updates = self._start_every, updates
        self.update_number = self.deadlines.update = updates
        self.event_clock = begin + updates * pane
        self.checks = ScanChecks()
        self._keys: dict[str, ServedQuery] = {}
        self._names: Counter[str] = Counter()
        self._asks: dict[str, PendingAnswer] = {}
        self._reading: dict[str, tuple[RingInput, PaneLoad | None]] = {}
        """What one-time queries read; those without wait for a younger window."""
        self._asked = 0
        self._stale: set[str] = set()
        self._running: list[RunningExecution] = []
        self._one_time_was_last = False
        self._busy = 0
        self._outbox = Outbox() if outbox is None else outbox
        self._lock = RLock()
        self.changed = Condition(self._lock)
        """Notified when there may be more to do, or nothing is left."""
        self.changes = 0
        if isinstance(self.inputs, PaneInputs) and keep:
            self.inputs.of_rows(keep)

    # ── queries come and go ───────────────────────────────────────────────────────────────

    def add(
        self,
        query: PaneQuery,
        callback: Callback,
        options: ServeOptions | None = None,
        *,
        last: int | None = None,
    ) -> None:
        """Serve a query from now on, first at the next multiple of its period, or a period after
        the update that its ``last`` answer shows."""
        options = options or ServeOptions(isolation=self.isolation)
        with self._lock:
            if query.name in self.queries or query.name.startswith(ONE_TIME):
                raise InvalidSetting(
                    f"a query {query.name!r} is served already, or has a name of one-time queries",
                    "remove it first, or use another name",
                )
            self._names[query.name] += 1
            served = self._served(query, options, callback)
            if not served.every:
                self.deadlines.register(served.scheduled, last=last)
            self.queries[query.name] = self._keys[served.key] = served
            self._notify()

    def _served(self, query: PaneQuery, options: ServeOptions, callback: Callback) -> ServedQuery:
        isolation, name = isolation_named(options.isolation), query.name
        if isolation.waits and not isolation_named(self.isolation).waits:
            raise InvalidSetting(
                f"{name}: isolation {options.isolation} for one query of a server",
                "give it to the server, or use LATEST, WINDOW or SNAPSHOT",
            )
        panes, period = self._panes(query, query.length), self._panes(query, query.period)
        size = panes + (period if options.way.incremental else 0)
        source, summary = self.inputs.registered(query, size, options)
        joint = isolation.joint and summary is None and not options.way.incremental
        return ServedQuery(
            key=name if self._names[name] == 1 else f"{name}~{self._names[name]}",
            query=query,
            options=options,
            panes=panes,
            period=period,
            input=source,
            group=f"{source.name if joint else name} {options.isolation}",
            summary=summary,
            callback=callback,
        )

    def remove(self, name: str) -> None:
        """Serve a query no more; what only it needed is dropped."""
        with self._lock:
            if name not in self.queries:
                raise InvalidSetting(
                    f"there is no query {name!r}", f"there are {', '.join(self.queries) or 'none'}"
                )
            served = self.queries.pop(name)
            del self._keys[served.key]
            if not served.every:
                self.deadlines.remove(name)
            served.input.transactions.cancel(served.key)
            for running in list(self._running):
                self._leave(running, name)
            self._shrink()

    def _shrink(self) -> None:
        need: dict[str, int] = {}
        for served in self.queries.values():
            need[served.input.name] = max(served.size, need.get(served.input.name, 1))
        for source, ask in self._ask_sources():
            need[source.name] = max(ask.panes, need.get(source.name, 1))
        self.inputs.shrink(need)

    def advise(self, query: PaneQuery, capacity: int) -> AdmissionAdvice:
        """What a query would add to the load, in panes read per update."""
        with self._lock:
            panes, period = self._panes(query, query.length), self._panes(query, query.period)
            similar = self.inputs.answering(query)
            group = f"{similar.name if similar else query.name} {self.isolation}"
            newcomer = ScheduledQuery(query.name, group, period, panes)
            present = [s.scheduled for s in self.queries.values()]
            return advise(self.deadlines.policy, present, newcomer, capacity)

    def report(self) -> LatenessReport:
        with self._lock:
            return self.deadlines.report()

    def _panes(self, query: PaneQuery, span: int) -> int:
        if span % self.pane or (query.origin - self.begin) % self.pane:
            raise InvalidSetting(
                f"{query.name}: {query} is not of whole panes of {format_micros(self.pane)}",
                "use windows and periods that are multiples of it, from the beginning of a pane on",
            )
        return span // self.pane

    # ── updates ───────────────────────────────────────────────────────────────────────────

    def update(self, *panes: Any) -> None:
        """The next pane is complete: its rows. Of several panes none is chosen by before the
        last is there."""
        with self._lock:
            for pane in panes:
                self._write(pane)

    def _write(self, pane: Any) -> None:
        after = self.as_of(self.update_number)
        self.inputs.check(pane, after, self.pane)
        self.update_number += 1
        self.event_clock = max(self.event_clock, after + self.pane)
        self.deadlines.advance()
        self.inputs.update(pane)
        self._forget()
        for name in self._stale & self.queries.keys():
            self.deadlines.hasten(name)
        self._stale.clear()
        for ask in list(self._asks.values()):
            if ask.name not in self._reading:
                self._start_ask(ask)
        self._notify()

    def advance_clock(self, clock: int) -> None:
        """The event clock, where it is ahead of the panes that have come."""
        with self._lock:
            self.event_clock = max(self.event_clock, clock)

    def as_of(self, update: int) -> int:
        """The instant up to which the panes of an update reach."""
        return self.begin + update * self.pane

    def _forget(self) -> None:
        """Check and drop what histories have of scans that ended, where they are long."""
        if self.record is True or not self.record:
            return
        for history in self.histories().values():
            if len(history.operations) > self.record:
                self.checks.read(history)

    def _start_every(self, source: RingInput, version: int) -> None:
        """Queries with OVERLOAD EVERY get the window as it is now, whatever comes."""
        for served in self.queries.values():
            if served.every and served.input is source and version % served.period == 0:
                served.order.append(version)
                self._start([served], PinnedSnapshot(), EVERY_PRIORITY, at_once=True)

    # ── one-time queries ──────────────────────────────────────────────────────────────────

    def ask(
        self,
        query: PaneQuery,
        options: ServeOptions = ONE_TIME_OPTIONS,
        *,
        timeout: int = 0,
    ) -> PendingAnswer:
        """Answer a query once. An answer that is too old for its ``staleness`` is waited for, up to
        a timeout in microseconds of the wall clock."""
        options.check_once(query.name)
        with self._lock:
            self._asked += 1
            name = f"{ONE_TIME}{self._asked} ({query.name})"
            panes = self._panes(query, query.length)
            ask = PendingAnswer(name, query, panes, options, self.clock() + timeout)
            self._start_ask(ask)
            self._asks[name] = ask
            self._notify()
            return ask

    def refuse_asks(self) -> None:
        """Let who asked once know that another server takes over."""
        with self._lock:
            for ask in self._asks.values():
                ask.error = StaleAnswer(
                    f"{ask.query.name}: the panes in memory are being filled anew", "ask again"
                )
            self._notify()

    def _start_ask(self, ask: PendingAnswer) -> None:
        source, summary = self.inputs.source(ask.query, ask.panes)
        self._reading[ask.name] = source, summary
        source.transactions.start(
            {ask.name: ask.panes},
            priority=ask.options.priority,
            policy=isolation_named(ask.options.isolation),
            algebra=summary.algebra if summary else None,
            load=summary,
        )

    def _ask_sources(self) -> Iterator[tuple[RingInput, PendingAnswer]]:
        for name, (source, _) in self._reading.items():
            yield source, self._asks[name]

    # ── work ──────────────────────────────────────────────────────────────────────────────

    def step(self) -> bool:
        """Read one pane, and deliver what that answers; False where there is nothing to do now."""
        with self._lock:
            self._refuse_stale_asks()
            reserved = self._reserve()
            if reserved is None:
                return False
            self._busy += 1
        source, reading = reserved
        try:
            for answer in source.transactions.complete(reading):
                self._deliver(answer)
            self._outbox.hand_over()
        finally:
            with self._lock:
                self._busy -= 1
                self._notify()
        return True

    def _notify(self) -> None:
        self.changes += 1
        self.changed.notify_all()

    def run(self) -> None:
        """Work until nothing is due."""
        while self.step():
            pass

    @property
    def idle(self) -> bool:
        """Whether nothing is being read or handed over."""
        with self._lock:
            reading = self._busy or not self.inputs.idle or self.deadlines.due
            return not reading and self._outbox.idle

    def _reserve(self) -> tuple[RingInput, PaneReading[Any]] | None:
        periodic_first = self._one_time_was_last
        for one_time in (False, True) if periodic_first else (True, False):
            reserved = self.inputs.reserve(self._asks if one_time else self._keys)
            if reserved is None and not one_time and self._start_due():
                reserved = self.inputs.reserve(self._keys)
            if reserved is not None:
                self._one_time_was_last = one_time
                return reserved
        return None

    def _start_due(self) -> bool:
        execution = self.deadlines.choose()
        if execution is None:
            return False
        self._running.append(RunningExecution(execution, set(execution.names)))
        members = [self.queries[name] for name in execution.names]
        priority = max(served.options.priority for served in members)
        # Tasks of a group read the same input with the same isolation.
        self._start(members, members[0].isolation, priority)
        return True

    def _start(
        self,
        members: Sequence[ServedQuery],
        isolation: IsolationPolicy,
        priority: int,
        *,
        at_once: bool = False,
    ) -> None:
        summary = members[0].summary
        members[0].input.transactions.start(
            {served.key: served.panes for served in members},
            priority=priority,
            policy=isolation,
            algebra=summary.algebra if summary else None,
            load=summary,
            at_once=at_once,
        )

    # ── answers ───────────────────────────────────────────────────────────────────────────

    def _deliver(self, answer: ScanAnswer[Any]) -> None:
        with self._lock:
            if answer.query in self._asks:
                query: PaneQuery = self._asks[answer.query].query
                source, summary = self._reading[answer.query]
            elif answer.query in self._keys:
                served = self._keys[answer.query]
                query, source, summary = served.query, served.input, served.summary
            else:
                return
        # What takes time is done outside the lock: updates go on meanwhile.
        algebra = summary.algebra if summary else source.algebra
        rows = self.inputs.answer(query, algebra, answer.value, self.as_of(answer.as_of))
        with self._lock:
            if answer.query in self._asks:
                self._deliver_ask(self._asks[answer.query], answer, rows)
            elif answer.query in self._keys:
                self._deliver_periodic(self._keys[answer.query], answer, rows)
            self._notify()

    def _deliver_periodic(
        self, served: ServedQuery, answer: ScanAnswer[Any], rows: pa.Table
    ) -> None:
        name = served.query.name
        late = 0 if served.every else self.deadlines.lateness(name, answer.as_of)
        result = self._answer(name, answer, rows, late)
        if served.every:
            served.early[answer.as_of] = result
            while served.order and served.order[0] in served.early:
                self._outbox.put(served.callback, served.early.pop(served.order.popleft()))
            return
        stale = served.options.staleness
        if stale is not None and result.behind > stale:
            served.stale += 1
            self._stale.add(name)
        else:
            self._outbox.put(served.callback, result)
        for running in list(self._running):
            if name in running.waiting:
                running.reflected[name] = answer.as_of
                self._leave(running, name)

    def _leave(self, running: RunningExecution, name: str) -> None:
        running.waiting.discard(name)
        if not running.waiting and running in self._running:
            self._running.remove(running)
            self.deadlines.finish(running.execution, running.reflected)

    def _deliver_ask(self, ask: PendingAnswer, answer: ScanAnswer[Any], rows: pa.Table) -> None:
        self._reading.pop(ask.name)
        result = self._answer(ask.query.name, answer, rows, 0)
        if ask.options.staleness is None or result.behind <= ask.options.staleness:
            ask.answer = result
            del self._asks[ask.name]
        self._shrink()

    def _refuse_stale_asks(self) -> None:
        for ask in list(self._asks.values()):
            waits = ask.name not in self._reading
            if waits and self.clock() >= ask.give_up:
                behind = self.event_clock - self.as_of(self.update_number)
                ask.error = StaleAnswer(
                    f"{ask.query.name}: the window is {format_micros(behind)} behind the clock, "
                    f"and may be {format_micros(ask.options.staleness or 0)}",
                    "allow a longer staleness or timeout, or look at what delays the panes",
                )
                del self._asks[ask.name]

    def _answer(
        self, name: str, answer: ScanAnswer[Any], rows: pa.Table, late: int
    ) -> ServedAnswer:
        as_of = self.as_of(answer.as_of)
        return ServedAnswer(
            name,
            as_of,
            rows,
            late * self.pane,
            answer.isolation,
            answer.level,
            answer.partial,
            as_of - answer.panes * self.pane,
            answer.attempts,
            self.event_clock - as_of,
            self.clock(),
        )

    # ── what happened ─────────────────────────────────────────────────────────────────────

    def histories(self) -> Mapping[str, ScanHistory]:
        return self.inputs.histories()

    def check(self) -> list[ScanVerdict]:
        """Every scan recorded so far kept what its isolation promised, or this says which not."""
        if self.checks.broken is not None:
            raise self.checks.broken
        return [v for history in self.histories().values() for v in check_history(history)]

    def verify(self) -> Counter[str]:
        """Check what was recorded, and forget the scans that have ended; how many of those that
        were checked since the last time had which level."""
        with self._lock:
            for history in self.histories().values():
                self.checks.read(history)
            return self.checks.take_levels()
