"""The physical plan: where each operator runs, what it keeps, and how rows move between.

A plan is a tree of operators. Operators that share a stage run as one kernel over the same
buckets; an exchange on an edge shuffles its rows by the named key first. What is stateless is done
where its rows are: before the first exchange, and after the last kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from mayfly.patterns import Label
from mayfly.plan.logical import Node
from mayfly.plan.strategy import Strategy, Structure


@dataclass(frozen=True, slots=True)
class Cost:
    """Tuples touched per second: by operators, by state maintenance, by negative tuples."""

    processing: float = 0.0
    state: float = 0.0
    negative: float = 0.0

    @property
    def total(self) -> float:
        return self.processing + self.state + self.negative

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.processing + other.processing,
            self.state + other.state,
            self.negative + other.negative,
        )


@dataclass(frozen=True, slots=True)
class State:
    """One structure an operator keeps: what it holds, by which key, why, and how large it gets.

    ``maintenance`` is tuples touched per second; ``grows`` says that nothing bounds it, in which
    case rows and bytes are those after one day.
    """

    structure: Structure
    holds: str
    keyed_by: tuple[str, ...]
    reason: str
    rows: float
    bytes: float
    maintenance: float
    grows: bool = False


class Place(Enum):
    """Where an operator runs."""

    BEFORE = "before the exchange"
    SINGLE = "kernel in a single task"
    KERNEL = "kernel"
    BETWEEN = "between kernels"
    AFTER = "after the last kernel"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A shuffle of one edge: by a key, to one task (no key), or a broadcast to every bucket."""

    key: tuple[str, ...]
    reason: str
    broadcast: bool = False

    def __str__(self) -> str:
        if self.broadcast:
            return "broadcast"
        return f"exchange by {', '.join(self.key)}" if self.key else "exchange to one task"


@dataclass(frozen=True, slots=True)
class Edge:
    """An input of an operator, shuffled on the way or not."""

    source: Operator
    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its name and detail in words, the label of its output, what it keeps.

    ``rate``, ``size`` and ``negative`` describe the output edge: results per second, results
    alive, negative tuples per second.
    """

    name: str
    detail: str
    node: Node
    label: Label
    place: Place
    stage: int
    inputs: tuple[Edge, ...]
    state: tuple[State, ...]
    cost: Cost
    rate: float
    size: float
    negative: float

    def walk(self) -> Iterator[Operator]:
        """This operator and everything below it, parents first."""
        yield self
        for edge in self.inputs:
            yield from edge.source.walk()


@dataclass(frozen=True, slots=True)
class Stage:
    """Operators fused into one step, and how its tasks divide the rows."""

    number: int
    place: Place
    key: tuple[str, ...]
    operators: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class Warned:
    """Something a user should know before running the plan, and what to do about it."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """Everything that will run."""

    root: Operator
    strategy: Strategy
    warnings: tuple[Warned, ...]
    assumed: tuple[str, ...]

    @property
    def answer(self) -> Operator:
        """The operator whose output is the relation the query maintains."""
        return self.root.inputs[0].source if self.root.place is Place.ANSWER else self.root

    @property
    def cost(self) -> Cost:
        return sum((operator.cost for operator in self.root.walk()), Cost())

    @property
    def state_rows(self) -> float:
        return sum(state.rows for operator in self.root.walk() for state in operator.state)

    @property
    def state_bytes(self) -> float:
        return sum(state.bytes for operator in self.root.walk() for state in operator.state)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The steps in the order in which they run."""
        groups: dict[int, list[Operator]] = {}
        for operator in self.root.walk():
            groups.setdefault(operator.stage, []).append(operator)
        return tuple(
            Stage(number, group[0].place, _stage_key(group), tuple(reversed(group)))
            for number, group in sorted(groups.items())
        )


def _stage_key(operators: list[Operator]) -> tuple[str, ...]:
    """The key by which rows enter the stage."""
    for operator in reversed(operators):
        for edge in operator.inputs:
            if edge.exchange and not edge.exchange.broadcast:
                return edge.exchange.key
    return ()
