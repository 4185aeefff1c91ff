from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME
from mayfly.testing import Batch, JoinCase, judge_lateness
from mayfly.testing.strategies import join_cases


def batch(left: list[int], right: list[int]) -> Batch:
    return {
        "l": pa.table({"ts": pa.array(left, pa.int64())}),
        "r": pa.table({"ts": pa.array(right, pa.int64())}),
    }


def test_no_clock_before_every_stream_has_had_data() -> None:
    outcomes = judge_lateness([batch([100], []), batch([1], []), batch([], [50])])
    assert [o.clock for o in outcomes] == [None, None, 50]
    assert [o.late["l"].num_rows for o in outcomes] == [0, 0, 0]
    assert outcomes[1].stream_clocks == {"l": 100, "r": None}


def test_the_query_clock_is_the_smallest_and_decides_what_is_late() -> None:
    outcomes = judge_lateness([batch([100], [60]), batch([59, 60, 70], [59, 61])])
    assert outcomes[0].clock == 60
    assert outcomes[1].late["l"]["ts"].to_pylist() == [59]
    assert outcomes[1].accepted["l"]["ts"].to_pylist() == [60, 70]
    assert outcomes[1].late["r"]["ts"].to_pylist() == [59]
    assert outcomes[1].accepted["r"]["ts"].to_pylist() == [61]
    assert outcomes[1].clock == 61


def test_the_clock_moves_between_batches_only() -> None:
    assert judge_lateness([batch([100, 1], [100, 1])])[0].late["l"].num_rows == 0


def test_slack_holds_the_clock_back_per_stream() -> None:
    first, second = judge_lateness(
        [batch([100], [100]), batch([89, 90], [89, 90])], slack={"l": "10 us", "r": "5 us"}
    )
    assert first.stream_clocks == {"l": 90, "r": 95}
    assert first.clock == 90
    assert second.late["l"]["ts"].to_pylist() == second.late["r"]["ts"].to_pylist() == [89]


def test_a_heartbeat_moves_an_idle_stream_and_never_moves_it_back() -> None:
    outcomes = judge_lateness(
        [batch([100], []), batch([], []), batch([], [79, 80]), batch([], [])],
        slack="20 us",
        heartbeats=[{"r": 30}, {"r": 80}, {"r": 10}, {"l": 200}],
    )
    assert [o.clock for o in outcomes] == [30, 80, 80, 80]
    assert outcomes[2].late["r"]["ts"].to_pylist() == [79]


def test_clocks_do_not_wrap_around() -> None:
    (outcome,) = judge_lateness([batch([MIN_TIME], [0])], slack="5 us")
    assert outcome.clock == MIN_TIME


def test_heartbeats_must_match_the_batches() -> None:
    with pytest.raises(InvalidSetting, match="1 heartbeats for 2 batches"):
        judge_lateness([batch([], []), batch([], [])], heartbeats=[{}])


@given(join_cases())
def test_disorder_within_slack_and_kept_promises_make_nothing_late(case: JoinCase) -> None:
    assert all(rows.num_rows == 0 for rows in case.late.values())
    clocks = [outcome.clock for outcome in case.outcomes if outcome.clock is not None]
    assert clocks == sorted(clocks)
