"""What sharing rules see and say: synopses that exist, how queries read them, and the rules' shape.

A *state rule* (SS, and CS8) is asked once, when a query comes: can it be answered from what exists?
A *computation rule* (CS) is asked at every refresh about two readings that are due: does one access
serve both? No rule changes an answer; each only saves values kept, or values read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from mayfly.periodic.panes import Progression, panes_within
from mayfly.periodic.predicate import Predicate, text_of
from mayfly.periodic.query import PeriodicQuery
from mayfly.synopses.contents import Aggregate, Content, Keys, content_for

PROBED = ("running", "interval")
"""Kinds that find each length by itself."""
SCANNED = "basic interval"
PROBED_JOINS = ("running join", "interval join")
SCANNED_JOIN = "basic interval join"


@dataclass(frozen=True)
class SynopsisPlan:
    """A synopsis as rules see it: what it keeps of which rows, and for how long.

    ``spread`` is how far the lengths of two windows of a join may differ, in microseconds.
    """

    name: str
    kind: str
    content: Content
    keys: Keys
    where: Predicate
    length: int
    spread: int = 0

    @property
    def is_join(self) -> bool:
        return self.kind.endswith("join")

    def __str__(self) -> str:
        what = f"{type(self.content).__name__}({self.content.argument or '*'})"
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"{self.name}: {self.kind} of {what}{by} where {text_of(self.where)}"


@dataclass(frozen=True)
class Probe:
    """From one synopsis that holds the content."""

    synopsis: str

    @property
    def synopses(self) -> tuple[str, ...]:
        return (self.synopsis,)


@dataclass(frozen=True)
class Divide:
    """A sum from one synopsis, divided by a count from another."""

    total: str
    count: str

    @property
    def synopses(self) -> tuple[str, ...]:
        return (self.total, self.count)


@dataclass(frozen=True)
class Combine:
    """What some synopses hold together, without what others hold."""

    plus: tuple[str, ...]
    minus: tuple[str, ...] = ()

    @property
    def synopses(self) -> tuple[str, ...]:
        return (*self.plus, *self.minus)


@dataclass(frozen=True)
class Forward:
    """The answers of another query."""

    query: str

    @property
    def synopses(self) -> tuple[str, ...]:
        return ()


Access = Probe | Divide | Combine | Forward


@dataclass(frozen=True)
class Board:
    """The synopses and queries over one input whose panes are cut alike."""

    rows: pa.Schema
    synopses: Mapping[str, SynopsisPlan] = field(default_factory=dict)
    queries: Mapping[str, PeriodicQuery] = field(default_factory=dict)
    accesses: Mapping[str, Access] = field(default_factory=dict)
    edges: frozenset[Progression] = frozenset()
    """Where panes are cut."""
    rows_per_pane: float = 100.0

    def panes_of(self, query: PeriodicQuery) -> int:
        """How many panes the window of a query has."""
        return panes_within(self.edges, query.length, query.origin)

    def panes_between(self, query: PeriodicQuery) -> int:
        """How many panes come between two refreshes."""
        return panes_within(self.edges, query.period, query.origin)

    def content_of(self, query: PeriodicQuery) -> Content:
        return content_for(query.call, self.rows)

    def candidates(self, query: PeriodicQuery, call: Aggregate) -> Iterator[SynopsisPlan]:
        """Synopses over the input of a query, apart from WHERE, that can answer a call for windows
        of its length."""
        for plan in self.synopses.values():
            if (
                plan.keys == query.keys
                and plan.length >= query.length
                and plan.is_join == (len(query.lengths) > 1)
                and plan.content.can_answer(call)
            ):
                yield plan


@dataclass(frozen=True)
class StateRule:
    """Whether a query can be answered from what exists."""

    name: str
    title: str
    share: Callable[[PeriodicQuery, Board], Access | None]


@dataclass(frozen=True)
class SynopsisReading:
    """What one query reads of one synopsis at a refresh: how many panes, or pairs of them."""

    query: str
    synopsis: SynopsisPlan
    panes: int | tuple[int, int]
    access: Access


@dataclass(frozen=True)
class ComputationRule:
    """Whether one access serves two readings of the same synopsis."""

    name: str
    title: str
    together: Callable[[SynopsisReading, SynopsisReading], bool]


def either(reading: SynopsisReading, other: SynopsisReading, access: type[Access]) -> bool:
    """Whether at least one of two readings is of a kind."""
    return isinstance(reading.access, access) or isinstance(other.access, access)
