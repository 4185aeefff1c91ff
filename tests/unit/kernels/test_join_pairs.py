"""Pairs that meet, against a double loop; every point at which the output can run full."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.arrays.order import Int64s
from mayfly.kernels.join_pairs import FEW, GROWTH, first_at_least, matching_pairs

Side = list[tuple[int, int, int]]
"""Rows as (code, ts, length of life)."""

ROWS: st.SearchStrategy[Side] = st.lists(
    st.tuples(st.integers(-2, 3), st.integers(0, 9), st.integers(1, 9)), max_size=12
)


def columns(side: Side) -> tuple[Int64s, Int64s, Int64s]:
    code, ts, life = np.array(sorted(side), np.int64).reshape(-1, 3).T
    return code.copy(), ts.copy(), ts + life


def double_loop(left: Side, right: Side) -> list[tuple[int, int]]:
    return [
        (i, j)
        for i, (code, ts, life) in enumerate(sorted(left))
        for j, (other, start, length) in enumerate(sorted(right))
        if code == other and max(ts, start) < min(ts + life, start + length)
    ]


def found(left: Side, right: Side, room: int) -> list[list[tuple[int, int]]]:
    pieces = matching_pairs(columns(left), columns(right), room)
    return [list(zip(a.tolist(), b.tolist(), strict=True)) for a, b in pieces]


@given(ROWS, ROWS, st.sampled_from([1, 2, 3, 7, 1000]))
def test_the_pairs_of_a_double_loop_at_most_room_at_a_time(
    left: Side, right: Side, room: int
) -> None:
    pieces = found(left, right, room)
    assert [pair for piece in pieces for pair in piece] == double_loop(left, right)
    assert all(0 < len(piece) <= room for piece in pieces)
    sizes = [len(piece) for piece in pieces[:-1]]
    assert sizes == sorted(sizes), "arrays grow"
    first = FEW * max(len(left), len(right))
    assert all(size in (room, *(first * GROWTH**n for n in range(4))) for size in sizes)


def test_every_resume_point_of_one_crowded_case() -> None:
    left = [(code, ts, 1 + ts % 3) for code in (1, 2, 4) for ts in range(6)]
    right = [(code, ts, 1 + ts % 4) for code in (2, 3, 4) for ts in range(6)]
    expected = double_loop(left, right)
    assert len(expected) > 20
    for room in range(1, len(expected) + 2):
        assert [pair for piece in found(left, right, room) for pair in piece] == expected


@pytest.mark.parametrize(
    ("left", "right", "meet"),
    [
        ((5, 5), (10, 5), False),
        ((5, 6), (10, 5), True),
        ((10, 5), (5, 5), False),
        ((10, 5), (5, 6), True),
        ((7, 1), (7, 1), True),
        ((7, 1), (8, 1), False),
        ((0, 9), (3, 2), True),
        ((3, 2), (0, 9), True),
    ],
)
def test_lifetimes_that_touch_do_not_meet(
    left: tuple[int, int], right: tuple[int, int], meet: bool
) -> None:
    assert bool(found([(1, *left)], [(1, *right)], 10)) == meet


def test_a_row_that_dies_early_does_not_hide_those_behind_it() -> None:
    """Expirations in any order: the second right row is dead, the first and third are not."""
    right = [(1, 0, 20), (1, 1, 2), (1, 2, 20)]
    assert found([(1, 5, 3)], right, 10) == [[(0, 0), (0, 2)]]


def test_a_side_without_rows() -> None:
    assert found([], [(1, 1, 1)], 5) == []
    assert found([(1, 1, 1)], [], 5) == []


def test_extreme_codes_and_times() -> None:
    low, high = -(2**63), 2**63 - 1
    codes = np.array([low, 0, high])
    ts, exp = np.array([low, low, low]), np.array([high, low + 1, high])
    (pair,) = matching_pairs((codes, ts, exp), (codes, ts, exp), 9)
    assert pair[0].tolist() == pair[1].tolist() == [0, 1, 2]


@given(st.lists(st.integers(-5, 5)), st.integers(0, 12), st.integers(-6, 6))
def test_first_at_least(values: list[int], start: int, code: int) -> None:
    codes = np.array(sorted(values), np.int64)
    expected = next((i for i in range(start, len(codes)) if codes[i] >= code), len(codes))
    assert first_at_least(codes, min(start, len(codes)), len(codes), code) == max(
        expected, min(start, len(codes))
    )


def test_galloping_lands_everywhere_in_a_long_run() -> None:
    codes = np.arange(0, 400, 2)
    for start in (0, 1, 7, 199):
        for code in range(-1, 402):
            expected = max(start, min(200, -(-code // 2)))
            assert first_at_least(codes, start, len(codes), code) == expected


def test_arrays_grow_when_rows_meet_often() -> None:
    """A hot key comes in few pieces, although the first arrays are small."""
    count = 64
    side = (np.zeros(count, np.int64), np.arange(count), np.full(count, 1000))
    pieces = [len(left) for left, _ in matching_pairs(side, side, 1 << 20)]
    assert pieces == [FEW * count, GROWTH * FEW * count, count**2 - (1 + GROWTH) * FEW * count]
