"""One-time SQL over views, relations and archives, answered in this process.

Idea: a one-time query is a continuous one over inputs that have one instant (thesis 2.1): every
table is fed once, unbounded, and the answer at that instant is the answer. So there is one
language, one optimizer and one set of operators. Invariant: each table is read once, at one instant
of one committed version, however often the query names it. Cost: the rows of the tables that are
named, only the columns that are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.cql import CqlError, bind_query
from mayfly.cql.messages import SourceText, TextSpan, error_at, listing
from mayfly.kernels.delta import taken
from mayfly.kernels.row_order import exact_ranks, order_parts
from mayfly.lifetime import zone
from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.explanation import Explanation
from mayfly.plan.added_columns import free_name
from mayfly.plan.catalog import (
    Catalog,
    ColumnDefinition,
    Definition,
    RelationDefinition,
    StreamDefinition,
)
from mayfly.plan.expressions import Column, Compare, Expression, Literal, conjuncts
from mayfly.plan.logical_operators import (
    Join,
    Node,
    Output,
    OutputKind,
    PaddedNrrJoin,
    RelationJoin,
    RelationScan,
    Select,
    Sort,
    StreamScan,
)
from mayfly.plan.outer_join import left_join
from mayfly.plan.types import BIGINT
from mayfly.plan.window_kinds import Unbounded
from mayfly.runtime.answer import QueryAnswer
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.table_sources import FILES, Keys, StreamSource, TableSource

OFFERED = "view, relation or archive"
STREAMS_ARE_GONE = (
    "{views}declare KEEP 1 HOUR on the stream, or add a query that keeps what you need: "
    "mayfly control add CHECKPOINT NAME 'SELECT * FROM {stream} [RANGE 1 HOUR]'; mayfly sql "
    "pipeline.cql reads the files of a stream itself; in-process, start a query by its name and "
    "ask that"
)


@dataclass(frozen=True)
class OneTimePlan:
    """A bound one-time query over some tables."""

    text: str
    tables: Mapping[str, TableSource]
    """By their names in lower case."""
    bound: Output
    streams: Mapping[str, StreamSource] = field(default_factory=dict)

    @staticmethod
    def of(
        text: str,
        tables: Iterable[TableSource],
        others: Iterable[Definition] = (),
        streams: Iterable[StreamSource] = (),
    ) -> OneTimePlan:
        """``others`` exist, but cannot be read: the message says why. The rows of ``streams`` can,
        behind their windows."""
        listed = {table.name.casefold(): table for table in tables}
        fed: dict[str, StreamSource] = {}
        for stream in streams:
            if stream.name.casefold() not in listed:
                fed.setdefault(stream.name.casefold(), stream)
        catalog = Catalog(offers=f"{OFFERED}, or stream" if fed else OFFERED)
        for table in listed.values():
            catalog = catalog.declare(RelationDefinition(table.name, table.columns))
        for definition in (*(stream.definition for stream in fed.values()), *others):
            if catalog.lookup(definition.name) is None:
                catalog = catalog.declare(definition)
        bound = bind_query(text, catalog, one_time=True)
        _check(SourceText(text), bound, listed, fed)
        return OneTimePlan(text, listed, bound, fed)

    @cached_property
    def reads(self) -> tuple[TableSource, ...]:
        """The tables that the query names."""
        scans = (node for node in self.bound.walk() if isinstance(node, RelationScan))
        names = dict.fromkeys(scan.relation.casefold() for scan in scans)
        return tuple(self.tables[name] for name in names)

    @cached_property
    def feeds(self) -> tuple[StreamSource, ...]:
        """The streams that the query names."""
        scans = (node for node in self.bound.walk() if isinstance(node, StreamScan))
        names = dict.fromkeys(scan.stream.casefold() for scan in scans)
        return tuple(self.streams[name] for name in names)

    @cached_property
    def _sort(self) -> Sort:
        child = self.bound.child
        return child if isinstance(child, Sort) else Sort(child, ())

    @cached_property
    def _unsorted(self) -> Output:
        """The query over streams; its rows are ordered behind it."""
        plan = replace(self.bound, child=self._sort.child, one_time=False).transform(_fed)
        assert isinstance(plan, Output)
        return plan

    def explain(self) -> Explanation:
        """The plan that would run, and how it reads each table."""
        explained = explain(self._unsorted, self._streams(self._unsorted), self.text)
        plan = explained.chosen.physical.output
        reads = [(table.name, table.access(_keys(table, plan))) for table in self.reads]
        reads += [(stream.name, stream.access()) for stream in self.feeds]
        return replace(explained, reads=tuple(reads))

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
            return min(views)
        last = instants.get(FILES)
        return max(last) if last else min(instants.get("archive", ()), default=default)

    def answer(self, instant: int, version: int = -1) -> QueryAnswer:
        """The rows at an instant."""
        chosen = optimize(self._unsorted).chosen
        assert isinstance(chosen.plan, Output)
        catalog = self._streams(chosen.plan)
        program = compile_plan(chosen.plan, catalog, strict=chosen.strict)
        batch = {table.name: self._rows(table, chosen.plan, instant) for table in self.reads}
        batch |= {stream.name: stream.rows_at(instant) for stream in self.feeds}
        run = ContinuousRun(program, catalog, zone=zone())
        time = self._time(instant)
        run.feed(batch, heartbeats=dict.fromkeys(run.clocks.streams, time + 1))
        sources: list[TableSource | StreamSource] = [*self.reads, *self.feeds]
        partial = (reason for source in sources for reason in source.missing(instant))
        rows = self._ordered(run.snapshot(time))
        return QueryAnswer(rows, instant, tuple(dict.fromkeys(partial)), version)

    def _time(self, instant: int) -> int:
        """What the rows of tables have as their time."""
        return instant if self.feeds else 0

    def _streams(self, plan: Output) -> Catalog:
        """The tables as streams, all of whose rows have one time; streams as they come."""
        catalog = Catalog()
        for table in self.reads:
            used = _columns(table, plan)
            columns = tuple(column for column in table.columns if column.name in used)
            time = ColumnDefinition(_time_of(table), BIGINT, nullable=False)
            catalog = catalog.declare(StreamDefinition(table.name, (*columns, time), time.name))
        for stream in self.feeds:
            catalog = catalog.declare(replace(stream.definition, slack=0, max_gap=None))
        return catalog

    def _rows(self, table: TableSource, plan: Output, instant: int) -> pa.Table:
        rows = table.rows(instant, _columns(table, plan), _keys(table, plan))
        times = np.full(rows.num_rows, self._time(instant), np.int64)
        return rows.append_column(_time_of(table), pa.array(times))

    def _ordered(self, rows: pa.Table) -> pa.Table:
        sort = self._sort
        if not sort.keys and sort.limit is None and not sort.offset:
            return rows
        names = [f".{name}" for name in rows.column_names]
        parts = order_parts(rows.rename_columns(names), sort.keys, names)
        ranks = [rank for part in parts for rank in exact_ranks(part)]
        ordered = taken(rows, np.lexsort(ranks[::-1])) if ranks else rows
        return ordered.slice(sort.offset, sort.limit)


def _check(
    source: SourceText,
    bound: Output,
    tables: Mapping[str, TableSource],
    streams: Mapping[str, StreamSource],
) -> None:
    """Refuse what has no answer at one instant."""
    if bound.kind is not OutputKind.VIEW:
        raise _error(
            source, bound, f"{bound.kind.value} sends changes, and a one-time query has none",
            "leave the stream operator out",
        )  # fmt: skip
    for node in bound.walk():
        if isinstance(node, StreamScan):
            stream = streams.get(node.stream.casefold())
            if stream is None:
                problem = f"{node.stream} is a stream, whose rows are not kept"
                raise _error(source, node, problem, _what_is_kept(node.stream, tables.values()))
            if obstacle := stream.obstacle(node.window):
                raise _error(source, node, *obstacle)
        if isinstance(node, RelationScan) and node.relation.casefold() not in tables:
            raise _error(
                source, node, f"the rows of {node.relation} are not in the checkpoint",
                "relations are stored when a query reads them: if one does, run the pipeline once "
                "with this version of Mayfly",
            )  # fmt: skip


def _what_is_kept(stream: str, tables: Iterable[TableSource]) -> str:
    """Of a stream, and how more of it is kept."""
    names = [table.name for table in tables if stream in table.streams]
    views = f"ask {listing(names, 'or')}, which the checkpoint keeps of it; or " if names else ""
    return STREAMS_ARE_GONE.format(stream=stream, views=views)


def _error(source: SourceText, node: Node, problem: str, hint: str) -> CqlError:
    start = source.offset(node.position) if node.position else 0
    return error_at(source, TextSpan(start, source.word_end(start)), problem, hint)


def _fed(node: Node) -> Node:
    """Stored tables as streams that are read whole."""
    if isinstance(node, RelationScan):
        return StreamScan(
            node.relation, node.alias, Unbounded(), node.columns, position=node.position
        )
    if isinstance(node, RelationJoin):
        inputs = (node.child, node.relation)
        return Join(inputs, node.equalities, node.residual, position=node.position)
    if isinstance(node, PaddedNrrJoin):
        alias = f"unmatched_{node.relation.schema[0].relation}"
        conditions = node.equalities, node.residual
        return left_join(node.child, node.relation, *conditions, alias, node.position)
    return node


def _scans(table: TableSource, plan: Output) -> list[StreamScan]:
    return [
        node for node in plan.walk() if isinstance(node, StreamScan) and node.stream == table.name
    ]


def _columns(table: TableSource, plan: Output) -> list[str]:
    """The columns that are used; where it is none, one by which rows can be counted."""
    used = {column.name for scan in _scans(table, plan) for column in scan.schema}
    names = [column.name for column in table.columns]
    return [name for name in names if name in used] or names[:1]


def _keys(table: TableSource, plan: Output) -> Keys:
    """By column: the values that all scans of a table compare it with."""
    selected = {
        id(node.child): dict(_equalities(node.predicate))
        for node in plan.walk()
        if isinstance(node, Select)
    }
    conditions = [selected.get(id(scan), {}) for scan in _scans(table, plan)]
    shared = set(conditions[0]).intersection(*conditions[1:])
    return {
        name: tuple(dict.fromkeys(condition[name] for condition in conditions)) for name in shared
    }


def _equalities(predicate: Expression) -> Iterator[tuple[str, str | int]]:
    for term in conjuncts(predicate):
        if not (isinstance(term, Compare) and term.op == "="):
            continue
        for column, value in ((term.left, term.right), (term.right, term.left)):
            if not isinstance(column, Column) or not isinstance(value, Literal):
                continue
            if isinstance(value.value, str | int) and value.type == column.type:
                yield column.name, value.value


def _time_of(table: TableSource) -> str:
    return free_name("_instant", (column.name for column in table.columns))
