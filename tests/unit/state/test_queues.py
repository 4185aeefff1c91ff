"""FIFO and calendar queues over times: groups, when they die, and bad settings."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.errors import InvalidSetting
from mayfly.lifetime import NEVER
from mayfly.state import CalendarQueue, FifoQueue, TimeRanges
from mayfly.storage.layout import Cell

TIMES = st.integers(-(2**62), 2**62)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, int, int]:
    lifetime = draw(st.integers(1, 10**12))
    return lifetime, draw(st.integers(1, 50)), draw(st.integers(1, lifetime))


def test_the_calendar_of_figure_3_6() -> None:
    """Five partitions over a window of 50; at time 60 the left-most holds 101 through 110."""
    queue = CalendarQueue(lifetime=50, partitions=5)
    assert queue.width == 10
    assert len(set(queue.groups(np.arange(51, 101)).tolist())) == 5
    assert set(queue.groups(np.arange(101, 111)).tolist()) == {queue.first_alive(100)}
    assert queue.first_alive(59) == queue.first_alive(50)
    assert queue.first_alive(60) == queue.first_alive(50) + 1


def test_a_calendar_has_ten_partitions_by_default() -> None:
    queue = CalendarQueue(lifetime=1_000)
    assert queue.partitions == 10
    groups = queue.groups(np.arange(1, 1_001))
    assert len(np.unique(groups)) == 10


@given(shapes(), TIMES, st.integers(1, 10**12))
def test_calendar_groups_die_whole(shape: tuple[int, int, int], at: int, lead: int) -> None:
    queue = CalendarQueue(*shape)
    exp = at + min(lead, queue.lifetime)
    group = int(queue.groups(np.array([exp]))[0])
    assert exp <= queue.dies_at(group) < exp + queue.width
    assert group >= queue.first_alive(at)
    assert queue.first_alive(queue.dies_at(group) - 1) <= group
    assert queue.first_alive(queue.dies_at(group)) == group + 1


@given(shapes(), TIMES)
def test_fifo_groups_die_whole(shape: tuple[int, int, int], ts: int) -> None:
    queue = FifoQueue(*shape)
    exp = ts + queue.lifetime
    group = int(queue.groups(np.array([ts]))[0])
    assert exp <= queue.dies_at(group) < exp + queue.width
    assert queue.first_alive(exp - 1) <= group
    assert queue.first_alive(queue.dies_at(group)) == group + 1


@given(shapes(), TIMES, st.integers(1, 10**12))
def test_times_and_cells_agree(shape: tuple[int, int, int], ts: int, length: int) -> None:
    """The group of a row by its times is the group of the cell its updates make."""
    calendar, fifo = CalendarQueue(*shape), FifoQueue(*shape)
    interval = calendar.interval

    def update_of(time: int) -> int:
        return -(-time // interval)

    exp = ts + min(length, calendar.lifetime)
    cell = Cell(update_of(ts), update_of(exp))
    assert calendar.group_of(cell) == calendar.groups(np.array([exp]))[0]
    cell = Cell(update_of(ts), update_of(ts + fifo.lifetime))
    assert fifo.group_of(cell) == fifo.groups(np.array([ts]))[0]
    if cell.removed > cell.inserted:
        assert cell.removed - cell.inserted in fifo.lifetimes


@given(shapes())
def test_an_update_touches_few_groups(shape: tuple[int, int, int]) -> None:
    calendar, fifo = CalendarQueue(*shape), FifoQueue(*shape)
    assert len(calendar.touched(1_000).inserts) <= calendar.partitions + 1
    assert len(calendar.touched(1_000).removes) == 1
    assert len(fifo.touched(1_000).inserts) == 1
    assert len(fifo.touched(1_000).removes) <= 2


def test_the_ends_of_time_do_not_overflow() -> None:
    queue = CalendarQueue(lifetime=10, partitions=5)
    ends = np.array([-(2**63) + 1, NEVER])
    assert queue.groups(ends).tolist() == [(-(2**63)) // 2, (NEVER - 1) // 2]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 10, 1), "lifetime 0 µs"),
        ((NEVER, 10, 1), f"lifetime {NEVER} µs"),
        ((10, 0, 1), "0 partitions"),
        ((10, 10, 0), "every 0 µs"),
        ((10, 10, 11), "every 11 µs does not fit a lifetime of 10 us"),
    ],
)
def test_impossible_shapes_are_refused(shape: tuple[int, int, int], message: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(message)) as caught:
        TimeRanges(*shape)
    assert caught.value.hint
