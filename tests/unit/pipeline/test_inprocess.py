"""The in-process runner at its edges: what it refuses, counts, closes and leaves untouched."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mayfly.errors import BadInput, InvalidSetting, LimitExceeded, MayflyError, NotClosed
from mayfly.pipeline import InProcessRun, JoinQuery, Stream
from mayfly.testing import assert_same_rows

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
A, B, C = (Stream(name, SCHEMA) for name in "abc")


def rows(*pairs: tuple[int, int | None]) -> pa.Table:
    return pa.table(
        {"ts": [ts for ts, _ in pairs], "k": pa.array([k for _, k in pairs], pa.int64())}
    )


def query(window: int = 10) -> JoinQuery:
    return A.window(window).join(B.window(window), "k", select={"k": "a.k"})


@pytest.mark.parametrize(
    ("batch", "heartbeats", "error", "message"),
    [
        ({"c": rows()}, None, InvalidSetting, "the query reads no stream c"),
        ({}, {"c": 1}, InvalidSetting, "the query reads no stream c"),
        (
            {"a": pa.table({"ts": [1]})},
            None,
            BadInput,
            "a batch of stream a has no column k",
        ),
        ({"a": pa.table({"k": [1]})}, None, BadInput, "stream a has no column ts"),
        (
            {"a": pa.table({"ts": [1], "k": ["x"]})},
            None,
            BadInput,
            "a.k was declared as BIGINT, but a batch brings STRING",
        ),
        (
            {"a": pa.table({"ts": pa.array([1, None, None]), "k": [1, 2, 3]})},
            None,
            BadInput,
            "2 rows of stream a have no ts",
        ),
    ],
)
def test_refused_input(
    batch: dict[str, pa.Table], heartbeats: Any, error: type[MayflyError], message: str
) -> None:
    with pytest.raises(error) as raised:
        InProcessRun(query()).feed(batch, heartbeats)
    assert message in raised.value.message
    assert raised.value.hint


def test_times_finer_than_microseconds_are_refused() -> None:
    fine = pa.table({"ts": pa.array([1_001], pa.timestamp("ns", "UTC")), "k": [1]})
    stream = Stream("n", fine.schema)
    running = InProcessRun(stream.window(10).join(B.window(10), "k"))
    with pytest.raises(BadInput, match="a batch of stream n does not fit"):
        running.feed({"n": fine})


def test_no_buckets() -> None:
    with pytest.raises(InvalidSetting, match="0 buckets"):
        InProcessRun(query(), 0)


def test_an_instant_is_told_once_it_is_closed() -> None:
    running = InProcessRun(query())
    assert running.feed({"a": rows((1, 7)), "b": rows((1, 7))}).num_rows == 0
    assert running.feed({}, {"a": 2}).num_rows == 0
    assert running.feed({}, {"b": 2}).to_pylist() == [{"k": 7, "ts": 1, "exp": 11}]
    assert running.finish().num_rows == 0


def test_snapshots_of_closed_instants_only() -> None:
    running = InProcessRun(query())
    for at in (0, None):
        with pytest.raises(NotClosed, match="some stream has sent nothing"):
            running.snapshot(at)
    running.feed({"a": rows((1, 7)), "b": rows((3, 7))})
    running.finish()
    assert [running.snapshot(at).num_rows for at in (2, 3)] == [0, 1]
    assert_same_rows(running.snapshot(), [{"k": 7}])
    with pytest.raises(NotClosed) as told:
        running.snapshot(1_798_761_600_000_000)
    assert told.value.message == (
        "the instant 2027-01-01 00:00:00 is not closed yet: "
        "the query's clock is 1970-01-01 00:00:00.000004"
    )
    with pytest.raises(NotClosed):
        running.snapshot(4)
    running.feed({}, {"a": 20, "b": 20})
    assert [running.snapshot(at).num_rows for at in (10, 11)] == [1, 0]


def test_rows_late_or_without_a_key_are_counted_and_nothing_else() -> None:
    running = InProcessRun(query(), 3)
    running.feed({"a": rows((5, 1)), "b": rows((5, 1))})
    running.feed({"a": rows((4, 1), (5, 1), (4, None), (6, None)), "b": rows((6, 2))})
    running.finish()
    assert running.late == {"a": 2, "b": 0}
    assert running.changes().num_rows == 2


def test_a_failed_batch_leaves_no_trace() -> None:
    """Also where the first of two stages had already worked."""
    chain = A.window(10).join(B.window(10), "k").join(C.window(10), [("a.k", "c.k")])
    running = InProcessRun(chain, max_state_bytes=1_000)
    many = rows(*((i, i) for i in range(40)))
    before = (running.states, running.clocks, running.late)
    with pytest.raises(LimitExceeded):
        running.feed({"a": rows((1, 1)), "b": rows((1, 1)), "c": many}, {"a": 2, "b": 2})
    assert (running.states, running.clocks, running.late) == before
    running.feed({"a": rows((1, 1)), "b": rows((1, 1)), "c": rows((1, 1))})
    running.finish()
    assert running.changes().num_rows == 1


def test_streams_too_far_apart() -> None:
    running = InProcessRun(query(), max_gap=50)
    running.feed({"a": rows((1, 1)), "b": rows((51, 1))})
    with pytest.raises(LimitExceeded, match="stream b is 51 us ahead of stream a"):
        running.feed({"b": rows((52, 1))})
    assert running.clocks.streams == {"a": 1, "b": 51}


def test_streams_with_slacks_of_their_own() -> None:
    slow = Stream("b", SCHEMA, slack=4)
    running = InProcessRun(A.window(10).join(slow.window(10), "k", select={"k": "a.k"}))
    running.feed({"a": rows((9, 1)), "b": rows((9, 1))})
    assert running.clocks.query == 5
    running.feed({"b": rows((5, 1), (4, 1))})
    running.finish()
    assert running.late == {"a": 0, "b": 1}
    assert sorted(running.changes()["ts"].to_pylist()) == [9, 9]
