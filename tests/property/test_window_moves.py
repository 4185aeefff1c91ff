"""The states of finished windows, OVER and ASOF JOIN move to other buckets, in mid-window."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest

from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage import verify
from mayfly.testing.random_queries import STREAMS
from tests.property.continuous_cases import SECOND, _cut, _rows, catalog, table_of, told
from tests.property.shared_runs import program_of, results_of, runner_of
from tests.property.test_migration import moved
from tests.property.window_texts import TEXTS

COUNTS = (1, 3, 2, 5)


def check_moves(name: str, seeds: range) -> None:
    known, queries, answers = catalog(0), {"q": TEXTS[name]}, 0
    for seed in seeds:
        rng = Random(seed)
        rows = {stream: _rows(rng, stream, 24) for stream in STREAMS}
        run, moves = ContinuousRun(program_of(TEXTS[name], known), known), 0
        with tempfile.TemporaryDirectory() as folder:
            here = runner_of(Path(folder), known, queries, COUNTS[0])
            read = {stream.name for stream in here.dataflow.streams}
            for batch in [*_cut(rng, rows, 0), {}]:
                tables = {n: table_of(n, own) for n, own in batch.items() if n in read}
                beats = {} if batch else dict.fromkeys(read, 1_000 * SECOND)
                here.feed(tables, beats)
                run.feed(tables, beats)
                moves += 1
                here = moved(here, known, queries, COUNTS[moves % len(COUNTS)])
            view = run.program.sent is None
            wanted = told(run.lifetimes() if view else run.changes(), view)
            answers += len(wanted)
            assert told(results_of(here, "q"), view) == wanted, seed
            assert verify(here.repository).ok
    assert answers


@pytest.mark.parametrize("name", TEXTS)
def test_a_move_between_batches_changes_no_answer(name: str) -> None:
    check_moves(name, range(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_no_move_of_many_changes_an_answer(name: str) -> None:
    check_moves(name, range(1, 9))
