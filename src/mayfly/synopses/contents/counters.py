"""Exact counters and value sets: how often each value occurs in each group, or that it does.

A summary has a row for each group and value, NULL included, which keeps the group alive. Counters
answer whatever depends on the values alone; they add up, so a part can be subtracted. A set answers
less, takes less, and may be merged with sets that overlap it. Neither is kept since the beginning:
that would count the whole past.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.arrays.order import Int64s
from mayfly.errors import InvalidSetting
from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.synopses.contents.partial_values import (
    ROWS,
    VALUE,
    Aggregate,
    Content,
    Groups,
    Keys,
    plain,
)

COUNTED = "_value"
_ROUNDING = 1e-9
"""A share times a count may be a little more than the whole number that is meant."""


@dataclass(frozen=True)
class ValueSet(Content):
    """The values of each group, each once."""

    functions = frozenset({"COUNT DISTINCT", "MIN", "MAX"})
    insensitive = True

    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        return self.merge(plain(rows, keys, self.argument, COUNTED), keys)

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        first = Groups.of(summaries, [*keys, COUNTED]).first
        return summaries.take(pa.array(np.sort(first)))

    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        return _answered(summary, keys, call, np.ones(summary.num_rows, np.int64))

    def of_nothing(self, call: Aggregate) -> Any:
        return 0 if call.function == "COUNT DISTINCT" else None


@dataclass(frozen=True)
class Counters(ValueSet):
    """The values of each group and how often they occur."""

    functions = frozenset({"COUNT", "COUNT DISTINCT", "MIN", "MAX", "MEDIAN", "QUANTILE", "TOP"})
    insensitive = False
    subtractable = True

    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        columns = plain(rows, keys, self.argument, COUNTED)
        ones = pa.array(np.ones(rows.num_rows, np.int64))
        return self.merge(columns.append_column(ROWS, ones), keys)

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        groups = Groups.of(summaries, [*keys, COUNTED])
        counts = pa.array(groups.sums(numbers(summaries, ROWS)))
        return groups.table(summaries, [*keys, COUNTED], {ROWS: counts})

    def subtract(self, whole: pa.Table, part: pa.Table, keys: Keys) -> pa.Table:
        opposite = part.set_column(len(keys) + 1, ROWS, pc.negate(part.column(ROWS)))
        rest = self.merge(pa.concat_tables([whole, opposite]).combine_chunks(), keys)
        return rest.filter(pc.greater(rest.column(ROWS), 0))

    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        return _answered(summary, keys, call, numbers(summary, ROWS))

    def of_nothing(self, call: Aggregate) -> Any:
        if call.function == "TOP":
            return []
        return 0 if call.function.startswith("COUNT") else None


@dataclass(frozen=True)
class _Ranked:
    """The values of each group in their order, with running counts; NULLs count for nothing."""

    groups: Groups
    values: pa.Array
    number: Int64s
    counts: Int64s

    @staticmethod
    def of(summary: pa.Table, keys: Keys, counts: Int64s) -> _Ranked:
        groups = Groups.of(summary, keys)
        values = whole(summary.column(COUNTED))
        by = pa.table({"group": groups.number, "value": values, "row": np.arange(len(values))})
        ordered = by.sort_by([("group", "ascending"), ("value", "ascending")])
        ordered = ordered.filter(pc.is_valid(ordered.column("value")))
        order = numbers(ordered.combine_chunks(), "row")
        return _Ranked(groups, values.take(pa.array(order)), groups.number[order], counts[order])

    @property
    def ends(self) -> Int64s:
        """Where the values of each group end."""
        return np.cumsum(np.bincount(self.number, minlength=len(self.groups)))

    def totals(self) -> Int64s:
        totals = np.zeros(len(self.groups), np.int64)
        np.add.at(totals, self.number, self.counts)
        return totals

    def at(self, position: Int64s) -> pa.Array:
        """The value at a position, from 1, of each group; NULL where it has none."""
        totals = self.totals()
        before = np.cumsum(totals) - totals
        places = np.searchsorted(np.cumsum(self.counts), before + position)
        missing = totals == 0
        places[missing] = 0
        if not len(self.values):
            return pa.nulls(len(missing), self.values.type)
        return self.values.take(pa.array(places, mask=missing))

    def distinct(self) -> pa.Array:
        return pa.array(np.bincount(self.number, minlength=len(self.groups)))

    def top(self, k: int) -> pa.Array:
        """The k most frequent values with their counts: count descending, then value."""
        order = np.lexsort((np.arange(len(self.counts)), -self.counts, self.number))
        starts = np.append(0, self.ends)[:-1]
        position = np.arange(len(order)) - starts[self.number[order]]
        chosen = order[position < k]
        pairs = pa.StructArray.from_arrays(
            [self.values.take(pa.array(chosen)), pa.array(self.counts[chosen])], ["value", "count"]
        )
        sizes = np.bincount(self.number[chosen], minlength=len(self.groups))
        return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(sizes)), pa.int32()), pairs)


def _answered(summary: pa.Table, keys: Keys, call: Aggregate, counts: Int64s) -> pa.Table:
    ranked = _Ranked.of(summary, keys, counts)
    return ranked.groups.table(summary, keys, {VALUE: _value(ranked, call)})


def _value(ranked: _Ranked, call: Aggregate) -> pa.Array:
    totals = ranked.totals()
    match call.function:
        case "COUNT":
            return pa.array(totals)
        case "COUNT DISTINCT":
            return ranked.distinct()
        case "MIN":
            return ranked.at(np.minimum(totals, 1))
        case "MAX":
            return ranked.at(totals)
        case "MEDIAN":
            low, high = (ranked.at(place) for place in ((totals + 1) // 2, totals // 2 + 1))
            return _middle(low, high)
        case "TOP":
            return ranked.top(whole_parameter(call))
        case _:
            share = share_of(call)
            return ranked.at(np.maximum(np.ceil(share * totals - _ROUNDING), 1).astype(np.int64))


def _middle(low: pa.Array, high: pa.Array) -> pa.Array:
    low, high = low.cast(pa.float64()), high.cast(pa.float64())
    halves = pc.add(pc.multiply(low, 0.5), pc.multiply(high, 0.5))
    return pc.if_else(pc.equal(low, high), low, halves)


def share_of(call: Aggregate) -> float:
    """The parameter of a quantile."""
    if not isinstance(call.parameter, float | int) or not 0 <= call.parameter <= 1:
        raise InvalidSetting(f"{call} needs a share", "give a number from 0 to 1")
    return float(call.parameter)


def whole_parameter(call: Aggregate) -> int:
    """The parameter of a list of the most frequent."""
    if not isinstance(call.parameter, int) or call.parameter < 1:
        raise InvalidSetting(f"{call} needs how many", "give a whole number from 1 on")
    return call.parameter
