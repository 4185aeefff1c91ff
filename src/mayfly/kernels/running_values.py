"""Functions over frames that begin with the first row of a key: one stored row per key tells all.

Idea: counts and sums of whole numbers go on from 128-bit totals, sums of floating-point numbers
from their exact digits; MIN, MAX and FIRST_VALUE read the stored row as the first of the frame.
Invariant: the values are those over all rows of the key, to the last bit.
Cost: O(new rows); state: one row per key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.errors import BadInput
from mayfly.kernels.aggregate_steps import moment_text
from mayfly.kernels.frame_layout import Layout
from mayfly.kernels.frame_values import Carry, frame_events, framed
from mayfly.kernels.group_events import Wide
from mayfly.kernels.holistic import SQUARES, SUMS
from mayfly.kernels.lifetime_rows import Bools, numbers, whole
from mayfly.kernels.resident import Parts
from mayfly.plan.aggregate_families import SPREADS
from mayfly.plan.over_frames import FrameCall
from mayfly.plan.types import arrow_type

ROWS, PEERS = "_rows", "_peers"
"""How many rows, and groups of peers, a key had so far."""


def carried_columns(number: int, call: FrameCall) -> list[tuple[str, pa.DataType]]:
    """What is stored with a key for one call."""
    if call.function in ("row_number", "rank", "dense_rank"):
        return []
    if call.aggregate is None or call.aggregate.function in ("min", "max"):
        return [(f"_value{number}", arrow_type(call.data_type))]
    if call.aggregate.argument is None:
        return []
    if call.aggregate.function == "count":
        return [(f"_present{number}", pa.int64())]
    if _is_whole(call):
        return [(f"{part}{number}", pa.int64()) for part in ("_present", "_low", "_high")]
    return [(f"_digits{number}", pa.binary())]


def _is_whole(call: FrameCall) -> bool:
    argument = call.argument
    assert call.aggregate is not None
    sums = call.aggregate.function in ("sum", "avg")
    return sums and argument is not None and argument.type.is_integral


@dataclass(frozen=True)
class RunningInput:
    """Rows in order, each partition led by its stored row if it has one.

    ``stored`` has one row for each partition that has one, ``owners`` the numbers of these;
    ``targets`` are all rows but the stored ones.
    """

    layout: Layout
    targets: Int64s
    stored: pa.Table
    owners: Int64s
    arguments: Mapping[int, pa.Array]
    """Of all rows; of the stored ones NULL, or what they tell of earlier rows."""
    times: Int64s

    @property
    def partitions(self) -> int:
        return int(self.layout.partition[-1]) + 1

    @property
    def last(self) -> Int64s:
        """The last target of each partition."""
        own = self.layout.partition[self.targets]
        return np.flatnonzero(np.append(own[1:] != own[:-1], True))

    def before(self, name: str) -> Int64s:
        """A stored number of every partition, 0 where nothing is stored."""
        counts = np.zeros(self.partitions, np.int64)
        counts[self.owners] = numbers(self.stored, name)
        return counts

    def _led(self) -> Int64s:
        led = np.zeros(self.partitions, np.int64)
        led[self.owners] = 1
        return led

    def numbering(self, function: str) -> Int64s:
        layout, targets = self.layout, self.targets
        own = layout.partition[targets]
        starts = layout.starts[targets] + self._led()[own]
        if function == "row_number":
            return targets - starts + 1 + self.before(ROWS)[own]
        if function == "rank":
            return layout.first_peers[targets] - starts + 1 + self.before(ROWS)[own]
        groups: Int64s = layout.peer[targets] - layout.peer[starts] + 1
        return groups + self.before(PEERS)[own]

    def values(self, number: int, call: FrameCall) -> tuple[pa.Array, dict[str, pa.Array]]:
        """The value of a call for each target, and what to store with each partition."""
        if call.function in ("row_number", "rank", "dense_rank"):
            return pa.array(self.numbering(call.function)).cast(arrow_type(call.data_type)), {}
        low, high = self.layout.bounds(call.frame, self.targets)
        if call.aggregate is None:
            values = self.arguments[number].take(pa.array(low)).cast(arrow_type(call.data_type))
            return values, {f"_value{number}": values.take(pa.array(self.last))}
        if call.aggregate.function in ("min", "max"):
            values = self._framed(number, call, low, high)
            return values, {f"_value{number}": values.take(pa.array(self.last))}
        if call.aggregate.argument is None:
            own = self.layout.partition[self.targets]
            starts = self.layout.starts[self.targets] + self._led()[own]
            return pa.array(high - starts + self.before(ROWS)[own]), {}
        if call.aggregate.function == "count":
            counts = self._framed(number, call, low, high).to_numpy(zero_copy_only=False)
            counts = counts + self.before(f"_present{number}")[self.layout.partition[self.targets]]
            return pa.array(counts), {f"_present{number}": pa.array(counts[self.last])}
        if _is_whole(call):
            return self._totals(number, call, low, high)
        return self._digits(number, call, low, high)

    def _framed(
        self, number: int, call: FrameCall, low: Int64s, high: Int64s, carry: Carry | None = None
    ) -> pa.Array:
        assert call.aggregate is not None
        argument, function = self.arguments[number], call.aggregate
        return framed(function, argument, self.layout, self.targets, low, high, self.times, carry)

    def _totals(
        self, number: int, call: FrameCall, low: Int64s, high: Int64s
    ) -> tuple[pa.Array, dict[str, pa.Array]]:
        values = self.arguments[number]
        events = frame_events(self.layout.partition, self.targets, low, high, values)
        every = np.arange(self.partitions)
        taken = values.take(pa.array(events.order))
        present: Bools = pc.is_valid(taken).to_numpy(zero_copy_only=False)
        filled = pc.fill_null(taken, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
        counts = events.running(
            present.astype(np.int64), every, Wide.of(self.before(f"_present{number}"))
        ).low
        base = Wide(self.before(f"_low{number}"), self.before(f"_high{number}"))
        sums = events.running(np.ascontiguousarray(filled), every, base)
        assert call.aggregate is not None
        if call.aggregate.function == "avg":
            result = pa.array(sums.floats / np.maximum(counts, 1), mask=counts == 0)
        else:
            if not sums.fits.all():
                moment = int(self.times[int(np.flatnonzero(~sums.fits)[0])])
                raise BadInput(
                    f"SUM over the frame does not fit a BIGINT{moment_text(moment)}",
                    "cast the aggregate's argument to DOUBLE or a wider DECIMAL",
                )
            result = pa.array(sums.low, mask=counts == 0)
        last = self.last
        return result, {
            f"_present{number}": pa.array(counts[last]),
            f"_low{number}": pa.array(sums.low[last]),
            f"_high{number}": pa.array(sums.high[last]),
        }

    def _digits(
        self, number: int, call: FrameCall, low: Int64s, high: Int64s
    ) -> tuple[pa.Array, dict[str, pa.Array]]:
        assert call.aggregate is not None
        residue = SQUARES if call.aggregate.function in SPREADS else SUMS
        name = (residue, call.aggregate.argument)
        column = f"_digits{number}"
        stored = whole(self.stored.column(column)).to_pylist() if len(self.owners) else []
        rows: dict[int, Parts] = {
            int(owner): {name: (np.frombuffer(digits, np.int64),)}
            for owner, digits in zip(self.owners.tolist(), stored, strict=True)
        }
        carry = Carry(rows, is_left=True)
        values = self._framed(number, call, low, high, carry)
        left = [carry.left[group][name][0].tobytes() for group in range(self.partitions)]
        return values, {column: pa.array(left, pa.binary())}
