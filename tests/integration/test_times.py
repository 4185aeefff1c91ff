"""Times that people bring, on Spark: numbers of a unit, wrong years, zones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly import LocalSession, Session
from mayfly.cql import Create, parse
from mayfly.errors import BadInput, InvalidSetting
from mayfly.plan.catalog import StreamDefinition
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.api.queries import CqlQuery
from mayfly.spark.io.sources import with_computed

NOON = 1_782_900_000_000
"""2026-07-01 10:00 UTC, in milliseconds."""


def written(folder: Path, *batches: list[dict[str, Any]]) -> None:
    (folder / "in").mkdir()
    for number, rows in enumerate(batches):
        text = "\n".join(json.dumps(row) for row in rows)
        (folder / "in" / f"{number}.json").write_text(text)


def pipeline(folder: Path, text: str) -> Path:
    file = folder / "pipeline.cql"
    file.write_text(text)
    return file


@contextmanager
def session_zone(spark: SparkSession, name: str) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_milliseconds_computed_columns_and_the_zone(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path, [{"ms": NOON, "a": 1}, {"ms": NOON + 1000, "a": 2}])
    file = pipeline(
        tmp_path,
        """CREATE STREAM s (ms BIGINT, a INT, twice AS (2 * a), h AS (hour(timestamp_millis(ms))))
             FROM json('in') TIMESTAMP BY ms MILLISECONDS;
           CREATE QUERY q AS SELECT twice, h, event_time, MAX(hour(event_time)) AS behind
             FROM s [RANGE 1 HOUR] GROUP BY twice, h, event_time HAVING hour(event_time) = 12;
           CREATE QUERY r AS SELECT Rstream(a) FROM s [RANGE 2 s SLIDE 1 s];""",
    )
    with session_zone(spark, "Europe/Berlin"):
        runs = load_pipeline(spark, file).start(tmp_path / "ck", available_now=True)
        assert all(run.await_done(120) for run in runs.values())
        rows = sorted(runs["q"].snapshot().to_pylist(), key=lambda row: row["twice"])
        assert [(row["twice"], row["h"], row["behind"]) for row in rows] == [
            (2, 12, 12),
            (4, 12, 12),
        ]
        assert rows[0]["event_time"].timestamp() == NOON / 1000
        assert sorted(runs["r"].changes()["a"].to_pylist()) == [1, 1, 2]


def test_a_wrong_year_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"ts": "2026-07-01T10:00:00Z", "a": 1}, {"ts": "2206-07-01T10:00:00Z", "a": 2}]
    written(tmp_path, rows)
    frame = spark.readStream.schema("ts TIMESTAMP, a INT").json(str(tmp_path / "in"))
    session = Session(spark)
    session.stream("s", frame, max_gap="1 hour", dead_letter=tmp_path / "late",
                   null_time="dead_letter")  # fmt: skip
    run = session.query("SELECT a FROM s [RANGE 1 DAY]").start(tmp_path / "ck", interval="1 second")
    try:
        while run.status().batch < 0:
            assert not run.await_done(0.2)
    finally:
        run.stop()
    assert run.status().beyond == {"s": 1}
    letters = pq.read_table(tmp_path / "late").to_pylist()
    assert [(row["a"], row["reason"]) for row in letters] == [(2, "beyond MAX GAP")]


def test_milliseconds_without_a_unit_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path, [{"ms": NOON, "a": 1}])
    file = pipeline(
        tmp_path,
        """CREATE STREAM s (ms BIGINT, a INT) FROM json('in') TIMESTAMP BY ms;
           CREATE QUERY q AS SELECT a FROM s [RANGE 1 HOUR];""",
    )
    (run,) = load_pipeline(spark, file).start(tmp_path / "ck", available_now=True).values()
    with pytest.raises(BadInput, match="first times of stream s"):
        run.await_done(120)


def test_a_stream_has_a_zone_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path, [{"t": "2026-07-01 12:00", "a": 1}, {"t": "2026-07-01 12:01", "a": 2}])
    file = pipeline(
        tmp_path,
        """CREATE STREAM s (t STRING, a INT) FROM json('in')
             TIMESTAMP BY to_timestamp(t, 'yyyy-MM-dd HH:mm') TIME ZONE 'Europe/Berlin';
           CREATE QUERY q AS SELECT a, event_time FROM s [RANGE 1 HOUR];""",
    )
    (run,) = load_pipeline(spark, file).start(tmp_path / "ck", available_now=True).values()
    assert run.await_done(120)
    rows = sorted(run.snapshot().to_pylist(), key=lambda row: row["a"])
    assert [row["event_time"].timestamp() for row in rows] == [NOON / 1000, NOON / 1000 + 60]


def test_units_in_python_and_a_restart_in_another_zone(spark: SparkSession, tmp_path: Path) -> None:
    def query(unit: str) -> CqlQuery:
        frame = spark.readStream.schema("ms BIGINT, a INT").json(str(tmp_path / "in"))
        session = Session(spark)
        session.stream("s", frame, time="ms", unit=unit)
        return session.query("SELECT a, hour(event_time) AS h FROM s [RANGE 1 HOUR]")

    written(tmp_path, [{"ms": NOON, "a": 1}, {"ms": NOON + 1000, "a": 2}])
    checkpoint = tmp_path / "ck"
    with session_zone(spark, "Europe/Berlin"):
        run = query("milliseconds").start(checkpoint, available_now=True)
        assert run.await_done(120)
        assert run.status().clock == (NOON + 1000) * 1000 + 1
        assert sorted(run.snapshot()["h"].to_pylist()) == [12, 12]
        assert "zone      Europe/Berlin: hour(s.event_time)" in str(query("MILLISECONDS").explain())
        with pytest.raises(InvalidSetting, match="derivation of s: event_time from ms seconds"):
            query("seconds").start(checkpoint, available_now=True)
    with session_zone(spark, "UTC"):
        with pytest.raises(InvalidSetting, match="made in the time zone Europe/Berlin"):
            query("milliseconds").start(checkpoint, available_now=True)
        rows = query("milliseconds").open(checkpoint).snapshot()["h"].to_pylist()
        assert sorted(rows) == [12, 12], "reading is not computing"
    with pytest.raises(InvalidSetting, match="'fortnights' is not a unit of time"):
        query("fortnights")


BY_TIME = (
    *(f"{part}(t)" for part in ("year", "dayofyear", "dayofweek", "hour", "minute", "second")),
    *(f"date_trunc('{unit}', t)" for unit in ("MONTH", "WEEK", "DAY", "HOUR", "MINUTE")),
    "CAST(t AS STRING)", "CAST(t AS DATE)", "CAST(to_date(t) AS TIMESTAMP)",
    "date_format(t, 'yyyy-MM-dd HH:mm')", "unix_seconds(t)", "date_trunc('HOUR', t) = t",
    "t + INTERVAL 1 DAY", "t - INTERVAL 1 HOUR",
)  # fmt: skip
BY_TEXT = (
    "to_timestamp(x)", "to_timestamp(x, 'yyyy-MM-dd HH:mm')", "CAST(x AS TIMESTAMP)",
    "hour(to_timestamp(x))", "unix_seconds(to_timestamp(x, 'yyyy-MM-dd HH:mm'))",
    "date_trunc('HOUR', to_timestamp(x))", "to_timestamp(x) = t",
    "to_timestamp(concat(x, ':00 America/New_York'))", "CAST(concat(x, ':00+05:30') AS TIMESTAMP)",
)  # fmt: skip
CLOCKS_CHANGE = [
    (base + step * 1800, f"{day} {minute // 60:02}:{minute % 60:02}")
    for day, base in (("2026-03-29", 1_774_738_800), ("2026-10-25", 1_792_879_200))
    for step, minute in enumerate(range(0, 300, 30))
]
"""Instants, in seconds, and what clocks show, also where Berlin's are put forward or back."""


def test_spark_sql_and_both_ways_to_run_agree_where_clocks_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = {f"c{number}": one for number, one in enumerate((*BY_TIME, *BY_TEXT))}
    shown = ", ".join(f"{one} AS {name}" for name, one in columns.items())
    rows = [{"s": second, "x": text, "i": i} for i, (second, text) in enumerate(CLOCKS_CHANGE)]
    written(tmp_path, rows)
    declared = "s BIGINT, x STRING, i INT, t AS (timestamp_seconds(s))"
    behind = "MAX(hour(t)) AS h, date_trunc('DAY', MAX(t)) AS d"
    stream = f"CREATE STREAM e ({declared}) {{}} TIMESTAMP BY t;"
    query, grouped = f"SELECT i, {shown} FROM e", f"SELECT x, {behind} FROM e GROUP BY x"
    read = stream.format("FROM json('in')")
    file = pipeline(tmp_path, f"{read} CREATE QUERY q AS {query}; CREATE QUERY g AS {grouped};")
    with session_zone(spark, "Europe/Berlin"):
        runs = load_pipeline(spark, file).start(tmp_path / "ck", available_now=True)
        assert all(run.await_done(120) for run in runs.values())
        frame = spark.read.schema("s BIGINT, x STRING, i INT").json(str(tmp_path / "in"))
        frame.selectExpr("*", "timestamp_seconds(s) AS t").createOrReplaceTempView("e")
        expected = [spark.sql(text).toArrow().to_pylist() for text in (query, grouped)]
    local = LocalSession(zone="Europe/Berlin")
    local.execute(stream.format(""))
    for name, text, wanted in zip(runs, (query, grouped), expected, strict=True):
        run = local.query(text)
        run.feed({"e": rows})
        run.finish()
        by = "i" if name == "q" else "x"
        for found in (run.snapshot(), runs[name].snapshot()):
            for row, other in zip(
                sorted(found.to_pylist(), key=itemgetter(by)),
                sorted(wanted, key=itemgetter(by)),
                strict=True,
            ):
                differing = {
                    columns.get(n, n): (row[n], other[n]) for n in row if row[n] != other[n]
                }
                assert not differing, row[by]


def test_computed_columns_search_for_patterns_in_linear_time(spark: SparkSession) -> None:
    declared = """CREATE STREAM s (ts TIMESTAMP, t STRING, x AS (regexp_extract(t, '(a+)+$', 1)),
                    y AS (t LIKE '%a%a%a%a%a%a%a%a%b')) FROM json('in') TIMESTAMP BY ts"""
    (created,) = parse(declared)
    assert isinstance(created, Create)
    assert isinstance(created.definition, StreamDefinition)
    frame = spark.createDataFrame([(None, "a" * 300 + "!")], "ts TIMESTAMP, t STRING")
    (row,) = with_computed(frame, created.definition, "UTC").collect()
    assert (row.x, row.y) == ("", False), "Spark's engine would try for ever"


def test_queries_without_a_common_stream_end_each_at_their_own_last_instant(
    spark: SparkSession, tmp_path: Path
) -> None:
    def write(stream: str, number: int, at: int) -> None:
        (tmp_path / stream).mkdir(exist_ok=True)
        (tmp_path / stream / f"{number}.json").write_text(json.dumps({"at": at, "a": number}))

    streams = "".join(
        f"CREATE STREAM {one} (at BIGINT, a INT) FROM json('{one}') TIMESTAMP BY at MICROSECONDS;"
        f"CREATE QUERY of_{one} AS SELECT a FROM {one} [RANGE 1 SEC];"
        for one in ("x", "y")
    )
    file, clocks = pipeline(tmp_path, streams), []
    for number, at in enumerate((1_000, 2_000)):
        write("x", number, at)
        write("y", number, 1_000 * at)
        runs = load_pipeline(spark, file).start(tmp_path / "ck", available_now=True, buckets=1)
        assert all(run.await_done(120) for run in runs.values())
        clocks.append([run.status().clock for run in runs.values()])
    assert clocks == [[1_001, 1_000_001], [2_001, 2_000_001]]
    assert runs["of_x"].status().late == {"x": 0}
    assert sorted(runs["of_x"].snapshot()["a"].to_pylist()) == [0, 1]
