"""The log of results that are never cut: what is kept, merged, dropped and delivered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from mayfly.checkpoint.result_log import DELIVERY, FAN_IN, ResultLog
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, segment_batches

Row = tuple[int, int]


@pytest.fixture
def log(tmp_path: Path) -> ResultLog:
    return ResultLog(Directory.at(tmp_path, sync=False), "state/log/q/0/kept", ("v", TS, EXP))


def batch(*rows: Row) -> pa.RecordBatch:
    """Results as (ts, exp); ``v`` is the ts once more, and ``_id`` is not logged."""
    ts, exp = zip(*rows, strict=True) if rows else ((), ())
    arrays = [pa.array(one, pa.int64()) for one in (ts, ts, exp, ts)]
    return pa.RecordBatch.from_arrays(arrays, names=["v", TS, EXP, "_id"])


def rows_in(log: ResultLog) -> list[Row]:
    batches = (b for one in log.segments for b in segment_batches(log.directory, one))
    return [(row["v"], row[EXP]) for one in batches for row in one.to_pylist()]


def test_results_are_logged_in_the_order_in_which_they_come(log: ResultLog) -> None:
    log = log.append([batch((5, 9), (4, 8)), batch(), batch((6, 7))], 3)
    log = log.append([batch((9, 12))], 4).append([], 5)
    assert rows_in(log) == [(5, 9), (4, 8), (6, 7), (9, 12)]
    assert [one.tags[DELIVERY] for one in log.segments] == [3, 4]


def test_pieces_are_drawn_one_by_one(log: ResultLog) -> None:
    """Nobody holds all of them."""
    alive: list[int] = []

    def pieces() -> Iterator[pa.RecordBatch]:
        for at in range(50):
            yield batch((at, at + 9))
            alive.append(at)

    log = log.append(pieces(), 1)
    assert (alive, log.segments[0].rows) == (list(range(50)), 50)


def test_many_small_segments_become_one_and_keep_their_order(log: ResultLog) -> None:
    for at in range(FAN_IN):
        log = log.compact(-1, 10**6).append([batch((at, at + 5))], at)
    assert len(log.segments) == FAN_IN
    merged = log.compact(-1, 10**6)
    assert len(merged.segments) == 1
    assert rows_in(merged) == [(at, at + 5) for at in range(FAN_IN)]
    assert DELIVERY not in merged.segments[0].tags


def test_what_is_dead_at_the_horizon_is_dropped_unread(log: ResultLog) -> None:
    log = log.append([batch((1, 5))], 1).append([batch((2, 6), (2, 9))], 2)
    read = log.directory.io.bytes_read
    assert rows_in(replace(log, segments=log.compact(5, 100).segments)) == [(2, 6), (2, 9)]
    assert len(log.compact(4, 100).segments) == 2
    assert log.compact(9, 100).segments == ()
    assert log.directory.io.bytes_read > read, "only the rows that are shown were read"


def test_no_byte_is_left_of_what_expired_before_an_instant(log: ResultLog) -> None:
    log = log.append([batch((1, 5), (1, 8))], 1).append([batch((2, 7))], 2)
    rest = log.erase_expired(7)
    assert rows_in(rest) == [(1, 8), (2, 7)]
    assert rest.segments[0] != log.segments[0]
    assert rest.segments[1] == log.segments[1]
    assert log.erase_expired(9).segments == ()


def test_logs_of_an_earlier_format_lose_what_is_not_wanted_when_they_are_merged(
    log: ResultLog,
) -> None:
    old = replace(log, columns=("v", TS, EXP, "_id"))
    for at in range(FAN_IN):
        old = old.append([batch((at, at + 5))], None)
    (merged,) = replace(old, columns=log.columns).compact(-1, 10**6).segments
    (rows,) = {tuple(b.schema.names) for b in segment_batches(log.directory, merged)}
    assert rows == ("v", TS, EXP)
