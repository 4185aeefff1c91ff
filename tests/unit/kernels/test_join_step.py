"""One step at its boundaries: which rows are late, take part, wait, are kept and are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from mayfly.errors import BadInput, LimitExceeded
from mayfly.kernels.interval import Interval
from mayfly.kernels.join import (
    JoinInput,
    JoinState,
    OutputColumn,
    SideState,
    Step,
    WindowJoin,
    step,
)
from mayfly.kernels.rows import CODE
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan import expressions as ex
from mayfly.plan.types import BIGINT
from mayfly.storage.segment import EXP, TS

Rows = Sequence[tuple[int | None, int, int]]
"""Rows as (code, ts, value)."""


def side(name: str, window: int | None = 10, longest: int = 10) -> JoinInput:
    return JoinInput(name, pa.schema([(f"{name}.v", pa.int64())]), (), window, longest)


OUTPUT = (OutputColumn(0, "l.v", "l"), OutputColumn(1, "r.v", "r"))
JOIN = WindowJoin("j", (side("l"), side("r")), OUTPUT, exact=True)


def table(name: str, rows: Rows) -> pa.Table:
    code, ts, value = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            CODE: pa.array(code, pa.int64()),
            TS: pa.array(ts, pa.int64()),
            f"{name}.v": pa.array(value, pa.int64()),
        }
    )


def stepped(
    state: JoinState, left: Rows, right: Rows, began: int, clock: int, **options: Any
) -> tuple[Step, list[tuple[int, ...]]]:
    delta = table("l", left), table("r", right)
    done = step(options.pop("join", JOIN), state, delta, Interval(began, clock), **options)
    results = [tuple(row.values()) for batch in done.changes for row in batch.to_pylist()]
    return done, sorted(results)


def values(runs: tuple[Any, ...]) -> list[int]:
    return sorted(v for run in runs for v in run.load()["l.v"].to_pylist())


def test_rows_before_began_are_late_and_those_at_began_are_not() -> None:
    done, results = stepped(JoinState(), [(1, 99, 0), (1, 100, 1)], [(1, 100, 2)], 100, 101)
    assert done.reports[0].late["l.v"].to_pylist() == [0]
    assert (done.reports[0].rows_in, done.reports[1].late.num_rows) == (2, 0)
    assert results == [(1, 2, 100, 110)]


def test_rows_at_the_clock_wait_and_those_just_before_take_part() -> None:
    done, results = stepped(JoinState(), [(1, 100, 1), (1, 101, 2)], [(1, 100, 3)], 100, 101)
    left = done.state.sides[0]
    assert (values(left.runs), values(left.waiting)) == ([1], [2])
    assert results == [(1, 3, 100, 110)]
    _, results = stepped(done.state, [], [], 101, 102)
    assert results == [(2, 3, 101, 110)]


@pytest.mark.parametrize(("clock", "kept"), [(109, [1]), (110, []), (111, [])])
def test_a_row_is_kept_while_its_exp_is_beyond_the_clock(clock: int, kept: list[int]) -> None:
    done, _ = stepped(JoinState(), [(1, 100, 1)], [], 100, clock)
    assert values(done.state.sides[0].runs) == kept
    assert done.state.sides[0].waiting == ()


@pytest.mark.parametrize(("clock", "kept"), [(109, 1), (110, 0)])
def test_a_kept_run_is_dropped_at_the_exp_of_its_last_row(clock: int, kept: int) -> None:
    done, _ = stepped(JoinState(), [(1, 99, 0), (1, 100, 1)], [], 90, 101)
    done, _ = stepped(done.state, [], [], 101, clock)
    assert len(done.state.sides[0].runs) == kept


def test_a_partner_in_its_last_instant_and_one_instant_later() -> None:
    kept, _ = stepped(JoinState(), [(1, 100, 1)], [], 100, 105)
    _, results = stepped(kept.state, [], [(1, 109, 2), (1, 110, 3)], 105, 111)
    assert results == [(1, 2, 109, 110)]


def test_an_interval_without_instants_changes_nothing() -> None:
    done, results = stepped(JoinState(), [(1, 5, 1)], [(1, 5, 2)], MIN_TIME, MIN_TIME)
    assert results == []
    assert [len(one.waiting) for one in done.state.sides] == [1, 1]
    _, results = stepped(done.state, [], [], MIN_TIME, 6)
    assert results == [(1, 2, 5, 15)]


def test_rows_without_a_key_meet_nothing_and_are_counted_unless_late() -> None:
    done, results = stepped(JoinState(), [(None, 5, 1), (None, 1, 1)], [(None, 5, 2)], 4, 10)
    assert results == []
    assert [one.null_keys for one in done.reports] == [1, 1]
    assert done.reports[0].late.num_rows == 1
    assert done.state == JoinState()


def test_waiting_rows_are_consumed_from_the_front_exactly_once() -> None:
    """Two instants a step, so that a step often begins right behind a row already consumed."""
    ahead: Rows = [(1, ts, ts) for ts in (40, 10, 30, 20, 10, *range(50, 90))]
    partners = range(5, 95, 2)
    done, told = stepped(JoinState(), ahead, [], MIN_TIME, 5)
    for began in partners:
        done, results = stepped(done.state, [], [(1, began, -began)], began, began + 2)
        told += results
    assert sorted(told) == sorted(
        (ts, -began, max(ts, began), min(ts, began) + 10)
        for _, ts, _ in ahead
        for began in partners
        if abs(ts - began) < 10
    )
    assert done.state.sides[0].waiting == ()


def test_waiting_rows_are_not_rewritten_at_every_step() -> None:
    done, _ = stepped(JoinState(), [(1, ts, 0) for ts in range(1000)], [], MIN_TIME, 0)
    (first,) = done.state.sides[0].waiting
    written = first.rows
    state, seen = done.state, {id(first): first}
    for clock in range(10, 1001, 10):
        done, _ = stepped(state, [], [], clock - 10, clock)
        state = done.state
        for run in state.sides[0].waiting:
            if id(run) not in seen:
                seen[id(run)] = run
                written += run.rows
    assert written <= 5 * 1000


def test_the_state_before_a_step_is_left_as_it_was() -> None:
    done, _ = stepped(JoinState(), [(1, 1, 1), (1, 9, 2)], [(1, 2, 3)], 0, 5)
    for _ in range(2):
        _, results = stepped(done.state, [], [(1, 6, 4)], 5, 10)
        assert results == [(1, 4, 6, 11), (2, 3, 9, 12), (2, 4, 9, 16)]


def test_a_window_that_reaches_beyond_time() -> None:
    join = WindowJoin("j", (side("l", NEVER - 1, NEVER - 1), side("r")), OUTPUT, exact=True)
    _, results = stepped(JoinState(), [(1, 100, 1)], [(1, 105, 2)], 100, 200, join=join)
    assert results == [(1, 2, 105, 115)]
    done, _ = stepped(JoinState(), [(1, 100, 1)], [], 100, 200, join=join)
    assert [run.exp.high for run in done.state.sides[0].runs] == [NEVER]


def test_results_of_another_join_bring_their_own_exp() -> None:
    join = WindowJoin("j", (side("l", None), side("r")), OUTPUT, exact=True)
    left = table("l", [(1, 5, 1)]).append_column(EXP, pa.array([7]))
    done = step(join, JoinState(), (left, table("r", [(1, 6, 2)])), Interval(0, 10))
    assert [row for batch in done.changes for row in batch.to_pylist()] == [
        {"l": 1, "r": 2, "_ts": 6, "_exp": 7}
    ]
    assert done.state.sides[0] == SideState()


def test_too_much_state_fails_with_the_side_that_grew() -> None:
    done, _ = stepped(JoinState(), [(1, 1, 1)] * 10, [], 0, 2)
    size = done.state.bytes
    stepped(JoinState(), [(1, 1, 1)] * 10, [], 0, 2, max_state_bytes=size)
    with pytest.raises(LimitExceeded) as raised:
        stepped(JoinState(), [(1, 1, 1)] * 9 + [(1, 2, 2)], [], 0, 2, max_state_bytes=size - 1)
    assert f"would take {size:,} bytes, more than the limit of {size - 1:,}" in str(raised.value)
    assert "l: 9 rows kept and 1 waiting, r: 0 rows kept and 0 waiting" in str(raised.value)
    assert "larger max_state_bytes" in raised.value.hint


def test_a_term_of_the_residual_guards_those_after_it() -> None:
    """The sum overflows for the pair that the first term rules out."""
    value, limit = ex.Column("l", "v", BIGINT), ex.Literal(2**62, BIGINT)
    total = ex.Arithmetic("+", value, limit, BIGINT)
    small = ex.Compare("<", value, ex.Literal(100, BIGINT))
    large = ex.Compare(">", total, limit)
    rows: Rows = [(1, 1, 1), (1, 1, 2**62)]
    guarded = WindowJoin("j", (side("l"), side("r")), OUTPUT, True, ex.And((small, large)))
    _, results = stepped(JoinState(), rows, [(1, 1, 0)], 0, 2, join=guarded)
    assert results == [(1, 0, 1, 11)]
    bare = WindowJoin("j", (side("l"), side("r")), OUTPUT, True, large)
    with pytest.raises(BadInput, match="overflow"):
        stepped(JoinState(), rows, [(1, 1, 0)], 0, 2, join=bare)


def test_every_term_of_the_residual_must_hold() -> None:
    left, right = ex.Column("l", "v", BIGINT), ex.Column("r", "v", BIGINT)
    both = ex.And((ex.Compare("<", left, right), ex.Compare("<", right, ex.Literal(9, BIGINT))))
    join = WindowJoin("j", (side("l"), side("r")), OUTPUT, True, both)
    rows: Rows = [(1, 1, 4), (1, 1, 5), (1, 1, 9)]
    _, results = stepped(JoinState(), [(1, 1, 4)], rows, 0, 2, join=join)
    assert results == [(4, 5, 1, 11)]


def test_equal_codes_of_different_keys_do_not_meet() -> None:
    def keyed(name: str, kind: pa.DataType) -> JoinInput:
        return JoinInput(name, pa.schema([(f"{name}.v", kind)]), (f"{name}.v",), 10, 10)

    join = WindowJoin(
        "j",
        (keyed("l", pa.int64()), keyed("r", pa.int32())),
        OUTPUT,
        exact=False,
        key_types=(pa.int64(),),
    )
    right = table("r", [(1, 1, 7), (1, 1, 8)])
    right = right.set_column(2, "r.v", right["r.v"].cast(pa.int32()))
    done = step(join, JoinState(), (table("l", [(1, 1, 8)]), right), Interval(0, 2))
    assert [row["r"] for batch in done.changes for row in batch.to_pylist()] == [8]
