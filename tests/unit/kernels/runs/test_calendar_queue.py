"""Calendar queues over times: groups, when they die, and bad settings."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.errors import InvalidSetting
from mayfly.kernels.runs.calendar_queue import CalendarQueue
from mayfly.lifetime import NEVER

TIMES = st.integers(-(2**62), 2**62)


SHAPES = st.tuples(st.integers(1, 10**12), st.integers(1, 50))


def test_the_calendar_of_figure_3_6() -> None:
    """Five partitions over a window of 50; at time 60 the left-most holds 101 through 110."""
    queue = CalendarQueue(lifetime=50, partitions=5)
    assert queue.width == 10
    assert len(set(queue.groups(np.arange(51, 101)).tolist())) == 5
    assert set(queue.groups(np.arange(101, 111)).tolist()) == {queue.first_alive(100)}
    assert queue.first_alive(59) == queue.first_alive(50)
    assert queue.first_alive(60) == queue.first_alive(50) + 1


@given(SHAPES, TIMES, st.integers(1, 10**12))
def test_calendar_groups_die_whole(shape: tuple[int, int], at: int, lead: int) -> None:
    queue = CalendarQueue(*shape)
    exp = at + min(lead, queue.lifetime)
    group = int(queue.groups(np.array([exp]))[0])
    assert exp <= queue.dies_at(group) < exp + queue.width
    assert group >= queue.first_alive(at)
    assert queue.first_alive(queue.dies_at(group) - 1) <= group
    assert queue.first_alive(queue.dies_at(group)) == group + 1


def test_the_ends_of_time_do_not_overflow() -> None:
    queue = CalendarQueue(lifetime=10, partitions=5)
    ends = np.array([-(2**63) + 1, NEVER])
    assert queue.groups(ends).tolist() == [(-(2**63)) // 2, (NEVER - 1) // 2]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 10), "lifetime 0 µs"),
        ((NEVER, 10), f"lifetime {NEVER} µs"),
        ((10, 0), "0 partitions"),
    ],
)
def test_impossible_shapes_are_refused(shape: tuple[int, int], message: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(message)) as caught:
        CalendarQueue(*shape)
    assert caught.value.hint
