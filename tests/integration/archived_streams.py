"""Streams and query results that end up in an archive, and what must be found there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mayfly.spark.api.session import Session
from mayfly.spark.archive.archives import SparkArchive
from mayfly.testing import JoinCase, assert_same_rows

HOUR = 3_600_000_000
DDL = "k STRING, ts TIMESTAMP, v BIGINT"
RESULT_COLUMNS = {"a_k": "STRING", "a_v": "BIGINT", "b_v": "BIGINT", "ts": "TIMESTAMP"}


def rows_at(hours: Sequence[float], first: int = 0) -> pa.Table:
    """One row at each of these hours after the origin, numbered on."""
    times = [round(hour * HOUR) for hour in hours]
    return pa.table(
        {
            "k": [f"c{at % 3}" for at in range(len(hours))],
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "v": range(first, first + len(hours)),
        }
    )


def results_archive(session: Session, path: Path, **settings: Any) -> SparkArchive:
    """An archive of some columns of a join's results, 20 ms by 20 ms."""
    chosen = {"key": "a_k", "window": 3, "refresh": "20 ms", "origin": 0, "parts": 2, **settings}
    return session.create_archive(path, RESULT_COLUMNS, **chosen)


def assert_holds_results(archive: SparkArchive, case: JoinCase, clock: int | None) -> None:
    """The archive has every interval before the clock, and of the join's results the last ones."""
    assert clock is not None
    settings, last = archive.settings, archive.version().state.update
    assert last == settings.calendar.update_of(clock) - 1
    results = case.oracle().lifetimes()
    days = settings.calendar.updates_of(results["ts"].cast(pa.int64()).to_numpy())
    kept = results.filter(pa.array((last - settings.window < days) & (days <= last)))
    assert 0 < kept.num_rows < results.num_rows
    assert_same_rows(archive.scan(), kept.select(list(settings.all_columns)), "archived results")
    some = kept["a_k"][0].as_py()
    assert archive.probe(some).num_rows == kept["a_k"].to_pylist().count(some)
    assert archive.maintain.verify().ok
