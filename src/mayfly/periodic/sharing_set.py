"""Queries over one stream whose panes are cut alike: their synopses, fed and read together.

Idea: rows become partial values per pane, once for each synopsis; a pane whose last instant is
closed slides into all synopses; at a refresh T, queries that are due read the panes in (T − d, T].
Invariant: a pane is in a window or not, never in part; each refresh of a query is answered once, in
order, from the first one whose panes are all kept. Cost: rows × synopses to make partial values,
then one merge or so per pane and synopsis; panes that no refresh will read are dropped unread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.lifetime_rows import Bools, chosen, numbers
from mayfly.lifetime import MIN_TIME
from mayfly.periodic.cost import joint_groups, kind_for
from mayfly.periodic.execution import answer_of, read_together
from mayfly.periodic.panes import Panes, progressions
from mayfly.periodic.planner import Placement, place
from mayfly.periodic.predicate import Predicate, mask_of
from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.refresh_order import RegisteredQuery, check_backlog, due_refreshes
from mayfly.periodic.sharing.sharing_rule import (
    Board,
    Forward,
    SynopsisPlan,
    SynopsisReading,
)
from mayfly.synopses import Synopsis
from mayfly.synopses.contents import TableAlgebra
from mayfly.synopses.stored_form import KINDS

PANE = "_pane"


Window = tuple[int, int]
"""Panes so far, and how many of the youngest a window has."""


@dataclass(frozen=True)
class Answer:
    """What a query says at a refresh: its keys, and a ``value`` for each group.

    ``partial`` says that the window reaches back behind the first row of the stream.
    """

    query: str
    as_of: int
    rows: pa.Table
    partial: bool


@dataclass
class KeptSynopsis:
    """A synopsis and what is on its way into it."""

    plan: SynopsisPlan
    algebra: TableAlgebra
    synopsis: Synopsis[pa.Table]
    since: int
    """Rows up to here are not in it."""
    open: dict[int, list[pa.Table]] = field(default_factory=dict)
    """Partial values by the last instant of their pane."""


class SharingSet:
    """Synopses of a stream and the queries that read them."""

    def __init__(self, rows: pa.Schema, rules: Collection[str]) -> None:
        self.rows, self.rules = rows, rules
        self.panes = Panes()
        self.queries: dict[str, RegisteredQuery] = {}
        self.synopses: dict[str, KeptSynopsis] = {}
        self.clock: int | None = None
        self.first: int | None = None
        """The instant of the first row of the stream."""
        self.ends: list[int] = []
        """The last instants of the panes in synopses, and of the youngest that was dropped."""
        self.seen = [0, 0]
        """Rows and panes so far."""
        self._window: dict[str, Window] = {}
        self._rows: dict[str, pa.Table] = {}
        """Of each query: the window of its last answer, and that answer."""

    # ── queries come and go ───────────────────────────────────────────────────────────────

    def add(self, query: PeriodicQuery) -> None:
        """Answer a query from its next refresh on, or the first one for which enough is kept."""
        placement = place(query, self.board(query), self.rules)
        self.panes.use([*(r.query for r in self.queries.values()), query])
        if placement.synopsis is not None:
            self._keep(placement.synopsis)
        since = self._since(query, placement)
        self.queries[query.name] = RegisteredQuery(query, placement.access, placement.rule, since)
        self.queries[query.name].start(self.first, self.clock, self.clock)
        self._choose_kinds()

    def remove(self, name: str) -> None:
        """Forget a query; queries that forward its answers go on as it did, and synopses that
        no query reads any more are dropped."""
        gone = self.queries.pop(name)
        self._window.pop(name, None)
        for registered in self.queries.values():
            if registered.access == Forward(name):
                registered.access, registered.rule = gone.access, gone.rule
        read = {name for r in self.queries.values() for name in r.access.synopses}
        self.synopses = {name: kept for name, kept in self.synopses.items() if name in read}
        self.panes.use(r.query for r in self.queries.values())
        self._choose_kinds()

    def board(self, query: PeriodicQuery | None = None) -> Board:
        """What rules see, with the edges of a newcomer."""
        asking = [r.query for r in self.queries.values()] + ([query] if query else [])
        rows, panes = self.seen
        return Board(
            self.rows,
            {name: kept.plan for name, kept in self.synopses.items()},
            {name: r.query for name, r in self.queries.items()},
            {name: r.access for name, r in self.queries.items()},
            progressions(asking),
            rows / panes if panes else Board.rows_per_pane,
        )

    def _keep(self, plan: SynopsisPlan) -> None:
        if plan.name in self.synopses:
            self.synopses[plan.name].plan = plan
            return
        algebra = TableAlgebra(plan.content, plan.keys, self.rows)
        synopsis = KINDS[plan.kind](algebra, 1)
        since = MIN_TIME if self.first is None else self.panes.horizon
        self.synopses[plan.name] = KeptSynopsis(plan, algebra, synopsis, since)

    def _since(self, query: PeriodicQuery, placement: Placement) -> int:
        """The first refresh from which on all windows are of whole panes that are kept."""
        if isinstance(placement.access, Forward):
            return self.queries[placement.access.query].since
        if self.first is None or self.clock is None:
            return MIN_TIME
        floor = max(self._floor(self.synopses[name]) for name in placement.access.synopses)
        start = query.slide.at_or_after(max(self.first, self.clock))
        count = (max(floor, self.panes.horizon) + query.length - start) // query.period + 2
        if count < 2:
            return start
        refreshes = start + np.arange(count) * query.period
        whole = self.panes.whole(refreshes)
        for length in query.lengths:
            whole &= (refreshes - length >= floor) & self.panes.whole(refreshes - length)
        missing = np.flatnonzero(~whole)
        return int(refreshes[missing[-1] + 1] if len(missing) else start)

    def _floor(self, kept: KeptSynopsis) -> int:
        """The instant behind which a synopsis has every row."""
        dropped = self.ends[: len(self.ends) - kept.synopsis.covers]
        return max(kept.since, dropped[-1]) if dropped else kept.since

    def _choose_kinds(self) -> None:
        """Keep each content in the kind that is cheapest for the windows that read it now."""
        board = self.board()
        for name, kept in self.synopses.items():
            asked = [r.query for r in self._readers(name)]
            windows = [(board.panes_of(query), query.period, query.origin) for query in asked]
            kind = kind_for(kept.plan.content, joint_groups(windows))
            longest = max(r.query.length for r in self._readers(name))
            if kind != kept.plan.kind:
                kept.synopsis = rebuilt(kept.synopsis, KINDS[kind])
            kept.plan = replace(kept.plan, kind=kind, length=longest)

    def _readers(self, synopsis: str) -> list[RegisteredQuery]:
        return [r for r in self.queries.values() if synopsis in r.access.synopses]

    # ── rows ──────────────────────────────────────────────────────────────────────────────

    def take(self, rows: pa.Table, instants: Int64s) -> None:
        """Make partial values of new rows, by pane."""
        if not rows.num_rows or not self.queries:
            return
        self.seen[0] += rows.num_rows
        rows = rows.append_column(PANE, pa.array(self.panes.ends_of(instants)))
        masks: dict[Predicate, Bools] = {}
        for kept in self.synopses.values():
            where = kept.plan.where
            if where not in masks:
                masks[where] = mask_of(where, rows)
            # A synopsis that is younger than some rows of an open pane takes none of that pane.
            mine = chosen(rows, masks[where] & (instants > kept.since))
            partial = kept.plan.content.summarize(mine, (PANE, *kept.plan.keys))
            for end, part in by_pane(partial):
                kept.open.setdefault(end, []).append(part)

    def advance(self, clock: int) -> Iterator[Answer]:
        """Close the instants below a clock: answer every refresh among them, in order."""
        for registered in self.queries.values():
            registered.start(self.first, self.clock, clock)
        check_backlog(self.queries.values(), clock)
        closed = sorted({end for k in self.synopses.values() for end in k.open if end < clock})
        slid = 0
        for refresh, due in due_refreshes(self.queries.values(), clock):
            last = bisect_right(closed, refresh)
            for end in closed[slid:last]:
                self._slide(end)
            slid = last
            yield from self._answers(refresh, due)
        for end in closed[slid:]:
            self._slide(end)
        self.clock = clock
        self.panes.close(clock - 1)
        oldest = min((self._floor(kept) for kept in self.synopses.values()), default=clock)
        self.panes.forget(oldest)

    def _slide(self, end: int) -> None:
        self.seen[1] += 1
        for name, kept in self.synopses.items():
            readers = self._readers(name)
            value = kept.algebra.merge(kept.open.pop(end, []))
            if not any(reads(r.query, end) for r in readers):
                value, kept.since = kept.algebra.zero, end
            oldest = min(r.next - r.query.length for r in readers if r.next is not None)
            keep = len(self.ends) + 1 - bisect_right(self.ends, oldest)
            if keep > kept.synopsis.panes or 2 * keep <= kept.synopsis.panes:
                kept.synopsis.resize(keep)
            kept.synopsis.slide(value)
        self.ends.append(end)
        longest = max(kept.synopsis.covers for kept in self.synopses.values())
        del self.ends[: max(0, len(self.ends) - longest - 1)]

    # ── answers ───────────────────────────────────────────────────────────────────────────

    def _answers(self, refresh: int, due: Sequence[RegisteredQuery]) -> Iterator[Answer]:
        window = {
            r.query.name: (self.seen[1], self._panes_back_to(refresh - r.query.length))
            for r in due
            if not isinstance(r.access, Forward)
        }
        # In silence windows stay as they are, and so do their answers.
        changed = {
            name: self._readings(name, panes)
            for name, panes in window.items()
            if self._window.get(name) != panes
        }
        synopses = {name: kept.synopsis for name, kept in self.synopses.items()}
        algebras = {name: kept.algebra for name, kept in self.synopses.items()}
        every = [reading for readings in changed.values() for reading in readings]
        summaries = read_together(every, synopses, self.rules)
        for name, readings in changed.items():
            query = self.queries[name].query
            self._window[name] = window[name]
            self._rows[name] = answer_of(query, readings, summaries, algebras)
        for registered in due:
            query, access = registered.query, registered.access
            source = access.query if isinstance(access, Forward) else query.name
            partial = self.first is None or refresh - query.length + 1 < self.first
            yield Answer(query.name, refresh, self._rows[source], partial)

    def _panes_back_to(self, instant: int) -> int:
        return len(self.ends) - bisect_right(self.ends, instant)

    def _readings(self, name: str, window: Window) -> list[SynopsisReading]:
        access = self.queries[name].access
        return [
            SynopsisReading(name, self.synopses[synopsis].plan, window[1], access)
            for synopsis in access.synopses
        ]


def reads(query: PeriodicQuery, end: int) -> bool:
    """Whether a window of the query has the pane that ends there: where the period is longer than
    the window, many have none."""
    return query.slide.at_or_after(end) - query.length < end


def by_pane(partial: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Partial values of each pane."""
    order = np.argsort(numbers(partial, PANE), kind="stable")
    ordered = partial.take(pa.array(order)).combine_chunks()
    ends = numbers(ordered, PANE)
    begins = np.flatnonzero(np.append(True, ends[1:] != ends[:-1])[: len(ends)])
    rest = ordered.drop_columns([PANE])
    for begin, following in pairwise([*begins.tolist(), len(ends)]):
        yield int(ends[begin]), rest.slice(begin, following - begin)


def rebuilt(synopsis: Synopsis[pa.Table], kind: type[Synopsis[pa.Table]]) -> Synopsis[pa.Table]:
    """A synopsis of another kind over the same panes."""
    another = kind(synopsis.algebra, synopsis.panes)
    another.restore(synopsis.oldest - 1, synopsis.oldest, [])
    panes = {entry.first: entry.value for entry in synopsis.entries() if entry.first == entry.last}
    for pane in range(synopsis.oldest, synopsis.update + 1):
        another.slide(panes[pane])
    return another
