"""A file of statements as a running pipeline: streams from connectors, queries to sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from pyspark.sql import SparkSession

from mayfly.cql import Create, Delete, Drop, Insert, Update
from mayfly.display import html_table, one_line
from mayfly.keywords import known_settings
from mayfly.pipeline.pipeline_file import PipelineFile, Registered
from mayfly.plan.catalog import (
    ArchiveDefinition,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
    ViewDefinition,
)
from mayfly.plan.user_aggregates import AggregateDefinition
from mayfly.serving.pipeline_places import ARCHIVES
from mayfly.spark.api.queries import Queries
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.archive.archives import SparkArchive
from mayfly.spark.archive.query_feeds import open_or_create_archive
from mayfly.spark.io.sinks import Console, ParquetFiles, Sink
from mayfly.spark.io.sources import declare_stream, relation_rows
from mayfly.spark.io.users_code import loaded
from mayfly.spark.stream.results import Results
from mayfly.spark.stream.start import StartSettings


@dataclass(frozen=True)
class Pipeline:
    """Everything a file declares, ready to start."""

    session: Session
    declared: PipelineFile
    passed_over: tuple[str, ...] = ()
    """What the file says and has no effect, in words."""

    def __repr__(self) -> str:
        return one_line(self, self.declared.file, *(query.name for query in self.queries))

    def _repr_html_(self) -> str:
        facts = {query.name: query.kind for query in self.queries}
        return html_table(str(self.declared.file), facts)

    @property
    def queries(self) -> tuple[Registered, ...]:
        return tuple(self.declared.queries.values())

    @known_settings(StartSettings)
    def start(
        self, checkpoint: Path, *, resumed: bool = False, **settings: Unpack[StartSettings]
    ) -> dict[str, QueryRun]:
        """Start all queries as one, or continue them from the checkpoint; a handle for each.

        The settings are those of ``Queries.start``.
        """
        queries = self._together()
        return queries.start(
            checkpoint,
            sinks={query.name: self._sinks(query) for query in self.queries},
            archives=self.archives(queries.results()),
            resumed=resumed,
            **settings,
        )

    def archives(self, results: Mapping[str, Results]) -> dict[str, SparkArchive]:
        """The archives that the file declares, made where they are not there yet."""
        return {
            query.name: open_or_create_archive(
                self.session,
                query,
                results[query.name],
                self.declared.folder / ARCHIVES / query.name,
            )
            for query in self.queries
            if isinstance(query, ArchiveDefinition)
        }

    def open(self, checkpoint: Path) -> dict[str, QueryRun]:
        """Handles on the checkpoint for reading, without starting anything."""
        return self._together().open(checkpoint)

    def _together(self) -> Queries:
        queries = {query.name: self.session.query_of(query) for query in self.queries}
        return Queries(self.session, queries, letters=self.declared.letters)

    def _sinks(self, query: Registered) -> list[Sink]:
        if query.plan.serve is not None:
            return []  # its answers are made, and written, by a server
        if (folder := self.declared.parquet_folder(query)) is not None:
            return [ParquetFiles(folder)]
        console = isinstance(query, QueryDefinition) and query.sink is not None
        return [Console()] if console else []


def load_pipeline(spark: SparkSession, file: Path, *, allow_python: bool = False) -> Pipeline:
    """Carry out the statements of a file; paths in it are relative to the file.

    With ``allow_python`` its streams may run Python files of its folder as sources.
    """
    zone = Session(spark).zone
    return carry_out(spark, PipelineFile.read(file, allow_python=allow_python, zone=zone))


def carry_out(spark: SparkSession, declared: PipelineFile) -> Pipeline:
    """Declare on Spark what a file declares."""
    session, passed_over = Session(spark, allow_python=declared.python), list[str]()
    folder = declared.folder
    for statement in declared.statements:
        match statement:
            case Create(definition=StreamDefinition() as definition):
                passed_over += declare_stream(session, definition, folder)
            case Create(definition=RelationDefinition() as definition):
                session.add_relation(definition, relation_rows(session.spark, definition, folder))
            case Create(definition=AggregateDefinition() as definition):
                session.add_aggregate(loaded(session, definition))
            case Create(definition=ViewDefinition() as definition):
                session.add_view(definition)
            case Insert() | Update() | Delete():
                session.change(statement)
            case Drop(name=name):
                session.forget(name)
    return Pipeline(session, declared, (*passed_over, *declared.passed_over))
