"""EXPLAIN SHARING of windows over the latest rows: which queries read one state (n-of-N).

Rows that are kept are those of one group that has a row in every pane, as for panes of time. What
a refresh costs is not told: how often a stream moves a window by rows is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mayfly.display import counted, number
from mayfly.kernels.pane_edges import edges
from mayfly.physical.program import Program, Task
from mayfly.plan.plan_text import expression_text
from mayfly.plan.window_kinds import Range

Rows = Callable[[Sequence[Range]], float]
"""How many panes are kept for some windows."""


@dataclass(frozen=True)
class RowReader:
    """A query over the latest rows, and what is kept for it."""

    query: str
    rule: str
    window: str
    asks: str
    keeps: float
    """Panes of a group that are kept for it beside those kept for readers before it."""
    keeps_alone: float

    def __str__(self) -> str:
        return (
            f"{self.query}  {self.rule}  {self.window} {self.asks}: keeps "
            f"{number(self.keeps)} more, alone {number(self.keeps_alone)}"
        )


@dataclass(frozen=True)
class ReadRows:
    """One state of panes of rows and who reads it."""

    head: str
    stream: str
    edges: tuple[str, ...]
    readers: tuple[RowReader, ...]

    @property
    def rows(self) -> float:
        """Panes of a group that are kept."""
        return sum(reader.keeps for reader in self.readers)

    def lines(self) -> list[str]:
        queries = counted(len(self.readers), "query", "queries")
        alone = sum(reader.keeps_alone for reader in self.readers)
        return [
            self.head,
            f"  cut {', '.join(self.edges)}",
            f"  made of rows once for {queries}; in each group {number(self.rows)} rows kept "
            f"in place of {number(alone)} ({100 * self.rows / alone:.0f} %)",
            *(f"    {reader}" for reader in self.readers),
        ]


def read_rows(programs: Mapping[str, Program], rows_of: Rows) -> tuple[ReadRows, ...]:
    """The states of panes of rows; programs of one pool, by query."""
    reading: dict[Task, list[tuple[str, Any]]] = {}
    for query, program in programs.items():
        for task in program.tasks():
            if task.operator.reads_rows is not None:
                (store,) = task.inputs
                assert isinstance(store, Task)
                reading.setdefault(store, []).append((query, task.operator))
    return tuple(
        _read_rows(f"panes of rows {index}", store.operator, readers, rows_of)
        for index, (store, readers) in enumerate(reading.items(), 1)
    )


def _read_rows(
    name: str, store: Any, readers: Sequence[tuple[str, Any]], rows_of: Rows
) -> ReadRows:
    explained, before = [], list[Range]()
    for query, operator in readers:
        after = [*before, operator.window]
        keeps = rows_of(after) - (rows_of(before) if before else 0.0)
        asks = re.sub(r"_[0-9a-f]{8}\.", ".", operator.detail.partition(" BY ")[0])
        rules = ["SS1"] if before else ["first"]
        rules += ["CS1"] if operator.window in before and operator.finds_once else []
        window = operator.reads_rows.cql()
        alone = rows_of([operator.window])
        explained.append(RowReader(query, ", ".join(rules), window, asks, keeps, alone))
        before = after
    where = (
        f" WHERE {' AND '.join(map(expression_text, terms))}" if (terms := store.conditions) else ""
    )
    contents = [content.words for content in store.contents]
    contents += [f"values of {expression_text(value)}" for value in store.values]
    by = f" BY {', '.join(map(expression_text, store.keys))}" if store.keys else ""
    head = f"{name}: {', '.join(contents)} of {store.stream}{where}{by}"
    return ReadRows(
        head, store.stream, tuple(_edge_words(*family) for family in edges(store.windows)),
        tuple(explained),
    )  # fmt: skip


def _edge_words(period: int, phase: int) -> str:
    every = f"every {counted(period, 'row')}"
    return f"{every} + {phase}" if phase else every
