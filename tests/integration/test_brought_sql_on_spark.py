"""The SQL that users of Flink, Spark and RisingWave bring, as they write it: one pipeline on Spark.

The answers are those of DuckDB over the same rows; its SQL lists windows by their bounds. Instants
are distinct within a stream, so that nothing depends on the order of ties.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.runtime.local_session import LocalSession
from mayfly.spark.api.pipelines import load_pipeline

START = datetime(2026, 1, 1, 12)
LAST = START + timedelta(hours=3)
"""Where the streams end: windows that end here are over, those that begin here are not."""
STREAMS = """
CREATE STREAM bids (ts TIMESTAMP, auction BIGINT, bidder STRING, price BIGINT)
  FROM parquet('in/bids') TIMESTAMP BY ts;
CREATE STREAM people (ts TIMESTAMP, bidder STRING, city STRING)
  FROM parquet('in/people') TIMESTAMP BY ts;
"""
COPIES = f"""
SET TimeZone = 'UTC';
CREATE MACRO tumbled(size) AS TABLE
  SELECT *, time_bucket(size, ts) AS a, time_bucket(size, ts) + size AS b
  FROM bids WHERE time_bucket(size, ts) + size <= TIMESTAMP '{LAST}';
CREATE VIEW towns AS
  SELECT *, time_bucket(INTERVAL 10 MINUTE, ts) AS a,
    time_bucket(INTERVAL 10 MINUTE, ts) + INTERVAL 10 MINUTE AS b
  FROM people WHERE time_bucket(INTERVAL 10 MINUTE, ts) + INTERVAL 10 MINUTE <= TIMESTAMP '{LAST}';
CREATE VIEW hopped AS
  SELECT bids.*, a, a + INTERVAL 10 MINUTE AS b
  FROM bids, (SELECT TIMESTAMP '{START}' + i * INTERVAL 5 MINUTE AS a FROM range(-2, 40) t(i))
  WHERE a <= ts AND ts < a + INTERVAL 10 MINUTE AND a + INTERVAL 10 MINUTE <= TIMESTAMP '{LAST}';
CREATE VIEW grown AS
  SELECT bids.*, a, b FROM bids,
    (SELECT TIMESTAMP '{START}' + i * INTERVAL 15 MINUTE AS a, a + j * INTERVAL 5 MINUTE AS b
     FROM range(13) t(i), range(1, 4) u(j))
  WHERE a <= ts AND ts < b AND b <= TIMESTAMP '{LAST}';
CREATE VIEW sessions AS
  SELECT * FROM (
    SELECT * EXCLUDE (n), min(ts) OVER same AS a, max(ts) OVER same + INTERVAL 5 MINUTE AS b FROM (
      SELECT *, sum(CAST(fresh AS INT)) OVER (PARTITION BY bidder ORDER BY ts) AS n FROM (
        SELECT *, coalesce(ts - lag(ts) OVER (PARTITION BY bidder ORDER BY ts) > INTERVAL 5 MINUTE,
          true) AS fresh FROM bids))
    WINDOW same AS (PARTITION BY bidder, n)) WHERE b <= TIMESTAMP '{LAST}';
CREATE VIEW recent AS SELECT * FROM bids WHERE ts > TIMESTAMP '{LAST}' - INTERVAL 1 HOUR;
CREATE VIEW moved AS SELECT * FROM people WHERE ts > TIMESTAMP '{LAST}' - INTERVAL 1 HOUR;
"""
TEN = "tumbled(INTERVAL 10 MINUTE)"
QUERIES = {
    "tumble": (
        "SELECT bidder, window_start, window_end, COUNT(*) AS n, SUM(price) AS s"
        " FROM TUMBLE(bids, ts, INTERVAL '10' MINUTE) GROUP BY bidder, window_start, window_end",
        f"SELECT bidder, a, b, count(*), sum(price) FROM {TEN} GROUP BY ALL",
    ),
    "tumble_of_flink": (
        "SELECT window_end, COUNT(DISTINCT bidder) AS n, COUNT(*) FILTER (WHERE price > 50) AS m"
        " FROM TABLE(TUMBLE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts),"
        " SIZE => INTERVAL '10' MINUTES)) GROUP BY window_start, window_end HAVING COUNT(*) > 2",
        "SELECT b, count(DISTINCT bidder), count(*) FILTER (WHERE price > 50)"
        f" FROM {TEN} GROUP BY b HAVING count(*) > 2",
    ),
    "offset_windows": (
        "SELECT window_start, MIN(price) AS p"
        " FROM TUMBLE(bids, ts, INTERVAL '1' HOUR, INTERVAL '20' MINUTE) GROUP BY window_start",
        "SELECT time_bucket(INTERVAL 1 HOUR, ts, INTERVAL 20 MINUTE) AS a, min(price) FROM bids"
        f" GROUP BY a HAVING a + INTERVAL 1 HOUR <= TIMESTAMP '{LAST}'",
    ),
    "hop": (
        "SELECT bidder, window_start, AVG(price) AS mean, MAX(price) AS most"
        " FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))"
        " GROUP BY bidder, window_start, window_end",
        "SELECT bidder, a, avg(price), max(price) FROM hopped GROUP BY ALL",
    ),
    "spark_window": (
        "SELECT window.start AS a, window.end AS b, bidder, count(*) AS n FROM bids"
        " WHERE price > 20 GROUP BY window(ts, '10 minutes', '5 minutes'), bidder",
        "SELECT a, b, bidder, count(*) FROM hopped WHERE price > 20 GROUP BY ALL",
    ),
    "cumulate": (
        "SELECT window_start, window_end, SUM(price) AS s FROM TABLE(CUMULATE(TABLE bids,"
        " DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '15' MINUTES))"
        " GROUP BY window_start, window_end",
        "SELECT a, b, sum(price) FROM grown GROUP BY ALL",
    ),
    "session_totals": (
        "SELECT bidder, window_start, window_end, COUNT(*) AS n, SUM(price) AS s"
        " FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '5' MINUTES))"
        " GROUP BY bidder, window_start, window_end",
        "SELECT bidder, a, b, count(*), sum(price) FROM sessions GROUP BY ALL",
    ),
    "session_rows": (
        "SELECT bidder, window_end, MEDIAN(price) AS m FROM SESSION(bids PARTITION BY bidder, ts,"
        " INTERVAL '5' MINUTE) GROUP BY bidder, window_start, window_end",
        "SELECT bidder, b, median(price) FROM sessions GROUP BY ALL",
    ),
    "spark_session": (
        "SELECT bidder, session_window.start AS a, count(*) AS n FROM bids"
        " GROUP BY session_window(ts, '5 minutes'), bidder",
        "SELECT bidder, a, count(*) FROM sessions GROUP BY ALL",
    ),
    "sets": (
        "SELECT window_start, bidder, SUM(price) AS s FROM TUMBLE(bids, ts, INTERVAL '10' MINUTE)"
        " GROUP BY window_start, window_end, GROUPING SETS ((bidder), ())",
        f"SELECT a, bidder, sum(price) FROM {TEN} GROUP BY GROUPING SETS ((a, bidder), (a))",
    ),
    "approximate": (
        "SELECT window_end, APPROX_COUNT_DISTINCT(bidder) AS n"
        " FROM TUMBLE(bids, ts, INTERVAL '1' HOUR) GROUP BY window_end",
        "SELECT b, count(DISTINCT bidder) FROM tumbled(INTERVAL 1 HOUR) GROUP BY b",
    ),
    "padded": (
        "SELECT l.bidder, l.price, r.city, l.window_start"
        " FROM TUMBLE(bids, ts, INTERVAL '10' MINUTE) l"
        " LEFT JOIN TUMBLE(people, ts, INTERVAL '10' MINUTE) r ON l.bidder = r.bidder"
        " AND l.window_start = r.window_start AND l.window_end = r.window_end",
        f"SELECT l.bidder, price, city, l.a FROM {TEN} l LEFT JOIN towns r"
        " ON l.bidder = r.bidder AND l.a = r.a",
    ),
    "full_join": (
        "SELECT l.price, r.city FROM TUMBLE(bids, ts, INTERVAL '10' MINUTE) l"
        " FULL JOIN TUMBLE(people, ts, INTERVAL '10' MINUTE) r ON l.bidder = r.bidder"
        " AND l.window_start = r.window_start AND l.window_end = r.window_end",
        f"SELECT price, city FROM {TEN} l FULL JOIN towns r ON l.bidder = r.bidder AND l.a = r.a",
    ),
    "without_partner": (
        "SELECT l.bidder, l.price, l.window_end FROM TUMBLE(bids, ts, INTERVAL '10' MINUTE) l"
        " WHERE NOT EXISTS (SELECT 1 FROM TUMBLE(people, ts, INTERVAL '10' MINUTE) r"
        " WHERE l.bidder = r.bidder AND l.window_start = r.window_start"
        " AND l.window_end = r.window_end)",
        f"SELECT bidder, price, b FROM {TEN} l WHERE NOT EXISTS (SELECT 1 FROM towns r"
        " WHERE l.bidder = r.bidder AND l.a = r.a)",
    ),
    "top": (
        "SELECT window_end, bidder, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY"
        " window_start, window_end ORDER BY price DESC, ts) AS place"
        " FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))) WHERE place <= 2",
        f"SELECT b, bidder, price FROM {TEN}"
        " QUALIFY row_number() OVER (PARTITION BY a ORDER BY price DESC NULLS LAST, ts) <= 2",
    ),
    "limited": (
        "SELECT window_end, price FROM TUMBLE(bids, ts, INTERVAL '10' MINUTE)"
        " WHERE price IS NOT NULL ORDER BY price DESC, ts LIMIT 1",
        f"SELECT b, price FROM {TEN} WHERE price IS NOT NULL"
        " QUALIFY row_number() OVER (PARTITION BY a ORDER BY price DESC, ts) = 1",
    ),
    "each_once": (
        "SELECT DISTINCT bidder FROM TUMBLE(bids, ts, INTERVAL '1' HOUR)",
        "SELECT bidder FROM (SELECT DISTINCT bidder, a FROM tumbled(INTERVAL 1 HOUR))",
    ),
    "over_windows": (
        "SELECT window_end, SUM(n) AS n, COUNT(*) AS m FROM TUMBLE((SELECT window_end AS till,"
        " COUNT(*) AS n FROM TUMBLE(bids, ts, INTERVAL '10' MINUTE) GROUP BY window_end),"
        " till, INTERVAL '1' HOUR) GROUP BY window_end",
        "SELECT time_bucket(INTERVAL 1 HOUR, b - INTERVAL 1 MICROSECOND) + INTERVAL 1 HOUR AS e,"
        f" sum(n), count(*) FROM (SELECT b, count(*) AS n FROM {TEN} GROUP BY b) GROUP BY e",
    ),
    "change": (
        "SELECT bidder, window_start, n - LAG(n) OVER (PARTITION BY bidder ORDER BY window_start)"
        " AS more FROM (SELECT bidder, window_start, window_end, COUNT(*) AS n"
        " FROM TUMBLE(bids, ts, INTERVAL '10' MINUTE) GROUP BY bidder, window_start, window_end) w",
        "SELECT bidder, a, n - lag(n) OVER (PARTITION BY bidder ORDER BY a)"
        f" FROM (SELECT bidder, a, count(*) AS n FROM {TEN} GROUP BY ALL)",
    ),
    "last_minutes": (
        "SELECT bidder, price, SUM(price) OVER (PARTITION BY bidder ORDER BY ts"
        " RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW) AS s FROM bids",
        "SELECT bidder, price, sum(price) OVER (PARTITION BY bidder ORDER BY ts"
        " RANGE BETWEEN INTERVAL 10 MINUTE PRECEDING AND CURRENT ROW) FROM bids",
    ),
    "last_rows": (
        "SELECT bidder, AVG(price) OVER w AS mean, COUNT(*) OVER w AS n FROM bids"
        " WINDOW w AS (PARTITION BY bidder ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
        "SELECT bidder, avg(price) OVER w, count(*) OVER w FROM bids"
        " WINDOW w AS (PARTITION BY bidder ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
    ),
    "rows_before": (
        "SELECT bidder, price, LAG(price) OVER w AS l, LAG(auction, 2, 0) OVER w AS m,"
        " ROW_NUMBER() OVER w AS n, FIRST_VALUE(price) OVER w AS f FROM bids"
        " WINDOW w AS (PARTITION BY bidder ORDER BY ts)",
        "SELECT bidder, price, lag(price) OVER w, lag(auction, 2, 0) OVER w, row_number() OVER w,"
        " first_value(price) OVER w FROM bids WINDOW w AS (PARTITION BY bidder ORDER BY ts)",
    ),
    "latest": (
        "SELECT bidder, price FROM"
        " (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder ORDER BY ts DESC) AS n"
        " FROM bids [RANGE 1 HOUR]) WHERE n = 1",
        "SELECT bidder, price FROM recent"
        " QUALIFY row_number() OVER (PARTITION BY bidder ORDER BY ts DESC) = 1",
    ),
    "ranks": (
        "SELECT bidder, price, RANK() OVER w AS r, DENSE_RANK() OVER w AS d"
        " FROM bids [RANGE 1 HOUR] WHERE price > 0"
        " WINDOW w AS (PARTITION BY bidder ORDER BY price)",
        "SELECT bidder, price, rank() OVER w, dense_rank() OVER w FROM recent WHERE price > 0"
        " WINDOW w AS (PARTITION BY bidder ORDER BY price)",
    ),
    "next_row": (
        "SELECT bidder, price, LEAD(price) OVER (PARTITION BY bidder ORDER BY ts) AS l,"
        " LAST_VALUE(price) OVER (PARTITION BY bidder ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING"
        " AND UNBOUNDED FOLLOWING) AS e FROM bids [RANGE 1 HOUR]",
        "SELECT bidder, price, lead(price) OVER (PARTITION BY bidder ORDER BY ts),"
        " last_value(price) OVER (PARTITION BY bidder ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING"
        " AND UNBOUNDED FOLLOWING) FROM recent",
    ),
    **{
        f"asof_{name}": (
            f"SELECT b.bidder, b.price, p.city FROM bids {window} b {side} ASOF JOIN people"
            f" {window} p MATCH_CONDITION (b.ts {sign} p.ts) ON b.bidder = p.bidder",
            f"SELECT b.bidder, b.price, p.city FROM {left} b ASOF {side} JOIN {right} p"
            f" ON b.bidder = p.bidder AND b.ts {sign} p.ts",
        )
        for name, sign, side, window, left, right in (
            ("at_or_before", ">=", "", "", "bids", "people"),
            ("before", ">", "LEFT", "", "bids", "people"),
            ("at_or_after", "<=", "", "[RANGE 1 HOUR]", "recent", "moved"),
            ("after", "<", "LEFT", "[RANGE 1 HOUR]", "recent", "moved"),
        )
    },
    "system_time": (
        "SELECT b.bidder, b.price, p.city FROM bids b"
        " LEFT JOIN people FOR SYSTEM_TIME AS OF b.ts AS p ON b.bidder = p.bidder",
        "SELECT b.bidder, b.price, p.city FROM bids b ASOF LEFT JOIN people p"
        " ON b.bidder = p.bidder AND b.ts >= p.ts",
    ),
}


def rows(seed: int) -> dict[str, pa.Table]:
    """Two streams with NULLs, bursts and pauses, up to a row at the last instant in each."""
    rng, made = Random(seed), {}
    seconds = 3 * 3600
    busy = [at for at in range(seconds) if (at // 600) % 4 or rng.random() < 0.2]
    for name, count in (("bids", 240), ("people", 60)):
        times = [START + timedelta(seconds=at) for at in sorted(rng.sample(busy, count))] + [LAST]
        columns: dict[str, Any] = {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "bidder": [rng.choice(("ann", "bob", "eve", "joe", None)) for _ in times],
        }
        if name == "bids":
            columns["auction"] = [rng.randint(1, 5) for _ in times]
            columns["price"] = pa.array(
                [rng.choice((*range(1, 100), None)) for _ in times], pa.int64()
            )
        else:
            columns["city"] = [rng.choice(("Rome", "Oslo", "Bonn")) for _ in times]
        made[name] = pa.table(columns)
    return made


def write_world(folder: Path, seed: int = 1, files: int = 3) -> Path:
    """The streams in files, and a pipeline of all queries."""
    for name, table in rows(seed).items():
        (folder / "in" / name).mkdir(parents=True)
        size = -(-table.num_rows // files)
        for number in range(files):
            part = table.slice(number * size, size)
            pq.write_table(part, folder / "in" / name / f"{number}.parquet")
    texts = (f"CREATE QUERY {name} AS {cql};" for name, (cql, _) in QUERIES.items())
    (folder / "pipeline.cql").write_text("\n".join((STREAMS, *texts)))
    return folder / "pipeline.cql"


def plain(table: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(_plain, row)) for row in table)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return round(value, 9) if isinstance(value, float) else value


def expected(seed: int = 1) -> dict[str, Counter[tuple[Any, ...]]]:
    with duckdb.connect() as database:
        for name, table in rows(seed).items():
            at = table.schema.get_field_index("ts")
            times = table["ts"].cast(pa.timestamp("us"))
            database.register(name, table.set_column(at, "ts", times))
        database.execute(COPIES)
        return {name: plain(database.sql(sql).fetchall()) for name, (_, sql) in QUERIES.items()}


def answer(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return plain([tuple(row.values()) for row in table.to_pylist()])


def test_what_people_bring_is_answered_as_by_an_independent_engine(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = write_world(tmp_path)
    runs = load_pipeline(spark, file).start(
        file.with_suffix(".state"), available_now=True, sync=False, history="forever", buckets=2
    )
    assert all(run.await_done(240) for run in runs.values())
    for name, correct in expected().items():
        assert correct, f"{name}: an answer without rows shows nothing"
        assert answer(runs[name].snapshot()) == correct, name


@pytest.mark.parametrize("seed", range(2))
def test_so_it_is_in_this_process(seed: int) -> None:
    session, tables = LocalSession(), rows(seed)
    session.execute(STREAMS)
    correct = expected(seed)
    for name, (cql, _) in QUERIES.items():
        run = session.query(cql)
        run.feed({stream: tables[stream] for stream in run.clocks.streams})
        run.finish()
        assert answer(run.snapshot()) == correct[name], name
