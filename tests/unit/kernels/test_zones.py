"""Functions of times in a zone: what Spark makes of them in a session of that zone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mayfly import LocalSession
from mayfly.lifetime import in_zone, instant, zone

ZONES = ["Europe/Berlin", "America/St_Johns", "UTC", "Australia/Lord_Howe"]
TIMES = [
    instant(text)
    for text in (
        "2026-03-29T00:59:59.999999", "2026-03-29T01:00:00", "2026-03-29T01:30:00",
        "2026-10-25T00:30:00", "2026-10-25T01:30:00", "2026-10-25T02:30:00",
        "2026-04-04T15:15:00", "2026-10-03T15:45:00", "1999-12-31T23:30:00",
        "1970-01-01T00:00:00", "2026-06-30T22:10:05.5",
    )
]  # fmt: skip
TEXTS = ["2026-03-29 02:30:00", "2026-10-25 02:30:00", "2026-07-01", "2026-07-01 10:00:00+03:00"]
EXPRESSIONS = [
    "hour(t)", "minute(t)", "second(t)", "day(t)", "month(t)", "year(t)", "dayofweek(t)",
    "to_date(t)", "date_trunc('day', t)", "date_trunc('hour', t)", "date_trunc('month', t)",
    "date_format(t, 'yyyy-MM-dd HH:mm:ss')", "CAST(t AS STRING)", "CAST(t AS DATE)",
    "CAST(CAST(t AS DATE) AS TIMESTAMP)", "CAST(s AS TIMESTAMP)", "hour(CAST(s AS TIMESTAMP))",
    "t < TIMESTAMP '2026-03-29 03:15:00'", "CAST(t AS TIMESTAMP_NTZ)",
    "CAST(CAST(t AS TIMESTAMP_NTZ) AS TIMESTAMP)", "to_timestamp(s)",
    "to_timestamp(date_format(t, 'dd.MM.yyyy HH:mm'), 'dd.MM.yyyy HH:mm')",
    "to_timestamp('29/3/2026 2:30', 'd/M/yyyy H:mm')", "try_to_timestamp(s, 'yyyy-MM-dd')",
    "to_timestamp('2026-10-25 02:30:00.123', 'yyyy-MM-dd HH:mm:ss.SSS')",
    "try_to_timestamp('x', 'yy')", "t + INTERVAL 1 DAY", "t - INTERVAL 1 DAY",
    "INTERVAL 180 DAY + t", "t - INTERVAL 4803 HOUR", "t + INTERVAL 25 HOUR",
    "t - TIMESTAMP '2026-01-01 00:00:00'", "TIMESTAMP '2026-07-01 00:00:00' - t",
    "t - INTERVAL 30 MINUTE", "t + (t - TIMESTAMP '2026-03-28 02:30:00')",
]  # fmt: skip


@contextmanager
def session_zone(spark: SparkSession, name: str) -> Iterator[None]:
    setting = "spark.sql.session.timeZone"
    before = spark.conf.get(setting)
    spark.conf.set(setting, name)
    try:
        yield
    finally:
        spark.conf.set(setting, str(before))


def table() -> pa.Table:
    rows = [(at, text) for at in TIMES for text in TEXTS]
    times = pa.array([at for at, _ in rows], pa.timestamp("us", "UTC"))
    return pa.table({"t": times, "s": pa.array([text for _, text in rows])})


@pytest.mark.parametrize("name", ZONES)
def test_functions_use_the_zone_as_spark_does(spark: SparkSession, name: str) -> None:
    listed = ", ".join(f"{one} AS c{n}" for n, one in enumerate(EXPRESSIONS))
    rows = table()
    with session_zone(spark, name):
        frame = spark.createDataFrame(rows.to_pandas()).selectExpr(
            "t", "s", *(f"{one} AS c{n}" for n, one in enumerate(EXPRESSIONS))
        )
        wanted = frame.toArrow()
    local = LocalSession(zone=name)
    local.stream("x", {"t": "TIMESTAMP", "s": "STRING"}, time="t", slack="100000 days")
    run = local.query(f"SELECT t, s, {listed} FROM x")
    run.feed({"x": rows})
    run.finish()
    found = run.snapshot()
    by = [("t", "ascending"), ("s", "ascending")]
    wanted, found = wanted.sort_by(by), found.sort_by(by)
    for number, expression in enumerate(EXPRESSIONS):
        column = f"c{number}"
        one, other = (
            [v.value if hasattr(v, "value") else v.as_py() for v in given[column]]
            for given in (found, wanted)
        )
        assert one == other, (name, expression)


def test_a_zone_is_used_for_a_while() -> None:
    with in_zone("Europe/Berlin"):
        assert zone() == "Europe/Berlin"
    assert zone() == "UTC"
