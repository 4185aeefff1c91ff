"""Extremes of rows of panes, by blocks and of what others have scanned, against all rows."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from mayfly.arrays.order import Int64s
from mayfly.kernels.cover_extremes import CoverExtreme, Prefixes
from mayfly.kernels.group_events import Events
from mayfly.kernels.holistic import Versions
from mayfly.kernels.pane_partials import GROUP
from mayfly.kernels.pane_store import PaneRows
from mayfly.kernels.pane_stretches import Scan, SortedPanes
from mayfly.lifetime import MIN_TIME
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.types import BIGINT
from mayfly.storage.segment import TS

GROUPS, LAST = (-7, 2, 3, 11), 60
Row = tuple[int, int, int | None]
"""Its group, its time and its value."""
LARGEST = pytest.mark.parametrize("largest", [True, False])


def random_rows(rng: Random, groups: Sequence[int] = GROUPS) -> list[Row]:
    """By time; values rise and fall, so that what is too old or too new is often the best."""
    values = [rng.choice((-1, 1)) * time for time in range(LAST + 1)]
    return [
        (group, time, rng.choice((None, values[time])))
        for time in range(1, LAST + 1)
        for group in groups
        if rng.random() < 0.5
    ]


def panes_of(rows: Sequence[Row]) -> PaneRows:
    schema = pa.schema([(GROUP, pa.int64()), (TS, pa.int64()), (".v", pa.int64())])
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    table = pa.table([pa.array(c, pa.int64()) for c in columns], schema)
    nothing = schema.empty_table()
    return PaneRows(nothing, nothing, (table,))


def scan_of(panes: PaneRows, low: int, high: int, codes: Sequence[int] | None = None) -> Scan:
    chosen = None if codes is None else np.array(codes, np.int64)
    rows = panes.between(low, high) if chosen is None else panes.of_groups(chosen, low, high)
    return Scan(SortedPanes.of(rows, (".v",), ()), low, high, chosen)


def best(values: Sequence[int | None], largest: bool) -> int | None:
    there = [value for value in values if value is not None]
    return (max if largest else min)(there, default=None)


@LARGEST
def test_blocks_have_the_best_row_of_every_stretch(largest: bool) -> None:
    rng = Random(5)
    for size in range(1, 40):
        values = [rng.choice((None, rng.randrange(20))) for _ in range(size)]
        table = panes_of([(1, n, value) for n, value in enumerate(values)]).tables[0]
        rows = SortedPanes.of(table, (".v",), ())
        ends = [(low, high) for low in range(size + 1) for high in range(low, size + 1)]
        low, high = (np.array(part, np.int64) for part in zip(*ends, strict=True))
        places = rows.best(".v", low, high, largest=largest)
        assert rows.blocks or size < 3
        found = [None if place < 0 else values[place] for place in places]
        assert found == [best(values[begin:end], largest) for begin, end in ends]
        assert all(p < 0 or begin <= p < end for p, (begin, end) in zip(places, ends, strict=True))


def test_a_scan_has_the_rows_of_its_groups_and_instants() -> None:
    some, every = (
        Scan(SortedPanes.of(panes_of([]).tables[0], (), ()), 10, 20, codes)
        for codes in (np.array([2, 5], np.int64), None)
    )
    five, both, other = (np.array(codes, np.int64) for codes in ([5], [5, 2, 5], [2, 3]))
    for scan in (some, every):
        assert scan.has(10, 20, five)
        assert scan.has(12, 18, both)
        assert not scan.has(9, 20, five), "it does not go back far enough"
        assert not scan.has(10, 21, five), "it ends too early"
        assert scan.has(10, 20, other) == (scan is every)


def versions_of(codes: Sequence[int], times: Sequence[int]) -> Versions:
    code, time = np.array(codes, np.int64), np.array(times, np.int64)
    ones: Int64s = np.ones(len(code), np.int64)
    return Versions(np.arange(len(code)), time, ones, code, ones.astype(bool))


@LARGEST
@pytest.mark.parametrize("floor", [MIN_TIME, 25])
def test_extremes_of_a_cover_are_those_of_the_rows_in_the_window(floor: int, largest: bool) -> None:
    """Whatever others have scanned, be it too short, of other groups, or nothing."""
    rng, length = Random(9), 12
    call = AggregateCall("best", "max" if largest else "min", Column("", "v", BIGINT), BIGINT)
    none = np.empty(0, np.int64)
    nothing = Events(none, none, none, pa.table({}), none, [])
    for number in range(60):
        parts = [random_rows(rng, rng.sample(GROUPS, 3)) for _ in range(2)]
        panes = [panes_of(rows) for rows in parts]
        for part in panes:
            scans = [scan_of(part, 30, 60), scan_of(part, 18, 55), scan_of(part, 18, 60, (2, -7))]
            part.scans.extend(rng.sample(scans, rng.randrange(4)))
            if number % 2:
                part.scans.append(scan_of(part, 2, 60))
        asked = [(c, t) for c in GROUPS for t in rng.sample(range(30, LAST + 1), 8)]
        asked += [(GROUPS[0], MIN_TIME)]
        versions = versions_of(*zip(*asked, strict=True))
        made = CoverExtreme(call, True, (), prefixes=Prefixes(tuple(panes), length, floor))
        assert made.way.play is not None
        played = made.way.play(call, nothing, versions, "")
        expected = [
            best(
                [
                    value
                    for rows in parts
                    for group, time, value in rows
                    if group == code and max(instant - length, floor) < time <= instant
                ],
                largest,
            )
            for code, instant in asked
        ]
        assert played.to_pylist() == expected
