"""The report's example window (Figure 2) and its continuation, with counted visits and writes.

The numbers are computed twice, by models and by closed formulas, in the specification's own script.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mayfly.windows import Rows, SlidingWindow

A = [
    [12, 14, 16, 17], [15, 4, 19, 17], [16, 23, 12, 19], [1, 12, 5, 23],
    [17, 14, 3, 17], [16, 12, 3, 16], [23, 4, 18, 4], [19, 3, 15, 17],
]  # fmt: skip
B = [
    [5, 12, 9, 17], [17, 2, 19, 30], [4, 4, 12, 8], [16, 5, 5, 21],
    [14, 1, 19, 19], [2, 16, 24, 3], [15, 9, 12, 4], [23, 1, 18, 9],
]  # fmt: skip
FIGURE_2 = [value for basic in A[:4] for value in basic]


def buckets_of(index: str, buckets: int) -> int | None:
    """Only chained hash indexes have buckets."""
    return buckets if index in ("H", "UH") else None


def window(**settings: Any) -> SlidingWindow:
    chosen: dict[str, Any] = {"by": Rows(4), "slots": 4, "basic_buckets": 4}
    return SlidingWindow(**chosen | settings)


@pytest.mark.parametrize(
    ("index", "purge", "visits"),
    [
        ("L", 0, [6, 16, 21, 17, 24, 23, 27, 29]),
        ("AVL", 0, [5, 10, 11, 13, 12, 11, 12, 13]),
        ("H", 0, [1, 3, 9, 8, 8, 9, 7, 9]),
        ("UH", 0, [1, 4, 9, 7, 10, 8, 5, 11]),
        ("L", 1, [6, 16, 21, 17, 24, 23, 24, 28]),
        ("AVL", 1, [5, 10, 11, 13, 12, 11, 15, 12]),
        ("H", 1, [1, 3, 9, 8, 8, 9, 6, 8]),
        ("UH", 1, [1, 4, 9, 7, 10, 8, 6, 10]),
    ],
)
def test_probes_visit_as_many_nodes_as_the_structures_allow(
    index: str, purge: int, visits: list[int]
) -> None:
    indexed = window(index=index, buckets=buckets_of(index, 4), purge_every=purge)
    counted, touched = [], []
    for basic in A:
        before = indexed.visits
        indexed.append(basic)
        after = indexed.visits
        counted.append(after.probe - before.probe)
        touched.append((after.attach - before.attach, after.expire - before.expire))
    assert counted == visits
    assert touched == [(4, 0)] * 4 + [(4, 4)] * 4


@pytest.mark.parametrize(
    ("storage", "inside"),
    [("AGGR", [6, 6, 5, 6, 5, 5, 4, 6]), ("HASH", [1, 1, 2, 1, 1, 3, 1, 3])],
)
@pytest.mark.parametrize(
    ("index", "visits"),
    [
        ("L", [6, 16, 21, 17, 15, 15, 24, 29]),
        ("AVL", [5, 10, 11, 13, 8, 9, 10, 13]),
        ("H", [1, 3, 9, 8, 5, 6, 6, 9]),
    ],
)
def test_counted_storage_probes_once_per_value(
    storage: str, inside: list[int], index: str, visits: list[int]
) -> None:
    indexed = window(index=index, buckets=buckets_of(index, 4), storage=storage, purge_every=0)
    counted = []
    for basic in A:
        before = indexed.visits
        indexed.append(basic)
        after = indexed.visits
        counted.append((after.probe - before.probe, after.storage - before.storage))
    assert counted == list(zip(visits, inside, strict=True))


def test_storage_of_figure_2_as_one_basic_window() -> None:
    for storage, visits in (("AGGR", 60), ("HASH", 21)):
        one = window(by=Rows(16), slots=1, storage=storage, index=None)
        one.append(FIGURE_2)
        assert one.visits.storage == visits
        assert one.histogram() == [(1, 1), (4, 1), (5, 1), (12, 3), (14, 1), (15, 1), (16, 2),
                                   (17, 2), (19, 2), (23, 2)]  # fmt: skip
    grouped = window(by=Rows(16), slots=1, storage="GROUP", index="G", groups=[5, 10, 15, 20])
    grouped.append(FIGURE_2)
    assert [part.count for part in grouped.histogram()] == [2, 1, 4, 7, 2]


QUANTITIES = {
    3: (10, 12, 15.5, [(12, 3), (16, 2)]),
    4: (11, 5, 15.5, [(17, 3), (12, 2)]),
    5: (9, 5, 15.0, [(12, 3), (16, 3)]),
    6: (10, 4, 13.0, [(3, 2), (4, 2)]),
    7: (10, 4, 15.5, [(3, 3), (17, 3)]),
}
ZERO = {3: [], 4: [], 5: [4, 15], 6: [15, 19], 7: [1, 5]}


@pytest.mark.parametrize("index", ["T", "H", "AVL", "L", "UH"])
def test_quantities_and_zero_counts(index: str) -> None:
    indexed = window(index=index, purge_every=0)
    for slide, basic in enumerate(A):
        indexed.append(basic)
        if slide in QUANTITIES:
            answers = indexed.distinct(), indexed.quantile(0.25), indexed.median(), indexed.top(2)
            assert answers == QUANTITIES[slide]
            seen = sorted({v for basic in A[: slide + 1] for v in basic})
            listed = {value for value, _ in indexed.histogram()}  # type: ignore[misc]
            assert [v for v in seen if v not in listed] == ZERO[slide]


def test_intersection_exact_and_by_groups() -> None:
    first, edges = window(purge_every=0), [0, 5, 10, 15, 20, 25, 30]
    second = window(purge_every=0, share=first)
    coarse = [window(storage="GROUP", index="G", groups=edges) for _ in range(2)]
    exact, groups = {}, {}
    for slide, (a, b) in enumerate(zip(A, B, strict=True)):
        first.append(a)
        second.append(b)
        coarse[0].append(a)
        coarse[1].append(b)
        exact[slide] = first.intersection(second)
        answer: Any = coarse[0].intersection(coarse[1])
        groups[slide] = [r.low // 5 for r in answer.ranges], answer.at_most
    assert exact[1] == [12, 17, 19]
    assert exact[4] == [1, 4, 5, 12, 14, 16, 17, 19]
    assert exact[7] == [3, 4, 12, 14, 15, 16, 18, 19, 23]
    assert groups[1] == ([0, 2, 3], 5)
    assert groups[5] == ([0, 1, 2, 3, 4], 12)
    assert groups[7] == ([0, 2, 3, 4], 13)


WALKS = {
    "plain": [(17, 20), (13, 21), (13, 20), (10, 22)],
    "AUX": [(4, 19), (3, 20), (5, 19), (2, 22)],
    "BW": [(4, 15), (3, 15), (5, 15), (2, 16)],
    "DB": [(0, 15), (0, 15), (0, 15), (0, 16)],
    "numbered": [(0, 7), (0, 7), (0, 7), (0, 8)],
}


@pytest.mark.parametrize("ring", sorted(WALKS))
@pytest.mark.parametrize("purge", [0, 1])
def test_rings_walk_and_write_as_counted(ring: str, purge: int) -> None:
    ringed = window(index="L", ring=ring, purge_every=purge)
    counted = []
    for slide, basic in enumerate(A):
        before = ringed.ring.walk, ringed.ring.writes
        ringed.append(basic)
        counted.append((ringed.ring.walk - before[0], ringed.ring.writes - before[1]))
        rows = [v for part in A[max(0, slide - 3) : slide + 1] for v in part]
        for value in {v for part in A for v in part}:
            assert ringed.lookup(value).num_rows == rows.count(value)
    assert counted[4:] == WALKS[ring]
    before_query = ringed.ring.walk
    assert ringed.sorted_by()["value"].to_pylist() == sorted(v for part in A[4:] for v in part)
    stale = {(0, "DB"): 10, (1, "DB"): 5}.get((purge, ring), 0)
    assert ringed.ring.walk - before_query == 16 + stale


def test_probes_of_uniform_values_read_what_table_1_says() -> None:
    random = Random(2003)
    stream = [random.randrange(1000) for _ in range(20_000)]
    for index, mean, most in (("L", 499.73, 1000), ("AVL", 9.23, 12), ("H", 5.49, 10)):
        indexed = SlidingWindow(
            by=Rows(200), slots=50, index=index, buckets=buckets_of(index, 100), purge_every=0
        )
        indexed.append(stream[:10_000])
        before = indexed.visits.probe
        indexed.append(stream[10_000:])
        assert round((indexed.visits.probe - before) / 10_000, 2) == mean
        assert indexed.visits.most <= most + (index == "AVL")
