"""Commands of the control log, applied by the driver of a pipeline.

What needs no other program is done with the next batch: changes of relations, in order. A command
that adds or drops a query or a stream, or stops, ends the batches after that one; the next start
applies it, with everything else that was asked for (see ``control``). What cannot be done is
refused, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mayfly.errors import InvalidSetting, MayflyError
from mayfly.lifetime import MIN_TIME
from mayfly.pipeline.control_log import (
    ADD,
    CHANGE,
    CONTROL,
    DROP,
    DROP_RELATION,
    DROP_STREAM,
    RELATION,
    STOP,
    STREAM,
    Command,
    Controlled,
)
from mayfly.pipeline.control_requests import (
    Control,
    change_of,
    check_addition,
    check_closed_keys,
    check_drop,
    check_folder,
    check_relation_drop,
    check_stream_drop,
    relation_of,
    sources_read,
    stream_of,
)
from mayfly.plan.catalog import Catalog, RelationDefinition, StreamDefinition
from mayfly.runtime.relation_log import Changing

Relations = dict[str, Changing]
Reading = Mapping[str, tuple[str, ...]]
"""Queries, and the streams and relations that each reads."""
Opening = Callable[[StreamDefinition, str | None], object]
"""Makes a stream that a command declares readable; paths are relative to a folder."""


Filling = Callable[[RelationDefinition, str | None], Changing]
"""Makes a relation that a command declares, with its first rows."""


def _leave_unread(definition: StreamDefinition, folder: str | None) -> None:
    """Open nothing: commands are looked at, not applied."""


def _unfilled(definition: RelationDefinition, folder: str | None) -> Changing:
    """A relation without rows: commands are looked at, not applied."""
    return Changing(definition)


@dataclass
class Commands:
    """The commands of one checkpoint while its pipeline runs."""

    control: Control
    catalog: Catalog
    state: Controlled
    relations: Relations
    """As the program declares them, with the changes of commands applied so far."""
    opening: Opening = _leave_unread
    filling: Filling = _unfilled
    folders: Mapping[str, str] = field(default_factory=dict, init=False)
    """Where the program's own queries write Parquet files, and which."""
    renamed: set[str] = field(default_factory=set, init=False)
    """Names that were given to queries by commands taken now; they may have stood for others."""
    leaving: set[str] = field(default_factory=set, init=False)
    """Streams that are read no more."""
    asked: str | None = field(default=None, init=False)
    """STOP, or what changes the queries or their streams: the batches must end."""

    @staticmethod
    def of(
        control: Control,
        catalog: Catalog,
        declared: Mapping[str, Changing],
        opening: Opening = _leave_unread,
        filling: Filling = _unfilled,
    ) -> Commands:
        """What was applied up to the last commit."""
        state = Controlled.of(control.repository.current())
        twins = {name: changing.twin() for name, changing in declared.items()}
        commands = Commands(control, catalog, state, twins, opening, filling)
        # A program may have come to declare them itself.
        for name, stream in state.streams.items():
            if catalog.lookup(name) is None:
                commands._open(str(stream["text"]), stream["folder"])
        for name, relation in state.relations.items():
            if catalog.lookup(name) is None:
                commands._fill(str(relation["text"]), relation["folder"])
        for change in state.changes:
            statement = change_of(change["text"], commands.catalog)
            twins[statement.relation.casefold()].carry_out(statement, change["at"])
        return commands

    def take(self) -> dict[str, Any]:
        """Apply what a running pipeline can; the property to commit with the batch."""
        before = self.state
        for command in self.control.commands(before.applied):
            if command.kind != CHANGE:
                self.asked = command.kind
                if command.kind != STOP:
                    break
                self.state = self.state.done(command)
                break
            self._change(command)
        return {} if self.state is before else self.property()

    def take_all(self, queries: Reading, *, resumed: bool = False) -> None:
        """Apply everything, before a pipeline of the ``queries`` is started.

        A command to stop was meant for a pipeline that is gone, unless that is ``resumed`` now.
        """
        for command in self.control.commands(self.state.applied):
            if command.kind == STOP and resumed:
                return
            if command.kind == STOP:
                self.state = self.state.done(command, "done: nothing was running")
            elif command.kind == CHANGE:
                self._change(command)
            else:
                named = {
                    ADD: self._add, DROP: self._drop, STREAM: self._declare_stream,
                    DROP_STREAM: self._drop_stream,
                    RELATION: self._declare_relation, DROP_RELATION: self._drop_relation,
                }  # fmt: skip
                self._try(command, partial(named[command.kind], command, queries))

    def awaited(self) -> str | None:
        """What a running pipeline cannot do by itself, if such a thing is asked for."""
        applied = Controlled.of(self.control.repository.current()).applied
        kinds = [command.kind for command in self.control.commands(applied)]
        return next((kind for kind in kinds if kind != CHANGE), None)

    def readers(self, queries: Reading) -> dict[str, tuple[str, ...]]:
        """The queries that run, of those the program names and those that were added."""
        named = {name: query for name, query in queries.items() if name not in self.state.dropped}
        added = {
            name: self._reads(str(query["text"])) for name, query in self.state.queries.items()
        }
        return named | added

    def changes_of(self, relation: str) -> tuple[str, ...]:
        """The texts of commands that have changed a relation, the last one last."""
        texts = [str(change["text"]) for change in self.state.changes]
        named = [(change_of(text, self.catalog).relation.casefold(), text) for text in texts]
        return tuple(text for name, text in named if name == relation.casefold())

    def _reads(self, text: str) -> tuple[str, ...]:
        """Nothing if the program no longer declares what the query needs."""
        with suppress(MayflyError):
            return sources_read(text, self.catalog)
        return ()

    def property(self) -> dict[str, Any]:
        return {CONTROL: self.state.to_json()}

    def _add(self, command: Command, queries: Reading) -> None:
        check_addition(command.name, command.text, set(self.readers(queries)), self.catalog)
        manifest = self.control.repository.current()
        check_closed_keys(command.name, command.text, self.catalog, manifest)
        own = {f: q for f, q in self.folders.items() if q not in self.state.dropped}
        folders = {**own, **self.state.folders}
        check_folder(command.parquet, folders, manifest)
        self.state = self.state.with_query(command)
        self.renamed.add(command.name)
        self.leaving -= set(sources_read(command.text, self.catalog))

    def _drop(self, command: Command, queries: Reading) -> None:
        check_drop(command.name, set(self.readers(queries)))
        self.state = self.state.without_query(command.name)

    def _declare_stream(self, command: Command, queries: Reading) -> None:
        if command.name in self.leaving:
            raise InvalidSetting(
                f"the stream {command.name} is about to leave", "ask again when it has left"
            )
        self._open(command.text, command.folder)
        self.state = self.state.with_stream(command)

    def _drop_stream(self, command: Command, queries: Reading) -> None:
        check_stream_drop(command.name, self.catalog, self.readers(queries))
        if command.name in self.state.streams:
            self.catalog = self.catalog.drop(command.name)
        self.state = self.state.without_stream(command.name)
        self.leaving.add(command.name)

    def _declare_relation(self, command: Command, queries: Reading) -> None:
        self._fill(command.text, command.folder)
        self.state = self.state.with_relation(command)

    def _drop_relation(self, command: Command, queries: Reading) -> None:
        name = command.name
        check_relation_drop(name, self.state.relations, self.catalog, self.readers(queries))
        staying = [
            change
            for change in self.state.changes
            if change_of(change["text"], self.catalog).relation != name
        ]
        self.state = self.state.without_relation(name, staying)
        self.catalog = self.catalog.drop(name)
        del self.relations[name.casefold()]

    def _fill(self, text: str, folder: str | None) -> None:
        definition = relation_of(text)
        catalog = self.catalog.declare(definition)
        self.relations[definition.name.casefold()] = self.filling(definition, folder)
        self.catalog = catalog

    def _open(self, text: str, folder: str | None) -> None:
        definition = stream_of(text)
        catalog = self.catalog.declare(definition)
        self.opening(definition, folder)
        self.catalog = catalog

    def _change(self, command: Command) -> None:
        def carry_out() -> None:
            statement = change_of(command.text, self.catalog)
            changing = self.relations[statement.relation.casefold()]
            last = changing.changes[-1].instant if changing.changes else MIN_TIME
            # Every query sees it with the first batch that it can, and after earlier ones.
            instant = last if statement.instant is None else statement.instant
            changing.carry_out(statement, instant)
            made = {"text": command.text, "at": instant}
            self.state = replace(self.state, changes=(*self.state.changes, made))

        self._try(command, carry_out)

    def _try(self, command: Command, action: Callable[[], None]) -> None:
        try:
            action()
        except MayflyError as error:
            self.state = self.state.done(command, f"refused: {error}")
        else:
            self.state = self.state.done(command)
