"""What happens to groups in a step: rows that come and rows that go, by group and instant.

Idea: sorted by group and instant, the events of one group at one instant stand together, and what
the last of them leaves behind is a version of the group. A running sum over signed amounts gives
the total of every version in one pass.
Invariant: totals that leave 64 bits are refused, not wrapped. Cost: the sort, then O(events).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
import pyarrow as pa

from mayfly.errors import BadInput
from mayfly.kernels.codes import are_exact, check_codes
from mayfly.kernels.delta import concatenated, taken, with_numbers
from mayfly.kernels.rows import CODE, numbers, whole
from mayfly.kernels.sorting import Int64s, places_in, stable_order

_READ = numba.types.Array(numba.int64, 1, "C", readonly=True)
_WRITE = numba.types.Array(numba.int64, 1, "C")


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

    def running(self, amounts: Int64s, place: Int64s, known: Int64s) -> Int64s:
        """Totals after each instant; groups at ``place`` begin with what is ``known`` of them."""
        base = np.zeros(len(self.codes), np.int64)
        base[place] = known
        last, totals = self.last_of_instant, np.empty(len(self.last_of_instant), np.int64)
        if not _fill_totals(amounts, self.sign, last, self.group_of_instant, base, totals):
            raise BadInput(
                "a total does not fit a BIGINT",
                "cast the aggregate's argument to DOUBLE or DECIMAL",
            )
        return totals

    def check(self, known: pa.Table) -> None:
        """Refuse groups that differ but share a code."""
        kinds = [self.rows.schema.field(name).type for name in self.key_names]
        if not kinds or are_exact(kinds):
            return
        names = [*self.key_names, CODE]
        mine = with_numbers(self.keys(np.arange(len(self.code))), **{CODE: self.code})
        both = concatenated([known.select(names), mine])
        both = taken(both, stable_order(numbers(both, CODE)))
        columns = [whole(both.column(name)) for name in self.key_names]
        check_codes(numbers(both, CODE), columns)


@numba.njit(numba.boolean(_READ, _READ, _READ, _READ, _READ, _WRITE), cache=True, nogil=True)
def _fill_totals(
    amounts: Int64s, sign: Int64s, last: Int64s, group: Int64s, base: Int64s, totals: Int64s
) -> bool:
    """Running totals at the last event of each version; whether they fit 64 bits."""
    event, current, total, rough = 0, -1, 0, 0.0
    for version in range(len(last)):
        if group[version] != current:
            current = group[version]
            total, rough = base[current], float(base[current])
        while event <= last[version]:
            total += amounts[event] * sign[event]
            rough += float(amounts[event]) * sign[event]
            event += 1
        if abs(rough) > 9.2e18:
            return False
        totals[version] = total
    return True
