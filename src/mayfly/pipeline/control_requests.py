"""Commands for a pipeline, checked before they are written to its control log.

What is wrong with a command is said to its sender, as far as the checkpoint can tell. Beside the
log itself (control_log.py), since this needs the language and its plans.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mayfly.checkpoint.result_folders import IDENTITY, check_owner
from mayfly.checkpoint.source_log import ORIGINS, folder_of
from mayfly.cql import Create, Delete, Insert, Statement, Update, bind_query, parse
from mayfly.errors import InvalidSetting, MayflyError
from mayfly.optimizer.optimize import optimize
from mayfly.physical.concerns import foreseen_warnings
from mayfly.pipeline.control_log import (
    ADD,
    CHANGE,
    DECLARED,
    DROP,
    DROP_RELATION,
    DROP_STREAM,
    RELATION,
    STREAM,
    Command,
    Controlled,
    ControlLog,
)
from mayfly.pipeline.declared_catalog import check_name, declared_catalog
from mayfly.pipeline.sink_checks import check_changes_of
from mayfly.pipeline.source_checks import check_source
from mayfly.plan.catalog import Catalog, RelationDefinition, StreamDefinition
from mayfly.plan.logical_operators import Output, RelationScan, StreamScan
from mayfly.storage import Manifest
from mayfly.storage.store import local_root

Change = Insert | Update | Delete


@dataclass(frozen=True)
class Expected:
    """What there will be when everything asked for is done."""

    catalog: Catalog
    readers: Mapping[str, tuple[str, ...]]
    """Per query: the streams and relations it reads."""

    def after(self, command: Command) -> Expected:
        """What there will be after one command more."""
        others = {name: sources for name, sources in self.readers.items() if name != command.name}
        if command.kind == ADD:
            own = sources_read(command.text, self.catalog)
            return replace(self, readers={**others, command.name: own})
        if command.kind == DROP:
            return replace(self, readers=others)
        if command.kind == STREAM:
            return replace(self, catalog=self.catalog.declare(stream_of(command.text)))
        if command.kind == RELATION:
            return replace(self, catalog=self.catalog.declare(relation_of(command.text)))
        if command.kind == DROP_RELATION:
            return replace(self, catalog=self.catalog.drop(command.name))
        return self


@dataclass(frozen=True, repr=False)
class Control(ControlLog):
    """A checkpoint whose pipeline is to carry out something, from any process, without Spark."""

    def add(self, name: str, cql: str, *, parquet: str | os.PathLike[str] | None = None) -> Command:
        """Ask for one more query; its changes go to files under ``parquet`` if that is given."""
        expected = self.expected()
        check_addition(name, cql, set(expected.readers), expected.catalog)
        check_changes_of(name, bind_query(cql, expected.catalog), parquet)
        folder = None if parquet is None else os.path.normpath(local_root(parquet))
        manifest = self.repository.current()
        check_closed_keys(name, cql, expected.catalog, manifest)
        taken = Controlled.of(manifest).folders
        folders = {f: q for f, q in taken.items() if q in expected.readers}
        check_folder(folder, folders, manifest)
        return self._append(ADD, name=name, text=cql, parquet=folder)

    def drop(self, name: str) -> Command:
        """Ask for a query to leave, with its state and its history."""
        check_drop(name, set(self.expected().readers))
        return self._append(DROP, name=name)

    def stream(self, text: str) -> Command:
        """Ask for one more stream, by its CREATE STREAM statement; it is read from its beginning
        on when a query needs it. Paths are relative to the folder this process is in."""
        return self._declare(STREAM, stream_of(text), text)

    def drop_stream(self, name: str) -> Command:
        """Ask for a stream to leave that no query reads any more."""
        expected = self.expected()
        check_stream_drop(name, expected.catalog, expected.readers)
        return self._append(DROP_STREAM, name=name)

    def relation(self, text: str) -> Command:
        """Ask for one more relation or NRR, by its CREATE statement. Paths are relative to the
        folder this process is in."""
        return self._declare(RELATION, relation_of(text), text)

    def _declare(
        self, kind: str, definition: StreamDefinition | RelationDefinition, text: str
    ) -> Command:
        check_name(definition.name, definition.kind)
        check_source(definition)
        self.expected().catalog.declare(definition)
        folder = os.fspath(local_root("."))
        return self._append(kind, name=definition.name, text=text, folder=folder)

    def drop_relation(self, name: str) -> Command:
        """Ask for a relation or NRR to leave that was added so, and that no query reads."""
        expected, manifest = self.expected(), self.repository.current()
        asked = [command.name for command in self.pending() if command.kind == RELATION]
        added = {*Controlled.of(manifest).relations, *asked}
        check_relation_drop(name, added, expected.catalog, expected.readers)
        return self._append(DROP_RELATION, name=name)

    def change(self, text: str) -> Command:
        """Ask for an INSERT, UPDATE or DELETE; without AT it takes effect with the next batch."""
        change_of(text, self.expected().catalog)
        return self._append(CHANGE, text=text)

    def catalog(self, manifest: Manifest) -> Catalog:
        """The streams and relations that the pipeline has declared."""
        declared = manifest.properties.get(DECLARED)
        if declared is None:
            raise InvalidSetting(
                f"{self.repository.directory.address} does not say what the pipeline's streams are",
                "start the pipeline once with this version of Mayfly",
            )
        return declared_catalog(declared)

    def expected(self) -> Expected:
        """What there will be when everything asked for is done, as far as it can be done."""
        manifest = self.repository.current()
        catalog = self.catalog(manifest)
        readers = {
            name: (*query.get("streams", ()), *relations_read(query.get("text"), catalog))
            for name, query in manifest.properties["queries"].items()
        }
        state = Expected(catalog, readers)
        for command in self.commands(Controlled.of(manifest).applied):
            with suppress(MayflyError):
                state = state.after(command)
        return state


def check_addition(name: str, cql: str, names: set[str], catalog: Catalog) -> None:
    """Refuse a query that could not be run beside the existing ones."""
    check_name(name, "query")
    if name in names:
        raise InvalidSetting(
            f"there is already a query {name}", "choose another name, or drop that one first"
        )
    if not streams_read(cql, catalog):
        raise InvalidSetting(f"the query {name} reads no stream", "name a stream with a window")


def check_folder(folder: str | None, taken: Mapping[str, str], manifest: Manifest) -> None:
    """Refuse a folder for Parquet files that another query or checkpoint writes to."""
    if folder is None:
        return
    if folder in taken:
        raise InvalidSetting(
            f"the changes of {taken[folder]} go to {folder} already", "choose another folder"
        )
    read = {
        folder_of(origin): name for name, origin in manifest.properties.get(ORIGINS, {}).items()
    }
    if (stream := read.get(str(Path(folder).resolve()))) is not None:
        raise InvalidSetting(
            f"the stream {stream} reads from {folder}",
            "choose another folder: what is written there would be read as new rows",
        )
    if source := manifest.properties.get(IDENTITY):
        check_owner(Path(folder), source)


def streams_read(cql: str, catalog: Catalog) -> tuple[str, ...]:
    """The streams that a query over the catalog reads; refused if it could not run."""
    optimized = optimize(bind_query(cql, catalog))
    plan = optimized.plan
    assert isinstance(plan, Output)
    if foreseen_warnings(optimized, catalog) is None:
        from mayfly.physical.compiler import compile_plan  # loads the kernels

        compile_plan(plan, catalog)
    scans = (node for node in plan.walk() if isinstance(node, StreamScan))
    return tuple(sorted({scan.stream for scan in scans}))


def check_closed_keys(name: str, cql: str, catalog: Catalog, manifest: Manifest) -> None:
    """Refuse a query over a stream that closes keys and of which batches have brought rows."""
    closing = {s.name: s for s in catalog.of_kind(StreamDefinition) if s.punctuation is not None}
    if not closing:
        return
    from mayfly.runtime.clock import Clocks  # these load numpy and the kernels
    from mayfly.runtime.closed_keys import check_newcomer

    stored = manifest.properties
    read = Clocks.from_json(stored["clocks"]).streams if stored.get("batch", -1) >= 0 else ()
    for stream in streams_read(cql, catalog):
        if stream in read and stream in closing:
            check_newcomer(name, stream, closing[stream])


def relations_read(cql: str | None, catalog: Catalog) -> tuple[str, ...]:
    """The relations that a query over the catalog reads; none if it cannot be bound."""
    with suppress(MayflyError):
        nodes = bind_query(cql, catalog).walk() if cql else ()
        return tuple(
            dict.fromkeys(node.relation for node in nodes if isinstance(node, RelationScan))
        )
    return ()


def sources_read(cql: str, catalog: Catalog) -> tuple[str, ...]:
    """The streams and relations that a query over the catalog reads."""
    return (*streams_read(cql, catalog), *relations_read(cql, catalog))


def check_drop(name: str, names: set[str]) -> None:
    if name not in names:
        listing = ", ".join(sorted(names))
        raise InvalidSetting(f"there is no query {name}", f"the queries are: {listing}")
    if len(names) == 1:
        raise InvalidSetting(f"{name} is the only query", "stop the pipeline instead")


def check_stream_drop(name: str, catalog: Catalog, readers: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse to drop a stream that is not there or that some query reads."""
    names = [stream.name for stream in catalog.of_kind(StreamDefinition)]
    if name not in names:
        raise InvalidSetting(f"there is no stream {name}", f"the streams are: {', '.join(names)}")
    reading = sorted(query for query, streams in readers.items() if name in streams)
    if reading:
        raise InvalidSetting(
            f"the stream {name} is still read by {', '.join(reading)}", "drop its readers first"
        )


def check_relation_drop(
    name: str, added: Collection[str], catalog: Catalog, readers: Mapping[str, tuple[str, ...]]
) -> None:
    """Refuse to drop a relation that is not there, that the program declares or a query reads."""
    names = [relation.name for relation in catalog.of_kind(RelationDefinition)]
    if name not in names:
        listing = ", ".join(names) or "none"
        raise InvalidSetting(f"there is no relation {name}", f"the relations are: {listing}")
    if name not in added:
        raise InvalidSetting(
            f"the relation {name} is declared by the program", "take it out of the program"
        )
    reading = sorted(query for query, sources in readers.items() if name in sources)
    if reading:
        raise InvalidSetting(
            f"the relation {name} is still read by {', '.join(reading)}", "drop its readers first"
        )


def relation_of(text: str) -> RelationDefinition:
    """The one relation or NRR that a text declares."""
    match parse(text):
        case [Create(definition=RelationDefinition() as definition)]:
            return definition
    raise InvalidSetting(
        f"not the declaration of a relation: {text}", "give one CREATE RELATION or CREATE NRR …"
    )


def stream_of(text: str) -> StreamDefinition:
    """The one stream that a text declares, with the source it comes from."""
    statements: list[Statement] = parse(text)
    match statements:
        case [Create(definition=StreamDefinition(keep=int(), name=name)), *_]:
            raise InvalidSetting(
                f"the stream {name} has KEEP, which a command cannot carry out",
                f"leave it out, and add a query: mayfly control add CHECKPOINT kept_{name} "
                f"'SELECT * FROM {name} [RANGE …]'",
            )
        case [Create(definition=StreamDefinition() as definition)]:
            if definition.source is not None:
                return definition
            raise InvalidSetting(
                f"the stream {definition.name} has no source",
                "add FROM parquet('folder'), json, csv, rate, socket or kafka to its declaration",
            )
    raise InvalidSetting(
        f"not the declaration of a stream: {text}", "give one CREATE STREAM … FROM … statement"
    )


def change_of(text: str, catalog: Catalog) -> Change:
    """The one change of a relation that a text asks for."""
    statements: list[Statement] = parse(text, catalog)
    if len(statements) != 1 or not isinstance(statements[0], Insert | Update | Delete):
        raise InvalidSetting(
            f"not a change of a relation: {text}",
            "give one INSERT INTO, UPDATE or DELETE FROM statement",
        )
    return statements[0]
