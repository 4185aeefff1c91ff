"""What came of each stream in a batch, counted in parts and added up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.cql import catalog_after, parse
from mayfly.errors import ProtocolError
from mayfly.physical.shared_program import shared
from mayfly.plan.stream_joins import Stream
from mayfly.runtime.max_gap import Limits
from mayfly.spark.stream import stage_tasks
from mayfly.spark.stream.arrivals import (
    Arrived,
    added,
    counted,
    decoded,
    encoded,
    left_out,
    promise,
    unwanted,
)
from mayfly.spark.stream.dataflow import Dataflow
from mayfly.spark.stream.parcels import COUNTS, Parcel, batch_of, parcels_of
from mayfly.spark.stream.slots import HEARTBEAT
from mayfly.spark.stream.stage_tasks import StageStep
from tests.property.shared_runs import program_of

STREAMS = 3
TAGS = [HEARTBEAT, *range(STREAMS)]
TAGS += [tag(at) for tag in (left_out, promise, unwanted) for at in range(STREAMS)]


def table(rows: list[tuple[int, int | None]]) -> pa.Table:
    tags, times = [one[0] for one in rows], [one[1] for one in rows]
    return pa.table({"_stream": pa.array(tags, pa.int32()), "_ts": pa.array(times, pa.int64())})


def one_by_one(rows: list[tuple[int, int | None]], number: int, limit: Limits) -> Arrived:
    """The same, a row at a time."""
    own = [at for tag, at in rows if tag in (number, unwanted(number))]
    timed = [at for at in own if at is not None and at <= limit.beyond]
    promised = [at for tag, at in rows if tag == promise(number) and at is not None]
    closed = [at for at in promised if at <= limit.beyond]
    return Arrived(
        max(timed, default=None),
        min((at for at in timed if at >= limit.late), default=None),
        len(own),
        own.count(None),
        sum(at < limit.late for at in timed),
        sum(tag == left_out(number) for tag, _ in rows),
        max(closed, default=None),
        sum(at is not None and at > limit.beyond for at in (*own, *promised)),
    )


def test_no_two_tags_are_one() -> None:
    assert len(set(TAGS)) == len(TAGS)


ROWS = st.lists(st.tuples(st.sampled_from(TAGS), st.none() | st.integers(-5, 5)), max_size=30)


LIMITS = st.builds(Limits, st.integers(-5, 6), st.integers(-2, 6))


@given(st.lists(ROWS, max_size=4), st.lists(LIMITS, min_size=3, max_size=3))
def test_parts_add_up_to_the_whole(parts: list[list[Any]], limits: list[Limits]) -> None:
    whole = [row for part in parts for row in part]
    found = added((decoded(encoded(counted(table(one), limits))) for one in parts), STREAMS)
    assert found == [one_by_one(whole, at, limits[at]) for at in range(STREAMS)]


# ── on the way through the dataflow ────────────────────────────────────────────────────────────

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
CATALOG = catalog_after(
    parse("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts;")
)
SELECTIVE = "SELECT DISTINCT k FROM s [RANGE 1 s] WHERE v > 5"


def dataflow(dead_letter: str | None = None) -> Dataflow:
    stream = Stream("s", SCHEMA, time="ts", dead_letter=dead_letter)
    types = {"s": {"ts": "timestamp", "k": "bigint", "v": "bigint"}}
    program = shared({"q": program_of(SELECTIVE, CATALOG)}, {})
    return Dataflow.of(program, [stream], types, 2)


def test_rows_nobody_selects_are_told_apart_but_where_they_may_become_dead_letters() -> None:
    plain, kept = dataflow(), dataflow(dead_letter="late")
    assert plain._tag(0, plain.streams[0]) == (
        f"CASE WHEN (((`v` > 5L))) IS NOT TRUE THEN {unwanted(0)} ELSE 0 END"
    )
    assert kept._tag(0, kept.streams[0]) == "0"


def split(rows: list[tuple[int, int | None]]) -> list[Parcel]:
    own = dataflow()
    columns = {name: pa.array([7] * len(rows), pa.int64()) for name in own.slot_types}
    batch = pa.table({**dict(zip(["_stream", "_ts"], table(rows).columns, strict=True)), **columns})
    batches = own.splitter.split(iter(batch.to_batches()), [Limits(100, 1000)])
    return [parcel for batch in batches for parcel in parcels_of(batch)]


def test_rows_that_only_count_go_nowhere() -> None:
    parcels = split([(unwanted(0), 150), (left_out(0), 300), (promise(0), 200), (0, None)])
    assert [one.edge for one in parcels] == [COUNTS]
    assert decoded(parcels[0].data) == [Arrived(150, 150, 2, 1, 0, 1, 200)]
    assert [one.edge for one in split([])] == [COUNTS], "nothing came, and that is told"
    edges = {one.edge for one in split([(0, 150), (0, 50)])}
    assert edges == {COUNTS, "feed/0"}
    (far,) = split([(0, 1001)])
    assert decoded(far.data) == [Arrived(rows=1, beyond=1)], "too far ahead to be true"


def test_rows_without_the_limits_of_their_batch_are_refused() -> None:
    with pytest.raises(ProtocolError, match="limits of 0 streams for rows of 1"):
        dataflow().splitter(iter([]))


def test_parcels_in_the_wrong_place_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be lost without a word."""
    monkeypatch.setattr(stage_tasks, "this_partition", lambda: 0)
    task = replace(_task(), placed=True)
    strays = batch_of([Parcel(1, 0, "feed/0", b"rows of bucket 1")])
    monkeypatch.setattr(StageStep, "_run_bucket", lambda *_: iter(()))
    with pytest.raises(ProtocolError, match="rows of other buckets came to the task of bucket 0"):
        list(task(iter([strays])))
    assert list(task(iter([batch_of([Parcel(0, 0, "feed/0", b"its own")])]))) == []


def _task() -> StageStep:
    return StageStep(
        root="", sync=False, program=dataflow().stages, stage=0, buckets=2, intervals=(), states={},
        segments={}, relations={}, history=1, max_state_bytes=1 << 20, first=(),
    )  # fmt: skip
