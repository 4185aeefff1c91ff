"""What queries that run together share: streams read once, parts computed once, clocks in common.

The same program that runs is looked at (see ``shared_program`` and ``stager``), so nothing is
claimed that is not done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mayfly.kernels.predicate_index import MANY_SELECTIONS, PredicateIndex
from mayfly.physical.program import Program, RelationInput, StreamInput, Task
from mayfly.physical.shared_program import SharedProgram, moves_freely, shared
from mayfly.physical.stager import staged
from mayfly.physical.stages import StagedProgram, feeds_of


@dataclass(frozen=True)
class StreamRead:
    """A stream, the queries that read it, and the selections over it."""

    stream: str
    queries: tuple[str, ...]
    selections: int
    indexed: int
    """Selections whose rows are found by the predicate index."""

    def __str__(self) -> str:
        sentence = f"{self.stream} is read once, for {_listed(self.queries)}"
        if self.indexed:
            sentence += (
                f"; {self.indexed} of {self.selections} selections over it find their rows by an "
                "index of their predicates"
            )
        return sentence


@dataclass(frozen=True)
class SharedPart:
    """A sub-plan with its state that several queries stand on."""

    part: str
    over: tuple[str, ...]
    queries: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.part} of {', '.join(self.over)}, for {_listed(self.queries)}"


@dataclass(frozen=True)
class Clock:
    """Streams whose smallest clock closes the instants of some queries."""

    streams: tuple[str, ...]
    queries: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.streams)}: {_listed(self.queries)}"


@dataclass(frozen=True)
class Together:
    """Several queries as one pipeline."""

    streams: tuple[StreamRead, ...]
    parts: tuple[SharedPart, ...]
    clocks: tuple[Clock, ...]
    stages: int

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        nothing = ("nothing: no two queries have a part with state in common",)
        sections: dict[str, tuple[object, ...]] = {
            "streams": self.streams,
            "computed once": self.parts or nothing,
            "clocks": self.clocks,
        }
        lines = []
        for head, listed in sections.items():
            lines += [head, *(f"  {line}" for line in listed)]
        stages = f"{self.stages} stages, each after an exchange" if self.stages > 1 else "1 stage"
        return "\n".join([*lines, f"a batch runs in {stages}"])

    def values(self) -> dict[str, Any]:
        return asdict(self)


def together(programs: Mapping[str, Program]) -> Together:
    """What these queries share when they are started together."""
    program = shared(programs, {})
    stages = staged(program)
    return Together(_streams(stages), _parts(program), _clocks(program), stages.stages)


def _streams(stages: StagedProgram) -> tuple[StreamRead, ...]:
    readers: dict[str, list[str]] = {}
    for answer in stages.answers:
        for feed in feeds_of(stages, answer):
            readers.setdefault(stages.feeds[feed].source.stream, []).append(answer.query)
    reads = []
    for stream, queries in sorted(readers.items()):
        predicates = [
            feed.selects
            for feed in stages.feeds
            if feed.source.stream == stream and feed.selects is not None
        ]
        enough = len(predicates) >= MANY_SELECTIONS
        indexed = sum(map(bool, PredicateIndex.of(predicates).terms)) if enough else 0
        reads.append(StreamRead(stream, tuple(dict.fromkeys(queries)), len(predicates), indexed))
    return tuple(reads)


def _parts(program: SharedProgram) -> tuple[SharedPart, ...]:
    """The largest sub-plans that more than one query stands on."""
    users: dict[Task, list[str]] = {}
    above: dict[Task, list[Task]] = {}
    for member in program.members:
        for task in dict.fromkeys(member.program.answer.walk()):
            users.setdefault(task, []).append(member.name)
    for task in users:
        for source in task.inputs:
            if isinstance(source, Task):
                above.setdefault(source, []).append(task)
    return tuple(
        SharedPart(_phrase(task), _sources(task), tuple(names))
        for task, names in users.items()
        if len(names) > 1
        and not moves_freely(task)
        and all(users[reader] != names for reader in above.get(task, []))
    )


def _clocks(program: SharedProgram) -> tuple[Clock, ...]:
    clocks: dict[tuple[str, ...], list[str]] = {}
    for member in program.members:
        clocks.setdefault(member.group.streams, []).append(member.name)
    return tuple(Clock(streams, tuple(names)) for streams, names in clocks.items())


def _phrase(task: Task) -> str:
    return re.sub(r" at line \d+", "", task.operator.name)


def _sources(task: Task) -> tuple[str, ...]:
    """The windows and relations below a task."""
    sources = []
    for part in dict.fromkeys(task.walk()):
        for source in part.inputs:
            window = part.operator.opens
            if isinstance(source, StreamInput) and window is not None:
                sources.append(f"{source.stream} {window.cql()}")
            elif isinstance(source, RelationInput):
                sources.append(source.relation)
    return tuple(sources)


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
