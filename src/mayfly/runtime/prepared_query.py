"""A bound one-time query, without the rows it reads: what can be kept from one answer to the next.

Invariant: a plan depends on the text, the time zone and the columns of what the text names, never
on rows, so as long as these stay it answers any version. Cost: binding takes milliseconds,
compiling some more; both are done once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from mayfly.cql import CqlError, bind_query
from mayfly.cql.messages import SourceText, TextSpan, error_at, listing
from mayfly.plan.catalog import Catalog, Definition, RelationDefinition
from mayfly.plan.logical_operators import (
    Join,
    Node,
    Output,
    OutputKind,
    PaddedNrrJoin,
    RelationJoin,
    RelationScan,
    Sort,
    StreamScan,
)
from mayfly.plan.outer_join import left_join
from mayfly.plan.window_kinds import Unbounded
from mayfly.runtime.row_read import RowRead
from mayfly.runtime.table_sources import (
    StreamSource,
    Synopses,
    SynopsisSource,
    TableSource,
)

if TYPE_CHECKING:
    from mayfly.runtime.one_time_program import OneTimeProgram

OFFERED = "view, relation or archive"
STREAMS_ARE_GONE = (
    "{views}declare KEEP 1 HOUR on the stream, or add a query that keeps what you need: "
    "mayfly control add CHECKPOINT NAME 'SELECT * FROM {stream} [RANGE 1 HOUR]'; mayfly sql "
    "pipeline.cql reads the files of a stream itself; in-process, start a query by its name and "
    "ask that"
)


@dataclass(frozen=True)
class PreparedQuery:
    """A bound one-time query over tables and streams of some columns."""

    text: str
    bound: Output
    catalog: Catalog
    """What there was to read."""
    synopses: Mapping[str, SynopsisSource] = field(default_factory=dict)
    """By their names in lower case: tables that were put in the place of parts of the query."""

    @staticmethod
    def of(
        text: str,
        tables: Mapping[str, TableSource],
        others: Iterable[Definition],
        streams: Mapping[str, StreamSource],
        synopses: Callable[[], Synopses] | None = None,
    ) -> PreparedQuery:
        """``synopses`` are looked for only if the query names a stream."""
        catalog = Catalog(offers=f"{OFFERED}, or stream" if streams else OFFERED)
        for table in tables.values():
            catalog = catalog.declare(RelationDefinition(table.name, table.columns))
        for definition in (*(stream.definition for stream in streams.values()), *others):
            if catalog.lookup(definition.name) is None:
                catalog = catalog.declare(definition)
        bound = bind_query(text, catalog, one_time=True)
        standing: dict[str, SynopsisSource] = {}
        reasons: Mapping[str, str] = {}
        if synopses is not None and any(isinstance(node, StreamScan) for node in bound.walk()):
            offered = synopses()
            bound = offered.substituted(bound)
            standing = {name.casefold(): table for name, table in offered.tables.items()}
            reasons = offered.refusals
        for table in standing.values():
            catalog = catalog.declare(RelationDefinition(table.name, table.columns))
        _check(SourceText(text), bound, {**tables, **standing}, streams, reasons)
        return PreparedQuery(text, bound, catalog, standing)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The tables that the query names, in lower case."""
        scans = (node for node in self.bound.walk() if isinstance(node, RelationScan))
        return tuple(dict.fromkeys(scan.relation.casefold() for scan in scans))

    @cached_property
    def feeds(self) -> tuple[str, ...]:
        """The streams that the query names, in lower case."""
        scans = (node for node in self.bound.walk() if isinstance(node, StreamScan))
        return tuple(dict.fromkeys(scan.stream.casefold() for scan in scans))

    @cached_property
    def sort(self) -> Sort:
        child = self.bound.child
        return child if isinstance(child, Sort) else Sort(child, ())

    @cached_property
    def unsorted(self) -> Output:
        """The query over streams; its rows are ordered behind it."""
        plan = replace(self.bound, child=self.sort.child, one_time=False).transform(_fed)
        assert isinstance(plan, Output)
        return plan

    @cached_property
    def row_read(self) -> RowRead | None:
        """How it is answered row by row; None if it takes more than that."""
        return RowRead.of(self.sort.child)

    @cached_property
    def program(self) -> OneTimeProgram:
        """The operators that answer it."""
        # Here: operators take longer to load than most rows take to read.
        from mayfly.runtime.one_time_program import OneTimeProgram

        return OneTimeProgram.of(self.unsorted, self.catalog, self.reads, self.feeds)


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


def _check(
    source: SourceText,
    bound: Output,
    tables: Mapping[str, TableSource],
    streams: Mapping[str, StreamSource],
    reasons: Mapping[str, str],
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
                if node.stream in reasons:
                    problem = f"{problem}; {reasons[node.stream]}"
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
