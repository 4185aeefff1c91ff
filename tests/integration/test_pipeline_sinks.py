"""Archives and dead letters of a pipeline file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting
from mayfly.spark.archives import SparkArchive
from mayfly.spark.pipelines import ARCHIVES, load_pipeline
from mayfly.spark.query_run import QueryRun
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
    assert archive.verify().ok


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
