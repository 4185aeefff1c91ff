"""One server for the queries whose panes are updated together: same stream, length and origin.

Idea: what a pipeline commits is fed pane by pane, as it is closed; where the server came to read it
too late, it begins again from what is kept, and says how much it has missed (spec/periodic 8). What
the server before still has on its way goes through the same outbox.
Invariant: an answer is over the panes up to its as_of, all of one stream's closed instants; those
of a query come in the order of as_of, each once.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from mayfly.lifetime import MIN_TIME, format_micros, instant_text
from mayfly.periodic.scheduling import Early, Policy, ScheduledQuery
from mayfly.periodic.server import Outbox, PeriodicServer, ServedAnswer, ServeOptions
from mayfly.physical.served_plan import panes_spared
from mayfly.plan.serving_terms import Overloaded
from mayfly.serving.kept_streams import KeptStream
from mayfly.serving.periodic.answer_positions import AnswerPositions
from mayfly.serving.periodic.closed_panes import ClosedPanes, kept_rows, rows_by_pane
from mayfly.serving.periodic.pane_parts import PaneParts
from mayfly.serving.periodic.served_load import BoardLoad, as_scheduled
from mayfly.serving.periodic.served_window import PaneGrid
from mayfly.serving.periodic.stored_query import StoredQuery
from mayfly.serving.periodic.stored_rings import ROWS, StoredRings, ring_name
from mayfly.serving.periodic.work_meter import WorkMeter

MOST_UPDATES = 10_000
"""Panes that are fed one by one; after a longer silence the server begins again."""
RECORDED = 20_000
"""Operations of each ring that are kept for the checker."""
Note = Callable[[str], None]


@dataclass
class PaneBoard:
    """``positions`` has the instant up to which each query was answered, by name."""

    grid: PaneGrid
    policy: Policy | None
    positions: AnswerPositions
    deliver: Callable[[ServedAnswer], None]
    note: Note
    queries: dict[str, StoredQuery] = field(default_factory=dict)
    server: PeriodicServer | None = None
    missed: int = 0
    """Panes that were closed and gone before the server read them."""
    meter: WorkMeter = field(default_factory=WorkMeter)
    isolation: str = "ttu"
    """How queries with ISOLATION LATEST are kept apart from updates."""
    early: Early = Early.GRID
    pace: bool = False
    """Whether what is due is answered before the next pane of the same commit."""
    _waiting: dict[str, tuple[StoredQuery, int]] = field(default_factory=dict)
    """Queries whose first whole pane has not come, and its number."""
    _rings: StoredRings = field(default_factory=StoredRings)
    _outbox: Outbox = field(default_factory=Outbox)
    _priced: tuple[list[ScheduledQuery], Fraction] | None = None
    """Queries, and what they cost per update: a schedule is costly to price."""
    _delivered: dict[str, int] = field(default_factory=dict)
    """As of when the last answer was that went out from here, by query."""
    _ended: list[PeriodicServer] = field(default_factory=list)
    """Servers whose last scans are not checked yet."""

    # ── queries come and go ───────────────────────────────────────────────────────────────

    def add(self, query: StoredQuery) -> None:
        """Serve a query with the next commit; if its window is longer than what is held, all
        rings are filled anew."""
        self.queries[query.name] = query
        if self.server is not None:
            ring = {source.name: source for source in self._rings.all()}.get(ring_name(query))
            held = ring is not None and not query.serve.scan.of_rows
            if held and ring is not None and ring.transactions.ring.size >= self._size(query):
                with self.server.changed:  # workers look for reads in the same rings
                    self._rings.prepare(query, self._size(query), ring.first)
                self._waiting[query.name] = (query, ring.first)
            else:
                self._end_server()

    def remove(self, name: str) -> None:
        self.queries.pop(name, None)
        self._waiting.pop(name, None)
        if self.server is not None and name in self.server.queries:
            self.server.remove(name)

    def options_of(self, query: StoredQuery) -> ServeOptions:
        options = query.options
        return (
            replace(options, isolation=self.isolation) if options.isolation == "LATEST" else options
        )

    def _end_server(self) -> None:
        if self.server is not None:
            self.server.refuse_asks()
            self._ended.append(self.server)
        self.server = None

    def _size(self, query: StoredQuery) -> int:
        panes = query.length // self.grid.length
        more = query.period // self.grid.length if query.serve.scan.incremental else 0
        return panes + more

    # ── commits ───────────────────────────────────────────────────────────────────────────

    def follow(self, panes: ClosedPanes, kept: Mapping[str, KeptStream]) -> None:
        """Feed what a version has closed since the last one."""
        clock, first = panes.clock(self.grid.stream), panes.first_row(self.grid.stream)
        if not self.queries or first is None or clock == MIN_TIME:
            return
        last = self.grid.closed(clock)
        if self.server is not None and self._has_lost(last):
            self.missed += last - self.server.update_number
            self.note(
                f"{last - self.server.update_number:,} panes of {self.grid.stream} were closed at "
                "once, more than are kept: queries go on from the last ones"
            )
            self._end_server()
        if self._holds_rows and self.grid.stream not in kept:
            self._end_server()
        if self.server is None:
            self.meter.begin_anew()
        server = self.server or self._started(panes, kept, last, self.grid.pane_of(first))
        self._feed(server, panes, kept, last)
        server.advance_clock(clock - 1)
        self.meter.note_update(time.monotonic(), server.update_number)
        for name, (query, pane) in list(self._waiting.items()):
            if pane <= server.update_number:
                del self._waiting[name]
                self._serve(server, query)
        self._rings.waiting = {
            ring_name(query): self._size(query) for query, _ in self._waiting.values()
        } | ({ROWS: self._rows_size(kept)} if self.grid.stream in kept else {})
        self.server = server  # workers see it with all its rings, and panes in them

    @property
    def _holds_rows(self) -> bool:
        return any(source.name == ROWS for source in self._rings.all())

    @property
    def as_of(self) -> int:
        """Up to where panes have come."""
        server = self.server
        return MIN_TIME if server is None else server.as_of(server.update_number)

    @property
    def held_bytes(self) -> int:
        """What its rings take, about."""
        server = self.server
        if server is None:
            return 0
        with server.changed:
            return self._rings.nbytes

    def load(self, policy: Policy) -> BoardLoad:
        """What its queries cost, and what was measured."""
        listed = [as_scheduled(query) for query in list(self.queries.values())]
        if self._priced is None or self._priced[0] != listed:
            self._priced = listed, policy.cost(listed)
        return BoardLoad(self.grid, self._priced[1], self.meter.measured)

    def verify(self) -> Counter[str]:
        """Have the checker read what was recorded since the last time: how many scans had which
        level, or an error that says which did not keep what it promised."""
        servers = [*self._ended, *([self.server] if self.server is not None else [])]
        levels: Counter[str] = Counter()
        for server in servers:
            levels += server.verify()
        self._ended = []
        for server in servers:
            if server.checks.broken is not None:
                raise server.checks.broken
        return levels

    def _has_lost(self, last: int) -> bool:
        assert self.server is not None
        behind = last - self.server.update_number
        least = min(self._size(query) for query in self.queries.values())
        return behind > min(MOST_UPDATES, panes_spared(least))

    def _started(
        self, panes: ClosedPanes, kept: Mapping[str, KeptStream], last: int, first_row: int
    ) -> PeriodicServer:
        """A server that holds what is kept, as of the last closed pane."""
        self._rings, self._waiting = StoredRings(), {}
        sizes: dict[str, int] = defaultdict(int)
        for query in self.queries.values():
            name = ROWS if query.serve.scan.of_rows else ring_name(query)
            own = query.length // self.grid.length
            most = own + panes_spared(own)
            back = most if query.serve.overload is Overloaded.EVERY else self._size(query)
            sizes[name] = max(sizes[name], min(back, most))
        longest = max(sizes.values(), default=0)
        rows = self._rows_size(kept)
        begin = last - max(longest, rows)
        server = PeriodicServer(
            self._rings, pane=self.grid.length, begin=self.grid.origin, policy=self.policy,
            isolation=self.isolation, early=self.early, record=RECORDED, updates=begin,
            outbox=self._outbox,
        )  # fmt: skip
        for query in self.queries.values():
            whole = first_row
            if query.known_from > MIN_TIME:
                whole = max(first_row, self.grid.first_whole(query.known_from))
            if query.serve.scan.of_rows:
                start = max(last - rows + 1, whole)
            else:
                start = max(last - sizes[ring_name(query)] + 1, whole)
            self._rings.prepare(query, self._size(query), start)
            if query.serve.overload is Overloaded.EVERY:
                self._serve_every(server, query, start, whole, last)
            else:
                self._waiting[query.name] = (query, start)
        if rows and not self._holds_rows:
            some = next(iter(self.queries.values()))
            self._rings.prepare_rows(some, rows, max(last - rows + 1, first_row))
        return server

    def _rows_size(self, kept: Mapping[str, KeptStream]) -> int:
        stream = kept.get(self.grid.stream)
        return 0 if stream is None else stream.duration // self.grid.length

    def _serve(self, server: PeriodicServer, query: StoredQuery) -> None:
        last = self.positions.get(query.name)
        update = server.update_number - query.period // self.grid.length  # due at once
        if last is not None:
            update = (last - self.grid.origin) // self.grid.length
            late = server.update_number - update - query.period // self.grid.length
            if late > 0:
                self.note(
                    f"{query.name}: the last answer was as of {instant_text(last)}, "
                    f"{format_micros(late * self.grid.length)} more than its period ago"
                )
        server.add(query, self._hand_on, self.options_of(query), last=update)

    def _hand_on(self, answer: ServedAnswer) -> None:
        """Deliver an answer, unless a server before has given it or a later one: it may have been
        on its way when the positions were read. The outbox hands over one at a time."""
        if answer.as_of > self._delivered.get(answer.query, MIN_TIME):
            self._delivered[answer.query] = answer.as_of
            self.deliver(answer)
            self.positions.advance(answer.query, answer.as_of)

    def _serve_every(
        self, server: PeriodicServer, query: StoredQuery, start: int, whole: int, last: int
    ) -> None:
        """Answer all refreshes since the last one that was answered, as far back as windows can
        be read; a query that was never answered begins with the last refresh."""
        answered = self.positions.get(query.name, self.grid.end(last) - query.period)
        full = self.grid.end(start - 1) + query.length if start > whole else self.grid.end(start)
        if answered < full - query.period and query.name in self.positions:
            self.note(
                f"{query.name}: refreshes between {instant_text(answered)} and "
                f"{instant_text(full)} were missed: their panes are gone"
            )

        def deliver(answer: ServedAnswer) -> None:
            if answer.as_of > answered and answer.as_of >= full:
                self._hand_on(answer)

        server.add(query, deliver, self.options_of(query))

    def _feed(
        self,
        server: PeriodicServer,
        panes: ClosedPanes,
        kept: Mapping[str, KeptStream],
        last: int,
    ) -> None:
        """The panes behind the last one of the server, in order and at once."""
        first = server.update_number + 1
        if last < first:
            return
        updates: list[dict[str, Any]] = [{} for _ in range(first, last + 1)]
        after, until = self.grid.end(first - 1), self.grid.end(last)
        for source in self._rings.all():
            if source.name == ROWS:
                rows = kept_rows(kept[self.grid.stream], after, until)
            else:
                rows = panes.rows(source.name.rpartition("@")[0], after, until)
            if rows is not None:
                for pane, part in rows_by_pane(self.grid, rows, first, last):
                    whole = part if source.name == ROWS else PaneParts((part,))
                    updates[pane - first][source.name] = whole
        if not self.pace or server is not self.server:
            server.update(*updates)
            return
        for update in updates:
            server.update(update)
            server.run()
