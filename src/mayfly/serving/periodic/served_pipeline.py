"""The served queries of one checkpoint: a thread follows its commits, others answer by deadline.

Idea: the checkpoint is all that pipeline and server share, so either may end and come again: the
server reads which queries there are and which panes are closed from each version, and keeps up to
where it has answered beside it. Invariant: what is answered was committed. Nothing of the pipeline
is written. Cost: a look at the folder every OFTEN seconds; the new panes of a commit.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Condition, Lock, Thread
from types import TracebackType
from typing import Any

import pyarrow as pa

from mayfly.checkpoint.result_folders import IDENTITY
from mayfly.cql import CqlError, bind_query
from mayfly.errors import InvalidSetting, MayflyError, StaleAnswer, VersionExpired
from mayfly.lifetime import Duration, duration, in_zone, instant_text
from mayfly.periodic.isolation import BrokenHistory
from mayfly.periodic.scheduling import LatenessReport
from mayfly.periodic.server import PendingAnswer, ServedAnswer
from mayfly.runtime.answer import QueryAnswer
from mayfly.serving.kept_streams import KeptStream
from mayfly.serving.periodic.answer_positions import AnswerPositions
from mayfly.serving.periodic.answer_sinks import AnswerSink
from mayfly.serving.periodic.closed_panes import ClosedPanes
from mayfly.serving.periodic.one_time_panes import over_panes
from mayfly.serving.periodic.pane_board import PaneBoard
from mayfly.serving.periodic.ring_memory import DEFAULT_LIMIT, RingMemory
from mayfly.serving.periodic.served_load import (
    BoardLoad,
    advice_for,
    measured_by_stream,
    stretch_of,
)
from mayfly.serving.periodic.served_window import PaneGrid, rows_missing
from mayfly.serving.periodic.server_options import checked_choices
from mayfly.serving.periodic.stored_query import StoredQuery, bound_query
from mayfly.serving.periodic.work_meter import WorkMeter
from mayfly.serving.pipeline_places import open as open_pipeline
from mayfly.serving.pipeline_reader import PipelineReader
from mayfly.storage import Manifest

OFTEN = 0.1
"""Seconds between two looks for a new version."""
SELDOM = 1.0
"""Seconds between two notes of what was answered."""
KNOWN = "known"
MOST_NOTES = 100
Subscriber = Callable[[ServedAnswer], None]


class ServedPipeline:
    """``with ServedPipeline("shop.state") as served: served.subscribe("q", print)``.

    Threads begin with the block and end with it. ``policy`` is the schedule of the queries,
    ``isolation`` how those with ISOLATION LATEST are kept apart from updates (ttu, lws, serial),
    ``early`` what runs while nothing is due (none, grid, idle), ``pace`` whether what is due is
    answered before the next pane of the same commit, ``memory`` how many bytes panes may take.
    """

    def __init__(
        self,
        place: str | os.PathLike[str],
        *,
        policy: str = "late-pending",
        isolation: str = "ttu",
        early: str = "grid",
        pace: bool = False,
        workers: int = 1,
        note: Callable[[str], None] | None = None,
        memory: int = DEFAULT_LIMIT,
    ) -> None:
        if workers < 1:
            raise InvalidSetting(f"{workers} workers", "use at least one")
        self.policy, self.isolation, self.early = checked_choices(policy, isolation, early)
        self.memory, self.pace = RingMemory(memory), pace
        self.workers = workers
        self.notes: list[str] = []
        self.refused: dict[str, str] = {}
        """Queries that cannot be served, and why."""
        self._note = note
        self.reader: PipelineReader = open_pipeline(place)
        self.boards: dict[PaneGrid, PaneBoard] = {}
        self.latest: dict[str, ServedAnswer] = {}
        self.answered: Counter[str] = Counter()
        self._subscribers: dict[str, list[Subscriber]] = {}
        self._sinks: list[AnswerSink] = []
        self._bound: dict[str, tuple[Any, StoredQuery | None]] = {}
        self._positions = self._positions_of(self.reader.manifest)
        self._lock, self._checking = Lock(), Lock()
        self.levels: Counter[str] = Counter()
        """Scans that the checker has read, by the level that they had."""
        self._broken: BrokenHistory | None = None
        self._work = Condition()
        self._changes = 0
        self._overloaded = False
        self._stopping = False
        self.version = -1
        """The last one that was taken over."""
        self._threads = [
            Thread(target=self._follow, name="mayfly-follower", daemon=True),
            *(
                Thread(target=self._serve_due, name=f"mayfly-answers-{number}", daemon=True)
                for number in range(workers)
            ),
        ]

    # ── beginning and end ─────────────────────────────────────────────────────────────────

    def __enter__(self) -> ServedPipeline:
        self.catch_up()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the threads, and note what was answered."""
        self._stopping = True
        self._notify()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._store()
        self._check_scans()

    def await_answers(self, seconds: float) -> bool:
        """Wait until the threads have answered what is committed now and due, at most so long."""
        end, newest = time.monotonic() + seconds, self.reader.repository.newest()
        while time.monotonic() < end and not self._stopping:
            servers = [board.server for board in self._all_boards()]
            if self.version >= newest and all(s is None or s.idle for s in servers):
                return True
            time.sleep(OFTEN / 2)
        return False

    def _store(self) -> None:
        """Sinks write first: what they lose in a crash is answered again."""
        answered = dict(self._positions)
        for sink in self._sinks:
            try:
                sink.write_down()
            except (OSError, MayflyError, pa.ArrowException) as error:
                self.tell(f"answers could not be written: {error}")
                return
        self._positions.store(answered, measured_by_stream(self.loads()))

    # ── who wants answers ─────────────────────────────────────────────────────────────────

    def subscribe(self, name: str, subscriber: Subscriber) -> Callable[[], None]:
        """Call back with every answer of a query; what is returned ends that."""
        self._subscribers.setdefault(name, []).append(subscriber)

        def end() -> None:
            with suppress(ValueError):
                self._subscribers[name].remove(subscriber)

        return end

    def deliver_to(self, name: str, sink: AnswerSink) -> None:
        """Hand every answer of a query, or of all if the name is empty, to a sink; what was
        answered is noted when the sink has written it."""
        self._sinks.append(sink)
        self.subscribe(name, sink)

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def queries(self) -> dict[str, StoredQuery]:
        return {n: query for board in self._all_boards() for n, query in board.queries.items()}

    def query(self, sql: str, *, wait: Duration | None = None) -> QueryAnswer:
        """A one-time query: from panes in memory if they answer it, else from the checkpoint.

        ``ISOLATION`` and ``BOUNDED STALENESS`` at its end have effect in both cases.
        """
        timeout = duration(wait) if wait is not None else 0
        answer = self.from_panes(sql, timeout)
        return self.reader.latest().query(sql, wait=wait) if answer is None else answer

    def from_panes(self, sql: str, timeout: int = 0) -> QueryAnswer | None:
        """The answer of a one-time query over panes in memory; None if these cannot answer it."""
        pending = self.ask(sql, timeout=timeout)
        if pending is None:
            return None
        with self._work:
            self._work.wait_for(lambda: pending.done or self._stopping)
        if pending.answer is None:
            raise pending.error or StaleAnswer("the server was stopped", "ask again")
        answer = pending.answer
        missing = ("the window reaches back further than what is kept",) if answer.partial else ()
        return QueryAnswer(answer.rows, answer.as_of, missing, self.version)

    def ask(self, sql: str, *, timeout: int = 0) -> PendingAnswer | None:
        """A one-time query over panes in memory, on its way; None if these cannot answer it."""
        try:
            with in_zone(self.reader.zone):
                plan = bind_query(sql, self.reader.catalog, one_time=True)
        except CqlError:
            return None  # who reads the checkpoint says what is wrong, or knows more names
        for board in sorted(self._all_boards(), key=lambda board: -board.as_of):
            query = over_panes(sql, plan, board.grid, self.reader.catalog)
            if query is None or board.server is None:
                continue
            try:
                options = replace(board.options_of(query), priority=1)
                pending = board.server.ask(query, options, timeout=timeout)
            except InvalidSetting:
                continue
            self._notify()
            return pending
        return None

    # ── what it has come to ───────────────────────────────────────────────────────────────

    def reports(self) -> list[LatenessReport]:
        """How late queries were, of each set of panes that are updated together."""
        servers = [board.server for board in self._all_boards()]
        return [server.report() for server in servers if server is not None]

    def check(self) -> Counter[str]:
        """Have the checker read the histories of all scans, as it does each second while threads
        work: how many had which level, or an error that says which did not keep its promise."""
        self._check_scans()
        if self._broken is not None:
            raise self._broken
        return Counter(self.levels)

    def _check_scans(self) -> None:
        """Check what was recorded since the last time, and forget it."""
        with self._checking:
            for board in self._all_boards():
                try:
                    self.levels += board.verify()
                except BrokenHistory as error:
                    self._broken = error
                    self.tell(f"an answer did not have the isolation it claims: {error}")

    def status(self) -> dict[str, Any]:
        """Figures of the queries, as JSON has them."""
        rows = []
        for board in self._all_boards():
            server = board.server
            report = {q.query: q for q in server.report().queries} if server is not None else {}
            for name, query in board.queries.items():
                answer, lateness = self.latest.get(name), report.get(name)
                rows.append(
                    {
                        "query": name,
                        "serve": query.serve.cql(),
                        "stream": query.stream,
                        "answers": self.answered[name],
                        "as_of": None if answer is None else answer.as_of,
                        "late_by": None if answer is None else answer.late_by,
                        "lateness": None if lateness is None else str(lateness),
                        "stretch": None if lateness is None else float(lateness.stretch),
                        "panes_missed": board.missed,
                    }
                )
        loads = self.loads()
        stretch = stretch_of(loads)
        return {
            "queries": rows,
            "refused": dict(self.refused),
            "memory": {
                "held": sum(board.held_bytes for board in self._all_boards()),
                "expected": self.memory.total,
                "limit": self.memory.limit,
            },
            "load": [load.to_json() for load in loads],
            "stretch": None if stretch is None else float(stretch),
            "levels": dict(self.levels),
            "notes": list(self.notes),
        }

    def why_unanswered(self, name: str) -> str:
        """What is to be said where a query has no last answer."""
        before = self._positions.get(name)
        if before is None:
            return f"{name} has not been answered yet"
        return f"{name} was last answered as of {instant_text(before)}, before this server began"

    def loads(self) -> list[BoardLoad]:
        """What queries cost per update and what can be done, of each set of panes."""
        return [board.load(self.policy) for board in self._all_boards() if board.queries]

    def advise(self, sql: str) -> str:
        """What a query with SLIDE would do to the load if it was served, by what was measured."""
        with in_zone(self.reader.zone):
            plan = bind_query(f"SERVE AS {sql}", self.reader.catalog)
            query = bound_query("the query", plan, self.reader.catalog, {"text": sql})
        grid = query.grid
        board = self.boards.get(grid)
        present = [] if board is None else list(board.queries.values())
        advice = advice_for(query, grid, self.policy, present, self.loads())
        return str(advice or "nothing was measured yet: ask when some updates have come")

    def _tell_overload(self) -> None:
        """Say when there is more work than time, and when that is over."""
        loads = self.loads()
        stretch = stretch_of(loads)
        late = any(report.overloaded for report in self.reports())
        if stretch is not None and stretch > 1 and late and not self._overloaded:
            self._overloaded = True
            listed = "; ".join(map(str, loads))
            self.tell(
                f"more work than time: periods become about {float(stretch):.1f} times as long, "
                f"each query's by its own lateness ({listed})"
            )
        elif self._overloaded and not late and (stretch is None or stretch <= 1):
            self._overloaded = False
            self.tell("queries are in time again")

    # ── following ─────────────────────────────────────────────────────────────────────────

    def catch_up(self) -> bool:
        """Take over what is committed; False if there was nothing new."""
        newest = self.reader.repository.newest()
        if newest == self.version:
            return False
        reader = self.reader.latest()
        if self._identity(reader.manifest) != self._positions.identity:
            self.tell("the checkpoint is another one: queries begin anew")
            with self._lock:
                self.boards = {}
            self._positions = self._positions_of(reader.manifest)
        self.reader = reader
        panes = ClosedPanes(reader.repository.directory, reader.manifest)
        self._register(reader, panes)
        for board in self._all_boards():
            board.follow(panes, self._kept_by(board, reader))
        self.version = reader.version
        self._notify()
        return True

    def _kept_by(self, board: PaneBoard, reader: PipelineReader) -> Mapping[str, KeptStream]:
        problem = self.memory.rows_refused.get(board.grid)
        if problem is None:
            return reader.kept_streams
        self.tell(problem)
        return {name: k for name, k in reader.kept_streams.items() if name != board.grid.stream}

    def _register(self, reader: PipelineReader, panes: ClosedPanes) -> None:
        """Serve the queries that the checkpoint has now."""
        known_since: Mapping[str, int] = reader.manifest.properties.get(KNOWN, {})
        served: dict[str, StoredQuery] = {}
        before, self.refused = self.refused, {}
        with in_zone(reader.zone):
            for name, query in self._stored_queries(reader).items():
                kept = reader.kept_streams.get(query.stream)
                problem = rows_missing(query, 0 if kept is None else kept.duration)
                if problem:
                    self.refused[name] = problem
                else:
                    served[name] = query.with_history(known_since)
            served = self.memory.choose(served, panes, reader.kept_streams)
            self.refused |= self.memory.refused
        for name, problem in self.refused.items():
            if before.get(name) is None:
                self.tell(f"{name} is not served: {problem}")
        for board in self._all_boards():
            for name, query in list(board.queries.items()):
                if name not in served or _kind(served[name]) != _kind(query):
                    board.remove(name)
        for name, query in served.items():
            grid = query.grid
            if grid not in self.boards:
                with self._lock:
                    self.boards[grid] = PaneBoard(
                        grid, self.policy, self._positions, self._deliver, self.tell,
                        meter=WorkMeter(self.workers), isolation=self.isolation,
                        early=self.early, pace=self.pace,
                    )  # fmt: skip
            if name not in self.boards[grid].queries:
                self.boards[grid].add(query)

    def _stored_queries(self, reader: PipelineReader) -> dict[str, StoredQuery]:
        """Bound once: plans of queries whose entries have not changed are taken over."""
        stored = reader.manifest.properties["queries"]
        before, bound = self._bound, dict[str, tuple[Any, StoredQuery | None]]()
        for name, entry in stored.items():
            key = (entry["text"], entry.get("since"), entry.get("entry"))
            if name in before and before[name][0] == key:
                bound[name] = before[name]
            else:
                bound[name] = (key, StoredQuery.of(name, entry, reader.catalog))
        self._bound = bound
        return {name: query for name, (_, query) in bound.items() if query is not None}

    def _follow(self) -> None:
        noted = time.monotonic()
        while not self._stopping:
            try:
                self.catch_up()
            except VersionExpired:
                continue  # vacuumed while it was read: there is a newer one
            except (MayflyError, OSError) as error:
                self.tell(f"cannot follow the checkpoint now: {error}")
                time.sleep(1)
            if time.monotonic() - noted > SELDOM:
                noted = time.monotonic()
                self._store()
                self._check_scans()
                self._tell_overload()
            time.sleep(OFTEN if self.boards else SELDOM)

    # ── answering ─────────────────────────────────────────────────────────────────────────

    def work_through(self) -> None:
        """Answer all that is due, in this thread."""
        while any(self._step(board) for board in self._all_boards()):
            pass

    def _serve_due(self) -> None:
        while not self._stopping:
            changes = self._changes
            worked = [self._step(board) for board in self._all_boards()]
            if not any(worked):
                self._await_change(changes)

    def _await_change(self, changes: int) -> None:
        with self._work:
            self._work.wait_for(lambda: self._stopping or self._changes != changes, OFTEN)

    def _step(self, board: PaneBoard) -> bool:
        server = board.server
        if server is None:
            return False
        began = time.perf_counter()
        worked = server.step()
        if worked:
            board.meter.note_read(time.perf_counter() - began)
        with self._work:  # a question that is refused is done, though nothing was read
            self._work.notify_all()
        return worked

    def _deliver(self, answer: ServedAnswer) -> None:
        self.latest[answer.query] = answer
        self.answered[answer.query] += 1
        named = (answer.query, "")
        for subscriber in [s for name in named for s in self._subscribers.get(name, ())]:
            try:
                subscriber(answer)
            except Exception as error:  # of users: the others go on
                self.tell(f"{answer.query}: a subscriber failed: {error!r}")

    # ── small things ──────────────────────────────────────────────────────────────────────

    def tell(self, note: str) -> None:
        """Keep a note for status, once, and pass it on."""
        if note not in self.notes:
            self.notes = [*self.notes, note][-MOST_NOTES:]
            if self._note is not None:
                self._note(note)

    def _notify(self) -> None:
        with self._work:
            self._changes += 1
            self._work.notify_all()

    def _all_boards(self) -> Iterator[PaneBoard]:
        with self._lock:
            return iter(list(self.boards.values()))

    def _identity(self, manifest: Manifest) -> str:
        return str(manifest.properties.get(IDENTITY, ""))

    def _positions_of(self, manifest: Manifest) -> AnswerPositions:
        directory = self.reader.repository.directory
        return AnswerPositions(directory, self._identity(manifest), self.tell)


def _kind(query: StoredQuery) -> tuple[Any, ...]:
    """What makes it another one to serve."""
    return query.group, query.serve, query.text
