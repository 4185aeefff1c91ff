"""Rows an operator remembers, in the structure their update pattern calls for.

Idea: rows lie in immutable runs clustered by code; what differs is how they leave. FIFO and
calendar queues (thesis 3.5.2) drop whole dead runs and look for what falls due in runs whose
range of expirations says so; the insertion-order buffer of DIRECT looks at every row every time;
the hash of NT receives each death as a cut. Invariant: whatever the structure, reading gives
the same rows. At most LIMIT runs, and few stored rows are dead (see ``upkeep``).
Cost: a cut is found by its code; the lifetimes of the run it hits are copied, its rows are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import END, ID, SEEN, SEEN_END, concatenated, with_numbers
from mayfly.kernels.join_pairs import first_at_least
from mayfly.kernels.lifetime_rows import CODE, RowRun, chosen, gathered, numbers
from mayfly.kernels.room import touch
from mayfly.kernels.runs.calendar_queue import CalendarQueue
from mayfly.kernels.upkeep import SMALL, Thin, calendar, fifo, scanned, unthinned
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.strategy import CALENDAR_RANGES, Structure
from mayfly.storage.segment import EXP, TS

_NOTHING = pa.table({})


@dataclass(frozen=True, slots=True)
class Shape:
    """A structure and the longest lifetime of its rows (None: no bound is known)."""

    structure: Structure = Structure.APPEND
    longest: int | None = None
    partitions: int = CALENDAR_RANGES
    hashed: bool = field(default=False, compare=False)
    """Whether rows leave mostly by negative tuples, so that ranges of expiration do not pay. The
    rows are the same: a state goes on whichever way is chosen."""

    @property
    def form(self) -> Structure:
        """The structure in memory. A calendar without a longest lifetime has no ranges: rows leave
        it only when a negative tuple says so."""
        dated = self.structure in (Structure.CALENDAR, Structure.CALENDAR_NEGATIVE)
        if self.hashed or (dated and self.longest is None):
            return Structure.HASH
        return self.structure

    @property
    def ranges(self) -> int | None:
        """How many ranges of expiration a calendar queue has."""
        dated = self.form in (Structure.CALENDAR, Structure.CALENDAR_NEGATIVE)
        return self.partitions if dated else None


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows one operator keeps of one kind."""

    shape: Shape
    runs: tuple[RowRun, ...] = ()

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)

    @property
    def bytes(self) -> int:
        return sum(run.bytes for run in self.runs)

    def after(self, fresh: pa.Table, clock: int, thin: Thin = unthinned) -> KeptRows:
        """With clustered rows added, and without those whose ``_exp`` is not beyond the clock;
        ``thin`` is applied to rows that are written anew."""
        if not self.runs and not fresh.num_rows:
            return self
        fresh = thin(fresh) if fresh.num_rows else fresh
        return replace(self, runs=_kept(self.shape, self.runs, fresh, clock, thin))

    def aged(self, clock: int) -> KeptRows:
        """Without the rows whose ``_exp`` is not beyond the clock."""
        return self.after(_NOTHING, clock)

    def compacted(self, clock: int, thin: Thin) -> KeptRows:
        """As one run, where the rows of all others are more than those of the largest: what is
        kept is at most twice what ``thin`` leaves, and a row is written O(1) times for that."""
        if self.rows <= 2 * max((run.rows for run in self.runs), default=0):
            return self
        rows = gathered((run.load() for run in self.runs), CODE)
        rows = thin(chosen(rows, numbers(rows, EXP) > clock)).combine_chunks()
        level = max(run.level for run in self.runs)
        return replace(self, runs=(RowRun.of(rows, level=level),) if rows.num_rows else ())

    def cut(self, rows: pa.Table) -> KeptRows:
        """With the lifetimes of these rows (with code, clustered) shortened to their ``_end``."""
        if not rows.num_rows:
            return self
        codes, ids, ends, ts = (numbers(rows, name) for name in (CODE, ID, END, TS))

        def shortened(run: RowRun) -> RowRun:
            if ts.max() < run.ts.low or ts.min() > run.ts.high:
                return run
            table = run.load()
            stored = (numbers(table, CODE), numbers(table, TS), numbers(table, ID))
            places = _located(*stored, codes, ts, ids)
            hit = places >= 0
            if run.exp.low == MIN_TIME:  # a row that was removed stays so, and lives on elsewhere
                hit[hit] = numbers(table, EXP)[places[hit]] != MIN_TIME
            if not hit.any():
                return run
            changed = {EXP: ends[hit]}
            if SEEN_END in rows.schema.names:
                changed[SEEN] = numbers(rows, SEEN_END)[hit]
            return _changed(run, places[hit], changed)

        return replace(self, runs=tuple(map(shortened, self.runs)))

    def without(self, codes: Int64s) -> KeptRows:
        """Without the rows of these codes (sorted, each once)."""

        def rid(run: RowRun) -> RowRun:
            places = _of_codes(numbers(run.load(), CODE), codes)
            gone = np.full(len(places), MIN_TIME, np.int64)
            return _changed(run, places, {EXP: gone}) if len(places) else run

        return replace(self, runs=tuple(map(rid, self.runs))) if len(codes) else self

    def due(self, began: int, clock: int) -> list[pa.Table]:
        """The rows that expire in the instants from ``began`` to ``clock``."""

        def falling(run: RowRun) -> Int64s:
            exp = numbers(run.load(), EXP)
            return np.flatnonzero((exp >= began) & (exp < clock))

        return list(self._chosen(self._expiring(began, clock), falling))

    def column(self, name: str) -> list[Int64s]:
        """A column of numbers, run by run."""
        return [numbers(run.load(), name) for run in self.runs]

    def is_due(self, began: int, clock: int) -> bool:
        """Whether a row may expire in the instants from ``began`` to ``clock``."""
        return any(run.exp.low < clock and run.exp.high >= began for run in self.runs)

    def of_codes(self, codes: Int64s) -> list[pa.Table]:
        """The stored rows of these codes (sorted, each once) that were not removed."""

        def asked(run: RowRun) -> Int64s:
            table = run.load()
            places = _of_codes(numbers(table, CODE), codes)
            if run.exp.low == MIN_TIME:
                places = places[numbers(table, EXP)[places] != MIN_TIME]
            return places

        return list(self._chosen(self.runs, asked)) if len(codes) else []

    def _expiring(self, began: int, clock: int) -> tuple[RowRun, ...]:
        if self.shape.structure is Structure.BUFFER:
            return self.runs
        return tuple(run for run in self.runs if run.exp.low < clock and run.exp.high >= began)

    def _chosen(
        self, runs: tuple[RowRun, ...], choice: Callable[[RowRun], Int64s]
    ) -> Iterator[pa.Table]:
        for run in runs:
            places = choice(run)
            touch(len(places))
            if len(places) == run.rows:
                yield run.load()
            elif len(places):
                yield run.load().take(pa.array(places))


def _kept(
    shape: Shape, runs: tuple[RowRun, ...], fresh: pa.Table, clock: int, thin: Thin
) -> tuple[RowRun, ...]:
    match shape.form:
        case Structure.BUFFER:
            return scanned(runs, fresh, clock, thin)
        case Structure.CALENDAR | Structure.CALENDAR_NEGATIVE:
            assert shape.longest is not None
            queue = CalendarQueue(shape.longest, shape.partitions)
            return calendar(runs, fresh, clock, queue, thin, SMALL)
        case Structure.FIFO if shape.longest is not None:
            return fifo(runs, fresh, clock, shape.longest, thin)
    return fifo(runs, fresh, clock, NEVER, thin)


def _changed(run: RowRun, places: Int64s, changes: dict[str, Int64s]) -> RowRun:
    """The run with other numbers at some places; its other columns are shared."""
    table = run.load()
    for name, values in changes.items():
        copied = numbers(table, name).copy()
        copied[places] = values
        table = with_numbers(table, **{name: copied})
    return RowRun.of(table, level=run.level, cell=run.cell)


@compiled(f"{WRITE}({READ}, {READ})")
def _of_codes(stored: Int64s, codes: Int64s) -> Int64s:
    """Where the stored codes (sorted) are that are asked for (sorted, each once)."""
    places = np.empty(len(stored), np.int64)
    position = count = 0
    for i in range(len(codes)):
        position = first_at_least(stored, position, len(stored), codes[i])
        while position < len(stored) and stored[position] == codes[i]:
            places[count] = position
            count += 1
            position += 1
    return places[:count]


@compiled(f"{WRITE}({READ}, {READ}, {READ}, {READ}, {READ}, {READ})")
def _located(
    stored: Int64s, times: Int64s, ids: Int64s, codes: Int64s, since: Int64s, row_ids: Int64s
) -> Int64s:
    """Where each wanted row (sorted by code) is stored; -1 where it is not.

    The rows of a code are sorted by ``_ts``, which a cut repeats: a hot key is not searched whole.
    """
    places = np.full(len(codes), -1, np.int64)
    start = end = 0
    for i in range(len(codes)):
        if i == 0 or codes[i] != codes[i - 1]:
            start = first_at_least(stored, end, len(stored), codes[i])
            end = start
            while end < len(stored) and stored[end] == codes[i]:
                end += 1
        low, high = start, end
        while low < high:
            middle = (low + high) // 2
            if times[middle] < since[i]:
                low = middle + 1
            else:
                high = middle
        while low < end and times[low] == since[i]:
            if ids[low] == row_ids[i]:
                places[i] = low
                break
            low += 1
    return places


def rows_with(tables: list[pa.Table], nothing: pa.Table) -> pa.Table:
    """Several pieces as one table with the columns of ``nothing``."""
    names = nothing.schema.names
    return concatenated([nothing, *(table.select(names) for table in tables)])
