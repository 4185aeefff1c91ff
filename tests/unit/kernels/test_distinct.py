"""δ*: which lifetimes a value is issued with."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mayfly.kernels.delta import Delta
from mayfly.kernels.distinct import WeakDistinct
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import Shape
from mayfly.lifetime import MIN_TIME
from mayfly.plan.strategy import Structure

COLUMNS = pa.schema([("t.v", pa.string())])


def issued(
    rows: list[tuple[str, int, int]], clocks: list[int], end: int = 100
) -> list[tuple[str, int, int]]:
    """The value, ts and exp of what is issued when the rows come in steps that end at clocks."""
    operator = WeakDistinct("δ*", COLUMNS, Shape(Structure.CALENDAR, 60))
    state, began, found = operator.state(), MIN_TIME, []
    for clock in [*clocks, end]:
        mine = [row for row in rows if max(began, MIN_TIME) <= row[1] < clock]
        values, ts, exp = zip(*mine, strict=True) if mine else ((), (), ())
        born = pa.table(
            {
                "t.v": pa.array(values, pa.string()),
                "_ts": pa.array(ts, pa.int64()),
                "_exp": pa.array(exp, pa.int64()),
                "_id": pa.array(range(len(ts)), pa.int64()),
            }
        )
        delta = Delta(born, Delta.empty(COLUMNS).cut)
        state, out = operator.step(state, [delta], Interval(began, clock))
        assert out.cut.num_rows == 0
        found += [(r["t.v"], r["_ts"], r["_exp"]) for r in out.born.to_pylist()]
        began = clock
    return sorted(found)


@pytest.mark.parametrize("clocks", [[], [1], [2, 3], [20], [21, 50]])
def test_the_duplicate_with_the_largest_exp_is_kept(clocks: list[int]) -> None:
    """The youngest one, [2, 25), would lose the value from 25 to 50."""
    rows = [("a", 0, 20), ("a", 1, 50), ("a", 2, 25)]
    assert issued(rows, clocks) == [("a", 0, 20), ("a", 20, 50)]


@pytest.mark.parametrize("clocks", [[], [5], [10], [11]])
def test_a_value_that_comes_as_it_goes_is_issued_anew(clocks: list[int]) -> None:
    rows = [("a", 0, 10), ("b", 3, 30), ("a", 10, 20), ("b", 5, 29)]
    assert issued(rows, clocks) == [("a", 0, 10), ("a", 10, 20), ("b", 3, 30)]


def test_state_is_one_row_per_value_that_is_out() -> None:
    operator = WeakDistinct("δ*", COLUMNS, Shape(Structure.CALENDAR, 60))
    rows = [("a", at, at + 40) for at in range(20)] + [(None, 3, 9)]
    born = pa.table(
        {
            "t.v": pa.array([row[0] for row in rows], pa.string()),
            "_ts": pa.array([row[1] for row in rows]),
            "_exp": pa.array([row[2] for row in rows]),
            "_id": pa.array(range(len(rows)), pa.int64()),
        }
    )
    delta = Delta(born, Delta.empty(COLUMNS).cut)
    state, _ = operator.step(operator.state(), [delta], Interval(MIN_TIME, 20))
    assert state.rows == 1
