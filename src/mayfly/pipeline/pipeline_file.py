"""A file of statements as a pipeline: what is checked before Spark is started."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mayfly.cql import Create, Delete, Drop, Insert, Statement, Update, catalog_after, parse
from mayfly.cql.script_files import text_of
from mayfly.errors import InvalidSetting
from mayfly.lifetime import in_zone
from mayfly.optimizer.optimize import optimize
from mayfly.pipeline.archive_checks import is_plain
from mayfly.pipeline.declared_catalog import check_name, check_query_name
from mayfly.pipeline.declared_folders import check_loops, check_writers
from mayfly.pipeline.sink_checks import check_dead_letters, check_sink
from mayfly.pipeline.source_checks import check_relation, check_stream, python_file
from mayfly.pipeline.source_options import FILES
from mayfly.pipeline.spark_jars import check_connectors
from mayfly.plan.catalog import (
    ArchiveDefinition,
    Catalog,
    Connector,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
)
from mayfly.plan.logical_operators import Output
from mayfly.plan.user_aggregates import AggregateDefinition

if TYPE_CHECKING:
    from mayfly.physical.program import Program

Registered = QueryDefinition | ArchiveDefinition

_IGNORED = {"Show": "SHOW", "Explain": "EXPLAIN", "ExplainSharing": "EXPLAIN SHARING"}


@dataclass(frozen=True)
class PipelineFile:
    """The statements of a file, and the folder to which its paths are relative."""

    file: Path
    statements: tuple[Statement, ...]
    allow_python: bool = False

    @staticmethod
    def read(file: Path, *, allow_python: bool = False, zone: str = "UTC") -> PipelineFile:
        """The file, refused if its queries could not run; its times without a zone are of this
        one."""
        with in_zone(zone):
            statements = tuple(parse(text_of(file), name=str(file)))
            pipeline = PipelineFile(file, statements, allow_python)
            pipeline._check_sources()
            pipeline._check_queries()
        return pipeline

    @staticmethod
    def before_spark(
        file: Path, settings: Mapping[str, str], *, allow_python: bool = False
    ) -> PipelineFile:
        """Read a file for a Spark that is to be started with these settings."""
        zone = settings.get("spark.sql.session.timeZone", "UTC")
        pipeline = PipelineFile.read(file, allow_python=allow_python, zone=zone)
        created = [
            statement.definition
            for statement in pipeline.statements
            if isinstance(statement, Create)
        ]
        check_connectors(
            (
                definition
                for definition in created
                if isinstance(definition, StreamDefinition | RelationDefinition)
            ),
            settings,
        )
        return pipeline

    @property
    def folder(self) -> Path:
        return self.file.resolve().parent

    @property
    def python(self) -> Path | None:
        """The folder that sources written in Python come from, if they are allowed."""
        return self.folder if self.allow_python else None

    @property
    def queries(self) -> dict[str, Registered]:
        """What is to run."""
        definitions: dict[str, Registered] = {}
        for statement in self.statements:
            match statement:
                case Create(definition=QueryDefinition() | ArchiveDefinition() as definition):
                    definitions[definition.name] = definition
                case Drop(name=name):
                    definitions.pop(name, None)
        return definitions

    @property
    def passed_over(self) -> tuple[str, ...]:
        """What the file says and no command carries out, in words."""
        notes = []
        carried_out = Create | Drop | Insert | Update | Delete
        for statement in self.statements:
            if not isinstance(statement, carried_out):
                kind = type(statement).__name__
                words = _IGNORED.get(kind, "a SELECT on its own")
                notes.append(f"line {statement.position.line}: {words} is ignored")
        return tuple(notes)

    def parquet_folder(self, query: Registered) -> str | None:
        """Where the changes of a query go as files, if they do."""
        sink = query.sink if isinstance(query, QueryDefinition) else None
        if sink is None or sink.format != "parquet":
            return None
        return os.path.normpath(self.folder / str(sink.path))

    def _check_sources(self) -> None:
        for statement in self.statements:
            match statement:
                case Create(definition=StreamDefinition() as definition):
                    check_name(definition.name, definition.kind)
                    check_stream(definition, self.folder, self.python)
                case Create(definition=RelationDefinition() as definition):
                    check_name(definition.name, definition.kind)
                    check_relation(definition, self.folder)
                case Create(definition=AggregateDefinition() as definition):
                    owner = f"the aggregate {definition.name}"
                    python_file(owner, definition.origin, self.python)

    def programs(self) -> dict[str, Program]:
        """What would run, by query."""
        catalog = catalog_after(list(self.statements))
        return {name: _program(query, catalog) for name, query in self.queries.items()}

    def _check_queries(self) -> None:
        catalog = catalog_after(list(self.statements))
        queries = self.queries
        if not queries:
            raise InvalidSetting(
                f"{self.file.name} has no query to run", "add CREATE QUERY name AS SELECT …"
            )
        for query in queries.values():
            check_query_name(query.name)
            if isinstance(query, QueryDefinition):
                check_sink(query)
            else:
                check_dead_letters(query)
                _check_archive(query, catalog)
        folders = ((name, self.parquet_folder(definition)) for name, definition in queries.items())
        written = check_writers((name, folder) for name, folder in folders if folder is not None)
        streams = list(catalog.of_kind(StreamDefinition))
        letters = {
            stream.name: str(self.folder / str(stream.dead_letters.path))
            for stream in streams
            if stream.dead_letters is not None
        }
        check_loops(written, {**letters, **self.letters}, self._files(streams))

    @property
    def letters(self) -> dict[str, str]:
        """Per archive that says so: where rows go that it leaves out."""
        return {
            archive.name: str(self.folder / str(archive.dead_letters.path))
            for archive in self.queries.values()
            if isinstance(archive, ArchiveDefinition) and archive.dead_letters is not None
        }

    def _files(self, streams: Iterable[StreamDefinition]) -> Mapping[str, str]:
        """Per stream that reads files: from where."""
        read: dict[str, Connector | None] = {stream.name: stream.source for stream in streams}
        return {
            name: str((self.folder / source.path).resolve())
            for name, source in read.items()
            if source is not None
            and source.format in FILES
            and source.path
            and "://" not in source.path
        }


def _check_archive(archive: ArchiveDefinition, catalog: Catalog) -> None:
    if not is_plain(archive, optimize(archive.plan), catalog):
        from mayfly.pipeline.archive_settings import check_declaration  # loads archives

        check_declaration(archive, _program(archive, catalog))


def _program(query: Registered, catalog: Catalog) -> Program:
    from mayfly.physical.compiler import compile_plan  # loads the kernels
    from mayfly.physical.shared_program import canonical

    chosen = optimize(query.plan).chosen
    assert isinstance(chosen.plan, Output)
    return compile_plan(canonical(chosen.plan), catalog, strict=chosen.strict)
