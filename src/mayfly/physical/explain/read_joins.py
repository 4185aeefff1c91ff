"""EXPLAIN SHARING of joins: which queries read the results of one join, and what that saves.

What a join keeps is given in time of its streams: with a window of an hour, an hour of rows. What
is kept of its results is given in values of one group that has a result for every two panes: b
panes and how far windows differ, as in spec/periodic 3. A reader looks at all that are kept (CS5:
they are laid out once), one with the same windows as another at none of its own (CS4). CPU time is
not told: what such a value takes was not measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mayfly.display import counted, number
from mayfly.kernels.join_panes import JoinWindows, leads
from mayfly.kernels.pane_edges import edges
from mayfly.lifetime import format_micros
from mayfly.physical.program import Program, Task


@dataclass(frozen=True)
class JoinReader:
    """A query over a join: by which rules it shares, and what it asks."""

    query: str
    rules: str
    windows: str
    asks: str
    looks: float
    """Values of a group that it looks at in a step."""
    looks_alone: float
    keeps: float
    """Values of a group that are kept for it beside those kept for readers before it."""
    keeps_alone: float

    def __str__(self) -> str:
        return (
            f"{self.query}  {self.rules}  {self.windows} {self.asks}: looks at "
            f"{_count(self.looks)}, alone {number(self.looks_alone)}; keeps "
            f"{number(self.keeps)} more, alone {number(self.keeps_alone)}"
        )


@dataclass(frozen=True)
class ReadJoin:
    """One join and who reads its results."""

    name: str
    condition: str
    inputs: tuple[str, ...]
    states: int
    """How many states of values by expiration there are."""
    readers: tuple[JoinReader, ...]
    kept: int
    """Microseconds of all streams together."""
    alone: int

    def lines(self) -> list[str]:
        queries = counted(len(self.readers), "query", "queries")
        return [
            f"{self.name}: {self.condition} of {', '.join(self.inputs)}",
            f"  joined once for {queries}, whose results are {counted(self.states, 'state')} of "
            f"values by expiration; keeps {format_micros(self.kept)} of rows in place of "
            f"{format_micros(self.alone)} ({100 * self.kept / self.alone:.0f} %)",
            f"  in each group at most {_count(self.values)} kept in place of "
            f"{number(self.values_alone)} ({100 * self.values / self.values_alone:.0f} %)",
            *(f"    {reader}" for reader in self.readers),
        ]

    @property
    def values(self) -> float:
        """Values of a group that are kept."""
        return sum(reader.keeps for reader in self.readers)

    @property
    def values_alone(self) -> float:
        return sum(reader.keeps_alone for reader in self.readers)


def values_kept(windows: Sequence[JoinWindows]) -> float:
    """At most so many values of a group are kept for some readers: b(1 + g), g to either side."""
    density = max(
        sum(1 / period for period, _ in edges(pair.both[side] for pair in windows))
        for side in (0, 1)
    )
    panes = max(pair.reach for pair in windows) * density
    return panes * (1 + sum(lead * density for lead in leads(windows)))


def read_joins(programs: Mapping[str, Program]) -> tuple[ReadJoin, ...]:
    """The joins whose results are read by expiration; programs of one pool, by query."""
    reading: dict[Task, list[tuple[str, Task, Any]]] = {}
    for query, program in programs.items():
        for task in program.tasks():
            if task.operator.reads_join is not None:
                store = _below(task)
                reading.setdefault(_join(store), []).append((query, store, task.operator))
    return tuple(
        _read_join(f"join {number}", join, readers)
        for number, (join, readers) in enumerate(reading.items(), 1)
    )


def _read_join(name: str, join: Task, readers: Sequence[tuple[str, Task, Any]]) -> ReadJoin:
    explained, seen = [], list[tuple[Task, JoinWindows]]()
    for query, store, operator in readers:
        rules, own = ["SS3"] if seen else ["first"], operator.pair
        before = [pair for other, pair in seen if other is store]
        kept_values: Any = store.operator
        looks, alone = values_kept(kept_values.windows), values_kept([own])
        if own in before and operator.finds_once:
            rules, looks = [*rules, "CS4"], 0.0
        elif before and own not in before:
            rules += ["CS5"] if operator.one_scan else []
        seen.append((store, own))
        asks = re.sub(r"_[0-9a-f]{8}\.", ".", operator.detail)
        keeps = values_kept([*before, own]) - (values_kept(before) if before else 0.0)
        explained.append(
            JoinReader(query, ", ".join(rules), own.words(), asks, looks, alone, keeps, alone)
        )
    windows = [t for t in join.walk() if t.operator.opens is not None]
    kept = sum(window.operator.opens.lifetime or 0 for window in windows if window.operator.opens)
    alone = sum(
        sum(sorted(w.duration for w in operator.pair.both)) * len(windows) // 2
        for _, _, operator in readers
    )
    inputs = tuple(f"{_stream(task)} {task.operator.detail}" for task in windows)
    states = len({id(store) for _, store, _ in readers})
    return ReadJoin(name, join.operator.detail, inputs, states, tuple(explained), kept, alone)


def _count(values: float) -> str:
    return f"{number(values)} {'value' if round(values) == 1 else 'values'}"


def _stream(task: Task) -> str:
    (source,) = task.inputs
    return getattr(source, "alias", "")


def _below(task: Task) -> Task:
    (below,) = task.inputs
    assert isinstance(below, Task)
    return below


def _join(store: Task) -> Task:
    """The join below the values of its results, and the conditions on these."""
    task = _below(_below(store))
    while task.operator.selects is not None and len(task.inputs) == 1:
        below = task.inputs[0]
        if not isinstance(below, Task) or below.operator.opens is not None:
            break
        task = below
    return task
