"""Sorting, gathering and choosing rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.kernels.lifetime_rows import CODE, RowRun, chosen, clustered, gathered, numbers
from mayfly.storage.bounds import Bounds
from mayfly.storage.segment import EXP, TS

Rows = list[tuple[int, int]]
ROWS: st.SearchStrategy[Rows] = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 9)))


def table(rows: Rows, first: int = 0) -> pa.Table:
    """Rows of (code, ts) that say where they stood."""
    code, ts = np.array(rows, np.int64).reshape(-1, 2).T
    text = pa.array([str(first + i) for i in range(len(rows))], pa.string())
    return pa.table({CODE: code, TS: ts, EXP: ts + 10, "place": text})


def listed(rows: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@given(ROWS, st.integers(0, 5))
def test_clustered_sorts_by_code_then_ts_and_keeps_rows_whole(rows: Rows, cut: int) -> None:
    parts = pa.concat_tables([table(rows[:cut]), table(rows[cut:], len(rows[:cut]))])
    found = clustered(parts)
    assert listed(found) == sorted(listed(parts), key=lambda row: row[:2])
    assert all(column.num_chunks <= 1 for column in found.columns) or not rows


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_clustered_runs_of_instants_in_a_row_gather_to_a_clustered_run(parts: list[Rows]) -> None:
    apart = [[(code, ts + 10 * i) for code, ts in part] for i, part in enumerate(parts)]
    together = table([row for part in apart for row in part])
    found = gathered([clustered(table(part)) for part in apart], CODE)
    expected = clustered(together)
    assert found.select([CODE, TS, EXP]).equals(expected.select([CODE, TS, EXP]))


def test_a_run_describes_its_rows() -> None:
    rows = table([(2, 5), (1, 9), (1, 3)])
    run = RowRun.of(rows, level=3, cell=4)
    assert (run.rows, run.bytes, run.level, run.cell) == (3, rows.nbytes, 3, 4)
    assert (run.ts, run.exp) == (Bounds(3, 9), Bounds(13, 19))
    code, ts, exp = run.keys()
    assert (code.tolist(), ts.tolist(), exp.tolist()) == ([2, 1, 1], [5, 9, 3], [15, 19, 13])


@pytest.mark.parametrize("mask", [[True] * 3, [False] * 3, [True, False, True]])
def test_chosen_rows(mask: list[bool]) -> None:
    rows = table([(1, 1), (2, 2), (3, 3)])
    assert chosen(rows, np.array(mask)).equals(rows.filter(pa.array(mask)))


def test_numbers_of_any_chunking() -> None:
    for chunks in ([[1, 2, 3]], [[1], [2, 3]], [[1, 2, 3], []], []):
        column = pa.chunked_array([pa.array(c, pa.int64()) for c in chunks], pa.int64())
        expected = [value for chunk in chunks for value in chunk]
        assert numbers(pa.table({"n": column}), "n").tolist() == expected
