"""What a shell talks to: the tables of a pipeline or an archive, and files that are declared.

Statements are carried out one by one. SELECT reads committed state from outside where there is a
checkpoint, and the declared files themselves where there is none; what CREATE and INSERT change
lives in this session alone. Nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from mayfly.cql import (
    CqlError,
    Create,
    Delete,
    Drop,
    ExplainSharing,
    Insert,
    Show,
    Statement,
    Update,
    parse,
)
from mayfly.cql.messages import SourceText, suggestion
from mayfly.cql.script_files import text_of
from mayfly.cql.statements import apply
from mayfly.cql.tokens import tokenize
from mayfly.display import counted
from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME, in_zone
from mayfly.plan.catalog import (
    ArchiveDefinition,
    Catalog,
    ColumnDefinition,
    Definition,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
    ViewDefinition,
)
from mayfly.plan.logical_operators import OutputKind
from mayfly.plan.user_aggregates import AggregateDefinition
from mayfly.runtime.answer import QueryAnswer
from mayfly.runtime.one_time_query import OneTimePlan, OneTimeSources
from mayfly.runtime.relation_log import Changing
from mayfly.runtime.session_tables import DeclaredTable
from mayfly.runtime.table_sources import SCAN, Keys, TableSource
from mayfly.serving.declared_files import FileStream, declared_rows
from mayfly.serving.pipeline_places import archives_of, checkpoint_of, is_pipeline_file
from mayfly.serving.pipeline_reader import PipelineReader
from mayfly.storage import Repository

if TYPE_CHECKING:
    from mayfly.physical.explain.explanation import Explanation
    from mayfly.physical.explain.sharing import Sharing
    from mayfly.runtime.one_time_explanation import OneTimeExplanation
    from mayfly.serving.stored_archive import StoredArchive

Outcome: TypeAlias = "QueryAnswer | Explanation | OneTimeExplanation | pa.Table | str"
"""An answer, a plan, a list, or a word about what was done."""


@dataclass(frozen=True)
class DeclaredQuery:
    """A query that is answered from files whenever it is read."""

    definition: QueryDefinition
    session: SqlSession

    kind = "query"
    streams = ()

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def columns(self) -> tuple[ColumnDefinition, ...]:
        schema = self.definition.plan.schema
        return tuple(
            ColumnDefinition(column.name, column.type, column.nullable) for column in schema
        )

    @cached_property
    def _plan(self) -> OneTimePlan:
        session = self.session
        relations = (DeclaredTable(changing) for changing in session.relations.values())
        return OneTimePlan.of(self.definition.text, relations, (), session.streams())

    def latest(self) -> int:
        return self._plan.instant(MIN_TIME)

    def rows(self, instant: int, columns: Sequence[str], keys: Keys) -> pa.Table:
        return self._plan.answer(instant).rows.select(list(columns))

    def access(self, keys: Keys) -> str:
        return SCAN

    def missing(self, instant: int) -> Iterator[str]:
        return iter(())


@dataclass
class SqlSession:
    """Tables to ask, and what statements have declared."""

    reader: PipelineReader | None = None
    archives: dict[str, StoredArchive] = field(default_factory=dict)
    folder: Path = field(default_factory=Path)
    """To which paths of declarations are relative."""
    catalog: Catalog = field(default_factory=Catalog)
    relations: dict[str, Changing] = field(default_factory=dict)
    as_of: int | None = None
    """The instant of answers; None: the latest."""

    @staticmethod
    def open(path: str | os.PathLike[str] | None = None) -> SqlSession:
        """Over a checkpoint, an archive, or a pipeline file and the checkpoint it may have."""
        if path is None:
            return SqlSession()
        if is_pipeline_file(path):
            session = SqlSession(folder=Path(path).resolve().parent)
            for statement in parse(text_of(Path(path)), name=os.fspath(path)):
                session.carry_out(statement)
            if Repository.exists(checkpoint_of(path)):
                session.reader = PipelineReader.open(checkpoint_of(path), archives_of(path))
            return session
        if Repository.open(path).current().properties.get("kind") == "archive":
            from mayfly.serving.stored_archive import StoredArchive

            name = Path(path).resolve().name
            return SqlSession(archives={name: StoredArchive.open(name, path)})
        return SqlSession(reader=PipelineReader.open(path))

    @property
    def zone(self) -> str:
        return "UTC" if self.reader is None else self.reader.zone

    def refresh(self) -> None:
        """Go on to the newest committed version."""
        if self.reader is not None:
            self.reader = self.reader.latest()

    def tables(self) -> list[TableSource]:
        """Everything that FROM can name without a window, each name once."""
        listed: list[TableSource] = [*self.archives.values()]
        if self.reader is not None:
            listed += self.reader.tables()
        listed += [DeclaredTable(changing) for changing in self.relations.values()]
        if self.reader is None:
            listed += [
                DeclaredQuery(query, self)
                for query in self.catalog.of_kind(QueryDefinition)
                if query.plan.kind is OutputKind.VIEW
            ]
        by_name: dict[str, TableSource] = {}
        for table in listed:
            by_name.setdefault(table.name.casefold(), table)
        return list(by_name.values())

    def streams(self) -> list[FileStream]:
        """The declared streams, to be read behind windows."""
        return [
            FileStream(stream, self.folder) for stream in self.catalog.of_kind(StreamDefinition)
        ]

    def execute(self, text: str) -> Outcome:
        """Carry out one statement."""
        with in_zone(self.zone):
            tokens = tokenize(SourceText(text))
            word = tokens[0].text.upper() if tokens else ""
            if word in ("SELECT", "(", "WITH"):
                return self._answer(text)
            if word == "EXPLAIN":
                return self._explained(text, text[tokens[0].end + 1 :].strip().rstrip(";"))
            statements = parse(text, self.catalog)
            for statement in statements:
                self._check_own(statement)
            return [self.carry_out(statement) for statement in statements][-1] if statements else ""

    def _check_own(self, statement: Statement) -> None:
        """Refuse to declare or change here what is read from the checkpoint."""
        match statement:
            case Create(definition=definition):
                name = definition.name
            case Drop():
                name = statement.name
            case Insert() | Update() | Delete():
                name = statement.relation
            case _:
                return
        if name.casefold() in self._read_from_checkpoint():
            raise InvalidSetting(
                f"{name} is read from the checkpoint, where this session changes nothing",
                "choose another name; or change the pipeline itself: mayfly control",
            )

    def _read_from_checkpoint(self) -> set[str]:
        if self.reader is None:
            return set()
        named = [*self.reader.tables(), *self.reader.unreadable()]
        return {entry.name.casefold() for entry in named}

    def carry_out(self, statement: Statement) -> Outcome:
        """What is declared or changed, for this session."""
        match statement:
            case Show(kind=kind):
                return self.listing(kind)
            case Create(definition=definition):
                if isinstance(definition, RelationDefinition):
                    changing = Changing(definition)
                    if definition.source is not None:
                        changing.load(declared_rows(definition, self.folder))
                    self.relations[definition.name.casefold()] = changing
            case Drop(name=name):
                self.relations.pop(name.casefold(), None)
            case Insert() | Update() | Delete():
                changing = self.relations[statement.relation.casefold()]
                changing.carry_out(statement, MIN_TIME)
                return f"{counted(changing.rows.num_rows, 'row')} in {statement.relation}"
            case _:
                return ""
        self.catalog = apply(self.catalog, statement)
        return "done"

    def listing(self, kind: str | None = None) -> pa.Table:
        """What there is, or what there is of a kind."""
        kinds = {"query": ("query", "view")}.get(kind or "", (kind,))
        return pa.Table.from_pylist(
            [
                {"name": name, "kind": what, "columns": _names(columns)}
                for name, what, columns in self._entries()
                if kind is None or what in kinds
            ],
            pa.schema([(field, pa.string()) for field in ("name", "kind", "columns")]),
        )

    def described(self, name: str) -> pa.Table:
        """The columns of what there is under a name, and their types."""
        places: dict[str, tuple[ColumnDefinition, ...]] = {}
        for entry, _, columns in self._entries():
            places.setdefault(entry.casefold(), columns)
        if name.casefold() not in places:
            raise InvalidSetting(f"there is no {name}", suggestion(name, places, "there are"))
        rows = [
            {"column": column.name, "type": str(column.type)} for column in places[name.casefold()]
        ]
        return pa.Table.from_pylist(rows)

    def _entries(self) -> list[tuple[str, str, tuple[ColumnDefinition, ...]]]:
        """Name, kind and columns of what there is."""
        entries = [(table.name, table.kind, table.columns) for table in self.tables()]
        entries += [(stream.name, "stream", stream.definition.columns) for stream in self.streams()]
        entries += [
            (view.name, "view", _columns(view)) for view in self.catalog.of_kind(ViewDefinition)
        ]
        if self.reader is not None:
            names = {name.casefold() for name, _, _ in entries}
            entries += [
                (other.name, other.kind, _columns(other))
                for other in self.reader.unreadable()
                if other.name.casefold() not in names
            ]
        return entries

    def _plan(self, text: str) -> OneTimePlan:
        others = () if self.reader is None else self.reader.unreadable()
        sending = (
            query
            for query in self.catalog
            if isinstance(query, QueryDefinition | ArchiveDefinition | ViewDefinition)
        )
        kept = () if self.reader is None else self.reader.kept_streams.values()
        streams = (*kept, *self.streams())
        sources = OneTimeSources.of(self.tables(), (*others, *sending), streams)
        if self.reader is None:
            return sources.plan(text)
        plan = sources.plan(text, synopses=self.reader.synopses)
        if plan.query.synopses and self.as_of is not None and not plan.shows(self.as_of):
            plan = sources.plan(text)
        return plan

    def _answer(self, text: str) -> QueryAnswer:
        plan = self._plan(text.strip().rstrip(";"))
        version = -1 if self.reader is None else self.reader.version
        latest = MIN_TIME if self.reader is None else self.reader.last_instant()
        instant = plan.instant(latest) if self.as_of is None else self.as_of
        if self.reader is not None:
            self.reader.check_age(plan, instant)
        return plan.answer(instant, version)

    def sharing(self) -> Sharing:
        """What the queries of the pipeline, or those declared here, share of panes."""
        # Here: to explain takes all operators.
        from mayfly.periodic.sharing.pane_covers import sharing_with_covers

        if self.reader is not None:
            plans = {name: view.plan for name, view in self.reader.views.items()}
            return sharing_with_covers(plans, self.reader.catalog)
        plans = {entry.name: entry.plan for entry in self.catalog.of_kind(QueryDefinition)}
        return sharing_with_covers(plans, self.catalog)

    def _explained(self, text: str, rest: str) -> Outcome:
        name = rest.removeprefix("QUERY ").strip()
        if rest.upper().split(" ")[0] == "SHARING" and self.catalog.lookup(name) is None:
            (statement,) = parse(text, self.catalog)
            assert isinstance(statement, ExplainSharing)
            return self.sharing().shown(statement.form)
        if self.reader is not None and name in self.reader.views:
            return self.reader.explain(name)
        entry = self.catalog.lookup(name)
        if isinstance(entry, QueryDefinition | ArchiveDefinition | ViewDefinition):
            rest = entry.text
        elif name.isidentifier():
            raise CqlError(f"there is no query {name}", "EXPLAIN SELECT …, or EXPLAIN and its name")
        return self._plan(rest).explain()


def _columns(entry: Definition) -> tuple[ColumnDefinition, ...]:
    if isinstance(entry, StreamDefinition | RelationDefinition):
        return entry.columns
    if isinstance(entry, AggregateDefinition):
        return tuple(ColumnDefinition(str(kind), kind) for kind in entry.takes)
    return tuple(
        ColumnDefinition(column.name, column.type, column.nullable) for column in entry.plan.schema
    )


def _names(columns: tuple[ColumnDefinition, ...]) -> str:
    return ", ".join(column.name for column in columns)
