"""Mergeable sketches: a few bytes per group instead of its values, with a bound beside each answer.

What they are and how they merge is in kernels/value_sketches.py, as queries use them, too.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.kernels.value_sketches import (
    HllSketch,
    ItemsSketch,
    KllSketch,
    ValueSketch,
)
from mayfly.synopses.contents.counters import COUNTED, Counters, share_of, whole_parameter
from mayfly.synopses.contents.partial_values import (
    HIGH,
    LOW,
    ROWS,
    VALUE,
    Aggregate,
    Content,
    Groups,
    Keys,
)

SKETCH = "_sketch"


@dataclass(frozen=True)
class Sketch(Content):
    """One serialized sketch per group."""

    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        counted = Counters(self.argument).summarize(rows, keys)
        groups, order, bounds = _stretches(counted, keys)
        values = whole(counted.column(COUNTED)).take(pa.array(order))
        counts = numbers(counted, ROWS)[order]
        sketches = []
        for start, end in pairwise(bounds):
            present = values.slice(start, end - start).is_valid().to_numpy(zero_copy_only=False)
            stretch = values.slice(start, end - start).drop_null()
            sketches.append(self.kind.made(stretch, counts[start:end][present]))
        return groups.table(counted, keys, {SKETCH: pa.array(sketches, pa.binary())})

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        groups, order, bounds = _stretches(summaries, keys)
        parts = whole(summaries.column(SKETCH)).take(pa.array(order)).to_pylist()
        unions = [self.kind.union(parts[start:end]) for start, end in pairwise(bounds)]
        return groups.table(summaries, keys, {SKETCH: pa.array(unions, pa.binary())})

    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        kind, parameter = self.kind, self._parameter(call)
        bounded = [
            kind.bounded(kind.read(sketch), parameter)
            for sketch in summary.column(SKETCH).to_pylist()
        ]
        answers = summary.select(list(keys))
        for place, name in enumerate((VALUE, LOW, HIGH)):
            answers = answers.append_column(name, pa.array([each[place] for each in bounded]))
        return answers

    def of_nothing(self, call: Aggregate) -> Any:
        return None

    @property
    @abstractmethod
    def kind(self) -> ValueSketch: ...

    def _parameter(self, call: Aggregate) -> Any:
        return None


def _stretches(table: pa.Table, keys: Keys) -> tuple[Groups, Int64s, list[int]]:
    """The groups of a table, its rows in their order, and where each of them begins and ends."""
    groups = Groups.of(table, keys)
    order = np.argsort(groups.number, kind="stable")
    return groups, order, [0, *np.cumsum(np.bincount(groups.number, minlength=len(groups)))]


@dataclass(frozen=True)
class DistinctSketch(Sketch):
    """HLL: how many distinct values; a standard error of 1.04 / √2^size. Overlaps do no harm."""

    size: int = 12
    functions = frozenset({"APPROX COUNT DISTINCT"})
    insensitive = True

    @property
    def kind(self) -> ValueSketch:
        return HllSketch(self.size)

    def of_nothing(self, call: Aggregate) -> Any:
        return 0


@dataclass(frozen=True)
class QuantileSketch(Sketch):
    """KLL: quantiles of numbers, as doubles; the rank is off by about 1.33 % for size 200."""

    size: int = 200
    functions = frozenset({"APPROX QUANTILE"})

    @property
    def kind(self) -> ValueSketch:
        return KllSketch(self.size)

    def _parameter(self, call: Aggregate) -> Any:
        return share_of(call)


@dataclass(frozen=True)
class FrequentSketch(Sketch):
    """Frequent items: the k largest counts, each with bounds; of texts, other values as text."""

    size: int = 10
    """Binary logarithm of its counters."""
    functions = frozenset({"APPROX TOP"})

    @property
    def kind(self) -> ValueSketch:
        return ItemsSketch(self.size)

    def _parameter(self, call: Aggregate) -> Any:
        return whole_parameter(call)

    def of_nothing(self, call: Aggregate) -> Any:
        return []
