"""Sketches of values: a few bytes in the place of a set or multiset, which merge.

Idea: those of Apache DataSketches, in the format in which Spark's functions make them, so that
parts may come from either. They are fed with distinct values and their counts, never row by row.
Invariant: sketches of one kind have equal parameters, so any two of them merge; the error is that
of the sketch for the merged size. Cost: O(size) per merge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.errors import BadInput

Bounded = tuple[Any, Any, Any]
"""A value, and between what it surely (HLL: with 95 %) lies."""
TEXT = "="
"""Before every text that is hashed: a sketch ignores the empty one."""


@dataclass(frozen=True)
class ValueSketch(ABC):
    """How one kind of sketch is made, merged and asked."""

    size: int

    @property
    @abstractmethod
    def words(self) -> str:
        """What it is, and how far its answers may be off."""

    @abstractmethod
    def made(self, values: pa.Array, counts: Int64s) -> bytes:
        """The sketch of distinct values that occur so often."""

    @abstractmethod
    def read(self, sketch: bytes) -> Any: ...

    @abstractmethod
    def write(self, sketch: Any) -> bytes: ...

    @abstractmethod
    def joined(self, sketch: Any, other: Any) -> Any:
        """A new sketch of what both have seen."""

    @abstractmethod
    def bounded(self, sketch: Any, parameter: Any) -> Bounded: ...

    def union(self, parts: Iterable[bytes]) -> bytes:
        return self.write(reduce(self.joined, map(self.read, parts)))

    def along(self, parts: Sequence[bytes | None], first: Int64s, last: Int64s) -> Iterator[Any]:
        """The sketches of the parts from each of ``first`` to before ``last``, None of nothing;
        two stacks of merged ones serve all until one of these falls."""
        end = done = before = 0
        front: dict[int, Any] = {}
        back = None
        for low, high in zip(first.tolist(), last.tolist(), strict=True):
            fell, before = low < before or high < done, low
            if low >= end or fell:
                end = done = high
                front, back = {high: None}, None
                for place in range(high - 1, low - 1, -1):
                    front[place] = self._both(self._read(parts[place]), front[place + 1])
            while done < high:
                back = self._both(back, self._read(parts[done]))
                done += 1
            yield self._both(front[low], back)

    def _read(self, part: bytes | None) -> Any:
        return None if part is None else self.read(part)

    def _both(self, sketch: Any, other: Any) -> Any:
        if sketch is None or other is None:
            return other if sketch is None else sketch
        return self.joined(sketch, other)


@dataclass(frozen=True)
class HllSketch(ValueSketch):
    """HLL: how many distinct values. Overlaps do no harm."""

    size: int = 12

    @property
    def words(self) -> str:
        return f"HLL of 2^{self.size} counters: within {2 * 104 / 2 ** (self.size / 2):.1f} % (2 σ)"

    def made(self, values: pa.Array, counts: Int64s) -> bytes:
        from datasketches import hll_sketch

        sketch = hll_sketch(self.size)
        for value in values.to_pylist():
            sketch.update(_hashable(value))
        return self.write(sketch)

    def read(self, sketch: bytes) -> Any:
        from datasketches import hll_sketch

        return hll_sketch.deserialize(sketch)

    def write(self, sketch: Any) -> bytes:
        return bytes(sketch.serialize_compact())

    def joined(self, sketch: Any, other: Any) -> Any:
        from datasketches import hll_union

        union = hll_union(self.size)
        union.update(sketch)
        union.update(other)
        return union.get_result()

    def bounded(self, sketch: Any, parameter: Any) -> Bounded:
        low, high = sketch.get_lower_bound(2), sketch.get_upper_bound(2)
        return round(sketch.get_estimate()), low, high


@dataclass(frozen=True)
class KllSketch(ValueSketch):
    """KLL: quantiles of numbers, as doubles. NaN is ignored."""

    size: int = 200

    @property
    def words(self) -> str:
        from datasketches import kll_doubles_sketch

        error = kll_doubles_sketch.get_normalized_rank_error(self.size, False)
        return f"KLL of size {self.size}: the rank is off by up to {100 * error:.2f} %"

    def made(self, values: pa.Array, counts: Int64s) -> bytes:
        from datasketches import kll_doubles_sketch

        sketch = kll_doubles_sketch(self.size)
        try:
            floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise BadInput(
                f"values of type {values.type} are not numbers",
                "give a column of numbers, or ask for an exact QUANTILE",
            ) from None
        sketch.update(np.repeat(floats, counts))
        return self.write(sketch)

    def read(self, sketch: bytes) -> Any:
        from datasketches import kll_doubles_sketch

        return kll_doubles_sketch.deserialize(sketch)

    def write(self, sketch: Any) -> bytes:
        return bytes(sketch.serialize())

    def joined(self, sketch: Any, other: Any) -> Any:
        from datasketches import kll_doubles_sketch

        union = kll_doubles_sketch(self.size)
        union.merge(sketch)
        union.merge(other)
        return union

    def bounded(self, sketch: Any, parameter: Any) -> Bounded:
        if sketch.is_empty():
            return None, None, None
        share = float(str(parameter))
        # A sketch that has never been full has every value.
        error = sketch.normalized_rank_error(False) if sketch.is_estimation_mode() else 0.0
        places = (share, max(share - error, 0.0), min(share + error, 1.0))
        value, low, high = (sketch.get_quantile(place, True) for place in places)
        return value, low, high


@dataclass(frozen=True)
class ItemsSketch(ValueSketch):
    """Frequent items: the k largest counts, each with bounds; of texts, other values as text."""

    size: int = 10
    """Binary logarithm of its counters."""

    @property
    def words(self) -> str:
        return (
            f"frequent items of 2^{self.size} counters: a count lacks up to "
            f"{350 / 2**self.size:.2f} % of the rows"
        )

    def made(self, values: pa.Array, counts: Int64s) -> bytes:
        from datasketches import frequent_strings_sketch

        sketch = frequent_strings_sketch(self.size)
        for value, count in zip(values.cast(pa.string()).to_pylist(), counts.tolist(), strict=True):
            sketch.update(value, count)
        return self.write(sketch)

    def read(self, sketch: bytes) -> Any:
        from datasketches import frequent_strings_sketch

        return frequent_strings_sketch.deserialize(sketch)

    def write(self, sketch: Any) -> bytes:
        return bytes(sketch.serialize())

    def joined(self, sketch: Any, other: Any) -> Any:
        from datasketches import frequent_strings_sketch

        union = frequent_strings_sketch(self.size)
        union.merge(sketch)
        union.merge(other)
        return union

    def bounded(self, sketch: Any, parameter: Any) -> Bounded:
        from datasketches import frequent_items_error_type

        listed = sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)
        largest = sorted(listed, key=lambda item: (-item[1], item[0]))[: int(str(parameter))]
        values, _, lows, highs = zip(*largest, strict=True) if largest else ((), (), (), ())
        return list(values), list(lows), list(highs)


def _hashable(value: Any) -> int | float | str:
    """What a sketch hashes: numbers as they are, anything else by its text."""
    if isinstance(value, bool | Decimal) or not isinstance(value, int | float):
        return f"{TEXT}{value}"
    return value
