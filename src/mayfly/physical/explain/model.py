"""What EXPLAIN has to say, as values: the program that runs, drawn as a tree, with estimates.

Operators that share a stage run as one kernel over the same buckets; an exchange on an edge
shuffles its rows first. Figures are the optimizer's, None where it has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from mayfly.kernels.operator import Working
from mayfly.optimizer.plan_warnings import Warned
from mayfly.optimizer.structures import Cost
from mayfly.patterns import Label
from mayfly.plan.logical_operators import Node, Output
from mayfly.plan.strategy import Strategy, Structure

NOTHING = Cost()


class Place(Enum):
    """Where an operator runs."""

    BEFORE = "before the exchange"
    SINGLE = "kernel in a single task"
    KERNEL = "kernel"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class ExplainedState:
    """One structure an operator keeps: what it holds, by which key, why, and how large it gets.

    ``part`` is its name in the operator's state. ``grows`` says that nothing bounds it, in which
    case rows and bytes are those after one day.
    """

    part: str
    structure: Structure
    holds: str
    keyed_by: tuple[str, ...]
    reason: str
    rows: float | None
    bytes: float | None
    grows: bool = False
    partitions: int | None = None
    grows_by_key: bool = False
    """Whether it is bounded if the values of its key are, and by nothing else."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A shuffle of one edge: by a key, to one task (no key), or a broadcast to every bucket."""

    key: tuple[str, ...]
    reason: str
    broadcast: bool = False
    straight: bool = False
    """Whether rows only go on to a later stage, in the bucket that they are in."""

    def __str__(self) -> str:
        if self.broadcast:
            return "broadcast"
        if self.straight:
            return "sent on in its bucket"
        return f"exchange by {', '.join(self.key)}" if self.key else "exchange to one task"


@dataclass(frozen=True, slots=True)
class Edge:
    """An input of an operator, shuffled on the way or not."""

    source: ExplainedOperator
    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True)
class ExplainedOperator:
    """One operator that runs: its name and detail in words, the label of its output, what it keeps.

    ``task`` is its number in the program, None for what is done to rows before the first exchange
    and for the answer. ``rate``, ``size`` and ``negative`` describe the output edge: results per
    second, results alive, negative tuples per second.
    """

    name: str
    detail: str
    label: Label
    place: Place
    stage: int
    inputs: tuple[Edge, ...] = ()
    state: tuple[ExplainedState, ...] = ()
    cost: Cost = NOTHING
    rate: float | None = None
    size: float | None = None
    negative: float | None = None
    task: int | None = None
    node: Node | None = None
    """What it computes, if that is one operator of the logical plan."""
    alias: str = ""
    """What it is called where it is an input, if that is a source."""
    sign: str = " ⋈ "
    alone: bool = False
    """Whether it needs all rows in one task."""
    workings: tuple[Working, ...] = ()
    why: str = ""
    """Why it runs in this way and no other, if there was a choice."""

    @property
    def algebra(self) -> str:
        """Its sources, in the algebra: ``a``, ``a ⋈ b``, ``a − b``."""
        if self.alias:
            return self.alias
        names = [edge.source.algebra for edge in self.inputs]
        wrapped = (f"({name})" if " " in name and len(names) > 1 else name for name in names)
        return self.sign.join(wrapped)

    def walk(self) -> Iterator[ExplainedOperator]:
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
    operators: tuple[ExplainedOperator, ...]


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """Everything that will run."""

    root: ExplainedOperator
    output: Output
    strategy: Strategy
    cuts: bool
    """Whether results may end before their exp."""
    warnings: tuple[Warned, ...]
    assumed: tuple[str, ...]
    zones: tuple[tuple[str, str], ...] = ()
    """What depends on a time zone, in words, each with the zone."""

    @property
    def answer(self) -> ExplainedOperator:
        """The operator whose output is the relation the query maintains."""
        return self.root.inputs[0].source

    @property
    def cost(self) -> Cost:
        return sum((operator.cost for operator in self.operators), Cost())

    @property
    def operators(self) -> tuple[ExplainedOperator, ...]:
        """Each once, parents first: a task may feed several others."""
        return tuple({id(operator): operator for operator in self.root.walk()}.values())

    @property
    def state_rows(self) -> float:
        return sum(state.rows or 0.0 for operator in self.operators for state in operator.state)

    @property
    def state_bytes(self) -> float:
        return sum(state.bytes or 0.0 for operator in self.operators for state in operator.state)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The steps in the order in which they run; the one before the first exchange is 0."""
        groups: dict[int, list[ExplainedOperator]] = {}
        for operator in self.operators:
            if operator.place is not Place.ANSWER:
                groups.setdefault(operator.stage, []).append(operator)
        return tuple(
            Stage(number, _place_of(group), _stage_key(group), tuple(reversed(group)))
            for number, group in sorted(groups.items())
        )


def _place_of(operators: list[ExplainedOperator]) -> Place:
    places = {operator.place for operator in operators}
    return Place.KERNEL if Place.KERNEL in places else places.pop()


def _stage_key(operators: list[ExplainedOperator]) -> tuple[str, ...]:
    """The key by which rows enter the stage."""
    for operator in reversed(operators):
        for edge in operator.inputs:
            if edge.exchange and not edge.exchange.broadcast and edge.exchange.key:
                return edge.exchange.key
    return ()


@dataclass(frozen=True, slots=True)
class RuleRun:
    """A rule of the optimizer in the making of a plan."""

    name: str
    changed: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class ExplainedPlan:
    """One candidate: what tells it from the others, and what would run."""

    title: str
    physical: PhysicalPlan
    rules: tuple[RuleRun, ...]


@dataclass(frozen=True)
class Explained:
    """A query, the plan chosen for it, and its rivals, cheapest first."""

    query: str
    plans: tuple[ExplainedPlan, ...]
    compare: bool = False

    @property
    def chosen(self) -> ExplainedPlan:
        return self.plans[0]

    @property
    def shown(self) -> tuple[ExplainedPlan, ...]:
        """All candidates if a comparison was asked for, else the chosen plan."""
        return self.plans if self.compare else self.plans[:1]
