"""Drivers killed while a query comes to their pipeline and learns its history, and commands too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.lifetime import NEVER, instant
from mayfly.pipeline.control_requests import Control
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.api.query_run import QueryRun
from tests.faults.pipeline_driver import SETTINGS
from tests.faults.test_pipeline_kills import KILLED, live, rows_in
from tests.integration.recorded import assert_nothing_orphaned, record
from tests.integration.test_pipeline_sinks import STREAMS
from tests.integration.test_spark_queries import batches, of_spark

FIRST = STREAMS.replace("DEAD LETTERS TO parquet('late')", "") + (
    "CREATE RELATION names (id INT, name STRING) KEY id;\n"
    "CREATE QUERY everything AS SELECT k, g, v FROM a [RANGE 40 us];\n"
    "CREATE QUERY named AS SELECT n.name, l.v FROM a [RANGE 30 us] l, names n WHERE l.k = n.id;\n"
)
OVER_ROWS = FIRST + (
    "CREATE QUERY latest AS SELECT g, SUM(v) AS total FROM a [ROWS 60 SLIDE 5 ROWS] GROUP BY g;\n"
)
NEW_OVER_ROWS = {
    "fewer": "SELECT g, SUM(v) AS total FROM a [ROWS 30 SLIDE 10 ROWS] GROUP BY g",
    "waits": "SELECT g, MAX(v) AS most FROM a [ROWS 40 SLIDE 20 ROWS] WHERE k > 1 GROUP BY g",
}
"""The first finds its panes, the second begins to make them: its rows are numbered as those are."""
COUNTS = "SELECT g, COUNT(*) AS n FROM a [RANGE 25 us] GROUP BY g"
POINTS = (
    "commit.checked:1",
    "commit.published:1",
    "sink.written:1",
    "history.delivered:1",
    "batch.receipts:1",
)


def begun(spark: SparkSession, folder: Path, text: str) -> Path:
    """A pipeline over the first rows, with more rows to come."""
    rows, file = batches(), folder / "pipeline.cql"
    record(folder / "streams", rows[:1])
    file.write_text(text)
    runs = load_pipeline(spark, file).start(
        file.with_suffix(".state"), available_now=True, **SETTINGS
    )
    assert next(iter(runs.values())).await_done(300)
    record(folder / "streams", rows[1:], first=1)
    return file


def world(spark: SparkSession, folder: Path) -> Path:
    """Told of another query and a change."""
    file = begun(spark, folder, FIRST)
    control = Control.of(file.with_suffix(".state"))
    control.change("INSERT INTO names VALUES (1, 'one'), (3, 'three')")
    control.add("counts", COUNTS, parquet=folder / "out")
    return file


@pytest.mark.slow
def test_a_newcomer_is_killed_on_its_way(spark: SparkSession, tmp_path: Path) -> None:
    quiet, file = world(spark, tmp_path / "quiet"), world(spark, tmp_path / "disturbed")
    assert live(quiet) == 0, (quiet.parent / "log").read_text()
    killed = [live(file, point) == KILLED for point in POINTS]
    assert all(killed), list(zip(POINTS, killed, strict=True))
    assert live(file) == 0, (file.parent / "log").read_text()
    wanted, found = (
        load_pipeline(spark, one).open(one.with_suffix(".state")) for one in (quiet, file)
    )
    assert set(found) == {"everything", "named", "counts"}
    for name, run in found.items():
        assert of_spark(run) == of_spark(wanted[name]), name
        assert run.status().changes == wanted[name].status().changes, name
        assert run.changes().num_rows, name
    counts = found["counts"]
    assert counts.since is not None
    assert counts.whole_from == counts.since - 1
    files = [rows_in(pq.read_table(one.parent / "out")) for one in (quiet, file)]
    assert files[0] == files[1]
    assert_nothing_orphaned(counts)


ROW_POINTS = (
    "commit.checked:1", "queries.settled:1", "batch.clock-recorded:1",
    "batch.receipts:1", "batch.committed:1",
)  # fmt: skip


def world_over_rows(spark: SparkSession, folder: Path) -> Path:
    """Told of a query that joins the state of panes of rows, and of one with its own."""
    file = begun(spark, folder, OVER_ROWS)
    for name, query in NEW_OVER_ROWS.items():
        Control.of(file.with_suffix(".state")).add(name, query)
    return file


@pytest.mark.slow
def test_newcomers_over_rows_are_killed_as_they_join_panes(
    spark: SparkSession, tmp_path: Path
) -> None:
    quiet, file = (world_over_rows(spark, tmp_path / name) for name in ("quiet", "disturbed"))
    assert live(quiet) == 0, (quiet.parent / "log").read_text()
    killed = [live(file, point) == KILLED for point in ROW_POINTS]
    assert all(killed), list(zip(ROW_POINTS, killed, strict=True))
    assert live(file) == 0, (file.parent / "log").read_text()
    wanted, found = (
        load_pipeline(spark, one).open(one.with_suffix(".state")) for one in (quiet, file)
    )
    assert set(found) == {"everything", "named", "latest", *NEW_OVER_ROWS}
    for name, run in found.items():
        assert of_spark(run) == of_spark(wanted[name]), name
        assert run.status().changes == wanted[name].status().changes, name
        assert run.whole_from == wanted[name].whole_from, name
        assert run.verify().ok
    rows = sorted(
        (row for batch in batches() for row in batch["a"].to_pylist()),
        key=lambda row: (row["ts"], row["seq"]),
    )
    fewer, waits = found["fewer"], found["waits"]
    assert fewer.since is not None
    assert fewer.whole_from == fewer.since - 1, "its panes are kept"
    assert waits.whole_from is not None
    assert fewer.since < waits.whole_from < NEVER
    check_latest(fewer, rows, 30, 10, lambda row: True, sum, fewer.since)
    check_latest(waits, rows, 40, 20, lambda row: (row["k"] or 0) > 1, max, waits.whole_from)
    assert_nothing_orphaned(fewer)


def check_latest(
    run: QueryRun, rows: list[dict[str, Any]], length: int, slide: int,
    selects: Callable[[dict[str, Any]], bool], value: Callable[[list[int]], int], since: int,
) -> None:  # fmt: skip
    """Of the latest rows at each instant from then on, by group."""
    times = [instant(row["ts"]) for row in rows]
    for at in range(since, max(times) + 1):
        last = sum(ts <= at for ts in times) // slide * slide
        groups = dict[str | None, list[int]]()
        for row in filter(selects, rows[max(0, last - length) : last]):
            groups.setdefault(row["g"], []).append(row["v"])
        expected = {group: value(values) for group, values in groups.items()}
        shown = {row.pop("g"): next(iter(row.values())) for row in run.snapshot(at).to_pylist()}
        assert shown == expected, at
