"""The control log of a checkpoint: what other processes ask of the pipeline that runs on it.

Idea: a command is a file ``control/<number>.json`` that appears whole under the next free number,
so commands have an order and none is lost. The driver applies them in that order. How far it got,
what became of each, and what they add up to, is a property of the manifest that also holds their
effects. Invariant: each command is applied once, whoever dies meanwhile. What is wrong with a
command is told to the one who asks, before it is written, as far as the checkpoint can tell.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mayfly.checkpoint.result_folders import IDENTITY, check_owner
from mayfly.checkpoint.source_log import ORIGINS, folder_of
from mayfly.cql import Create, Delete, Insert, Statement, Update, bind_query, parse
from mayfly.errors import CorruptFile, InvalidSetting, MayflyError
from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.physical.shared_program import streams_of
from mayfly.pipeline.connectors import check_source
from mayfly.pipeline.declared_catalog import check_name, declared_catalog
from mayfly.plan.catalog import Catalog, RelationDefinition, StreamDefinition
from mayfly.plan.logical import Output, RelationScan
from mayfly.storage import Directory, Manifest, Repository
from mayfly.storage.sealed_files import read_json, seal_json
from mayfly.storage.store import absolute_address, local_root

CONTROL, DECLARED = "control", "declared"
ADD, DROP, CHANGE, STOP = "add", "drop", "change", "stop"
STREAM, DROP_STREAM = "stream", "drop-stream"
RELATION, DROP_RELATION = "relation", "drop-relation"
RENEWING = (ADD, DROP, STREAM, DROP_STREAM, RELATION, DROP_RELATION)
"""After these the queries are started anew."""
_SAYING = {
    ADD: ("name", "text"), DROP: ("name",),
    STREAM: ("name", "text"), DROP_STREAM: ("name",),
    RELATION: ("name", "text"), DROP_RELATION: ("name",),
    CHANGE: ("text",), STOP: (),
}  # fmt: skip
"""What each command must say."""
OPTIONAL = ("parquet", "folder")
"""What a command need not say."""
REMEMBERED = 100
"""So many outcomes are kept."""
_NUMBER = re.compile(rf"^{CONTROL}/(\d{{12}})\.json$")
Change = Insert | Update | Delete


@dataclass(frozen=True)
class Command:
    """One thing that is asked for: a query, a stream or a relation to add or drop, a change of a
    relation, or to stop."""

    number: int
    kind: str
    name: str = ""
    text: str = ""
    parquet: str | None = None
    folder: str | None = None
    """To which paths in the text are relative."""

    def __str__(self) -> str:
        """Every line of a text behind the first is set off, for a comment ends with its line."""
        words = [self.kind, self.name, "\n\t".join(self.text.strip().splitlines())]
        return " ".join(word for word in words if word)


_PARTS = {part.name for part in fields(Command)} - {"number"}


@dataclass(frozen=True)
class Controlled:
    """What the commands applied so far add up to."""

    applied: int = 0
    queries: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """Added by commands: text, and the folder of a Parquet sink."""
    dropped: tuple[str, ...] = ()
    """Queries the program still names; others may have been added under their names."""
    streams: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """Declared by commands: text, and the folder to which its paths are relative."""
    relations: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """Likewise."""
    changes: tuple[Mapping[str, Any], ...] = ()
    """Of relations: the text, and when it takes effect."""
    outcomes: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(manifest: Manifest) -> Controlled:
        stored = manifest.properties.get(CONTROL)
        if stored is None:
            return Controlled()
        lists = {"dropped": tuple(stored["dropped"]), "changes": tuple(stored["changes"])}
        return Controlled(**{**stored, **lists})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def folders(self) -> dict[str, str]:
        """Where queries that were added write Parquet files, and which."""
        return {query["parquet"]: name for name, query in self.queries.items() if query["parquet"]}

    def done(self, command: Command, outcome: str = "done") -> Controlled:
        outcomes = {**self.outcomes, str(command.number): outcome}
        kept = dict(sorted(outcomes.items(), key=lambda entry: int(entry[0]))[-REMEMBERED:])
        return replace(self, applied=command.number, outcomes=kept)

    def with_query(self, command: Command) -> Controlled:
        added = {**self.queries, command.name: {"text": command.text, "parquet": command.parquet}}
        return replace(self, queries=added)

    def without_query(self, name: str) -> Controlled:
        if name in self.queries:
            return replace(
                self, queries={query: kept for query, kept in self.queries.items() if query != name}
            )
        return replace(self, dropped=(*self.dropped, name))

    def with_stream(self, command: Command) -> Controlled:
        declared = {"text": command.text, "folder": command.folder}
        return replace(self, streams={**self.streams, command.name: declared})

    def without_stream(self, name: str) -> Controlled:
        left = {stream: kept for stream, kept in self.streams.items() if stream != name}
        return replace(self, streams=left)

    def with_relation(self, command: Command) -> Controlled:
        declared = {"text": command.text, "folder": command.folder}
        return replace(self, relations={**self.relations, command.name: declared})

    def without_relation(self, name: str, catalog: Catalog) -> Controlled:
        """Nor its changes; the catalog still knows it."""
        left = {relation: kept for relation, kept in self.relations.items() if relation != name}
        changes = tuple(
            change for change in self.changes if change_of(change["text"], catalog).relation != name
        )
        return replace(self, relations=left, changes=changes)


@dataclass(frozen=True)
class Expected:
    """What there will be when everything asked for is done."""

    catalog: Catalog
    readers: Mapping[str, tuple[str, ...]]
    """Per query: the streams and relations it reads."""

    def after(self, command: Command) -> Expected:
        """The same after one command more."""
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


@dataclass(frozen=True)
class Control:
    """A checkpoint whose pipeline is to be told something, from any process, without Spark."""

    repository: Repository

    @staticmethod
    def of(checkpoint: str | os.PathLike[str]) -> Control:
        root = absolute_address(checkpoint)
        if not Repository.exists(root):
            raise InvalidSetting(f"there is no checkpoint at {root}", "start the pipeline first")
        return Control(Repository.open(root))

    def add(self, name: str, cql: str, *, parquet: str | os.PathLike[str] | None = None) -> Command:
        """Ask for one more query; its changes go to files under ``parquet`` if that is given."""
        expected = self.expected()
        check_addition(name, cql, set(expected.readers), expected.catalog)
        folder = None if parquet is None else os.path.normpath(local_root(parquet))
        manifest = self.repository.current()
        taken = Controlled.of(manifest).folders
        folders = {f: q for f, q in taken.items() if q in expected.readers}
        check_folder(folder, folders, manifest)
        return self._written(ADD, name=name, text=cql, parquet=folder)

    def drop(self, name: str) -> Command:
        """Ask for a query to leave, with its state and its history."""
        check_drop(name, set(self.expected().readers))
        return self._written(DROP, name=name)

    def stream(self, text: str) -> Command:
        """Ask for one more stream, by its CREATE STREAM statement; it is read from its beginning
        on when a query needs it. Paths are relative to the folder this process is in."""
        definition = stream_of(text)
        check_name(definition.name, definition.kind)
        check_source(definition)
        self.expected().catalog.declare(definition)
        folder = os.fspath(local_root("."))
        return self._written(STREAM, name=definition.name, text=text, folder=folder)

    def drop_stream(self, name: str) -> Command:
        """Ask for a stream to leave that no query reads any more."""
        expected = self.expected()
        check_stream_drop(name, expected.catalog, expected.readers)
        return self._written(DROP_STREAM, name=name)

    def relation(self, text: str) -> Command:
        """Ask for one more relation or NRR, by its CREATE statement. Paths are relative to the
        folder this process is in."""
        definition = relation_of(text)
        check_name(definition.name, definition.kind)
        check_source(definition)
        self.expected().catalog.declare(definition)
        folder = os.fspath(local_root("."))
        return self._written(RELATION, name=definition.name, text=text, folder=folder)

    def drop_relation(self, name: str) -> Command:
        """Ask for a relation or NRR to leave that was added so, and that no query reads."""
        expected, manifest = self.expected(), self.repository.current()
        asked = [command.name for command in self.pending() if command.kind == RELATION]
        added = {*Controlled.of(manifest).relations, *asked}
        check_relation_drop(name, added, expected.catalog, expected.readers)
        return self._written(DROP_RELATION, name=name)

    def change(self, text: str) -> Command:
        """Ask for an INSERT, UPDATE or DELETE; without AT it takes effect with the next batch."""
        change_of(text, self.expected().catalog)
        return self._written(CHANGE, text=text)

    def stop(self) -> Command:
        """Ask the pipeline to stop after the running batch; a later start is not stopped."""
        return self._written(STOP)

    def commands(self, after: int = 0) -> list[Command]:
        """What was asked for, in order."""
        directory = self.repository.directory
        matches = [_NUMBER.match(name) for name in directory.names(CONTROL)]
        pairs = [(int(match[1]), match[0]) for match in matches if match and int(match[1]) > after]
        return [_command(directory, number, name) for number, name in sorted(pairs)]

    def pending(self) -> list[Command]:
        """What was asked for and not applied yet."""
        return self.commands(Controlled.of(self.repository.current()).applied)

    def outcome(self, command: Command | int) -> str | None:
        """What became of a command: "done", "refused: …", or None while it is not applied."""
        number = command if isinstance(command, int) else command.number
        controlled = Controlled.of(self.repository.current())
        if number > controlled.applied:
            return None
        return controlled.outcomes.get(str(number), "applied long ago")

    def wait(self, command: Command | int, timeout: float = 60.0) -> str | None:
        """The outcome as soon as there is one; None after ``timeout`` seconds."""
        end = time.monotonic() + timeout
        while (outcome := self.outcome(command)) is None and time.monotonic() < end:
            time.sleep(0.2)
        return outcome

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

    def _written(self, kind: str, **said: str | None) -> Command:
        asked: dict[str, Any] = {"kind": kind, "name": "", "text": "", "parquet": None, **said}
        data = seal_json(asked)
        while True:
            last = Controlled.of(self.repository.current()).applied
            number = max([last, *(command.number for command in self.commands())]) + 1
            if self.repository.directory.put_if_absent(f"{CONTROL}/{number:012d}.json", data):
                return Command(number, **asked)


def _command(directory: Directory, number: int, name: str) -> Command:
    """A command as its file has it; what is none is refused."""
    hint = "remove the file, and give the command again with mayfly control"
    stored, file = read_json(directory, name, hint), directory.address_of(name)
    if problem := _problem(stored):
        raise CorruptFile(f"{file} is not a command: {problem}", hint)
    return Command(number, **stored)


def _problem(stored: object) -> str | None:
    """What is wrong with a command, if anything is."""
    if not isinstance(stored, dict):
        return "it does not say what kind it is"
    if str(stored.get("kind")) not in _SAYING:
        hint = f"the kinds are {', '.join(_SAYING)}"
        return f"its kind is {json.dumps(stored.get('kind'))}; {hint}"
    if strangers := [part for part in stored if part not in _PARTS]:
        return f"nobody knows its {strangers[0]}"
    for part, value in stored.items():
        if not isinstance(value, str) and not (value is None and part in OPTIONAL):
            return f"its {part} is {json.dumps(value)}"
    missing = [part for part in _SAYING[stored["kind"]] if not stored.get(part)]
    return f"{stored['kind']} needs a {missing[0]}" if missing else None


def check_addition(name: str, cql: str, names: set[str], catalog: Catalog) -> None:
    """Refuse a query that could not be run beside those there are."""
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
    """The streams that a query over the catalog reads."""
    plan = optimize(bind_query(cql, catalog)).plan
    assert isinstance(plan, Output)
    return streams_of(compile_plan(plan, catalog))


def relations_read(cql: str | None, catalog: Catalog) -> tuple[str, ...]:
    """The relations that a query over the catalog reads; none if that cannot be told."""
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
