"""Synopses over joins against all pairs of rows, and the figures of thesis 2.3.4 as corrected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random

import pytest

from mayfly.errors import InvalidSetting
from mayfly.synopses import Algebra, BasicIntervalJoin, IntervalJoin, JoinSynopsis, RunningJoin
from mayfly.synopses.number_algebra import MAX, SUM

Row = tuple[int, int, int]
"""Pane, key, value."""
KINDS: list[tuple[type[JoinSynopsis[int]], Algebra[int]]] = [
    (BasicIntervalJoin, SUM), (BasicIntervalJoin, MAX), (IntervalJoin, SUM), (IntervalJoin, MAX),
    (RunningJoin, SUM),
]  # fmt: skip


class Rows:
    """Rows of both inputs, and their pairs."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.sides: tuple[list[Row], list[Row]] = ([], [])

    def arrive(self, u: int) -> list[tuple[Row, Row]]:
        """New rows in both inputs; the pairs that they make."""
        for side in self.sides:
            side += [
                (u, self.rng.randint(0, 2), self.rng.randint(0, 50))
                for _ in range(self.rng.randint(0, 2))
            ]
        return [(x, y) for x, y in self.pairs(u, u, u) if max(x[0], y[0]) == u]

    def pairs(self, u: int, n1: int, n2: int) -> list[tuple[Row, Row]]:
        left, right = self.sides
        return [
            (x, y) for x in left for y in right if x[1] == y[1] and x[0] > u - n1 and y[0] > u - n2
        ]


def by_panes(
    pairs: list[tuple[Row, Row]], merge: Callable[[Sequence[int]], int]
) -> dict[tuple[int, ...], int]:
    values = defaultdict(list)
    for x, y in pairs:
        values[x[0], y[0]].append(x[2] + y[2])
    return {panes: merge(some) for panes, some in values.items()}


@pytest.mark.parametrize(("kind", "algebra"), KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_every_pair_of_windows_is_that_of_all_pairs_of_rows(
    kind: type[JoinSynopsis[int]], algebra: Algebra[int], seed: int
) -> None:
    rows = Rows(seed)
    b = rows.rng.choice([2, 4, 8])
    g = rows.rng.randint(0, b - 1)
    merge = algebra.merge
    synopsis = kind(algebra, b, g)
    for u in range(1, 3 * b + 1):
        synopsis.slide(by_panes(rows.arrive(u), merge))
        lengths = [(i, k) for i in range(1, b + 1) for k in range(1, b + 1) if abs(i - k) <= g]
        held = [pair for pair in lengths if max(pair) <= synopsis.covers]
        for pair, value in synopsis.answers(held).items():
            assert value == merge([x[2] + y[2] for x, y in rows.pairs(u, *pair)])
        for n1, n2 in held:
            before = synopsis.read
            synopsis.answers([(n1, n2)])
            few, apart = min(n1, n2), abs(n1 - n2)
            reads = {"basic interval join": few, "running join": 2}.get(synopsis.kind)
            assert synopsis.read - before <= (reads or few.bit_length()) + apart
        if u >= b:
            totals = {"basic interval join": b, "interval join": 2 * b - 1}
            assert synopsis.stored == totals.get(synopsis.kind, b + 1) + 2 * g * b


@pytest.mark.parametrize(("kind", "algebra"), KINDS)
def test_a_join_synopsis_grows_as_panes_come(
    kind: type[JoinSynopsis[int]], algebra: Algebra[int]
) -> None:
    rows = Rows(3)
    merge = algebra.merge
    synopsis = kind(algebra, 2, 1)
    for u in range(1, 30):
        if u == 9:
            synopsis.resize(8)
        arrived = [p for p in rows.arrive(u) if min(p[0][0], p[1][0]) > u - 1 - synopsis.covers]
        synopsis.slide(by_panes(arrived, merge))
        for n in range(1, synopsis.covers + 1):
            assert synopsis.answer(n) == merge([x[2] + y[2] for x, y in rows.pairs(u, n, n)])
        assert synopsis.covers == (min(u, 2) if u < 9 else min(u - 8 + 2, 8))


def test_windows_of_eight_panes_with_one_row_each() -> None:
    synopsis = BasicIntervalJoin(SUM, 8, 2)
    for u in range(1, 17):
        first = max(1, u - 7)
        older = range(first, u)
        panes: list[tuple[int, ...]] = [(u, u), *((u, p) for p in older), *((p, u) for p in older)]
        synopsis.slide(dict.fromkeys(panes, 1))
    sums = [0, *(synopsis.answer(n) for n in range(1, 9))]
    assert [sums[n] - sums[n - 1] for n in range(8, 0, -1)] == [15, 13, 11, 9, 7, 5, 3, 1]
    answers = {(n1, n2): synopsis.answer(n1, n2) for n1, n2 in ((8, 8), (7, 8), (6, 7), (6, 8))}
    assert answers == {(8, 8): 64, (7, 8): 56, (6, 7): 42, (6, 8): 48}
    assert synopsis.answer(8, 6) == 48
    assert synopsis.stored == 40


def test_three_inputs_of_one_length_are_served() -> None:
    synopsis = BasicIntervalJoin(SUM, 3)
    for u in range(1, 6):
        window = range(max(1, u - 2), u + 1)
        panes: list[tuple[int, ...]]
        panes = [(a, b, c) for a in window for b in window for c in window if u in (a, b, c)]
        synopsis.slide(dict.fromkeys(panes, 1))
    assert [synopsis.answer(n) for n in (1, 2, 3)] == [1, 8, 27]


def test_lengths_that_differ_too_much_are_refused() -> None:
    synopsis = IntervalJoin(SUM, 4, 1)
    for _ in range(4):
        synopsis.slide({})
    with pytest.raises(InvalidSetting, match="differ by more than 1"):
        synopsis.answer(4, 2)
    with pytest.raises(InvalidSetting, match="youngest member"):
        synopsis.slide({(1, 2): 3})
