"""The driver process: the demo's pipeline, written as a user would write it.

All it knows is a directory, so that it can be killed at any moment and started again. It reports
on stdout, one JSON object a line, and finishes the input when it reads ``end`` on stdin.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from mayfly.demo.demo_settings import (
    BATCH_EVERY,
    CORES,
    HISTORY,
    KEY,
    LINKS,
    RESULT,
    SLACK,
    WINDOW,
    Places,
)
from mayfly.errors import MayflyError
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.api.streams import SparkQuery
from mayfly.spark.cluster.local_spark import local_spark

COLUMNS = "ts TIMESTAMP, src STRING, dst STRING, protocol STRING, bytes BIGINT, id BIGINT"
PYTHON_ERROR = re.compile(r"[\w.]*(Error|Exception): ")


def joined_links(session: Session, places: Places) -> SparkQuery:
    """Connections of one source that are in both links' windows at the same time."""
    windows = []
    for link in LINKS:
        files = session.spark.readStream.schema(COLUMNS).parquet(str(places.arrivals(link)))
        stream = session.stream(link, files, slack=SLACK, dead_letter=places.late(link))
        windows.append(stream.window(WINDOW))
    return windows[0].join(windows[1], KEY, select=RESULT)


def run_pipeline(places: Places, reports: ReportPipe, orders: Orders) -> None:
    reports.send("starting")
    session = Session(local_spark(CORES, memory="1g"))
    session.spark.streams.addListener(BatchTimes(reports))
    _warm_up(session.spark)
    query = joined_links(session, places)
    run = query.start(
        places.checkpoint, parquet=places.results, history=HISTORY, interval=BATCH_EVERY
    )
    reports.send("running", spark=session.spark.version)
    while not orders.end.wait(0.2):
        run.await_done(timeout=0.1)
    _catch_up(run)
    run.stop()
    query.start(
        places.checkpoint, parquet=places.results, history=HISTORY, available_now=True
    ).await_done()
    reports.send("done")


def _warm_up(spark: SparkSession) -> None:
    """Let the workers start and import the kernels before there are rows to wait for them."""

    def imported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        importlib.import_module("mayfly.spark.stream.stage_tasks")
        yield from batches

    spark.range(0, CORES, 1, CORES).mapInArrow(imported, "id BIGINT").collect()


def _catch_up(run: QueryRun) -> None:
    assert run.query is not None
    try:
        run.query.processAllAvailable()
    except Exception:
        run.await_done()  # raises the Mayfly error behind it, if there is one
        raise


class ReportPipe:
    """This process's stdout, kept for reports; whatever else prints there goes to the log."""

    def __init__(self) -> None:
        self._stream: IO[str] = os.fdopen(os.dup(1), "w", buffering=1)
        self._lock = threading.Lock()
        os.dup2(2, 1)

    def send(self, kind: str, **values: Any) -> None:
        with self._lock:
            self._stream.write(json.dumps({"kind": kind, **values}) + "\n")


class Orders:
    """Reads stdin: ``end`` asks to finish; if it closes, the demo has ended."""

    def __init__(self) -> None:
        self.end = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            if line.strip() == "end":
                self.end.set()
        os._exit(1)


class BatchTimes(StreamingQueryListener):
    """Reports how long each batch took, from Spark's own account."""

    def __init__(self, reports: ReportPipe) -> None:
        self._reports = reports

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        if progress.numInputRows:
            seconds = progress.durationMs["triggerExecution"] / 1000
            self._reports.send("batch", batch=progress.batchId, seconds=seconds)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


def main() -> int:
    reports, orders = ReportPipe(), Orders()
    try:
        run_pipeline(Places(Path(sys.argv[1])), reports, orders)
    except MayflyError as error:
        reports.send("failed", message=error.message, hint=error.hint)
        return 1
    except Exception as error:
        traceback.print_exc()
        reports.send("failed", message=in_short(error), hint="the log beside its files says more")
        return 1
    return 0


def in_short(error: Exception) -> str:
    """The line that matters in what Spark reports: the innermost Python error, or the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [repr(error)]
    named = [line for line in lines if PYTHON_ERROR.match(line)]
    return f"the driver failed: {(named or lines)[0][:500]}"


if __name__ == "__main__":
    sys.exit(main())
