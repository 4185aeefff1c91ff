"""The control log of a checkpoint: what other processes ask of the pipeline that runs on it.

Idea: a command is a file ``control/<number>.json`` that appears whole under the next free number,
so commands have an order and none is lost. The driver applies them in that order. How far it got,
what became of each, and what they add up to, is a property of the manifest that also holds their
effects. Invariant: each command is applied once, whichever process dies. Commands are checked
before they are written (control_requests.py).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from mayfly.display import one_line
from mayfly.errors import CorruptFile, InvalidSetting
from mayfly.storage import Directory, Manifest, Repository
from mayfly.storage.sealed_files import read_json, seal_json
from mayfly.storage.store import absolute_address

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
    """Declared by commands: text, and the folder to which its paths are relative."""
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

    def without_relation(self, name: str, changes: Iterable[Mapping[str, Any]]) -> Controlled:
        """Nor its changes: only these stay."""
        left = {relation: kept for relation, kept in self.relations.items() if relation != name}
        return replace(self, relations=left, changes=tuple(changes))


@dataclass(frozen=True, repr=False)
class ControlLog:
    """The commands of a checkpoint, and what became of them: for any process, without Spark."""

    repository: Repository

    def __repr__(self) -> str:
        return one_line(self, f"of {self.repository.directory.address}")

    @classmethod
    def of(cls, checkpoint: str | os.PathLike[str]) -> Self:
        root = absolute_address(checkpoint)
        if not Repository.exists(root):
            raise InvalidSetting(f"there is no checkpoint at {root}", "start the pipeline first")
        return cls(Repository.open(root))

    def stop(self) -> Command:
        """Ask the pipeline to stop after the running batch; a later start is not stopped."""
        return self._append(STOP)

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

    def _append(self, kind: str, **said: str | None) -> Command:
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
        return f"its part {strangers[0]} is unknown"
    for part, value in stored.items():
        if not isinstance(value, str) and not (value is None and part in OPTIONAL):
            return f"its {part} is {json.dumps(value)}"
    missing = [part for part in _SAYING[stored["kind"]] if not stored.get(part)]
    return f"{stored['kind']} needs a {missing[0]}" if missing else None
