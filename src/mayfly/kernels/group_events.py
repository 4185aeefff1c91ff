"""What happens to groups in a step: rows that come and rows that go, by group and instant.

Idea: sorted by group and instant, the events of one group at one instant stand together, and what
the last of them leaves behind is a version of the group. A running sum over signed amounts gives
the total of every version in one pass.
Invariant: totals have 128 bits, so that only a version that does not fit its type is refused.
Cost: the sort, then O(events).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s, places_in, stable_order
from mayfly.kernels.codes import are_exact, check_codes
from mayfly.kernels.delta import concatenated, taken, with_numbers
from mayfly.kernels.lifetime_rows import CODE, Bools, numbers, whole

Floats = npt.NDArray[np.float64]
HALF = np.int64(2**32 - 1)
"""The lower 32 bits of a number."""


@dataclass(frozen=True)
class Wide:
    """Whole numbers of 128 bits: their lower half, and ``high`` times 2^64."""

    low: Int64s
    high: Int64s

    @staticmethod
    def of(values: Int64s) -> Wide:
        return Wide(values, values >> 63)

    @staticmethod
    def of_halves(low: Int64s, high: Int64s) -> Wide:
        """From sums of the lower 32 bits of numbers, and of the rest."""
        high = high + (low >> 32)
        return Wide((high << 32) | (low & HALF), high >> 32)

    @staticmethod
    def near(low: Int64s, rough: Floats) -> Wide:
        """The numbers with this lower half that are nearest to some others."""
        away = (np.nan_to_num(rough) - low.astype(np.float64)) / 2.0**64
        return Wide(low, np.rint(away).astype(np.int64) + (low >> 63))

    @property
    def fits(self) -> Bools:
        """Which fit 64 bits."""
        fits: Bools = self.high == self.low >> 63
        return fits

    @property
    def floats(self) -> Floats:
        wide = self.high.astype(np.float64) * 2.0**64 + self.low.view(np.uint64).astype(np.float64)
        return np.where(self.fits, self.low.astype(np.float64), wide)


@dataclass(frozen=True)
class Events:
    """What happens to groups in a step, sorted by group code and instant."""

    code: Int64s
    time: Int64s
    sign: Int64s
    rows: pa.Table
    """Keys and arguments, in any order."""
    order: Int64s
    """Which row each event is about."""
    key_names: list[str]

    @staticmethod
    def sorted(
        code: Int64s,
        time: Int64s,
        sign: Int64s,
        rows: pa.Table,
        key_names: list[str],
        about: Int64s | None = None,
    ) -> Events:
        order = stable_order(code, time)
        rows_of = order if about is None else about[order]
        return Events(code[order], time[order], sign[order], rows, rows_of, key_names)

    def with_versions(self, groups: pa.Table, instants: Int64s) -> Events:
        """With an event that changes nothing for each group, given by keys and code, and instant:
        each gets a version there."""
        every = taken(groups, np.repeat(np.arange(groups.num_rows), len(instants)))
        blank = [
            every.column(column.name)
            if column.name in self.key_names
            else pa.nulls(every.num_rows, column.type)
            for column in self.rows.schema
        ]
        return Events.sorted(
            np.concatenate([self.code, numbers(every, CODE)]),
            np.concatenate([self.time, np.tile(instants, groups.num_rows)]),
            np.concatenate([self.sign, np.zeros(every.num_rows, np.int64)]),
            concatenated([self.rows, pa.table(blank, schema=self.rows.schema)]),
            self.key_names,
            np.append(self.order, np.arange(every.num_rows) + len(self.order)),
        )

    def keys(self, events: Int64s) -> pa.Table:
        return taken(self.rows.select(self.key_names), self.order[events])

    def values(self, name: str) -> pa.Array:
        return whole(self.rows.column(name)).take(pa.array(self.order))

    @cached_property
    def codes(self) -> Int64s:
        """The touched groups."""
        return self.code[self.first_of_group]

    @cached_property
    def first_of_group(self) -> Int64s:
        heads: Int64s = np.flatnonzero(
            np.append(True, self.code[1:] != self.code[:-1]) if len(self.code) else self.code
        )
        return heads

    @cached_property
    def last_of_instant(self) -> Int64s:
        """The last event of each group and instant: only what it leaves behind is a version."""
        ends = (self.code[1:] != self.code[:-1]) | (self.time[1:] != self.time[:-1])
        last: Int64s = np.flatnonzero(np.append(ends, True))
        return last

    @cached_property
    def group_of_instant(self) -> Int64s:
        """The number of the group to which each version belongs."""
        return places_in(self.codes, self.code[self.last_of_instant])

    @cached_property
    def group_of_event(self) -> Int64s:
        """The number of the group to which each event belongs."""
        return places_in(self.codes, self.code)

    @property
    def marks(self) -> tuple[Int64s, Int64s]:
        """Where each version ends, and to which group it belongs."""
        return self.last_of_instant, self.group_of_instant

    def running(self, amounts: Int64s, place: Int64s, previous_totals: Wide) -> Wide:
        """Totals after each instant; groups at ``place`` begin with ``previous_totals``."""
        low, high = np.zeros((2, len(self.codes)), np.int64)
        low[place], high[place] = previous_totals.low, previous_totals.high
        last = self.last_of_instant
        totals = Wide(np.empty(len(last), np.int64), np.empty(len(last), np.int64))
        _fill_totals(
            amounts, self.sign, last, self.group_of_instant, low, high, totals.low, totals.high
        )
        return totals

    def check(self, last_results: pa.Table) -> None:
        """Refuse groups that differ but share a code."""
        kinds = [self.rows.schema.field(name).type for name in self.key_names]
        if not kinds or are_exact(kinds):
            return
        names = [*self.key_names, CODE]
        mine = with_numbers(self.keys(np.arange(len(self.code))), **{CODE: self.code})
        both = concatenated([last_results.select(names), mine])
        both = taken(both, stable_order(numbers(both, CODE)))
        columns = [whole(both.column(name)) for name in self.key_names]
        check_codes(numbers(both, CODE), columns)


@compiled(f"void({READ}, {READ}, {READ}, {READ}, {READ}, {READ}, {WRITE}, {WRITE})", plain=True)
def _fill_totals(
    amounts: Int64s,
    sign: Int64s,
    last: Int64s,
    group: Int64s,
    base_low: Int64s,
    base_high: Int64s,
    lows: Int64s,
    highs: Int64s,
) -> None:
    """Running totals of 128 bits at the last event of each version."""
    event, current = 0, -1
    low, high = np.uint64(0), np.int64(0)
    for version in range(len(last)):
        if group[version] != current:
            current = group[version]
            low, high = np.uint64(base_low[current]), base_high[current]
        while event <= last[version]:
            amount = amounts[event]
            bits = np.uint64(amount)
            if sign[event] > 0:
                low += bits
                high += (amount >> 63) + (1 if low < bits else 0)
            elif sign[event] < 0:
                high -= (amount >> 63) + (1 if low < bits else 0)
                low -= bits
            event += 1
        lows[version], highs[version] = np.int64(low), high
