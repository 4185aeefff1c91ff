"""A join in this process at its edges: what is refused, late, kept, closed and left untouched."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from mayfly.errors import BadInput, InvalidSetting, MayflyError, NotClosed
from mayfly.kernels import window_join
from mayfly.kernels.window_join import BothKept
from mayfly.lifetime import NEVER
from mayfly.plan import expressions as ex
from mayfly.plan.stream_joins import JoinQuery, Stream
from mayfly.plan.types import BIGINT
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing import assert_same_rows
from tests.property.join_runs import colliding_codes, started

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
A, B = (Stream(name, SCHEMA) for name in "ab")


def rows(*pairs: tuple[int, int | None]) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([ts for ts, _ in pairs], pa.int64()),
            "k": pa.array([k for _, k in pairs], pa.int64()),
        }
    )


def query(window: int = 10, where: ex.Expression | None = None) -> JoinQuery:
    return A.window(window).join(B.window(10), "k", where, select={"k": "a.k", "b": "b.ts"})


def told(table: pa.Table) -> list[tuple[int, ...]]:
    return sorted(tuple(row[name] for name in ("b", "ts", "exp")) for row in table.to_pylist())


def closed(run: ContinuousRun, a: pa.Table, b: pa.Table, clock: int) -> list[tuple[int, ...]]:
    """The results (b.ts, ts, exp) of the instants before ``clock``."""
    return told(run.feed({"a": a, "b": b}, {"a": clock, "b": clock}))


def kept_by(run: ContinuousRun) -> list[int]:
    (state,) = (one for (one,) in run.states.values() if isinstance(one, BothKept))
    return [state.left.rows, state.right.rows]


@pytest.mark.parametrize(
    ("batch", "heartbeats", "error", "message"),
    [
        ({"c": rows()}, None, InvalidSetting, "the query reads no stream c"),
        ({}, {"c": 1}, InvalidSetting, "the query reads no stream c"),
        ({"a": pa.table({"ts": [1]})}, None, BadInput, "missing: k"),
        ({"a": pa.table({"k": [1]})}, None, BadInput, "missing: ts"),
        ({"a": pa.table({"ts": [1], "k": ["x"]})}, None, BadInput, "k is STRING, not BIGINT"),
        (
            {"a": pa.table({"ts": pa.array([1, None, None]), "k": [1, 2, 3]})},
            None,
            BadInput,
            "2 rows of stream a without ts",
        ),
    ],
)
def test_refused_input(
    batch: dict[str, pa.Table], heartbeats: Any, error: type[MayflyError], message: str
) -> None:
    with pytest.raises(error) as raised:
        started(query()).feed(batch, heartbeats)
    assert message in raised.value.message
    assert raised.value.hint


def test_no_buckets() -> None:
    with pytest.raises(InvalidSetting, match="0 buckets"):
        started(query(), 0)


def test_an_instant_is_told_once_it_is_closed() -> None:
    run = started(query())
    assert run.feed({"a": rows((1, 7)), "b": rows((1, 7))}).num_rows == 0
    assert run.feed({}, {"a": 2}).num_rows == 0
    assert told(run.feed({}, {"b": 2})) == [(1, 1, 11)]
    assert run.finish().num_rows == 0


def test_snapshots_of_closed_instants_only() -> None:
    run = started(query())
    for at in (0, None):
        with pytest.raises(NotClosed, match="some stream has sent nothing"):
            run.snapshot(at)
    run.feed({"a": rows((1, 7)), "b": rows((3, 7))})
    run.finish()
    assert [run.snapshot(at).num_rows for at in (2, 3)] == [0, 1]
    assert_same_rows(run.snapshot(), [{"k": 7, "b": 3}])
    with pytest.raises(NotClosed, match=r"1970-01-01 00:00:00.000004"):
        run.snapshot(4)


def test_rows_at_the_clock_wait_and_those_before_a_closed_instant_are_late() -> None:
    run = started(query())
    assert closed(run, rows((100, 1), (101, 1)), rows((100, 1)), 101) == [(100, 100, 110)]
    assert closed(run, rows((100, 1)), rows(), 102) == [(100, 101, 110)]
    assert run.late == {"a": 1, "b": 0}


@pytest.mark.parametrize(("clock", "kept"), [(109, [1, 0]), (110, [0, 0])])
def test_a_row_is_kept_while_its_exp_is_beyond_the_clock(clock: int, kept: list[int]) -> None:
    run = started(query())
    closed(run, rows((100, 1)), rows(), clock)
    assert kept_by(run) == kept


def test_a_partner_in_its_last_instant_and_one_instant_later() -> None:
    run = started(query())
    closed(run, rows((100, 1)), rows(), 105)
    assert closed(run, rows(), rows((109, 1), (110, 1)), 111) == [(109, 109, 110)]


def test_rows_without_a_key_meet_nothing_and_are_not_kept() -> None:
    run = started(query())
    assert closed(run, rows((5, None)), rows((5, None)), 6) == []
    assert kept_by(run) == [0, 0]


def test_a_window_that_reaches_beyond_time() -> None:
    run = started(query(NEVER - 1))
    assert closed(run, rows((100, 1)), rows((105, 1)), 200) == [(105, 105, 115)]


def test_a_failed_batch_leaves_no_trace() -> None:
    """The sum overflows for one pair; without it the batch is fed again."""
    key, limit = ex.Column("a", "k", BIGINT), ex.Literal(2**62, BIGINT)
    large = ex.Compare(">", ex.Arithmetic("+", key, limit, BIGINT), limit)
    run = started(query(where=large))
    before = (run.states, run.clocks, run.late)
    with pytest.raises(BadInput, match="overflow"):
        closed(run, rows((1, 2**62)), rows((1, 2**62)), 2)
    assert (run.states, run.clocks, run.late) == before
    assert closed(run, rows((1, 1)), rows((1, 1)), 2) == [(1, 1, 11)]


def test_a_term_of_the_residual_guards_those_after_it() -> None:
    key, limit = ex.Column("a", "k", BIGINT), ex.Literal(2**62, BIGINT)
    small = ex.Compare("<", key, ex.Literal(100, BIGINT))
    large = ex.Compare(">", ex.Arithmetic("+", key, limit, BIGINT), limit)
    run = started(query(where=ex.And((small, large))))
    both = rows((1, 1), (1, 2**62))
    assert closed(run, both, both, 2) == [(1, 1, 11)]


def test_equal_codes_of_different_keys_do_not_meet() -> None:
    texts = Stream("s", pa.schema([("ts", pa.int64()), ("t", pa.string())]))
    others = Stream("o", texts.schema)
    run = started(texts.window(10).join(others.window(10), "t", select={"t": "s.t"}))
    many = pa.table({"ts": [1] * 9, "t": [str(at) for at in range(9)]})
    with patch.object(window_join, "key_codes", colliding_codes):
        run.feed({"s": many, "o": many})
        run.finish()
    assert_same_rows(run.snapshot(1), many.select(["t"]))
