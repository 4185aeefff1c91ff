"""Drivers of random queries that die at random points: results are those of one that did not.

The crashes are exceptions that nothing handles, so the files are those a killed process leaves;
tests/faults kills processes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.faults import on_reach
from mayfly.plan.strategy import Strategy
from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage import vacuum, verify
from mayfly.storage.segment import DATA
from mayfly.testing.random_queries import STREAMS, random_query
from tests.property.continuous_cases import SECOND, _cut, _rows, catalog, table_of, told
from tests.property.shared_runs import HereRunner, program_of, results_of, runner_of
from tests.property.test_migration import MORE, moved
from tests.property.window_texts import TEXTS as WINDOWS

seeds = st.integers(0, 2**48)
some = settings(max_examples=max(8, settings().max_examples // 6), phases=[Phase.generate])
POINTS = (
    "batch.clock-recorded", "stage-1.begun", "stage-2.begun", "segment.closed",
    "task.state-written", "task.done", "batch.receipts", "batch.committed",
    "migration.written", "migration.committed",
)  # fmt: skip
FIRST = ("hopping", "sessions", "last rows", "latest")
IN_A_BATCH = ("segment.closed", "task.state-written", "batch.receipts", "batch.committed")


class Crash(BaseException):
    pass


class Fate:
    """Dies at the n-th time a point is reached."""

    def __init__(self, point: str, left: int) -> None:
        self.point, self.left = point, left

    @staticmethod
    def random(rng: Random) -> Iterator[Fate]:
        while True:
            yield Fate(rng.choice(POINTS), rng.choice((1, 1, 2, 4)))

    @staticmethod
    def each() -> Iterator[Fate]:
        """At every point of a batch, the first time; the last one is behind the commit."""
        yield from (Fate(point, 1) for point in cycle(IN_A_BATCH))

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash


@some
@given(seeds)
def test_crashes_lose_and_double_nothing(seed: int) -> None:
    rng = Random(seed)
    texts = [random_query(rng).cql, rng.choice(MORE)]
    check_deaths(rng, texts, Fate.random(rng), rng.choice(tuple(Strategy)), moves=0.3)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FIRST else pytest.mark.slow) for n in WINDOWS]
)
def test_deaths_within_windows_lose_and_double_nothing(name: str) -> None:
    """Finished windows, OVER and ASOF JOIN: whatever an open window or a frame has is there."""
    assert check_deaths(Random(name), [WINDOWS[name]], Fate.each()) >= len(IN_A_BATCH)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 13))
@pytest.mark.parametrize("name", WINDOWS)
def test_more_deaths_within_windows(name: str, seed: int) -> None:
    rng = Random(f"{name} {seed}")
    beside = rng.choice(tuple(WINDOWS.values()))
    check_deaths(rng, [WINDOWS[name], beside], Fate.random(rng), moves=0.2)


def check_deaths(
    rng: Random,
    texts: list[str],
    fates: Iterator[Fate],
    way: Strategy = Strategy.UPA,
    moves: float = 0,
) -> int:
    """Compares with runs in this process that nothing disturbed; returns how often ours died."""
    known = catalog(0)
    queries = {f"q{number}": text for number, text in enumerate(texts)}
    runs = {q: ContinuousRun(program_of(cql, known, way), known) for q, cql in queries.items()}
    rows = {name: _rows(rng, name, rng.choice((6, 20))) for name in STREAMS}
    crashes = 0
    with tempfile.TemporaryDirectory() as folder:
        here = runner_of(Path(folder), known, queries, 2, strategy=way)
        read = {stream.name for stream in here.dataflow.streams}
        for batch in [*filter(None, _cut(rng, rows, 0)), {}]:
            tables = {name: table_of(name, own) for name, own in batch.items() if name in read}
            beats = {} if batch else dict.fromkeys(read, 10_000 * SECOND)
            target = here.repository.current().properties["batch"] + 1
            while here.repository.current().properties["batch"] < target:
                fate = next(fates)
                try:
                    with on_reach(fate.point, fate):
                        here.feed(tables, beats)
                        if rng.random() < moves:
                            here = moved(here, known, queries, rng.choice((1, 2, 3)), way, way)
                except Crash:
                    crashes += 1
                count = here.repository.current().properties["buckets"]
                here = reborn(Path(folder), queries, count, way)
            for run in runs.values():
                own = set(run.clocks.streams)
                run.feed(
                    {n: t for n, t in tables.items() if n in own},
                    {n: at for n, at in beats.items() if n in own},
                )
        for name, run in runs.items():
            view = run.program.sent is None
            wanted = told(run.lifetimes() if view else run.changes(), view)
            assert told(results_of(here, name), view) == wanted, (queries, name, crashes)
        assert verify(here.repository).ok
        vacuum(here.repository, keep_versions=1, grace=0)
        directory = here.repository.directory
        assert directory.all_names(DATA) == sorted(here.repository.current().segments)
    return crashes


def reborn(folder: Path, queries: dict[str, str], buckets: int, way: Strategy) -> HereRunner:
    return runner_of(folder, catalog(0), queries, buckets, strategy=way)
