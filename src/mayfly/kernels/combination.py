"""Combinations of one row of every input with one code that are alive together, all at once.

Idea: the rows of every input lie sorted by (code, ts), and a step is one pass over the new rows of
each input in turn, which gallops to their code in the others and walks down these in the probe
order. New rows of an input see those of the inputs before it, and what was kept of those after it.
Invariant: every combination is found once, at its last input with a new row; partial results keep
the order of codes. The only test on lifetimes is max(ts) < min(exp) (thesis 5.2).
Cost: O(codes · log gap + rows looked at); results come in bounded pieces, payload is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.join_pairs import first_at_least
from mayfly.kernels.lifetime_rows import CODE, numbers
from mayfly.kernels.multiway_probe import Check, Effort, Partial
from mayfly.storage.segment import EXP, TS

_WRITE_2 = "Array(int64, 2, 'C')"
LOW, HIGH, AT, SINCE, UNTIL = range(5)
"""What is remembered of each input on the way down: its rows of the code, the next one to look at,
and the lifetime of what has been joined before it."""
ROW, LEVEL, SCANNED, PROBES, EXPIRED = range(5)


@dataclass(frozen=True, slots=True)
class Sorted:
    """Rows by (code, ts); ``places`` are their positions in their table."""

    codes: Int64s
    ts: Int64s
    exp: Int64s
    places: Int64s

    @staticmethod
    def of(table: pa.Table) -> Sorted:
        codes, ts, exp = (numbers(table, name) for name in (CODE, TS, EXP))
        # NumPy's stable sort merges sorted stretches, of which runs consist.
        order = np.argsort(codes, kind="stable")
        if _disordered(codes, ts, order):
            order = stable_order(codes, ts)
        return Sorted(codes[order], ts[order], exp[order], order)

    @staticmethod
    def of_new(codes: Int64s, ts: Int64s, exp: Int64s) -> Sorted:
        """Of rows in the order in which they came."""
        order = stable_order(codes, ts)
        return Sorted(codes[order], ts[order], exp[order], order)

    def moved(self, first: int) -> Sorted:
        """The same rows in a table where others come before them."""
        return Sorted(self.codes, self.ts, self.exp, self.places + first)

    def __len__(self) -> int:
        return len(self.codes)


def merged(first: Sorted, other: Sorted) -> Sorted:
    """The rows of both; of equal ones those of the first come first."""
    if not len(first) or not len(other):
        return first if len(first) else other
    order = _merge(first.codes, first.ts, other.codes, other.ts)
    columns = zip(
        (first.codes, first.ts, first.exp, first.places),
        (other.codes, other.ts, other.exp, other.places),
        strict=True,
    )
    return Sorted(*(np.concatenate(both)[order] for both in columns))


@dataclass(frozen=True)
class SortedSide:
    """One input: what was kept of it, and what is new; the kept rows come first in its table."""

    kept: Sorted
    new: Sorted

    @cached_property
    def both(self) -> Sorted:
        return merged(self.kept, self.new)


@dataclass(frozen=True, slots=True)
class AtOnce:
    """The inputs of one step, and after which of them partial results have to be checked."""

    sides: Sequence[SortedSide]
    rows: Sequence[pa.Table]
    """All rows of every input, the kept ones first."""
    order: tuple[int, ...]
    halts: Callable[[Collection[int]], bool]
    """Whether a condition can be checked when the last of these inputs has been joined."""

    def tables(self, origin: int) -> Sequence[pa.Table]:
        """What the positions in a partial result refer to."""
        return self.rows

    def results(self, origin: int, check: Check, room: int, effort: Effort) -> Iterator[Partial]:
        """The complete results that new rows of one input bring about."""
        new = self.sides[origin].new
        if len(new):
            probes = Partial({origin: new.places}, new.codes, new.ts, new.exp)
            rest = [member for member in self.order if member != origin]
            yield from self._followed(origin, probes, rest, check, room, effort)

    def _followed(
        self,
        origin: int,
        probes: Partial,
        rest: Sequence[int],
        check: Check,
        room: int,
        effort: Effort,
    ) -> Iterator[Partial]:
        """The results that grow out of partial ones; down to the next check in one go."""
        if not rest:
            yield probes
            return
        joined, length = list(probes.members), 0
        while length < len(rest):
            joined.append(rest[length])
            length += 1
            if self.halts(joined):
                break
        sides = [(member, self._seen(member, origin)) for member in rest[:length]]
        for combinations in combined(probes, sides, len(probes.members) == 1, room, effort):
            left = check(combinations, self.rows, origin, rest[length - 1])
            if len(left.codes):
                yield from self._followed(origin, left, rest[length:], check, room, effort)

    def _seen(self, member: int, origin: int) -> Sorted:
        side = self.sides[member]
        return side.both if member < origin else side.kept


def combined(
    probes: Partial, sides: Sequence[tuple[int, Sorted]], ascending: bool, room: int, effort: Effort
) -> Iterator[Partial]:
    """The probes (in the order of their codes) with one row more of each side, at most ``room``
    at a time. ``ascending`` says that those of one code come in the order of their ts."""
    sizes = [len(side) for _, side in sides]
    room = min(room, prod(sizes, start=len(probes.codes)))
    if not room:
        return
    codes, ts, exp = (
        np.concatenate(columns)
        for columns in zip(*((side.codes, side.ts, side.exp) for _, side in sides), strict=True)
    )
    starts = np.cumsum([0, *sizes])
    frames = np.zeros((len(sides), UNTIL + 1), np.int64)
    frames[:, LOW] = frames[:, HIGH] = starts[:-1]
    cursor = np.zeros(EXPIRED + 1, np.int64)
    cursor[LEVEL] = -1
    out_probe, out = np.empty(room, np.int64), np.empty((len(sides), room), np.int64)
    while cursor[ROW] < len(probes.codes):
        size = _combine(
            probes.codes, probes.ts, probes.exp, codes, ts, exp, starts, ascending, frames,
            cursor, out_probe, out,
        )  # fmt: skip
        if size:
            yield _extended(probes, sides, out_probe[:size], out[:, :size] - starts[:-1, None])
    effort.scanned += int(cursor[SCANNED])
    effort.probes += int(cursor[PROBES])
    effort.expired += int(cursor[EXPIRED])


def _extended(
    probes: Partial, sides: Sequence[tuple[int, Sorted]], mine: Int64s, others: Int64s
) -> Partial:
    members = {member: places[mine] for member, places in probes.members.items()}
    ts, exp = probes.ts[mine], probes.exp[mine]
    for (member, side), places in zip(sides, others, strict=True):
        members[member] = side.places[places]
        ts, exp = np.maximum(ts, side.ts[places]), np.minimum(exp, side.exp[places])
    return Partial(members, probes.codes[mine], ts, exp)


@compiled(f"boolean({READ}, {READ}, {READ})", plain=True)
def _disordered(codes: Int64s, ts: Int64s, order: Int64s) -> bool:
    """Whether rows of one code are not in the order of their ts."""
    for i in range(1, len(order)):
        previous, other = order[i - 1], order[i]
        if codes[previous] == codes[other] and ts[previous] > ts[other]:
            return True
    return False


@compiled(f"{WRITE}({READ}, {READ}, {READ}, {READ})", plain=True)
def _merge(codes: Int64s, ts: Int64s, other_codes: Int64s, other_ts: Int64s) -> Int64s:
    """Positions in both, one after the other, in the order of (code, ts)."""
    order = np.empty(len(codes) + len(other_codes), np.int64)
    i = j = 0
    for slot in range(len(order)):
        if j == len(other_codes):
            mine = True
        elif i == len(codes):
            mine = False
        elif codes[i] == other_codes[j]:
            mine = ts[i] <= other_ts[j]
        else:
            mine = codes[i] < other_codes[j]
        if mine:
            order[slot] = i
            i += 1
        else:
            order[slot] = len(codes) + j
            j += 1
    return order


@compiled(f"boolean({READ}, {READ}, {READ}, {_WRITE_2}, {WRITE})", plain=True)
def _aligned(
    codes: Int64s, other_codes: Int64s, starts: Int64s, frames: Int64s, cursor: Int64s
) -> bool:
    """Go to the next row whose code every input has; False if there is none."""
    row, level, sides = cursor[ROW], 0, len(frames)
    while row < len(codes) and level < sides:
        code, stop = codes[row], starts[level + 1]
        frame = frames[level]
        if frame[HIGH] > frame[LOW] and other_codes[frame[HIGH] - 1] == code:
            level += 1
            continue
        cursor[PROBES] += 1
        low = first_at_least(other_codes, frame[HIGH], stop, code)
        frame[LOW] = frame[HIGH] = low
        if low == stop:
            row = len(codes)
        elif other_codes[low] != code:
            row, level = first_at_least(codes, row, len(codes), other_codes[low]), 0
        else:
            high = low
            while high < stop and other_codes[high] == code:
                high += 1
            frame[HIGH] = high
            level += 1
    cursor[ROW] = row
    return bool(row < len(codes))


@compiled(
    f"int64({READ}, {READ}, {READ}, {READ}, {READ}, {READ}, {READ}, boolean, "
    f"{_WRITE_2}, {WRITE}, {WRITE}, {_WRITE_2})",
    plain=True,
)
def _combine(
    codes: Int64s,
    ts: Int64s,
    exp: Int64s,
    other_codes: Int64s,
    other_ts: Int64s,
    other_exp: Int64s,
    starts: Int64s,
    ascending: bool,
    frames: Int64s,
    cursor: Int64s,
    out_probe: Int64s,
    out: Int64s,
) -> int:
    """Write the next combinations; ``frames`` and ``cursor`` remember where to go on."""
    last, room, size = len(frames) - 1, len(out_probe), 0
    level = cursor[LEVEL]
    while True:
        if level < 0:
            if not _aligned(codes, other_codes, starts, frames, cursor):
                break
            row = cursor[ROW]
            if ascending:
                for side in range(last + 1):
                    low = frames[side, LOW]
                    while low < frames[side, HIGH] and other_exp[low] <= ts[row]:
                        low += 1
                    cursor[EXPIRED] += low - frames[side, LOW]
                    frames[side, LOW] = low
            level = 0
            frames[0, AT], frames[0, SINCE], frames[0, UNTIL] = frames[0, LOW], ts[row], exp[row]
        frame = frames[level]
        position, high, since, until = frame[AT], frame[HIGH], frame[SINCE], frame[UNTIL]
        descending = False
        while position < high and other_ts[position] < until:
            cursor[SCANNED] += 1
            if other_exp[position] > since:
                if level < last:
                    below = frames[level + 1]
                    below[AT] = below[LOW]
                    below[SINCE] = max(since, other_ts[position])
                    below[UNTIL] = min(until, other_exp[position])
                    position += 1
                    descending = True
                    break
                if size == room:
                    frame[AT], cursor[LEVEL] = position, level
                    cursor[SCANNED] -= 1
                    return size
                out_probe[size] = cursor[ROW]
                for side in range(last):
                    out[side, size] = frames[side, AT] - 1
                out[last, size] = position
                size += 1
            position += 1
        frame[AT] = position
        if descending:
            level += 1
        else:
            level -= 1
            if level < 0:
                cursor[ROW] += 1
    cursor[LEVEL] = level
    return size
