"""Panes that Spark SQL made, on their way to the tasks: each query's own, and their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import concatenated, payload
from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.kernels.moment_parts import MomentParts
from mayfly.kernels.pane_partials import PanePartials
from mayfly.kernels.value_spans import ValueSpans
from mayfly.lifetime import use_zone
from mayfly.physical.stages import StagedProgram
from mayfly.plan.pane_functions import COUNT, ROWS
from mayfly.runtime.max_gap import Limits
from mayfly.spark.stream.arrivals import Arrived, added, counted_groups, encoded
from mayfly.spark.stream.pane_pass import (
    KIND,
    LARGEST,
    LEAST,
    NUMBER,
    SET,
    PaneFeed,
    PanePass,
)
from mayfly.spark.stream.parcels import COUNTS, Parcel, batch_of
from mayfly.spark.stream.row_split import sent
from mayfly.spark.stream.slots import STREAM
from mayfly.storage.segment import TS

_HALF = np.int64(2**31 - 1)
"""The largest upper half of a sum."""


@dataclass(frozen=True)
class PaneSplitter:
    """Rows of the aggregation to parcels for the tasks that put windows on them."""

    program: StagedProgram
    panes: PanePass
    buckets: int
    limits: tuple[Limits, ...]
    zone: str = "UTC"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_zone(self.zone)
        groups = list(batches)
        counts: list[list[Arrived]] = []
        if groups:
            table = pa.Table.from_batches(groups).combine_chunks()
            fed = Counter[int]()
            yield batch_of(self._parcels(table, fed))
            came = enumerate(self._counted(table))
            counts.append([replace(arrived, fed=fed[number]) for number, arrived in came])
        total = encoded(added(counts, len(self.limits)))
        yield batch_of([Parcel(0, 0, COUNTS, total)])

    def _counted(self, table: pa.Table) -> list[Arrived]:
        """Every set has all rows: the first one tells."""
        rows = table.filter(pc.equal(table[SET], 0)).combine_chunks()
        which, least, largest = (whole(rows.column(name)) for name in (STREAM, LEAST, LARGEST))
        tags = which.to_numpy(zero_copy_only=False)
        return counted_groups(tags, least, largest, numbers(rows, NUMBER), self.limits)

    def _parcels(self, table: pa.Table, fed: Counter[int]) -> Iterator[Parcel]:
        ordinary = table.filter(pc.equal(table[KIND], 0))
        sets = [
            ordinary.filter(pc.equal(ordinary[SET], number)).combine_chunks()
            for number in range(len(self.panes.sets))
        ]
        for pane_feed in self.panes.feeds:
            rows = _rows_of(pane_feed, groups_of(pane_feed, sets[pane_feed.set]))
            fed[self.panes.stream] += rows.num_rows
            count = self.program.count(pane_feed.feed.stage, self.buckets)
            yield from sent(pane_feed.feed, pane_feed.number, rows, count)


def groups_of(pane_feed: PaneFeed, groups: pa.Table) -> pa.Table:
    """Those groups of its set with rows for a feed, and what it reads of them."""
    some = numbers(groups, pane_feed.rows) > 0
    if pane_feed.mark is not None:
        word, bit = pane_feed.mark
        some &= numbers(groups, word) >> bit & 1 == 1
    return groups.select(pane_feed.columns).take(pa.array(np.flatnonzero(some)))


def _rows_of(pane_feed: PaneFeed, groups: pa.Table) -> pa.Table:
    """What a feed gets of its groups: rows of its own panes, or the ends of its values' spans."""
    spans = pane_feed.feed.spans
    return merged(pane_feed, groups) if spans is None else span_ends(pane_feed, spans, groups)


def span_ends(pane_feed: PaneFeed, spans: ValueSpans, groups: pa.Table) -> pa.Table:
    """A row for the first and one for the last time of each group, one where these are equal."""
    columns = payload(spans.columns)
    values = [
        whole(groups.column(name)).cast(kind)
        for name, kind in zip(pane_feed.keys, columns.types, strict=True)
    ]
    first, last = (numbers(groups, pane_feed.numbers[place].low) for place in (0, -1))
    both = np.concatenate([np.arange(len(first)), np.flatnonzero(last > first)])
    times = np.concatenate([first, last[last > first]])
    arrays = [value.take(pa.array(both)) for value in values]
    return pa.table([*arrays, times], names=[*columns.names, TS])


def merged(pane_feed: PaneFeed, groups: pa.Table) -> pa.Table:
    """What a feed gets: rows of its own panes."""
    panes = pane_feed.feed.panes
    assert panes is not None
    columns = [groups.column(name) for name in pane_feed.keys]
    surplus: dict[int, Int64s] = {}
    for place, number in enumerate(pane_feed.numbers, start=len(columns)):
        if number.spread is not None:
            columns.append(_moments(groups, number.low, *number.spread))
        elif number.high is None:
            columns.append(groups.column(number.low))
        else:
            value, surplus[place] = _joined(groups, number.low, number.high)
            columns.append(value)
    kinds = panes.columns.types
    arrays = [column.cast(kind) for column, kind in zip(columns, kinds, strict=True)]
    rows = pa.table([*arrays, groups.column(LARGEST)], names=[*panes.columns.names, TS])
    more = [_surplus_rows(panes, rows, place, rest) for place, rest in surplus.items()]
    rows = concatenated([rows, *more])
    return panes.again.prepared(rows) if rows.num_rows else rows


def _moments(groups: pa.Table, count: str, mean: str, variance: str) -> pa.Array:
    counts, means, variances = (
        pc.fill_null(whole(groups.column(name)).cast(pa.float64()), 0.0).to_numpy()
        for name in (count, mean, variance)
    )
    return MomentParts(counts, means, variances * counts).structs()


def _joined(groups: pa.Table, low: str, high: str) -> tuple[pa.Array, Int64s]:
    """Sums from their halves as far as they fit 64 bits, and by how many 2^32 they are larger."""
    columns = [whole(groups.column(name)) for name in (low, high)]
    missing = pc.is_null(columns[0]).to_numpy(zero_copy_only=False)
    lows, highs = (pc.fill_null(half, 0).to_numpy(zero_copy_only=False) for half in columns)
    highs = highs + (lows >> 32)
    fitting = np.clip(highs, -(_HALF + 1), _HALF)
    return pa.array((fitting << 32) | (lows & np.int64(2**32 - 1)), mask=missing), highs - fitting


def _surplus_rows(panes: PanePartials, rows: pa.Table, place: int, rest: Int64s) -> pa.Table:
    """Rows that bring only what is left of sums, in amounts that fit 64 bits."""
    times, part = np.divmod(np.abs(rest), _HALF)
    owner = np.concatenate([np.repeat(np.arange(len(rest)), times), np.flatnonzero(part)])
    amounts = np.concatenate([np.full(times.sum(), _HALF), part[part > 0]]) * np.sign(rest)[owner]
    again = rows.take(pa.array(owner))
    keys = len(panes.columns) - len(panes.contents)
    columns = list(again.columns)
    for number, content in enumerate(panes.contents, start=keys):
        kind = panes.columns.field(number).type
        counts = content.function in (ROWS, COUNT)
        nothing = pa.array(np.zeros(len(owner), np.int64)) if counts else pa.nulls(len(owner), kind)
        columns[number] = pa.array(amounts << 32) if number == place else nothing
    return pa.table(columns, names=rows.schema.names)
