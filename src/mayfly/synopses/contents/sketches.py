"""Mergeable sketches: a few bytes per group instead of its values, with a bound beside each answer.

The sketches are those of Apache DataSketches, in the format in which Spark's functions make them,
so partial values may come from either. They are fed with distinct values and their counts, never
row by row. Sketches of one content have equal parameters, so any two of them merge; the error is
that of the sketch for the merged size.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import datasketches as ds
import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.errors import BadInput
from mayfly.kernels.lifetime_rows import numbers, whole
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
Bounded = tuple[Any, Any, Any]
"""A value, and between what it surely (HLL: with 95 %) lies."""


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
            sketches.append(self._made(stretch, counts[start:end][present]))
        return groups.table(counted, keys, {SKETCH: pa.array(sketches, pa.binary())})

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        groups, order, bounds = _stretches(summaries, keys)
        parts = whole(summaries.column(SKETCH)).take(pa.array(order)).to_pylist()
        unions = [self._union(parts[start:end]) for start, end in pairwise(bounds)]
        return groups.table(summaries, keys, {SKETCH: pa.array(unions, pa.binary())})

    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        bounded = [self._bounded(s, call) for s in summary.column(SKETCH).to_pylist()]
        answers = summary.select(list(keys))
        for place, name in enumerate((VALUE, LOW, HIGH)):
            answers = answers.append_column(name, pa.array([each[place] for each in bounded]))
        return answers

    def of_nothing(self, call: Aggregate) -> Any:
        return None

    @abstractmethod
    def _made(self, values: pa.Array, counts: Int64s) -> bytes:
        """The sketch of distinct values that occur so often."""

    @abstractmethod
    def _union(self, parts: list[bytes]) -> bytes: ...

    @abstractmethod
    def _bounded(self, sketch: bytes, call: Aggregate) -> Bounded: ...


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

    def _made(self, values: pa.Array, counts: Int64s) -> bytes:
        sketch = ds.hll_sketch(self.size)
        for value in values.to_pylist():
            sketch.update(_hashable(value))
        return bytes(sketch.serialize_compact())

    def _union(self, parts: list[bytes]) -> bytes:
        union = ds.hll_union(self.size)
        for part in parts:
            union.update(ds.hll_sketch.deserialize(part))
        return bytes(union.get_result().serialize_compact())

    def _bounded(self, sketch: bytes, call: Aggregate) -> Bounded:
        hll = ds.hll_sketch.deserialize(sketch)
        return round(hll.get_estimate()), hll.get_lower_bound(2), hll.get_upper_bound(2)

    def of_nothing(self, call: Aggregate) -> Any:
        return 0


@dataclass(frozen=True)
class QuantileSketch(Sketch):
    """KLL: quantiles of numbers, as doubles; the rank is off by about 1.33 % for size 200."""

    size: int = 200
    functions = frozenset({"APPROX QUANTILE"})

    def _made(self, values: pa.Array, counts: Int64s) -> bytes:
        sketch = ds.kll_doubles_sketch(self.size)
        try:
            floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise BadInput(
                f"{self.argument} is {values.type}, which is no number",
                "give a column of numbers, or ask for an exact QUANTILE",
            ) from None
        sketch.update(np.repeat(floats, counts))
        return bytes(sketch.serialize())

    def _union(self, parts: list[bytes]) -> bytes:
        union = ds.kll_doubles_sketch(self.size)
        for part in parts:
            union.merge(ds.kll_doubles_sketch.deserialize(part))
        return bytes(union.serialize())

    def _bounded(self, sketch: bytes, call: Aggregate) -> Bounded:
        kll = ds.kll_doubles_sketch.deserialize(sketch)
        if kll.is_empty():
            return None, None, None
        share = share_of(call)
        # A sketch that has never been full has every value.
        error = kll.normalized_rank_error(False) if kll.is_estimation_mode() else 0.0
        places = (share, max(share - error, 0.0), min(share + error, 1.0))
        value, low, high = (kll.get_quantile(place, True) for place in places)
        return value, low, high


@dataclass(frozen=True)
class FrequentSketch(Sketch):
    """Frequent items: the k largest counts, each with bounds; of texts, other values as text."""

    size: int = 10
    """Binary logarithm of its counters."""
    functions = frozenset({"APPROX TOP"})

    def _made(self, values: pa.Array, counts: Int64s) -> bytes:
        sketch = ds.frequent_strings_sketch(self.size)
        for value, count in zip(values.cast(pa.string()).to_pylist(), counts.tolist(), strict=True):
            sketch.update(value, count)
        return bytes(sketch.serialize())

    def _union(self, parts: list[bytes]) -> bytes:
        union = ds.frequent_strings_sketch(self.size)
        for part in parts:
            union.merge(ds.frequent_strings_sketch.deserialize(part))
        return bytes(union.serialize())

    def _bounded(self, sketch: bytes, call: Aggregate) -> Bounded:
        items = ds.frequent_strings_sketch.deserialize(sketch)
        listed = items.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_NEGATIVES)
        largest = sorted(listed, key=lambda item: (-item[1], item[0]))[: whole_parameter(call)]
        values, _, lows, highs = zip(*largest, strict=True) if largest else ((), (), (), ())
        return list(values), list(lows), list(highs)

    def of_nothing(self, call: Aggregate) -> Any:
        return []


def _hashable(value: Any) -> int | float | str:
    """What a sketch hashes: numbers as they are, anything else by its text."""
    if isinstance(value, bool | Decimal) or not isinstance(value, int | float | str):
        return str(value)
    return value
