"""The rows that groups held before a step, whatever runs they lie in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly.kernels.alive_before import Before
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.lifetime_rows import RowRun
from mayfly.kernels.resident import Parts

ROWS = st.lists(st.tuples(st.integers(-2, 4), st.integers(1, 9)), min_size=1, max_size=8)


def run_of(rows: list[tuple[int, int]]) -> RowRun:
    """Rows of a code and an expiration; the value is the two of them, NULL for code 0."""
    codes, ends = (np.array(column, np.int64) for column in zip(*sorted(rows), strict=True))
    values = [None if code == 0 else f"{code}:{end}" for code, end in sorted(rows)]
    return RowRun.of(pa.table({"_code": codes, "_ts": ends - 1, "_exp": ends, "x": values}))


@given(runs=st.lists(ROWS, max_size=4), codes=st.sets(st.integers(-2, 5)), began=st.integers(1, 9))
@example(runs=[[(1, 5), (2, 5)], [(0, 9), (1, 6), (2, 4)]], codes={0, 1, 2}, began=5)
def test_rows_alive_stand_group_by_group(
    runs: list[list[tuple[int, int]]], codes: set[int], began: int
) -> None:
    listed = sorted(codes)
    known: dict[int, Parts] = {code: {"part": (np.empty(0, np.int64),)} for code in (2, 7)}
    before = Before.of(
        KeptRows(Shape(), tuple(map(run_of, runs))), np.array(listed, np.int64), began, known
    )
    alive = [
        (listed.index(code), None if code == 0 else f"{code}:{end}")
        for code in listed
        for run in runs
        for own, end in sorted(run)
        if own == code and end >= began and code != 2
    ]
    values = before.values("x", pa.string()).to_pylist()
    assert list(zip(before.owner.tolist(), values, strict=True)) == alive
    assert set(before.summaries) == ({listed.index(2)} if 2 in codes else set())
    present, starts = before.present("x", pa.string())
    assert present.to_pylist() == [value for _, value in alive if value is not None]
    sizes = [sum(1 for own, v in alive if own == g and v is not None) for g in range(len(listed))]
    assert np.diff(starts).tolist() == sizes
