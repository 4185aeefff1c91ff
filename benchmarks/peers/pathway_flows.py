"""The grouped SUM and the join in Pathway, run by a Python that has it.

Two worker threads (the engine is native), no persistence, so nothing is kept for a crash. Rows are
read through Arrow into a Python connector without deletions, instants as integers, one commit per
recorded batch; both streams of the join in one connector, because two would drift apart and each
side forgets by its own time. The cutoff lets the engine forget.

- grouped SUM: summed by second, then over ten of them, as its maintainers advise for speed
  (github.com/pathwaycom/pathway, issue 21). Open windows are updated at each commit, which was
  faster than ``exactly_once_behavior``.
- join: ``interval_join``.

    python pathway_flows.py '{"query": "join", "streams": ["left", "right"], "folder": …}'
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from importlib.metadata import version
from typing import Any

os.environ["PATHWAY_THREADS"] = "2"

import pathway as pw  # type: ignore[import-not-found]
import pyarrow.parquet as pq

SECOND = 1_000_000
WINDOW = 10 * SECOND


class Row(pw.Schema):  # type: ignore[misc]
    side: int
    ts: int
    k: int
    v: int


class Recorded(pw.io.python.ConnectorSubject):  # type: ignore[misc]
    deletions_enabled = False

    def __init__(self, work: dict[str, Any]) -> None:
        super().__init__()
        self.work = work

    def run(self) -> None:
        for batch in range(self.work["batches"]):
            for side, stream in enumerate(self.work["streams"]):
                path = f"{self.work['folder']}/{stream}/{batch:05d}.parquet"
                table = pq.read_table(path)
                instants = table["ts"].cast("int64").to_pylist()
                columns = (instants, table["k"].to_pylist(), table["v"].to_pylist())
                for ts, k, v in zip(*columns, strict=True):
                    self.next(side=side, ts=ts, k=k, v=v)
            self.commit()


def grouped_sum(rows: pw.Table) -> pw.Table:
    windows = pw.temporal
    forget = windows.common_behavior(cutoff=0)
    seconds = rows.windowby(
        rows.ts, window=windows.tumbling(duration=SECOND), instance=rows.k, behavior=forget
    ).reduce(
        k=pw.this._pw_instance, ts=pw.this._pw_window_start, x=pw.reducers.sum(pw.this.v)
    )  # fmt: skip
    ten = windows.sliding(hop=SECOND, duration=WINDOW)
    return seconds.windowby(
        seconds.ts, window=ten, instance=seconds.k, behavior=forget
    ).reduce(
        k=pw.this._pw_instance, end=pw.this._pw_window_end, x=pw.reducers.sum(pw.this.x)
    )  # fmt: skip


def join(rows: pw.Table) -> pw.Table:
    left, right = (rows.filter(rows.side == side) for side in (0, 1))
    # The bounds belong to the interval, a window does not hold its end.
    near = pw.temporal.interval(1 - WINDOW, WINDOW - 1)
    forget = pw.temporal.common_behavior(cutoff=WINDOW)
    pairs = left.interval_join(right, left.ts, right.ts, near, left.k == right.k, behavior=forget)
    return pairs.select(k=left.k, a=left.v, b=right.v)


def sums(query: str, results: pw.Table) -> pw.Table:
    total, count, this = pw.reducers.sum, pw.reducers.count(), pw.this
    if query == "join":
        return results.reduce(
            n=count, k=total(this.k), v=total(this.a * 3 + this.b), w=total(this.a * (this.k + 1))
        )
    return results.reduce(
        n=count, k=total(this.k), v=total(this.x), w=total(this.x * (this.end // SECOND))
    )


def main() -> None:
    work = json.loads(sys.argv[1])
    logging.disable(logging.INFO)
    rows = pw.io.python.read(Recorded(work), schema=Row, autocommit_duration_ms=None)
    results = join(rows) if work["query"] == "join" else grouped_sum(rows)
    found: list[int] = []
    if work["sums"]:
        names = ("n", "k", "v", "w")

        def note(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
            if is_addition:
                found[:] = [row[name] for name in names]

        pw.io.subscribe(sums(work["query"], results), on_change=note)
    else:
        pw.io.null.write(results)
    began = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "found": found, "version": version("pathway")}))


if __name__ == "__main__":
    main()
