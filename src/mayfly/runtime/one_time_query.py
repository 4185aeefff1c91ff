"""One-time SQL over views, relations and archives, answered in this process.

Idea: a one-time query is a continuous one over inputs that have one instant (thesis 2.1): every
table is fed once, unbounded, and the answer at that instant is the answer. So there is one
language, one optimizer and one set of operators. Where a query takes rows one by one, they pass
through its expressions without operators (row_read). Invariant: each table is read once, at one
instant of one committed version, however often the query names it. Cost: the rows of the tables
that are named, only the columns that are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from mayfly.plan.catalog import Definition
from mayfly.plan.logical_operators import Output
from mayfly.runtime.answer import QueryAnswer
from mayfly.runtime.prepared_query import PreparedQuery
from mayfly.runtime.table_sources import FILES, StreamSource, Synopses, TableSource

if TYPE_CHECKING:
    from mayfly.runtime.one_time_explanation import OneTimeExplanation
    from mayfly.runtime.table_use import TableUse


@dataclass(frozen=True)
class OneTimePlan:
    """A bound one-time query over some tables."""

    query: PreparedQuery
    tables: Mapping[str, TableSource]
    """By their names in lower case."""
    streams: Mapping[str, StreamSource] = field(default_factory=dict)
    """By their names in lower case."""

    @staticmethod
    def of(
        text: str,
        tables: Iterable[TableSource],
        others: Iterable[Definition] = (),
        streams: Iterable[StreamSource] = (),
    ) -> OneTimePlan:
        """``others`` exist, but cannot be read: the message says why. The rows of ``streams`` can,
        behind their windows."""
        sources = OneTimeSources.of(tables, others, streams)
        return sources.plan(text)

    @property
    def bound(self) -> Output:
        return self.query.bound

    @cached_property
    def reads(self) -> tuple[TableSource, ...]:
        """The tables that the query names."""
        return tuple(self.tables[name] for name in self.query.reads)

    @cached_property
    def feeds(self) -> tuple[StreamSource, ...]:
        """The streams that the query names."""
        return tuple(self.streams[name] for name in self.query.feeds)

    def explain(self) -> OneTimeExplanation:
        """How it reads each table, and the plan that would run."""
        # Here: few queries are explained.
        from mayfly.runtime.one_time_explanation import OneTimeExplanation, Step

        query = self.query
        row_read = query.row_read
        if row_read is not None:
            chosen, uses = query.sort.child, dict.fromkeys(query.reads, row_read.use)
        else:
            chosen, uses = query.program.plan.child, dict(query.program.uses)
        reads = [(self.tables[name].name, self._access(name, use)) for name, use in uses.items()]
        reads += [(stream.name, stream.access()) for stream in self.feeds]
        ordered = query.sort if query.sort is query.bound.child else None
        root = chosen if ordered is None else replace(ordered, child=chosen)
        step = Step.of(root, query.reads)
        return OneTimeExplanation(query.text, tuple(reads), step, row_read is not None)

    def _access(self, name: str, use: TableUse) -> str:
        table = self.tables[name]
        words = table.access(use.keys)
        return words if name in self.query.synopses else f"{table.kind}, {words}"

    def instant(self, default: int) -> int:
        """The latest instant that all views show; without views the last one of streams, or else
        of archives."""
        sources: list[TableSource | StreamSource] = [*self.reads, *self.feeds]
        instants: dict[str, list[int]] = {}
        for source in sources:
            if (latest := source.latest()) is not None:
                kind = source.kind if source.kind in ("archive", FILES) else "view"
                instants.setdefault(kind, []).append(latest)
        if views := instants.get("view"):
            return self._edge(min(views))
        last = instants.get(FILES)
        return max(last) if last else min(instants.get("archive", ()), default=default)

    def _edge(self, instant: int) -> int:
        """The last one up to an instant that all synopses show; itself if there is none."""
        last = instant
        while True:
            edges = [table.edge(last) for table in self.query.synopses.values()]
            if any(edge is None for edge in edges):
                return instant
            earliest = min((edge for edge in edges if edge is not None), default=last)
            if earliest == last:
                return last
            last = earliest

    def shows(self, instant: int) -> bool:
        """Whether the synopses that stand for parts of it show an instant."""
        return all(table.edge(instant) == instant for table in self.query.synopses.values())

    def answer(self, instant: int, version: int = -1) -> QueryAnswer:
        """The rows at an instant."""
        sources: list[TableSource | StreamSource] = [*self.reads, *self.feeds]
        partial = (reason for source in sources for reason in source.missing(instant))
        rows = self._ordered(self._rows(instant))
        return QueryAnswer(rows, instant, tuple(dict.fromkeys(partial)), version)

    def _rows(self, instant: int) -> pa.Table:
        if (read := self.query.row_read) is not None:
            (table,) = self.reads
            return read.answer(table.rows(instant, read.use.columns, read.use.keys))
        program = self.query.program
        rows = {
            name: self.tables[name].rows(instant, use.columns, use.keys)
            for name, use in program.uses.items()
        }
        streams = {stream.name: stream.rows_at(instant) for stream in self.feeds}
        # What the rows of tables have as their time.
        return program.answer(rows, streams, instant if streams else 0)

    def _ordered(self, rows: pa.Table) -> pa.Table:
        sort = self.query.sort
        if not sort.keys and sort.limit is None and not sort.offset:
            return rows
        # Here: most queries are not ordered.
        from mayfly.runtime.answer_order import ordered

        return ordered(rows, sort)


@dataclass(frozen=True)
class OneTimeSources:
    """What one-time queries can read, and the queries that were prepared for it."""

    tables: Mapping[str, TableSource]
    """By their names in lower case."""
    others: tuple[Definition, ...] = ()
    """What exists, but cannot be read."""
    streams: Mapping[str, StreamSource] = field(default_factory=dict)

    @staticmethod
    def of(
        tables: Iterable[TableSource],
        others: Iterable[Definition] = (),
        streams: Iterable[StreamSource] = (),
    ) -> OneTimeSources:
        """Of tables and streams of one name the table is read."""
        listed = {table.name.casefold(): table for table in tables}
        fed: dict[str, StreamSource] = {}
        for stream in streams:
            if stream.name.casefold() not in listed:
                fed.setdefault(stream.name.casefold(), stream)
        return OneTimeSources(listed, tuple(others), fed)

    def plan(
        self,
        text: str,
        prepared: PreparedQuery | None = None,
        synopses: Callable[[], Synopses] | None = None,
    ) -> OneTimePlan:
        """A query over them, which may have been prepared over others of the same columns."""
        query = prepared or PreparedQuery.of(text, self.tables, self.others, self.streams, synopses)
        return OneTimePlan(query, {**self.tables, **query.synopses}, self.streams)
