"""Clocks: slack, heartbeats, streams that have brought nothing, gaps, and the end of input."""

from __future__ import annotations

import json

import pytest

from mayfly.errors import LimitExceeded
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.runtime.clock import Clocks

SLACK = {"a": 0, "b": 5}


def after(*batches: dict[str, int | None], heartbeats: dict[str, int] | None = None) -> Clocks:
    clocks = Clocks.unset(("a", "b"))
    for batch in batches:
        clocks = clocks.advanced(batch, SLACK, heartbeats)
    return clocks


def test_nothing_is_closed_while_a_stream_has_brought_nothing() -> None:
    assert after().query == MIN_TIME
    assert after({"a": 100}).query == MIN_TIME
    assert after({"a": 100, "b": None}).query == MIN_TIME


def test_a_query_follows_the_stream_furthest_behind_less_its_own_slack() -> None:
    assert after({"a": 100, "b": 90}).streams == {"a": 100, "b": 85}
    assert after({"a": 100, "b": 90}).query == 85
    assert after({"a": 100, "b": 200}).query == 100


def test_clocks_never_go_back() -> None:
    clocks = after({"a": 100, "b": 90}, {"a": 10, "b": 20})
    assert clocks.streams == {"a": 100, "b": 85}
    assert clocks.largest == {"a": 100, "b": 90}


def test_a_heartbeat_counts_only_ahead_of_the_clock_and_without_slack() -> None:
    assert after({"a": 100, "b": 90}, heartbeats={"b": 80}).query == 85
    assert after({"a": 100, "b": 90}, heartbeats={"b": 95}).query == 95
    assert after({"a": 100}, heartbeats={"b": 7}).query == 7
    assert after({}, heartbeats={}).query == MIN_TIME


def test_slack_larger_than_time_itself() -> None:
    clocks = Clocks.unset(("a",)).advanced({"a": MIN_TIME + 3}, {"a": 10})
    assert clocks.query == MIN_TIME


def test_the_gap_is_between_streams_that_have_a_clock() -> None:
    assert after().gap == 0
    assert after({"a": 100}).gap == 0
    assert after({"a": 100, "b": 25}).gap == 80


def test_a_gap_beyond_the_limit_names_both_streams() -> None:
    clocks = after({"a": 100, "b": 25})
    clocks.check_gap(None)
    clocks.check_gap(80)
    with pytest.raises(LimitExceeded, match=r"stream a is 80 us ahead of stream b.*79 us") as error:
        clocks.check_gap(79)
    assert "feed b" in error.value.hint


def test_the_end_of_input_closes_the_last_instant_of_all_streams() -> None:
    ended = after({"a": 100, "b": 90}).closed()
    assert ended.ended
    assert ended.query == 101
    assert ended.streams == {"a": 101, "b": 101}


def test_the_end_of_input_without_rows_or_with_one_silent_stream() -> None:
    assert after().closed() == Clocks({"a": None, "b": None}, {"a": None, "b": None}, ended=True)
    assert after({"a": 100}).closed().query == 101


def test_streams_that_no_query_connects_end_each_at_its_own_last_instant() -> None:
    clocks = Clocks.unset(("a", "b", "c", "d")).advanced(
        {"a": 10, "b": 20, "c": 30}, dict.fromkeys("abcd", 5)
    )
    apart = clocks.closed([["a"], ["b"], ["c"], ["d"]])
    assert apart.streams == {"a": 11, "b": 21, "c": 31, "d": None}
    assert apart.ended
    chained = clocks.closed([["a", "b"], ["d"], ["b", "c"], ["a"]])
    assert chained.streams == {"a": 31, "b": 31, "c": 31, "d": None}
    assert chained.closed([["a", "b"], ["d"], ["b", "c"], ["a"]]) == chained


def test_a_heartbeat_beyond_the_last_row_stays_closed_at_the_end() -> None:
    assert after({"a": 100, "b": 90}, heartbeats={"a": 500}).closed().query == 500
    assert after({}, heartbeats={"a": 500}).closed().query == 500


def test_the_end_of_time_fits_64_bits() -> None:
    assert after({"a": NEVER, "b": NEVER}).closed().query == NEVER


def test_more_input_after_the_end_is_no_longer_the_end() -> None:
    assert not after({"a": 1, "b": 9}).closed().advanced({}, SLACK).ended


def test_clocks_survive_json() -> None:
    clocks = after({"a": 100})
    assert Clocks.from_json(json.loads(json.dumps(clocks.to_json()))) == clocks
