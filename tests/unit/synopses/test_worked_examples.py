"""Stored and read values of synopses, counted while they slide: the tables of thesis 2.3.4."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log2
from random import Random

import pytest

from mayfly.synopses import BasicInterval, DyadicIntervals, Running, Synopsis
from mayfly.synopses.number_algebra import MAX, SUM
from mayfly.synopses.pieces import mean_reads, worst_reads


def read_by(synopsis: Synopsis[int], *lengths: int) -> tuple[list[int], int]:
    before = synopsis.read
    answers = synopsis.answers(lengths)
    return [answers[j] for j in lengths], synopsis.read - before


def test_the_worst_reads_of_up_to_sixteen_panes() -> None:
    assert [worst_reads(j) for j in range(1, 17)] == [
        1,
        2,
        2,
        3,
        3,
        4,
        3,
        4,
        4,
        5,
        4,
        5,
        5,
        6,
        4,
        5,
    ]


@pytest.mark.parametrize("b", [1, 2, 4, 8, 16, 32])
def test_stored_and_read_values_of_each_kind(b: int) -> None:
    rng = Random(b)
    raw: list[int] = []
    running, basic = Running(SUM, b), BasicInterval(MAX, b)
    closed, opened = DyadicIntervals(MAX, b), DyadicIntervals(MAX, b, is_open=True)
    worst, worst_open, stored = [0] * (b + 1), [0] * (b + 1), set()
    mean = [0] * (b + 1)
    for u in range(1, 5 * b + 1):
        raw.append(rng.randint(0, 999))
        for synopsis in (running, basic, closed, opened):
            synopsis.slide(raw[-1])
        if u < b:
            continue
        assert (running.stored, basic.stored, opened.stored) == (b + 1, b, 2 * b - 1)
        stored.add(closed.stored)
        lengths = range(1, b + 1)
        assert read_by(basic, *lengths) == ([max(raw[-j:]) for j in lengths], b)
        for j in lengths:
            assert read_by(running, j) == ([sum(raw[-j:])], 2)
            [answer], reads = read_by(closed, j)
            assert answer == max(raw[-j:])
            worst[j] = max(worst[j], reads)
            mean[j] += reads if 4 * b <= u < 5 * b else 0
            [answer], reads = read_by(opened, j)
            assert answer == max(raw[-j:])
            worst_open[j] = max(worst_open[j], reads)
    assert (min(stored), max(stored)) == (2 * b - 1 - int(log2(b)), 2 * b - 1)
    assert worst[1:] == [worst_reads(j) for j in range(1, b + 1)]
    assert worst_open[1:] == [j.bit_length() for j in range(1, b + 1)]
    assert [Fraction(reads, b) for reads in mean[1:]] == [mean_reads(j) for j in range(1, b + 1)]
    assert max(worst) == {1: 1, 2: 2, 4: 3}.get(b, 2 * int(log2(b)) - 2)
    assert (running.merges, basic.merges, closed.merges) == (5 * b, 0, 5 * (b - 1))
    assert opened.merges <= 5 * b * log2(b)


def test_running_and_interval_synopses_read_for_each_length_of_several() -> None:
    running, interval = Running(SUM, 8), DyadicIntervals(MAX, 8)
    for value in range(16):
        running.slide(value)
        interval.slide(value)
    assert read_by(running, 3, 5, 8)[1] == 3 + 1
    assert read_by(interval, 4, 7, 8)[1] == 1 + 3 + 1


def test_the_table_of_break_even_points() -> None:
    table = {}
    for b in (8, 32, 128, 1024):
        worst = 2 * int(log2(b)) - 2
        mean = sum((mean_reads(j) for j in range(1, b + 1)), Fraction(0)) / b
        table[b] = (worst, round(float(mean), 2), ceil(Fraction(b, worst)), ceil(b / mean))
    assert table == {
        8: (4, 2.27, 2, 4),
        32: (8, 3.78, 4, 9),
        128: (12, 5.59, 11, 23),
        1024: (18, 8.52, 57, 121),
    }


def test_figure_2_5() -> None:
    synopsis = DyadicIntervals(MAX, 8)
    for value in range(1, 17):
        synopsis.slide(value)
    assert [(p.first, p.last) for p in synopsis.pieces(7)] == [(10, 10), (11, 12), (13, 16)]
    assert [(p.first, p.last) for p in synopsis.pieces(8)] == [(9, 16)]
    synopsis.slide(17)
    assert [(p.first, p.last) for p in synopsis.pieces(7)] == [(11, 12), (13, 16), (17, 17)]


def test_growth_from_four_to_six_panes_is_whole_two_updates_later() -> None:
    synopsis = BasicInterval(MAX, 4)
    stored = []
    for u in range(1, 15):
        synopsis.slide(u)
        if u == 10:
            synopsis.resize(6)
        stored.append(synopsis.stored)
    assert stored == [1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 5, 6, 6, 6]


@pytest.mark.parametrize("is_open", [False, True])
def test_an_interval_synopsis_that_grows_and_shrinks_ends_as_one_of_its_size(is_open: bool) -> None:
    changed, plain = (
        DyadicIntervals(MAX, 4, is_open=is_open),
        DyadicIntervals(MAX, 8, is_open=is_open),
    )
    for value in range(1, 70):
        changed.resize({10: 16, 40: 8}.get(value, changed.panes))
        changed.slide(value * 7 % 31)
        plain.slide(value * 7 % 31)
        for j in range(1, changed.covers + 1):
            values = [n * 7 % 31 for n in range(value - j + 1, value + 1)]
            assert changed.answer(j) == max(values)
    assert changed.stored == plain.stored
