"""Values of stretches of sorted panes that are no difference of two running sums.

Idea: contents that can be taken out again (exact sums, a counter for each value) are played along
one path through all stretches of a group: from the shortest window to the longest, forth and back
in time, so that from one stretch to the next only rows come or go in which these differ (CS2: one
scan answers at every depth). Where that is more than the stretch has, another path begins.
Moments and sketches only merge: stretches of a window are a queue, answered by two stacks.
Invariant: a value depends on the rows of its stretch alone.
Cost: O(rows of the longest window + rows in which stretches differ) for each group.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.alive_before import Before
from mayfly.kernels.delta import concatenated
from mayfly.kernels.group_events import Events
from mayfly.kernels.holistic import TooLarge, Versions
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.lifetime_rows import Bools
from mayfly.kernels.pane_aggregates import is_merged, pane_aggregator, sketches_of, spreads_of
from mayfly.kernels.pane_queues import PaneQueues
from mayfly.kernels.pane_stretches import Stretches
from mayfly.kernels.room import touch
from mayfly.lifetime import MIN_TIME
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import AggregateCall


@dataclass(frozen=True)
class StretchVisits:
    """The stretches of groups, and what comes and goes from each of them to the next."""

    events: Events
    versions: Versions
    order: Int64s
    """Which stretch each visit is of."""

    @staticmethod
    def of(stretches: Stretches, lengths: Int64s, names: Sequence[str]) -> StretchVisits:
        """``lengths`` are those of the windows, ``names`` the columns of panes that are read."""
        order = _path(stretches, lengths)
        low, high, group = (
            part[order] for part in (stretches.low, stretches.high, stretches.group)
        )
        new, count = _differences(group, low, high)
        rows, sign, visit = _steps(new, low, high, count, len(stretches.rows.times))
        touch(int(np.abs(sign).sum()))
        chain = np.cumsum(new) - 1
        columns = {name: stretches.rows.values(name) for name in names}
        blank = {name: pa.nulls(1, values.type) for name, values in columns.items()}
        table = concatenated([pa.table(columns), pa.table(blank)])
        events = Events(chain[visit], visit, sign, table, rows, [])
        before = Before.of(KeptRows(Shape()), events.codes, MIN_TIME, {})
        full = np.ones(len(order), bool)
        size = high - low
        return StretchVisits(
            events, Versions(chain, stretches.time[order], size, chain, full, before), order
        )

    def values(self, call: AggregateCall, weight: Column | None) -> pa.Array:
        """Of each stretch."""
        assert isinstance(call.argument, Column)
        made = pane_aggregator(call, None if weight is None else f".{weight.name}")
        assert made.way.play is not None
        try:
            played = made.way.play(call, self.events, self.versions, f".{call.argument.name}")
        except TooLarge as error:
            raise TooLarge(int(self.order[error.version])) from None
        back = np.empty(len(self.order), np.int64)
        back[self.order] = np.arange(len(back))
        return played.take(pa.array(back))


@dataclass
class StretchValues:
    """What calls make of stretches; they share what several of them need."""

    stretches: Stretches
    lengths: Int64s
    names: Sequence[str]
    laid_out: dict[Hashable, Any] = field(default_factory=dict)

    def of(self, call: AggregateCall, weight: Column | None) -> pa.Array:
        """The value of each stretch."""
        if not is_merged(call):
            return self._visits.values(call, weight)
        if call.approximate:
            return sketches_of(call, self._queues(call), self.laid_out)
        return spreads_of(call, self._queues(call))

    def _queues(self, call: AggregateCall) -> PaneQueues:
        assert isinstance(call.argument, Column)
        stretches = self.stretches
        window, group = stretches.window, stretches.group
        new = np.append(True, (window[1:] != window[:-1]) | (group[1:] != group[:-1]))
        touch(int((stretches.high[np.roll(new, -1)] - stretches.low[new]).sum()))
        contents = stretches.rows.values(f".{call.argument.name}")
        return PaneQueues(contents, stretches.low, stretches.high)

    @cached_property
    def _visits(self) -> StretchVisits:
        return StretchVisits.of(self.stretches, self.lengths, self.names)


def _path(stretches: Stretches, lengths: Int64s) -> Int64s:
    """Group by group, from shorter windows to longer ones, every other one back in time."""
    group, window, time = stretches.group, stretches.window, stretches.time
    order = np.lexsort((time, window, lengths[window], group))
    if not len(order):
        return order
    group, window, time = group[order], window[order], time[order]
    new = np.append(True, (group[1:] != group[:-1]) | (window[1:] != window[:-1]))
    pair = np.cumsum(new) - 1
    heads = np.append(True, group[1:] != group[:-1])
    first = pair[np.maximum.accumulate(np.where(heads, np.arange(len(pair)), 0))]
    forth = np.where((pair - first) % 2 == 1, -time, time)
    path: Int64s = order[np.lexsort((forth, pair))]
    return path


def _differences(group: Int64s, low: Int64s, high: Int64s) -> tuple[Bools, Int64s]:
    """Where a path begins, and how many rows come or go at each visit."""
    size = high - low
    new, count = np.ones(len(size), bool), size.copy()
    if len(size) > 1:
        apart = np.abs(np.diff(low)) + np.abs(np.diff(high))
        new[1:] = (group[1:] != group[:-1]) | (size[1:] <= apart)
        count[1:] = np.where(new[1:], size[1:], apart)
    return new, count


def _steps(
    new: Bools, low: Int64s, high: Int64s, count: Int64s, blank: int
) -> tuple[Int64s, Int64s, Int64s]:
    """Row, sign and visit of what comes and goes; a visit at which nothing does has an event about
    the ``blank`` row."""
    flat = _walk(new.astype(np.int64), low, high, np.maximum(count, 1), blank)
    rows, sign, visit = flat.reshape(3, -1)
    return np.ascontiguousarray(rows), np.ascontiguousarray(sign), np.ascontiguousarray(visit)


@compiled(f"{WRITE}({READ}, {READ}, {READ}, {READ}, int64)")
def _walk(new: Int64s, low: Int64s, high: Int64s, count: Int64s, blank: int) -> Int64s:
    total = count.sum()
    flat = np.zeros(3 * total, np.int64)
    place = 0
    for visit in range(len(low)):
        begin = place
        left, right = low[visit], high[visit]
        was_left, was_right = left, left
        if new[visit] == 0:
            was_left, was_right = low[visit - 1], high[visit - 1]
        for row in range(left, min(was_left, right)):
            flat[place], flat[total + place] = row, 1
            place += 1
        for row in range(max(was_right, left), right):
            flat[place], flat[total + place] = row, 1
            place += 1
        for row in range(was_left, min(left, was_right)):
            flat[place], flat[total + place] = row, -1
            place += 1
        for row in range(max(right, was_left), was_right):
            flat[place], flat[total + place] = row, -1
            place += 1
        if place == begin:
            flat[place] = blank
            place += 1
        flat[2 * total + begin : 2 * total + place] = visit
    return flat
