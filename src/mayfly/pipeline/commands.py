"""Commands of the control log, applied by the driver of a pipeline.

What needs no other program is done with the next batch: changes of relations, in order. A command
that adds or drops a query, or stops, ends the stream after that batch; the next start applies it,
with everything else that was asked for (see ``control``). What cannot be done is refused, and the
others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mayfly.errors import MayflyError
from mayfly.lifetime import MIN_TIME
from mayfly.pipeline.control import (
    ADD,
    CHANGE,
    CONTROL,
    STOP,
    Command,
    Control,
    Controlled,
    change_of,
    check_addition,
    check_drop,
)
from mayfly.pipeline.relations import Changing
from mayfly.plan.catalog import Catalog

Relations = Mapping[str, Changing]


@dataclass
class Commands:
    """The commands of one checkpoint while its pipeline runs."""

    control: Control
    catalog: Catalog
    state: Controlled
    relations: Relations
    """As the program declares them, with the changes of commands applied so far."""
    asked: str | None = field(default=None, init=False)
    """STOP, or ADD or DROP if the queries are to change: the stream must end."""

    @staticmethod
    def of(control: Control, catalog: Catalog, declared: Relations) -> Commands:
        """What was applied up to the last commit."""
        state = Controlled.of(control.repository.current())
        twins = {name: one.twin() for name, one in declared.items()}
        for one in state.changes:
            statement = change_of(one["text"], catalog)
            twins[statement.relation.casefold()].carry_out(statement, one["at"])
        return Commands(control, catalog, state, twins)

    def taken(self) -> dict[str, Any]:
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

    def all_taken(self, queries: set[str], *, resumed: bool = False) -> None:
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
                action = self._add if command.kind == ADD else self._drop
                self._tried(command, partial(action, command, queries))

    def awaited(self) -> str | None:
        """What a running pipeline cannot do by itself, if such a thing is asked for."""
        applied = Controlled.of(self.control.repository.current()).applied
        kinds = [one.kind for one in self.control.commands(applied)]
        return next((kind for kind in kinds if kind != CHANGE), None)

    def names(self, queries: set[str]) -> set[str]:
        """The queries that run, of those the program names and those that were added."""
        return (queries - set(self.state.dropped)) | set(self.state.queries)

    def property(self) -> dict[str, Any]:
        return {CONTROL: self.state.to_json()}

    def _add(self, command: Command, queries: set[str]) -> None:
        check_addition(command.name, command.text, self.names(queries), self.catalog)
        self.state = self.state.with_query(command)

    def _drop(self, command: Command, queries: set[str]) -> None:
        check_drop(command.name, self.names(queries))
        self.state = self.state.without_query(command.name)

    def _change(self, command: Command) -> None:
        def carry_out() -> None:
            statement = change_of(command.text, self.catalog)
            changing = self.relations[statement.relation.casefold()]
            last = changing.changes[-1].at if changing.changes else MIN_TIME
            # Every query sees it with the first batch that it can, and after earlier ones.
            at = last if statement.at is None else statement.at
            changing.carry_out(statement, at)
            made = {"text": command.text, "at": at}
            self.state = replace(self.state, changes=(*self.state.changes, made))

        self._tried(command, carry_out)

    def _tried(self, command: Command, action: Callable[[], None]) -> None:
        try:
            action()
        except MayflyError as error:
            self.state = self.state.done(command, f"refused: {error}")
        else:
            self.state = self.state.done(command)
