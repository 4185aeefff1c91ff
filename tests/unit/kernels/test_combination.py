"""Combinations of many inputs against all of them tried one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from mayfly.kernels.combination import AtOnce, Sorted, SortedSide, combined, merged
from mayfly.kernels.lifetime_rows import CODE, numbers
from mayfly.kernels.multiway_probe import Effort, Held, Partial
from mayfly.storage.segment import EXP, TS

Row = tuple[int, int, int]


def table(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    arrays = [pa.array(column, pa.int64()) for column in columns]
    return pa.table(arrays, names=[CODE, TS, EXP])


def random_rows(rng: np.random.Generator, size: int, codes: int, later: int = 0) -> list[Row]:
    ts = rng.integers(0, 30, size) + later
    ends = ts + rng.integers(1, 25, size)
    return list(
        zip(rng.integers(-1, codes, size).tolist(), ts.tolist(), ends.tolist(), strict=True)
    )


def alive_together(rows: tuple[Row, ...]) -> bool:
    codes, ts, exp = zip(*rows, strict=True)
    return len(set(codes)) == 1 and max(ts) < min(exp)


def unchecked(combinations: Held, tables: object, origin: int, member: int) -> Held:
    return combinations


@pytest.mark.parametrize("seed", range(60))
def test_every_combination_with_a_new_row_is_found_once(seed: int) -> None:
    """Whatever the order, the pieces and the runs that the kept rows lie in."""
    rng = np.random.default_rng(seed)
    inputs, codes, room = int(rng.integers(2, 5)), int(rng.integers(1, 6)), int(rng.integers(1, 9))
    kept = [random_rows(rng, int(rng.integers(0, 7)), codes) for _ in range(inputs)]
    new = [random_rows(rng, int(rng.integers(0, 7)), codes, 20) for _ in range(inputs)]
    sides = []
    for old, fresh in zip(kept, new, strict=True):
        columns = (numbers(table(fresh), name) for name in (CODE, TS, EXP))
        sides.append(SortedSide(Sorted.of(table(old)), Sorted.of_new(*columns).moved(len(old))))
    rows = [old + fresh for old, fresh in zip(kept, new, strict=True)]
    halting = bool(rng.integers(2))
    search = AtOnce(
        sides, [table(one) for one in rows], tuple(rng.permutation(inputs).tolist()),
        lambda joined: halting,
    )  # fmt: skip
    found = []
    for origin in range(inputs):
        for piece in search.results(origin, unchecked, room, Effort()):
            assert 0 < len(piece.codes) <= room
            places = np.stack([piece.members[member] for member in range(inputs)], axis=1)
            found += [tuple(one) for one in places.tolist()]
            for one, ts, exp in zip(places.tolist(), piece.ts, piece.exp, strict=True):
                members = [rows[member][at] for member, at in enumerate(one)]
                assert ts == max(m[1] for m in members)
                assert exp == min(m[2] for m in members)
    expected = [
        at
        for at in product(*(range(len(one)) for one in rows))
        if alive_together(tuple(rows[member][place] for member, place in enumerate(at)))
        and any(place >= len(kept[member]) for member, place in enumerate(at))
    ]
    assert sorted(found) == expected


def test_rows_of_one_code_are_sorted_by_ts_whatever_their_runs() -> None:
    one = Sorted.of(table([(1, 9, 20), (2, 5, 20), (1, 3, 20), (2, 6, 20)]))
    assert one.places.tolist() == [2, 0, 1, 3]
    other = Sorted.of(table([(1, 4, 20), (3, 0, 20)])).moved(4)
    both = merged(one, other)
    assert both.places.tolist() == [2, 4, 0, 1, 3, 5]
    assert list(zip(both.codes, both.ts, strict=True)) == sorted(
        zip(both.codes, both.ts, strict=True)
    )


def test_what_has_expired_is_looked_at_once() -> None:
    """Rows of a hot key that died long ago are not walked over for every new tuple."""
    side = Sorted.of(table([(1, n, n + 5) for n in range(1000)]))
    probes = Sorted.of(table([(1, n, n + 5) for n in range(1000)]))
    effort = Effort()
    start = Partial({0: probes.places}, probes.codes, probes.ts, probes.exp)
    results = sum(len(one.codes) for one in combined(start, [(1, side)], True, 1 << 20, effort))
    assert results == 9 * 1000 - 20
    assert effort.scanned == results
    assert effort.expired <= 1000
    assert effort.probes == 1
