"""Which streams of a pipeline wait for each other, and what has no time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mayfly.errors import BadInput, LimitExceeded
from mayfly.physical.shared_program import ClockGroup
from mayfly.plan.stream_joins import Stream
from mayfly.runtime.clock import Clocks
from mayfly.spark.stream.dead_letters import check_times
from mayfly.spark.stream.runner import Runner

CLOCKS = Clocks({"a": 1_000, "b": 10, "new": None})


def together(*groups: tuple[str, ...]) -> list[Clocks]:
    runner = object.__new__(Runner)
    runner._groups = tuple(ClockGroup(streams) for streams in groups)
    return runner.clocks_together(CLOCKS)


def test_streams_that_no_query_reads_together_do_not_wait_for_each_other() -> None:
    apart = together(("a",), ("b",), ("a", "new"))
    for one in apart:
        one.check_gap(500)
    assert max(one.query for one in apart) == 1_000, "a silent stream does not stop the pace"


def test_streams_of_one_query_do() -> None:
    alone, joined = together(("a",), ("a", "b"))
    alone.check_gap(500)
    with pytest.raises(LimitExceeded, match="stream a is"):
        joined.check_gap(500)


def test_rows_without_a_time_are_refused_with_advice_in_both_languages() -> None:
    stream = Stream("a", pa.schema([("ts", pa.int64())]))
    with pytest.raises(BadInput, match="3 rows of stream a without ts") as told:
        check_times([stream], {"a": 3})
    assert "DEAD LETTERS TO parquet('folder') in CREATE STREAM" in told.value.hint
    assert "dead_letter='folder' in Session.stream" in told.value.hint
