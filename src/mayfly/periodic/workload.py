"""A workload: periodic queries over one stream, answered in this process.

Rows are fed in batches with a clock; every refresh below the clock is answered exactly once, at its
instant, whatever the batches are. Queries come and go between batches: a late one is answered at
once where enough is kept, and says from when otherwise. Queries whose edges would cut time into too
many panes together share nothing (thesis 8.3, spec of exact mode).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.display import counted, one_line
from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.lifetime_rows import whole
from mayfly.lifetime import MIN_TIME, instant_text
from mayfly.periodic.panes import grid_of, panes_within, progressions
from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.sharing import RULES
from mayfly.periodic.sharing.sharing_rule import Access
from mayfly.periodic.sharing_set import Answer, SharingSet

MOST_PANES = 10_000
"""In the longest window of queries that share."""


@dataclass(frozen=True)
class Share:
    """How a query is answered: by which rule, from what, and since which refresh."""

    query: PeriodicQuery
    rule: str
    access: Access
    since: int

    def __str__(self) -> str:
        since = "" if self.since == MIN_TIME else f", from {instant_text(self.since)} on"
        return f"{self.query.name}: {self.query} — {self.rule}: {self.access}{since}"


class QueryWorkload:
    """Periodic queries over rows of a schema, with a column of times.

    ``without`` names rules that are switched off; answers do not depend on it.
    """

    def __init__(self, rows: pa.Schema, *, time: str = "ts", without: Collection[str] = ()) -> None:
        unknown = sorted(set(without) - RULES)
        if unknown:
            raise InvalidSetting(
                f"there is no sharing rule {unknown[0]!r}", f"use {', '.join(sorted(RULES))}"
            )
        if time not in rows.names:
            raise InvalidSetting(
                f"there is no column {time!r} to be the time", f"use {', '.join(rows.names)}"
            )
        self.schema, self.time = rows, time
        self.rules = RULES - frozenset(without)
        self.clock = MIN_TIME
        self.late = 0
        """Rows that came behind the clock, and were left out."""
        self.sets: list[SharingSet] = []
        self.first: int | None = None
        self.last = MIN_TIME
        """The instants of the first and the last row so far."""

    def __repr__(self) -> str:
        clock = "no rows yet" if self.clock == MIN_TIME else f"clock {instant_text(self.clock)}"
        return one_line(self, ", ".join(self.shares()) or "no queries", clock)

    def add(self, query: PeriodicQuery) -> Share:
        """Answer a query from now on; how, and since when."""
        if any(query.name in some.queries for some in self.sets):
            raise InvalidSetting(
                f"there is a query {query.name!r} already", "remove it first, or use another name"
            )
        if len(query.lengths) != 1:
            raise InvalidSetting(f"{query.name} has {len(query.lengths)} windows", "give it one")
        for column in query.keys:
            if column not in self.schema.names:
                raise InvalidSetting(
                    f"{query.name}: there is no column {column!r}",
                    f"use {', '.join(self.schema.names)}",
                )
        chosen = next((some for some in self.sets if shares(some, query)), None)
        if chosen is None:
            chosen = self._new_set()
        chosen.add(query)
        if chosen not in self.sets:
            self.sets.append(chosen)
        return self.shares()[query.name]

    def remove(self, name: str) -> None:
        """Answer a query no more."""
        holders = [some for some in self.sets if name in some.queries]
        if not holders:
            raise InvalidSetting(
                f"there is no query {name!r}", f"there are {', '.join(self.shares()) or 'none'}"
            )
        holders[0].remove(name)
        self.sets = [some for some in self.sets if some.queries]

    def feed(self, rows: pa.Table, clock: int) -> list[Answer]:
        """Take rows in and close the instants below the clock; the answers of all refreshes among
        them, by instant."""
        instants = self._instants(rows)
        if clock < self.clock:
            raise BadInput(
                f"the clock goes back from {instant_text(self.clock)} to {instant_text(clock)}",
                "give clocks that do not fall",
            )
        in_time = instants >= self.clock
        self.late += int((~in_time).sum())
        self._note(instants[in_time])
        for some in self.sets:
            some.first = self.first
            some.take(rows.filter(pa.array(in_time)), instants[in_time])
        answers = [answer for some in self.sets for answer in some.advance(clock)]
        self.clock = clock
        return sorted(answers, key=lambda answer: answer.as_of)

    def shares(self) -> Mapping[str, Share]:
        """How each query is answered."""
        return {
            name: Share(r.query, r.rule, r.access, r.since)
            for some in self.sets
            for name, r in some.queries.items()
        }

    @property
    def stored(self) -> int:
        """Values that all synopses keep."""
        return sum(kept.synopsis.stored for some in self.sets for kept in some.synopses.values())

    @property
    def read(self) -> int:
        """Values that answers have read of synopses that still exist."""
        return sum(kept.synopsis.read for some in self.sets for kept in some.synopses.values())

    def explain(self) -> str:
        """Who shares what."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for number, some in enumerate(self.sets, 1):
            yield f"panes {number}: edges every " + ", ".join(
                f"{period} µs from {phase}" for period, phase in sorted(some.panes.edges)
            )
            for kept in some.synopses.values():
                yield f"  {kept.plan}: {kept.synopsis.stored} values"
            for name in some.queries:
                yield f"  {self.shares()[name]}"

    def _new_set(self) -> SharingSet:
        some = SharingSet(self.schema, self.rules)
        if self.first is not None:
            some.first, some.clock = self.first, self.clock
            some.panes.close(max(self.last, self.clock - 1))
        return some

    def _note(self, instants: Int64s) -> None:
        if len(instants):
            first = int(instants.min())
            self.first = first if self.first is None else min(first, self.first)
            self.last = max(self.last, int(instants.max()))

    def _instants(self, rows: pa.Table) -> Int64s:
        if rows.schema != self.schema:
            raise BadInput(
                f"the rows have the columns {rows.schema.names} of other types or names",
                f"give them those of the workload: {self.schema.to_string()}",
            )
        column = whole(rows.column(self.time))
        if column.null_count:
            raise BadInput(f"{counted(column.null_count, 'row')} without a time", "leave them out")
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
        return np.ascontiguousarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))


def shares(some: SharingSet, query: PeriodicQuery) -> bool:
    """Whether a query can use the panes of others: its edges are on their grid, and there are not
    too many of all of them."""
    queries = [registered.query for registered in some.queries.values()]
    grid = grid_of([*queries, query])
    together = progressions([*queries, query])
    most = max(panes_within(together, member.length, member.origin) for member in [*queries, query])
    aligned = all((query.origin - member.origin) % grid == 0 for member in queries)
    return aligned and most <= MOST_PANES
