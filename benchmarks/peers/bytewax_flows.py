"""The grouped SUM and the join in Bytewax, run by a Python that has it.

Two processes of one worker each, because the operators are Python and share a lock within a
process; no recovery store, so nothing is kept for a crash. Rows are read through Arrow and come in
as two partitions by key, each in the order of time, as a Kafka topic would give them.

- grouped SUM: ``fold_window`` over seconds, and again over ten of them; without ordering by time,
  which its docs say costs. Time moves with the rows alone: ``now_getter`` stands still.
- join: by hand over ``stateful_batch``, per key the rows of both sides that can still find
  partners, in order of time. ``join_window`` pairs what shares a window at a fixed place: it would
  take overlapping windows, more pairs than wanted and a filter.

    python bytewax_flows.py '{"query": "join", "streams": ["left", "right"], "folder": …}'
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

import bytewax.operators as op  # type: ignore[import-not-found]
import bytewax.operators.windowing as win  # type: ignore[import-not-found]
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found]
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition  # type: ignore[import-not-found]
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition  # type: ignore[import-not-found]
from bytewax.testing import cluster_main  # type: ignore[import-not-found]

PROCESSES = 2
ROWS = 10_000
"""Handed over at a time."""
WINDOW = 10_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Rows(StatefulSourcePartition):  # type: ignore[misc]
    """(key, (side, instant, value)) of the keys of one partition."""

    def __init__(self, work: dict[str, Any], part: int) -> None:
        self.lists = self._lists(work, part)

    def _lists(self, work: dict[str, Any], part: int) -> Iterator[list[Any]]:
        for batch in range(work["batches"]):
            for side, stream in enumerate(work["streams"]):
                table = pq.read_table(f"{work['folder']}/{stream}/{batch:05d}.parquet")
                table = table.filter(pc.equal(pc.bit_wise_and(table["k"], 1), part))
                for rows in table.to_batches(max_chunksize=ROWS):
                    keys = rows["k"].cast("string").to_pylist()
                    instants = rows["ts"].cast("int64").to_pylist()
                    values = zip([side] * len(keys), instants, rows["v"].to_pylist(), strict=True)
                    yield list(zip(keys, values, strict=True))

    def next_batch(self) -> list[Any]:
        return next(self.lists)

    def snapshot(self) -> None:
        return None


class Recorded(FixedPartitionedSource):  # type: ignore[misc]
    def __init__(self, work: dict[str, Any]) -> None:
        self.work = work

    def list_parts(self) -> list[str]:
        return [str(part) for part in range(PROCESSES)]

    def build_part(self, step: str, part: str, state: None) -> Rows:
        return Rows(self.work, int(part))


class Sums(DynamicSink, StatelessSinkPartition):  # type: ignore[misc]
    """The sums of what is compared, or nothing at all."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def build(self, step: str, worker: int, workers: int) -> Sums:
        return self

    def write_batch(self, items: list[Any]) -> None:
        for numbers in items:
            self.found = [a + b for a, b in zip(self.found or [0] * 4, numbers, strict=True)]


class Nowhere(DynamicSink, StatelessSinkPartition):  # type: ignore[misc]
    def build(self, step: str, worker: int, workers: int) -> Nowhere:
        return self

    def write_batch(self, items: list[Any]) -> None:
        pass


def grouped_sum(rows: Any) -> Any:
    """(key, (number of the window, sum)); window n begins at second n."""
    clock = win.EventClock(
        lambda row: EPOCH + timedelta(microseconds=row[1]),
        wait_for_system_duration=timedelta(0),
        now_getter=lambda: EPOCH,
        to_system_utc=lambda _: None,
    )
    seconds = win.TumblingWindower(length=SECOND, align_to=EPOCH)
    ten = win.SlidingWindower(length=10 * SECOND, offset=SECOND, align_to=EPOCH)
    first = win.fold_window(
        "seconds", rows, clock, seconds, int, lambda sum, row: sum + row[2], int.__add__,
        ordered=False,
    ).down  # fmt: skip
    again = win.EventClock(
        lambda partial: EPOCH + partial[0] * SECOND,
        wait_for_system_duration=timedelta(0),
        now_getter=lambda: EPOCH,
        to_system_utc=lambda _: None,
    )
    return win.fold_window(
        "windows", first, again, ten, int, lambda sum, partial: sum + partial[1], int.__add__,
        ordered=False,
    ).down  # fmt: skip


class WindowJoin(StatefulBatchLogic):  # type: ignore[misc]
    """Rows of one key by side: a new one meets those of the other side less than a window away.

    Each side comes in order of time, so that rows a whole window behind the slower side are done.
    """

    def __init__(self) -> None:
        self.instants: tuple[list[int], list[int]] = ([], [])
        self.values: tuple[list[int], list[int]] = ([], [])

    def on_batch(self, rows: list[Any]) -> tuple[list[tuple[int, int]], bool]:
        found: list[tuple[int, int]] = []
        for side, ts, v in rows:
            instants, values = self.instants[1 - side], self.values[1 - side]
            first = bisect_right(instants, ts - WINDOW)
            near = values[first : bisect_left(instants, ts + WINDOW, first)]
            found.extend([(other, v) for other in near] if side else [(v, other) for other in near])
            self.instants[side].append(ts)
            self.values[side].append(v)
        if all(self.instants):
            self._forget(min(self.instants[0][-1], self.instants[1][-1]) - WINDOW)
        return found, StatefulBatchLogic.RETAIN

    def _forget(self, until: int) -> None:
        for instants, values in zip(self.instants, self.values, strict=True):
            done = bisect_right(instants, until)
            del instants[:done], values[:done]

    def snapshot(self) -> Any:
        return [list(one) for one in (*self.instants, *self.values)]


def flow(work: dict[str, Any], sink: Any) -> Dataflow:
    whole = Dataflow("flow")
    rows = op.input("rows", whole, Recorded(work))
    if work["query"] == "join":
        results = op.stateful_batch("join", rows, lambda _: WindowJoin())
        numbers = _join_numbers
    else:
        results = grouped_sum(rows)
        numbers = _sum_numbers
    if work["sums"]:
        results = op.map("numbers", results, numbers)
    op.output("out", results, sink)
    return whole


def _join_numbers(result: Any) -> tuple[int, ...]:
    key, (a, b) = result
    return 1, int(key), 3 * a + b, a * (int(key) + 1)


def _sum_numbers(result: Any) -> tuple[int, ...]:
    key, (second, x) = result
    return 1, int(key), x, x * (second + 10)


def one_process(work: dict[str, Any]) -> None:
    sink = Sums() if work["sums"] else Nowhere()
    whole = flow(work, sink)
    began = time.time()
    cluster_main(whole, work["addresses"], work["process"])
    found = getattr(sink, "found", [])
    print(json.dumps({"began": began, "ended": time.time(), "found": found}))


def free_addresses() -> list[str]:
    sockets = [socket.socket() for _ in range(PROCESSES)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def main() -> None:
    work = json.loads(sys.argv[1])
    if "process" in work:
        one_process(work)
        return
    work["addresses"] = free_addresses()
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, json.dumps({**work, "process": number})],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    outputs = [one.communicate()[0] for one in processes]
    if any(one.returncode for one in processes):
        sys.exit("a process of the dataflow failed")
    reports = [json.loads(one.splitlines()[-1]) for one in outputs]
    seconds = max(one["ended"] for one in reports) - min(one["began"] for one in reports)
    found = [sum(column) for column in zip(*(one["found"] for one in reports), strict=False)]
    print(json.dumps({"seconds": seconds, "found": found, "version": version("bytewax")}))


if __name__ == "__main__":
    main()
