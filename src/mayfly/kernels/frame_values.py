"""The values of functions over frames.

Idea: from row to row a frame only moves on, so what happens to it are rows that come and rows that
go: the events of a group, with one version per row. So every aggregate of GROUP BY is an aggregate
over frames, exact and by the same code. Numbers and neighbours are read off the positions.
Invariant: a value depends on the rows of the frame alone, not on how batches were cut.
Cost: that of the aggregate for two events a row.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.aggregate_steps import Known, aggregator
from mayfly.kernels.alive_before import Before
from mayfly.kernels.frame_layout import Layout
from mayfly.kernels.group_events import Events, Wide
from mayfly.kernels.holistic import Versions
from mayfly.kernels.resident import Part, Parts
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.over_frames import NUMBERINGS, SHIFTS, FrameCall
from mayfly.plan.types import arrow_type

_NONE: Int64s = np.empty(0, np.int64)
ARGUMENT = "_argument"


@dataclass(frozen=True)
class FrameInput:
    """Rows in order and the rows whose values are asked for, by position.

    ``arguments`` are columns of the rows by the number of the call; ``times`` the instants of the
    targets, for messages.
    """

    layout: Layout
    targets: Int64s
    arguments: Mapping[int, pa.Array]
    defaults: Mapping[int, pa.Array]
    """The values of LAG and LEAD beyond the partition, for the targets."""
    times: Int64s

    def values(self, number: int, call: FrameCall) -> pa.Array:
        """The value of a call for each target."""
        kind = arrow_type(call.data_type)
        if call.function in NUMBERINGS:
            return pa.array(self.numbering(call.function), pa.int64()).cast(kind)
        if call.function in SHIFTS:
            return self._shifted(number, call, kind)
        low, high = self.layout.bounds(call.frame, self.targets)
        if call.aggregate is None:
            return self._picked(number, call, low, high).cast(kind)
        argument = self.arguments.get(number)
        return framed(call.aggregate, argument, self.layout, self.targets, low, high, self.times)

    def numbering(self, function: str) -> Int64s:
        layout, targets = self.layout, self.targets
        if function == "row_number":
            return targets - layout.starts[targets] + 1
        if function == "rank":
            return layout.first_peers[targets] - layout.starts[targets] + 1
        return layout.peer[targets] - layout.peer[layout.starts[targets]] + 1

    def _shifted(self, number: int, call: FrameCall, kind: pa.DataType) -> pa.Array:
        ahead = call.offset if call.function == "lead" else -call.offset
        places = self.targets + ahead
        layout, targets = self.layout, self.targets
        inside = (places >= layout.starts[targets]) & (places < layout.ends[targets])
        values = self.arguments[number].take(pa.array(places, mask=~inside)).cast(kind)
        if call.default is None:
            return values
        return pc.if_else(pa.array(inside), values, self.defaults[number].cast(kind))

    def _picked(self, number: int, call: FrameCall, low: Int64s, high: Int64s) -> pa.Array:
        values, filled = self.arguments[number], low < high
        if call.ignores_nulls:
            valid = np.flatnonzero(pc.is_valid(values).to_numpy(zero_copy_only=False))
            first = call.function == "first_value"
            slot = np.searchsorted(valid, low) if first else np.searchsorted(valid, high) - 1
            slots = np.append(valid, -1)
            places = slots[np.clip(slot, -1, len(valid))]
            filled = filled & (places >= low) & (places < high)
        else:
            places = low if call.function == "first_value" else high - 1
        return values.take(pa.array(places, mask=~filled))


@dataclass
class Carry:
    """What is known of earlier rows: by partition and name, and what is left for later ones."""

    before: Mapping[int, Parts] = field(default_factory=dict)
    left: dict[int, dict[Hashable, Part]] = field(default_factory=dict)
    is_left: bool = False


def framed(
    call: AggregateCall,
    argument: pa.Array | None,
    layout: Layout,
    targets: Int64s,
    low: Int64s,
    high: Int64s,
    times: Int64s,
    carry: Carry | None = None,
) -> pa.Array:
    """An aggregate over the rows from ``low`` to ``high`` of each target."""
    kind = arrow_type(call.data_type)
    if not len(targets):
        return pa.array([], kind)
    events = frame_events(layout.partition, targets, low, high, argument)
    last = events.last_of_instant
    counts = events.running(np.ones_like(events.sign), _NONE, _none_before())
    group = events.group_of_instant
    groups = len(events.codes)
    carry = carry or Carry()
    large = np.arange(groups) if carry.is_left else _NONE
    before = Before(
        (), (), _NONE, np.zeros(groups + 1, np.int64), carry.before, large=large, left=carry.left
    )
    full = np.ones(len(last), bool)
    versions = Versions(group, times, counts.low, events.codes[group], full, before)
    nothing = Known(_no_totals(kind), "_value", "_total")
    totals = aggregator(call).totals(events, _NONE, nothing, ARGUMENT, versions)
    return totals.plain(kind)


def frame_events(
    partition: Int64s, targets: Int64s, low: Int64s, high: Int64s, argument: pa.Array | None
) -> Events:
    """Rows that come into the frame and leave it, with one version for each target."""
    rows = np.arange(len(partition))
    enters = np.searchsorted(high, rows, side="right")
    leaves = np.searchsorted(low, rows, side="right")
    seen = np.flatnonzero(enters < leaves)
    enters, leaves = enters[seen], leaves[seen]
    # What leaves at a target of a later partition is of no concern to that one.
    goes = leaves < len(targets)
    goes[goes] = partition[targets[leaves[goes]]] == partition[seen[goes]]
    about = np.concatenate([seen, seen[goes], targets])
    time = np.concatenate([enters, leaves[goes], np.arange(len(targets))])
    sign = np.concatenate(
        [np.ones(len(seen), np.int64), np.full(int(goes.sum()), -1), np.zeros(len(targets), int)]
    ).astype(np.int64)
    column = pa.nulls(len(partition), pa.int64()) if argument is None else argument
    table = pa.table({ARGUMENT: column})
    return Events.sorted(partition[about], time, sign, table, [], about)


def _none_before() -> Wide:
    return Wide(_NONE, _NONE)


def _no_totals(kind: pa.DataType) -> pa.Table:
    names = ("_total", "_totalsum")
    return pa.schema([*((name, pa.int64()) for name in names), ("_value", kind)]).empty_table()
