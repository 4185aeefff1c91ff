"""What a compiled query is: operators as values, and which of them feeds which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from mayfly.kernels.delta import Delta
from mayfly.kernels.interval import Interval
from mayfly.kernels.operator import Moving, Operator, StateKey
from mayfly.kernels.outputs import Sent
from mayfly.kernels.stateless import Nothing
from mayfly.patterns import Label
from mayfly.plan.catalog import StreamDefinition
from mayfly.plan.logical_operators import Node, Output
from mayfly.plan.strategy import Strategy


@dataclass(frozen=True)
class StreamInput:
    """Where rows enter: a stream under an alias, with the columns its window needs."""

    stream: str
    alias: str
    columns: tuple[str, ...]
    closing: StreamDefinition | None = field(default=None, compare=False)
    """The declaration of the stream, if its rows close keys."""


def stream_input(stream: StreamDefinition, alias: str, columns: tuple[str, ...]) -> StreamInput:
    """Where the rows of a declared stream enter."""
    return StreamInput(stream.name, alias, columns, None if stream.punctuation is None else stream)


@dataclass(frozen=True)
class RelationInput:
    """Where the versions of a stored table enter, under an alias."""

    relation: str
    alias: str
    columns: tuple[str, ...]


Source = StreamInput | RelationInput


@dataclass(frozen=True, eq=False)
class Task:
    """An operator and what feeds it; ``longest`` bounds the lifetimes of its results."""

    operator: Operator
    inputs: tuple[Task | Source, ...]
    columns: pa.Schema
    strict: bool
    longest: int | None = None
    node: Node | None = None
    """What it computes, if that is one operator of the logical plan."""
    label: Label | None = None

    def walk(self) -> Iterator[Task]:
        """This task and those below it, inputs first."""
        for each in self.inputs:
            if isinstance(each, Task):
                yield from each.walk()
        yield self


def shorter(length: int | None, other: int | None) -> int | None:
    """The bound on the lifetimes of pairs, from those of their sides; None is no bound."""
    if length is None or other is None:
        return other if length is None else length
    return min(length, other)


@dataclass(frozen=True)
class Entering(Operator):
    """The changes of a stored table as they come."""

    name: str
    columns: pa.Schema
    dual: bool = False

    def state(self) -> Nothing:
        return Nothing()

    def state_key(self) -> StateKey:
        return StateKey("Entering", (("columns", self.columns), ("dual", self.dual)))

    @property
    def title(self) -> str:
        return "Relation"

    @property
    def moving(self) -> Moving:
        return Moving.FREE

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        return state, inputs[0]


@dataclass(frozen=True)
class Program:
    """What runs: the task whose results are the answer, and how they are sent, if they are."""

    answer: Task
    sent: Sent | None
    plan: Output
    strategy: Strategy

    def tasks(self) -> list[Task]:
        """Every task once, inputs first (a task may feed several others)."""
        return list(dict.fromkeys(self.answer.walk()))
