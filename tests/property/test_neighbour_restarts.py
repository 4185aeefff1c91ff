"""OVER and ASOF JOIN go on from states as they were stored: after every batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mayfly.checkpoint.operator_state import Stored, load_state, store_state
from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage import Directory
from mayfly.storage.segment import Segment
from mayfly.testing.neighbour_queries import NEIGHBOURS
from tests.property.continuous_cases import Case, random_case, start, table_of
from tests.property.test_continuous import checked
from tests.property.test_query_forms import strategy_of

SEEDS = range(30_000, 30_022)


def feed(case: Case, run: ContinuousRun, number: int) -> None:
    batch = {name: table_of(name, rows) for name, rows in case.batches[number].items()}
    run.feed(batch, case.heartbeats[number])


def stored_and_loaded(
    run: ContinuousRun, directory: Directory, segments: dict[str, Segment]
) -> dict[Any, list[Any]]:
    """The states of all operators as another process would read them."""
    loaded: dict[Any, list[Any]] = {}
    for number, (task, states) in enumerate(run.states.items()):
        loaded[task] = []
        for state in states:
            stored, added, _ = store_state(state, f"state{number}", directory)
            segments |= {segment.path: segment for segment in added}
            again = Stored.from_json(stored.to_json())
            loaded[task].append(load_state(task.operator.state(), again, segments, directory))
    return loaded


@pytest.mark.parametrize("shape", NEIGHBOURS)
def test_stored_states_go_on(shape: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        case = random_case(seed, shape)
        run, segments = start(case, strategy_of(seed)), dict[str, Segment]()
        directory = Directory.at(tmp_path / str(seed), sync=False)
        for number in range(len(case.batches)):
            feed(case, run, number)
            for task, states in stored_and_loaded(run, directory, segments).items():
                run.states[task][:] = states
        run.finish()
        checked(case, run, instants=3)
