"""Queries that erase what an archive must not find any more answer as before."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.archive.model.calendar import FixedIntervals
from mayfly.archive.model.contract import Contract, Promise, due_at
from mayfly.checkpoint.operator_state import parts_of
from mayfly.checkpoint.state_erasure import COVERS, without_expired
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import numbers
from mayfly.kernels.window_assignment import WindowRows
from mayfly.lifetime import MIN_TIME
from mayfly.plan.strategy import Strategy
from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage.segment import EXP, TS
from mayfly.testing.random_queries import SHAPES
from tests.property.continuous_cases import SECOND, fed, random_case, start
from tests.property.test_continuous import checked

seeds = st.integers(0, 2**48)
few = settings(max_examples=max(12, settings().max_examples // 5), phases=[Phase.generate])


def expired(state: Any, before: int) -> int:
    """Rows in a state that expired before an instant."""
    found = 0
    for name, part in parts_of(state).items():
        if isinstance(part, KeptRows) and name != COVERS:
            for run in part.runs:
                found += int(np.count_nonzero(numbers(run.load(), EXP) < before))
    return found


def erasing(promise: Promise) -> Any:
    """Runs forget with every step what the promise says."""
    step = ContinuousRun._stepped

    def stepped(run: Any, task: Any, states: Any, inputs: Any, interval: Any) -> Any:
        states, delta = step(run, task, states, inputs, interval)
        due = promise.due_at(interval.clock)
        left = [without_expired(state, due) for state in states]
        assert not sum(expired(state, due) for state in left)
        if isinstance(task.operator, WindowRows):
            left = [task.operator.without_admitted(state, interval.clock) for state in left]
            slides = task.operator.window.slide is not None
            for waiting in (one for state in left for one in state.waiting):
                assert slides or numbers(waiting.load(), TS).min() >= interval.clock
        return left, delta

    return patch.object(ContinuousRun, "_stepped", stepped)


@pytest.mark.parametrize("shape", SHAPES)
@few
@given(seed=seeds)
def test_answers_are_the_same(shape: str, seed: int) -> None:
    case, chance = random_case(seed, shape), Random(seed)
    strategy = chance.choice([Strategy.UPA, Strategy.NT, Strategy.DIRECT])
    promise = Promise(chance.choice([1, 4, 20]) * SECOND, SECOND)
    with erasing(promise):
        run = fed(case, start(case, strategy))
    checked(case, run)


@given(
    st.integers(1, 50), st.integers(0, 200), st.integers(-300, 300), st.integers(-1000, 1000),
)  # fmt: skip
def test_what_is_due_covers_what_the_archive_erases(
    interval: int, more: int, origin: int, clock: int
) -> None:
    """With the updates that a clock brings, wherever the archive's intervals begin."""
    calendar = FixedIntervals(interval, origin)
    contract = Contract(0, interval + more)
    promise = Promise(interval + more, interval)
    wanted = contract.due(calendar, calendar.update_of(clock) - 1)
    assert wanted is not None
    assert min(wanted, clock) <= promise.due_at(clock) <= clock
    # Who is alive at an instant ends after it.
    assert clock - promise.history >= promise.due_at(clock) - 1


def test_without_a_clock_or_a_promise_nothing_is_due() -> None:
    assert Promise(10, 5).due_at(MIN_TIME) == MIN_TIME
    assert due_at([], 100) is None
    assert due_at([Promise(10, 5), Promise(50, 5)], 100) == Promise(10, 5).due_at(100) == 100
