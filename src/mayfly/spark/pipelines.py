"""A file of statements as a running pipeline: streams from connectors, queries to sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from mayfly.cql import Create, Delete, Drop, Insert, Update, parse
from mayfly.cql.files import text_of
from mayfly.errors import InvalidSetting
from mayfly.lifetime import in_zone
from mayfly.plan.catalog import (
    ArchiveDefinition,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
)
from mayfly.queries import Queries
from mayfly.session import Session
from mayfly.spark.archives import SparkArchive
from mayfly.spark.connectors import declare_stream, relation_rows
from mayfly.spark.program_results import Results
from mayfly.spark.query_archives import declared_archive
from mayfly.spark.query_run import QueryRun
from mayfly.spark.sinks import Console, ParquetFiles, Sink
from mayfly.storage.files import local_root

ARCHIVES = "archives"
"""The folder beside a pipeline file in which the archives it declares are kept."""


@dataclass(frozen=True)
class Pipeline:
    """Everything a file declares, ready to start."""

    session: Session
    queries: tuple[QueryDefinition | ArchiveDefinition, ...]
    folder: Path
    passed_over: tuple[str, ...] = ()
    """What the file says and nobody does or has, in words."""

    def start(
        self, checkpoint: Path, *, available_now: bool = False, **settings: Any
    ) -> dict[str, QueryRun]:
        """Start all queries as one, or continue them from the checkpoint; a handle for each."""
        queries = self._together()
        return queries.start(
            checkpoint,
            sinks={one.name: self._sinks(one) for one in self.queries},
            archives=self.archives(queries.results()),
            available_now=available_now,
            **settings,
        )

    def archives(self, results: Mapping[str, Results]) -> dict[str, SparkArchive]:
        """The archives that the file declares, made where they are not there yet."""
        return {
            one.name: declared_archive(
                self.session, one, results[one.name], self.folder / ARCHIVES / one.name
            )
            for one in self.queries
            if isinstance(one, ArchiveDefinition)
        }

    def open(self, checkpoint: Path) -> dict[str, QueryRun]:
        """Handles on the checkpoint for reading, without starting anything."""
        return self._together().open(checkpoint)

    def _together(self) -> Queries:
        return Queries(self.session, {one.name: self.session.query_of(one) for one in self.queries})

    def _sinks(self, query: QueryDefinition | ArchiveDefinition) -> list[Sink]:
        sink = query.sink if isinstance(query, QueryDefinition) else None
        if sink is None:
            return []
        if sink.options:
            raise InvalidSetting(
                f"the query {query.name} goes to {sink.format} with {sink.options[0][0]}, "
                "which nobody would heed",
                f"leave the options out: TO {sink.format}({sink.path or ''!r})",
            )
        if sink.format == "parquet" and sink.path:
            return [ParquetFiles(str(local_root(self.folder / sink.path)))]
        if sink.format == "console":
            return [Console()]
        raise InvalidSetting(
            f"the query {query.name} goes to {sink.format}, which pipelines cannot write",
            "use TO parquet('folder') or TO console(), or start it from Python with a callback",
        )


def load_pipeline(spark: SparkSession, file: Path) -> Pipeline:
    """Carry out the statements of a file; paths in it are relative to the file."""
    session, queries = Session(spark), dict[str, QueryDefinition | ArchiveDefinition]()
    folder, passed_over = file.resolve().parent, list[str]()
    with in_zone(session.zone):
        statements = parse(text_of(file), name=file.name)
    for statement in statements:
        match statement:
            case Create(definition=StreamDefinition() as definition):
                passed_over += declare_stream(session, definition, folder)
            case Create(definition=RelationDefinition() as definition):
                session.add_relation(definition, relation_rows(session.spark, definition, folder))
            case Create(definition=QueryDefinition() | ArchiveDefinition() as definition):
                queries[definition.name] = definition
            case Insert() | Update() | Delete():
                session.change(statement)
            case Drop(name=name):
                queries.pop(name, None)
                session.forget(name)
            case _:
                kind = type(statement).__name__
                words = {"Show": "SHOW", "Explain": "EXPLAIN"}.get(kind, "a SELECT on its own")
                passed_over.append(f"line {statement.position.line}: {words} is passed over")
    for one in queries.values():
        if isinstance(one, QueryDefinition) and (one.periodic or one.plan.isolation):
            word = "PERIODIC" if one.periodic else "ISOLATION"
            passed_over.append(f"query {one.name}: {word} is not carried out yet")
    if not queries:
        raise InvalidSetting(
            f"{file.name} has no query to run", "add CREATE QUERY name AS SELECT …"
        )
    return Pipeline(session, tuple(queries.values()), folder, tuple(passed_over))
