"""Archives and dead letters of a pipeline file."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting
from mayfly.serving.pipeline_places import ARCHIVES
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.archive.archives import SparkArchive
from mayfly.spark.archive.query_feeds import ArchivedAnswers
from mayfly.spark.archive.stream_sink import ArchiveSink
from mayfly.spark.io.sinks import Delivery
from tests.integration.recorded import record
from tests.integration.test_spark_queries import SCHEMA, batches

STREAMS = """
CREATE STREAM a (ts TIMESTAMP, seq BIGINT, k INT, g STRING, v BIGINT, x DOUBLE)
  FROM parquet('streams/a', maxFilesPerTrigger => '1') TIMESTAMP BY ts SEQUENCE seq
  DEAD LETTERS TO parquet('late');
CREATE STREAM b (ts TIMESTAMP, seq BIGINT, k INT, g STRING, v BIGINT, x DOUBLE)
  FROM parquet('streams/b', maxFilesPerTrigger => '1') TIMESTAMP BY ts SEQUENCE seq;
"""
PIPELINE = (
    STREAMS
    + """
CREATE ARCHIVE pairs KEY k REFRESH 10 us AS
  SELECT l.k, l.seq AS left_seq, r.seq AS right_seq FROM a [RANGE 30 us] l, b [RANGE 20 us] r
  WHERE l.k = r.k;
CREATE ARCHIVE totals KEY g REFRESH 10 us LAYOUT ROUND_ROBIN(2, 2) USING NO REBUILD AS
  SELECT g, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 50 us] WHERE g IS NOT NULL GROUP BY g;
"""
)
LATE = [{"ts": 1, "seq": 900, "k": 1, "g": "late", "v": 1, "x": 0.5},
        {"ts": None, "seq": 901, "k": 1, "g": "never", "v": 1, "x": 0.5}]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    recorded = batches()
    late = pa.Table.from_pylist(LATE, schema=SCHEMA)
    recorded[-1]["a"] = pa.concat_tables([recorded[-1]["a"], late])
    record(tmp_path / "streams", recorded)
    return tmp_path


def held(rows: pa.Table) -> Counter[Any]:
    shown = rows.drop_columns([name for name in ("exp",) if name in rows.column_names])
    return Counter(map(repr, shown.to_pylist()))


def assert_holds(archive: SparkArchive, run: QueryRun) -> None:
    """At its last update, the archive has the results that were alive then."""
    at = archive.version().time
    log = run.changes()
    begun = pc.less_equal(log["ts"].cast(pa.int64()), at)
    alive = pc.greater(pc.fill_null(log["exp"].cast(pa.int64()), 2**62), at)
    wanted = log.filter(pc.and_(begun, alive))
    assert wanted.num_rows
    assert held(archive.scan()) == held(wanted)
    assert archive.maintain.verify().ok


@pytest.mark.slow
def test_archives_and_dead_letters(spark: SparkSession, folder: Path) -> None:
    (folder / "pipeline.cql").write_text(PIPELINE)
    pipeline = load_pipeline(spark, folder / "pipeline.cql")
    runs = pipeline.start(
        folder / "state", available_now=True, sync=False, buckets=2, history="forever"
    )
    assert all(run.await_done(240) for run in runs.values())
    for name, run in runs.items():
        archive = pipeline.session.open_archive(folder / ARCHIVES / name)
        assert archive.version().state.update > 5
        assert_holds(archive, run)
    cut = runs["totals"].results
    assert cut.strict
    letters = pq.read_table(folder / "late").to_pylist()
    assert sorted((row["seq"], row["reason"]) for row in letters) == [
        (900, "late"),
        (901, "no time"),
    ]
    assert letters[0].keys() >= {"ts", "k", "g", "v", "x"}
    status = runs["totals"].status()
    assert (status.late["a"], status.timeless["a"]) == (1, 1)


@pytest.mark.parametrize(
    ("archive", "problem"),
    [
        ("KEY g REFRESH 10 us AS SELECT g, COUNT(*) AS n FROM a [ROWS 5] GROUP BY g", "how long"),
        ("KEY g REFRESH 10 us LAYOUT WATA(2) AS SELECT g, COUNT(*) AS n FROM a [RANGE 50 us]"
         " GROUP BY g", "may end early"),
    ],
)  # fmt: skip
def test_what_cannot_be_archived_is_refused(
    spark: SparkSession, folder: Path, archive: str, problem: str
) -> None:
    (folder / "pipeline.cql").write_text(f"{STREAMS} CREATE ARCHIVE x {archive};")
    with pytest.raises(InvalidSetting, match=problem):
        load_pipeline(spark, folder / "pipeline.cql").start(folder / "state", sync=False)


def test_an_archive_doubts_what_its_stream_believes(spark: SparkSession, tmp_path: Path) -> None:
    """Rows beyond the archive's own MAX GAP are dead letters, and do not move it there."""
    now = datetime.now(UTC).replace(microsecond=0)
    times = [now - timedelta(seconds=20), now - timedelta(seconds=10), datetime(2206, 1, 1)]
    (tmp_path / "in").mkdir()
    rows = [json.dumps({"ts": f"{ts:%F %T}", "k": k}) for k, ts in enumerate(times)]
    (tmp_path / "in" / "rows.json").write_text("\n".join(rows))
    file = tmp_path / "pipeline.cql"
    stream = (
        "CREATE STREAM s (ts TIMESTAMP, k BIGINT) FROM json('in') TIMESTAMP BY ts MAX GAP NONE;"
    )
    archive = (
        "CREATE ARCHIVE kept KEY k REFRESH 1 MIN MAX GAP {} DEAD LETTERS TO parquet('left') AS"
    )
    text = f"{stream} {archive} SELECT k FROM s [RANGE 5 DAYS];"
    file.write_text(text.format("1 DAY"))
    pipeline = load_pipeline(spark, file)
    runs = pipeline.start(tmp_path / "state", available_now=True, sync=False, buckets=2)
    assert all(run.await_done(240) for run in runs.values())
    kept = pipeline.session.open_archive(tmp_path / ARCHIVES / "kept")
    assert sorted(kept.scan()["k"].to_pylist()) == [0, 1]
    assert kept.version().time <= int((now + timedelta(days=1, hours=1)).timestamp() * 1_000_000)
    letters = pq.read_table(tmp_path / "left").to_pylist()
    assert [(row["k"], row["reason"]) for row in letters] == [(2, "beyond MAX GAP")]
    file.write_text(text.format("2 DAYS"))
    pipeline = load_pipeline(spark, file)
    with pytest.raises(InvalidSetting, match="has max_gap 1 d, not what CREATE ARCHIVE kept says"):
        pipeline.archives(pipeline._together().results())


def delivered(
    spark: SparkSession, folder: Path, number: int, clock: int, rows: list[dict[str, Any]]
) -> Delivery:
    """A batch of results as the runner of queries delivers it."""
    instant = pa.timestamp("us", "UTC")
    schema = pa.schema([("k", pa.int64()), ("ts", instant), ("exp", instant), ("cut", instant)])
    table = pa.Table.from_pylist(rows, schema=schema)
    path = folder / f"delivery-{number}.parquet"
    pq.write_table(table, path)
    return Delivery(
        number, len(rows), schema, lambda: iter(table.to_batches()),
        lambda: spark.read.parquet(str(path)), clock,
    )  # fmt: skip


@pytest.mark.slow
def test_early_ends_are_found_after_the_longest_life_has_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Results were stored until the latest instant then possible, which is another one now."""
    columns = "k BIGINT, ts TIMESTAMP, exp TIMESTAMP"
    archive = Session(spark).create_archive(
        tmp_path / "archive", columns, key="k", exp="exp", max_lifetime="50 us", refresh="10 us",
        origin=0,
    )  # fmt: skip
    sink = ArchivedAnswers(ArchiveSink.of(archive, "results"), "q", str(tmp_path / "checkpoint"))

    def deliver(number: int, clock: int, *rows: tuple[int, int, int | None]) -> list[int]:
        listed = [{"k": k, "ts": ts, "exp": 900, "cut": cut} for k, ts, cut in rows]
        sink.deliver(delivered(spark, tmp_path, number, clock, listed))
        return sorted(archive.scan()["k"].to_pylist())

    assert deliver(0, 11, (1, 2, None), (2, 3, None), (3, 4, None)) == [1, 2, 3]
    archive.migrate(max_lifetime="80 us")
    assert deliver(1, 21, (4, 12, None), (5, 13, None), (1, 2, 15)) == [2, 3, 4, 5]
    assert deliver(2, 31, (4, 12, 22), (2, 3, 23)) == [3, 5]
    archive.migrate(max_lifetime="100 us")
    assert deliver(3, 41, (3, 4, 33)) == [5], "no result began since the last change"
    assert deliver(4, 51, (6, 42, None), (5, 13, 43)) == [6]
    assert deliver(5, 61, (6, 42, 52)) == []
    assert archive.maintain.verify().ok


def test_a_served_query_has_no_changes_to_write(spark: SparkSession, tmp_path: Path) -> None:
    session = Session(spark)
    rows = spark.readStream.schema("ts TIMESTAMP, k INT").json(str(tmp_path))
    session.stream("s", rows)
    query = session.query("SERVE AS SELECT COUNT(*) AS n FROM s [RANGE 2 s SLIDE 1 s]")
    with pytest.raises(InvalidSetting, match="is answered by a server"):
        query.start(tmp_path / "ck", parquet=tmp_path / "out")
    assert not (tmp_path / "ck").exists()
