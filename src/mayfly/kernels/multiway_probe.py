"""The inner loop of n-way joins: rows, or partial results, look up one more input.

Idea: what probes comes in units that look up one bucket once (thesis 5.2: a new tuple, or all new
tuples with one value); each row found there is tried with every member of the unit. Rows carry a
rank: a probe sees those of a smaller rank only, which finds every combination exactly once. The
only test on lifetimes is max(ts) < min(exp).
Invariant: in a bucket ranks ascend, so a probe ends at the first row that came too late for it.
Cost: O(rows scanned), which is counted; pairs are handed over in bounded pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import concatenated, taken
from mayfly.kernels.lifetime_rows import CODE, numbers
from mayfly.lifetime import MIN_TIME
from mayfly.storage.segment import EXP, TS

KEPT = -1
"""The rank of rows that every probe sees."""


@dataclass(frozen=True, slots=True)
class Side:
    """The rows of one input by bucket; bucket b lies from ``bounds[b]`` to ``bounds[b + 1]``.

    Each value has its own bucket (``values``), or ``value mod n`` is one of n; n = 1 is the state
    of a nested-loop join.
    """

    rows: pa.Table
    ranks: Int64s
    bounds: Int64s
    values: Int64s | None

    @staticmethod
    def of(tables: Sequence[pa.Table], ranks: Sequence[Int64s], buckets: int | None) -> Side:
        """The rows of all tables; in each bucket their order is kept, and must be that of ranks."""
        rows, ranked = concatenated(tables), np.concatenate(ranks)
        codes = numbers(rows, CODE)
        places = codes if buckets is None else codes % buckets
        # NumPy's stable sort merges sorted stretches, of which runs consist.
        order = np.argsort(places, kind="stable")
        rows, places = taken(rows, order), places[order]
        if buckets is not None:
            bounds = np.searchsorted(places, np.arange(buckets + 1))
            return Side(rows, ranked[order], bounds, None)
        starts = np.flatnonzero(np.diff(places, prepend=~places[:1]))
        return Side(rows, ranked[order], np.append(starts, len(places)), places[starts])

    def bucket_of(self, codes: Int64s) -> Int64s:
        """The bucket in which to look for each code, -1 where it cannot be."""
        if self.values is None:
            return codes % (len(self.bounds) - 1)
        if not len(self.values):
            return np.full(len(codes), -1)
        positions = np.minimum(np.searchsorted(self.values, codes), len(self.values) - 1)
        return np.where(self.values[positions] == codes, positions, -1)


@dataclass(frozen=True, slots=True)
class Partial:
    """Partial results; ``members`` says which row of each joined input they hold."""

    members: dict[int, Int64s]
    codes: Int64s
    ts: Int64s
    exp: Int64s

    def chosen(self, marks: Int64s) -> Self:
        """Those at some positions."""
        members = {member: places[marks] for member, places in self.members.items()}
        return replace(
            self, members=members, codes=self.codes[marks], ts=self.ts[marks], exp=self.exp[marks]
        )


Held = TypeVar("Held", bound=Partial)


@dataclass(frozen=True, slots=True)
class Probes(Partial):
    """Rows or partial results that look for partners; unit u is ``units[u]`` to ``units[u + 1]``.

    All members of a unit have one code, one rank, and a ``now`` that none of their ts precedes.
    """

    ranks: Int64s
    now: Int64s
    units: Int64s

    def chosen(self, marks: Int64s) -> Self:
        """The partial results at some positions, in their units."""
        units = np.searchsorted(marks, self.units)
        return type(self)(
            {member: places[marks] for member, places in self.members.items()},
            self.codes[marks],
            self.ts[marks],
            self.exp[marks],
            self.ranks[marks],
            self.now[marks],
            units[np.flatnonzero(np.diff(units, append=-1))],
        )

    def joined(self, side: Side, member: int, pairs: tuple[Int64s, Int64s], single: bool) -> Probes:
        """With one more row each; those that share it, and their unit, stay one unit."""
        mine, other = pairs
        if single:
            units = np.arange(len(mine) + 1)
        else:
            owner = np.searchsorted(self.units, mine, side="right")
            changes = (np.diff(owner, prepend=-1) != 0) | (np.diff(other, prepend=-1) != 0)
            units = np.append(np.flatnonzero(changes), len(mine))
        return Probes(
            {
                **{member_number: places[mine] for member_number, places in self.members.items()},
                member: other.copy(),
            },
            self.codes[mine],
            np.maximum(self.ts[mine], numbers(side.rows, TS)[other]),
            np.minimum(self.exp[mine], numbers(side.rows, EXP)[other]),
            self.ranks[mine],
            self.now[mine],
            units,
        )


class Check(Protocol):
    """Which partial results hold: those for which every condition that can be checked is true, once
    they have a row of ``member``; ``tables`` are what their positions refer to."""

    def __call__(
        self, combinations: Held, tables: Sequence[pa.Table], origin: int, member: int
    ) -> Held: ...


@dataclass(slots=True)
class Effort:
    """What was done: how often a bucket was looked up, rows looked at, rows found expired."""

    probes: int = 0
    scanned: int = 0
    expired: int = 0


def partners(
    probes: Probes, side: Side, every: int | None, room: int, effort: Effort
) -> Iterator[tuple[Int64s, Int64s]]:
    """Positions (probe, row) of all that match, at most ``room`` at a time.

    Every ``every`` µs of the probes' time, rows that have expired are removed from the fronts of
    all buckets (of the probed one, where each value has its own); None: never.
    The arrays are overwritten when the next ones are asked for.
    """
    firsts = probes.units[:-1]
    buckets = side.bucket_of(probes.codes[firsts])
    sizes = np.where(buckets >= 0, np.diff(side.bounds)[buckets] if len(side.bounds) > 1 else 0, 0)
    room = min(room, int((sizes * np.diff(probes.units)).sum()))
    if not room:
        return
    out = np.empty(room, np.int64), np.empty(room, np.int64)
    cursor = np.array([0, -1, 0, MIN_TIME, 0, 0], np.int64)
    heads = side.bounds[:-1].copy()
    codes, ts, exp = (numbers(side.rows, name) for name in (CODE, TS, EXP))
    interval = -1 if every is None else every
    while cursor[0] < len(buckets):
        count = _meet(
            probes.units, buckets, probes.codes, probes.ts, probes.exp, probes.ranks, probes.now,
            heads, side.bounds, codes, ts, exp, side.ranks, interval, side.values is None,
            cursor, out[0], out[1],
        )  # fmt: skip
        if count:
            yield out[0][:count], out[1][:count]
    effort.probes += int(np.count_nonzero(buckets >= 0))
    effort.scanned += int(cursor[4])
    effort.expired += int(cursor[5])


@compiled(
    f"int64({READ}, {READ}, {READ}, {READ}, {READ}, {READ}, {READ}, {WRITE}, "
    f"{READ}, {READ}, {READ}, {READ}, {READ}, int64, boolean, {WRITE}, {WRITE}, {WRITE})"
)
def _meet(
    units: Int64s,
    buckets: Int64s,
    codes: Int64s,
    ts: Int64s,
    exp: Int64s,
    ranks: Int64s,
    now: Int64s,
    heads: Int64s,
    bounds: Int64s,
    other_codes: Int64s,
    other_ts: Int64s,
    other_exp: Int64s,
    other_ranks: Int64s,
    every: int,
    everywhere: bool,
    cursor: Int64s,
    out_probe: Int64s,
    out_other: Int64s,
) -> int:
    """Write the next pairs into the output arrays; ``cursor`` remembers where to go on."""
    unit, row, member, last = cursor[0], cursor[1], cursor[2], cursor[3]
    count, room = 0, len(out_probe)
    while unit < len(buckets):
        bucket, first, stop = buckets[unit], units[unit], units[unit + 1]
        if bucket < 0:
            unit += 1
            continue
        if row < 0:
            moment = now[first]
            if every >= 0 and (not everywhere or last + every <= moment):
                last = moment
                lowest = 0 if everywhere else bucket
                highest = len(heads) if everywhere else bucket + 1
                for place in range(lowest, highest):
                    head = heads[place]
                    while head < bounds[place + 1] and other_exp[head] <= moment:
                        head += 1
                    cursor[5] += head - heads[place]
                    heads[place] = head
            row, member = heads[bucket], first
        code, rank, high = codes[first], ranks[first], bounds[bucket + 1]
        while row < high and other_ranks[row] < rank:
            if other_codes[row] == code:
                while member < stop:
                    if other_ts[row] < exp[member] and ts[member] < other_exp[row]:
                        if count == room:
                            cursor[0], cursor[1], cursor[2], cursor[3] = unit, row, member, last
                            return count
                        out_probe[count] = member
                        out_other[count] = row
                        count += 1
                    member += 1
                member = first
            cursor[4] += 1
            row += 1
        unit += 1
        row = -1
    cursor[0], cursor[1], cursor[2], cursor[3] = unit, row, member, last
    return count
