"""Upkeep of a side's runs: dead ones go, few remain, and rows are rewritten rarely.

Idea: runs are grouped by how their rows expire (thesis 3.5.2). Windows over streams expire in
the order of generation: a FIFO queue of runs, merged geometrically. Results of other joins expire
in any order: fresh runs stay whole until they are a calendar range old; then their living rows are
filed by the range they expire in, at most two runs per range, and a range dies whole. So few rows
that reading all costs less than looking into several ranges are not filed.
Invariants: at most LIMIT runs a side, waiting ones included (with at most 10 calendar ranges), and
at most one stored dead row per ALIVE_PER_DEAD rows that are alive or wait.
Cost: a dead run is dropped unread. A row is written O(log batches) times by merges, once when it
is filed and a few times within its range; dropping a dead row out of a living run writes less than
ALIVE_PER_DEAD living ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mayfly.kernels.lifetime_rows import CODE, Bools, RowRun, chosen, gathered, numbers
from mayfly.kernels.runs.calendar_queue import CalendarQueue
from mayfly.lifetime import NEVER
from mayfly.storage.merge import FAN_IN, LIMIT, plan_merge
from mayfly.storage.segment import EXP, TS

ALIVE_PER_DEAD = 4
RANGES_PER_WINDOW = 8
"""A merged run of a FIFO queue expires within this part of the window."""
SMALL = 8192
"""Up to so many rows, to rewrite them costs less than to look into several runs at each step: with
8,192 a step of DISTINCT over 10,000 rows takes about half the CPU time that it takes with 0."""
WAITING = LIMIT // 4
PER_CELL = 2

Runs = tuple[RowRun, ...]
Thin = Callable[[pa.Table], pa.Table]
"""Leaves out rows that are not needed any more, of those that are written anyway."""


def unthinned(rows: pa.Table) -> pa.Table:
    return rows


def fifo(runs: Runs, fresh: pa.Table, clock: int, lifetime: int, thin: Thin = unthinned) -> Runs:
    """The runs of a window after ``clock``; ``fresh`` are the clustered rows to add."""
    runs = (*_living(runs, clock), *_run(fresh))
    cap = max(1, lifetime // RANGES_PER_WINDOW)
    return _merged(runs, cap=cap, limit=LIMIT - WAITING, small=SMALL, thin=thin)


def by_time(runs: Runs, fresh: pa.Table, clock: int, lifetime: int, thin: Thin) -> Runs:
    """The runs of rows that lie sorted by time; ``fresh`` are sorted rows to add."""
    return _merged(
        (*_living(runs, clock), *_run(fresh)),
        cap=max(1, lifetime // RANGES_PER_WINDOW),
        limit=LIMIT - WAITING,
        unite=lambda tables: gathered(tables, TS),
        thin=thin,
    )


def calendar(
    runs: Runs,
    fresh: pa.Table,
    clock: int,
    queue: CalendarQueue,
    thin: Thin = unthinned,
    small: int = 0,
) -> Runs:
    """The runs of rows that expire in any order; young runs have no cell yet, and up to
    ``small`` rows get none."""
    living = _living(runs, clock)
    if sum(run.rows for run in living) + fresh.num_rows <= small:
        unfiled = (replace(run, cell=None) if run.cell is not None else run for run in living)
        return _merged((*unfiled, *_run(fresh)), cap=NEVER, limit=FAN_IN, thin=thin)
    young = [run for run in living if run.cell is None]
    filed = [run for run in living if run.cell is not None]
    if young and clock - young[0].ts.low >= queue.width:
        filed += _filed(young, clock, queue, thin)
        young = []
    cells = sorted({run.cell for run in filed if run.cell is not None})
    of_cells = [tuple(run for run in filed if run.cell == cell) for cell in cells]
    limit = max(FAN_IN, LIMIT - PER_CELL * (queue.partitions + 1))
    return (
        *(
            run
            for members in of_cells
            for run in _merged(members, cap=NEVER, limit=PER_CELL, thin=thin)
        ),
        *_merged((*young, *_run(fresh)), cap=NEVER, limit=limit, thin=thin),
    )


def scanned(runs: Runs, fresh: pa.Table, clock: int, thin: Thin = unthinned) -> Runs:
    """The runs of an insertion-order buffer: every row is looked at, and the dead are removed."""
    living = []
    for run in runs:
        alive = numbers(run.load(), EXP) > clock
        if alive.any():
            living.append(run if alive.all() else _filtered(run, alive))
    return _merged((*living, *_run(fresh)), cap=NEVER, limit=LIMIT - WAITING, thin=thin)


def waiting(runs: Runs, early: pa.Table, clock: int) -> Runs:
    """The runs of rows whose instants come later; ``early`` are those to add.

    They are sorted by ts and consumed from the front, without being rewritten at each step.
    """

    def later(table: pa.Table) -> pa.Table:
        return table.slice(np.searchsorted(numbers(table, TS), clock))

    left = []
    for run in runs:
        if run.ts.low < clock <= run.ts.high:
            rest = later(run.load())
            if ALIVE_PER_DEAD * (run.rows - rest.num_rows) > rest.num_rows:
                run = RowRun.of(gathered([rest], TS), level=run.level)
        if run.ts.high >= clock:
            left.append(run)
    return _merged(
        (*left, *_run(gathered([early], TS))),
        cap=NEVER,
        limit=WAITING,
        unite=lambda tables: gathered(map(later, tables), TS),
    )


def falling_due(runs: Runs, began: int, clock: int) -> Iterator[pa.Table]:
    """The waiting rows of the instants from ``began`` to ``clock``."""
    for run in runs:
        if run.ts.low < clock:
            table = run.load()
            low, high = np.searchsorted(numbers(table, TS), [began, clock])
            yield table.slice(low, high - low)


def next_due(runs: Runs, clock: int) -> int | None:
    """The earliest instant from ``clock`` on for which a row waits; the runs reach that far."""
    return min((_first_from(run, clock) for run in runs), default=None)


def _first_from(run: RowRun, clock: int) -> int:
    if run.ts.low >= clock:
        return int(run.ts.low)
    ts = numbers(run.load(), TS)
    return int(ts[np.searchsorted(ts, clock)])


def _run(rows: pa.Table) -> Runs:
    return (RowRun.of(rows),) if rows.num_rows else ()


def _living(runs: Runs, clock: int) -> Runs:
    """Without dead runs, and without dead rows where those have become too many."""
    living = tuple(run for run in runs if run.exp.high > clock)
    mixed = [run for run in living if run.exp.low <= clock]
    stored = sum(run.rows for run in living)
    doubtful = sum(run.rows for run in mixed)
    if ALIVE_PER_DEAD * doubtful <= stored - doubtful:
        return living
    alive = {id(run): numbers(run.load(), EXP) > clock for run in mixed}
    dead = {id(run): run.rows - int(np.count_nonzero(alive[id(run)])) for run in mixed}
    total = sum(dead.values())
    if ALIVE_PER_DEAD * total <= stored - total:
        return living
    return tuple(
        _filtered(run, alive[id(run)]) if _stale(run, dead.get(id(run), 0)) else run
        for run in living
    )


def _stale(run: RowRun, dead: int) -> bool:
    return ALIVE_PER_DEAD * dead > run.rows - dead


def _filtered(run: RowRun, alive: Bools) -> RowRun:
    rows = chosen(run.load(), alive).combine_chunks()
    return RowRun.of(rows, level=run.level, cell=run.cell)


def _filed(
    young: Iterable[RowRun], clock: int, queue: CalendarQueue, thin: Thin
) -> Iterator[RowRun]:
    """One run per calendar range: rows that expire together are dropped together."""
    rows = gathered((run.load() for run in young), CODE)
    rows = thin(chosen(rows, numbers(rows, EXP) > clock))
    cells = queue.groups(numbers(rows, EXP))
    for cell in np.unique(cells).tolist():
        yield RowRun.of(chosen(rows, cells == cell).combine_chunks(), cell=cell)


def _merged(
    runs: Runs,
    *,
    cap: int,
    limit: int,
    small: int = 0,
    unite: Callable[[Iterable[pa.Table]], pa.Table] = lambda tables: gathered(tables, CODE),
    thin: Thin = unthinned,
) -> Runs:
    """Neighbours made one by the rule of ``plan_merge``."""
    united: dict[int, RowRun | None] = {}
    for level, members in plan_merge(runs, cap=cap, fan_in=FAN_IN, limit=limit, small=small):
        table = thin(unite(run.load() for run in members))
        united[id(members[0])] = RowRun.of(table, level=level, cell=members[0].cell)
        united.update(dict.fromkeys(map(id, members[1:])))
    return tuple(merged_run for run in runs if (merged_run := united.get(id(run), run)) is not None)
