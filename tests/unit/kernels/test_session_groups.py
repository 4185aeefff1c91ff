"""Groups by session keep totals: one row for each open session, and nothing of one that is over."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mayfly.errors import BadInput
from mayfly.kernels.session_groups import SessionGroups
from mayfly.kernels.sessions import SessionRows
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.local_session import LocalSession

LARGE = 2**62
DECLARED = "CREATE STREAM s (ts BIGINT, k BIGINT, x DOUBLE, v BIGINT) TIMESTAMP BY ts MICROSECONDS"
COLUMNS = pa.schema({"ts": pa.int64(), "k": pa.int64(), "x": pa.float64(), "v": pa.int64()})
BY_KEY = "SESSION(s PARTITION BY k, ts, 5 us) GROUP BY k, window_start, window_end"


def started(cql: str) -> ContinuousRun:
    session = LocalSession()
    session.execute(DECLARED)
    return session.query(cql)


def fed(run: ContinuousRun, *batches: list[tuple[Any, ...]]) -> ContinuousRun:
    for batch in batches:
        columns = zip(*batch, strict=True)
        run.feed({"s": pa.table([pa.array(column) for column in columns], schema=COLUMNS)})
    return run


def answer(run: ContinuousRun) -> list[tuple[Any, ...]]:
    run.finish()
    rows = run.lifetimes().to_pylist()
    return sorted((tuple(row.values())[:-2] for row in rows), key=repr)


def operators(run: ContinuousRun) -> set[type]:
    return {type(task.operator) for task in run.program.tasks()}


def test_a_sum_may_leave_64_bits_on_its_way() -> None:
    run = started(f"SELECT k, SUM(v) AS s, AVG(v) AS a FROM {BY_KEY}")
    steps = [[(t, 1, 0.0, v)] for t, v in enumerate((LARGE, LARGE, LARGE, -LARGE, -LARGE, 7))]
    assert answer(fed(run, *steps, [(100, 1, 0.0, None)])) == [(1, LARGE + 7, (LARGE + 7) / 6)]


def test_what_does_not_fit_the_lower_half_is_carried() -> None:
    steps = [[(t, 1, 0.0, v)] for t, v in enumerate((2**32 - 1, 2**32 - 1, 2**31, -1, -(2**33)))]
    run = fed(started(f"SELECT k, SUM(v) AS s FROM {BY_KEY}"), *steps, [(100, 1, 0.0, None)])
    assert answer(run) == [(1, 2**31 - 3)]


def test_a_sum_that_does_not_fit_says_whose_it_is() -> None:
    run = fed(started(f"SELECT k, SUM(v) AS s FROM {BY_KEY}"), [(1, 7, 0.0, LARGE)])
    with pytest.raises(BadInput, match=r"SUM of the group \(7\) does not fit a BIGINT"):
        fed(run, [(2, 7, 0.0, LARGE)], [(90, 1, 0.0, 1)], [(95, 1, 0.0, 1)])


def test_values_of_which_none_is_there() -> None:
    run = started(f"SELECT COUNT(v) AS n, SUM(v) AS s, AVG(v) AS a, MIN(x) AS l FROM {BY_KEY}")
    assert answer(fed(run, [(1, None, None, None), (90, 2, 1.5, 3)])) == [(0, None, None, None)]


def test_zeros_are_one_partition() -> None:
    call = "SESSION(s PARTITION BY x, ts, 5 us) GROUP BY x, window_start, window_end"
    run = started(f"SELECT x, COUNT(*) AS n FROM {call}")
    nan = float("nan")
    rows = [(1, 1, 0.0, 1), (2, 1, -0.0, 1), (3, 1, nan, 1), (4, 1, nan, 1), (90, 1, 9.0, 1)]
    assert [n for _, n in answer(fed(run, rows))] == [2, 2]


def test_one_row_is_kept_of_an_open_session_and_none_of_one_that_is_over() -> None:
    run = started(f"SELECT k, SUM(v) AS s, MAX(v) AS m FROM {BY_KEY}")
    assert SessionGroups in operators(run)
    for batch in range(20):
        fed(run, [(4 * batch + n, n % 2, 0.0, n) for n in range(4)])
    waiting = 1  # the row of the last instant, which is not closed
    assert run.state_rows == 2 + waiting
    fed(run, [(1_000, 3, 0.0, 1)], [(1_001, 3, 0.0, 1)])
    assert run.state_rows == 1 + waiting
    totals = sum(n for _ in range(20) for n in (1, 3)), sum(n for _ in range(20) for n in (0, 2))
    assert answer(run) == [(0, totals[1], 2), (1, totals[0], 3)]


@pytest.mark.parametrize(
    "cql",
    [
        "SELECT window_end, SUM(v) AS s FROM SESSION(s PARTITION BY k, ts, 5 us) "
        "GROUP BY window_start, window_end",
        f"SELECT k, COUNT(DISTINCT v) AS s FROM {BY_KEY}",
        f"SELECT k, SUM(x) AS s FROM {BY_KEY}",
        f"SELECT k, MEDIAN(v) AS s FROM {BY_KEY}",
        "SELECT k, SUM(v) AS s FROM SESSION(s PARTITION BY k, ts, 5 us) WHERE v > 1 "
        "GROUP BY k, window_start, window_end",
    ],
)
def test_rows_are_kept_where_totals_are_not_enough(cql: str) -> None:
    assert SessionRows in operators(started(cql))
