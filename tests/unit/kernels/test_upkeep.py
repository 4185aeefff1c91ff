"""Upkeep over long runs: how many runs there are, how often a row is written, what is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mayfly.kernels.lifetime_rows import CODE, RowRun, clustered, numbers
from mayfly.kernels.runs.calendar_queue import CalendarQueue
from mayfly.kernels.upkeep import Runs, calendar, fifo, next_due, waiting
from mayfly.storage.merge import FAN_IN, LIMIT
from mayfly.storage.segment import EXP, TS

WINDOW = 100_000
Lives = Callable[[np.random.Generator, int], np.ndarray]
Keep = Callable[[Runs, pa.Table, int], Runs]


def by_fifo(runs: Runs, fresh: pa.Table, clock: int) -> Runs:
    return fifo(runs, fresh, clock, WINDOW)


def by_calendar(runs: Runs, fresh: pa.Table, clock: int) -> Runs:
    return calendar(runs, fresh, clock, CalendarQueue(WINDOW, 4))


def by_small_calendar(runs: Runs, fresh: pa.Table, clock: int) -> Runs:
    return calendar(runs, fresh, clock, CalendarQueue(WINDOW, 4), small=500)


def constant(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.full(rows, WINDOW)


def uniform(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.integers(1, WINDOW, rows, endpoint=True)


def mostly_short(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(rng.random(rows) < 0.9, rng.integers(1, WINDOW // 20, rows), uniform(rng, rows))


def batches(per_window: int, lives: Lives, bursts: bool) -> Iterator[tuple[pa.Table, int]]:
    """Three windows of batches: the rows that outlive the clock, and the clock."""
    rng = np.random.default_rng(per_window)
    step = WINDOW // per_window
    for i in range(3 * per_window):
        rows = 40 if not bursts else 400 if i % max(1, per_window // 4) == 0 else 2
        ts = np.sort(rng.integers(i * step, (i + 1) * step, rows))
        exp = ts + lives(rng, rows)
        table = pa.table({CODE: rng.integers(0, 9, rows), TS: ts, EXP: exp})
        clock = (i + 1) * step
        yield clustered(table.filter(pa.array(exp > clock))), clock


@pytest.mark.parametrize("bursts", [False, True])
@pytest.mark.parametrize("per_window", [1, 4, 16, 64, 256])
@pytest.mark.parametrize(
    ("keep", "lives"),
    [
        (by_fifo, constant),
        (by_calendar, uniform),
        (by_calendar, mostly_short),
        (by_small_calendar, uniform),
        (by_small_calendar, mostly_short),
    ],
)
def test_few_runs_few_dead_rows_and_few_writes(
    keep: Keep, lives: Lives, per_window: int, bursts: bool
) -> None:
    runs: Runs = ()
    arrived = written = 0
    for fresh, clock in batches(per_window, lives, bursts):
        before, runs = {id(run) for run in runs}, keep(runs, fresh, clock)
        arrived += fresh.num_rows
        written += sum(run.rows for run in runs if id(run) not in before)
        stored = sum(run.rows for run in runs)
        alive = sum(int((numbers(run.load(), EXP) > clock).sum()) for run in runs)
        assert stored <= 1.25 * alive
        assert len(runs) <= LIMIT
    # Once on arrival, once per level of merging, and a few times for filing and compaction.
    assert written <= arrived * (5 + np.log2(per_window) / 2)


def test_few_rows_of_a_calendar_are_few_runs_without_ranges() -> None:
    runs: Runs = ()
    for fresh, clock in batches(16, uniform, bursts=False):
        held = sum(run.rows for run in runs if run.exp.high > clock) + fresh.num_rows
        runs = by_small_calendar(runs, fresh, clock)
        if held <= 400:
            assert len(runs) <= FAN_IN
            assert all(run.cell is None for run in runs)


def unread(run: RowRun) -> RowRun:
    def load() -> pa.Table:
        raise AssertionError("a run was read")

    return replace(run, load=load)


def run_of(*lifetimes: tuple[int, int], cell: int | None = None) -> RowRun:
    ts, exp = np.array(lifetimes, np.int64).T
    return RowRun.of(pa.table({CODE: np.zeros(len(ts), np.int64), TS: ts, EXP: exp}), cell=cell)


NOTHING = run_of((0, 1)).load().slice(0, 0)


@pytest.mark.parametrize("keep", [by_fifo, by_calendar])
def test_dead_and_living_runs_are_not_read(keep: Keep) -> None:
    dead, living = unread(run_of((1, 9), (2, 10))), unread(run_of((3, 11), (4, 12)))
    assert keep((dead, living), NOTHING, 10) == (living,)


def test_a_run_with_a_few_dead_rows_stays_as_it_is() -> None:
    mixed = run_of((1, 10), (2, 20), (2, 20), (2, 20), (2, 20))
    assert by_fifo((mixed,), NOTHING, 10) == (mixed,)


def test_a_run_with_many_dead_rows_is_rewritten_without_them() -> None:
    mixed = run_of((1, 10), (2, 20), (2, 20), (2, 20))
    (rewritten,) = by_fifo((mixed,), NOTHING, 10)
    assert rewritten.load()[EXP].to_pylist() == [20, 20, 20]
    assert (rewritten.exp.low, rewritten.level) == (20, mixed.level)


def test_only_what_is_stale_is_rewritten() -> None:
    stale = run_of((1, 5), (1, 5), (1, 5), (1, 20))
    mixed = run_of((2, 6), *[(2, 20)] * 9)
    assert by_fifo((stale, mixed), NOTHING, 10)[1] is mixed


def test_young_rows_are_filed_once_they_are_a_range_old() -> None:
    queue = CalendarQueue(lifetime=40, partitions=4)
    young = run_of((1, 12), (2, 5), (3, 33), (4, 31), (4, 39))
    assert calendar((young,), NOTHING, 6, queue) == (young,)
    filed = calendar((young,), NOTHING, 11, queue)
    assert [(run.cell, run.load()[EXP].to_pylist()) for run in filed] == [
        (1, [12]),
        (3, [33, 31, 39]),
    ]
    assert calendar(filed, NOTHING, 20, queue) == filed[1:]


def test_waiting_rows_are_sorted_by_ts_and_none_before_the_clock_is_merged_again() -> None:
    runs: Runs = ()
    for ts in range(0, 200, 7):
        fresh = run_of((ts % 50 + 100, 500), (ts + 101, 500)).load()
        runs = waiting(runs, fresh, 100)
    assert len(runs) <= LIMIT // 4
    for run in runs:
        times = numbers(run.load(), TS)
        assert (np.diff(times) >= 0).all()
    total = sum(run.rows for run in runs)
    later = waiting(runs, NOTHING, 150)
    left = sum(int((numbers(run.load(), TS) >= 150).sum()) for run in runs)
    assert left <= sum(run.rows for run in later) <= 1.25 * left < total


def test_the_next_row_due_is_known_although_consumed_rows_are_still_stored() -> None:
    consumed = run_of((1, 50), (40, 50), (41, 50), (42, 50), (43, 50))
    assert waiting((consumed,), NOTHING, 2) == (consumed,)
    assert [next_due((consumed,), clock) for clock in (0, 1, 2, 40, 41)] == [1, 1, 40, 40, 41]
    assert next_due((consumed, run_of((7, 50)), run_of((60, 99))), 2) == 7
    assert next_due((), 2) is None
