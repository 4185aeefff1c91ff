"""OVER, ASOF and RESAMPLE on Spark, all forms in one pipeline that is stopped and goes on."""

from __future__ import annotations

from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from mayfly import LocalSession
from mayfly.runtime.in_process import ContinuousRun
from mayfly.spark.api.session import Session
from mayfly.testing.random_queries import DECLARATIONS, STREAMS
from tests.integration.recorded import declare, record
from tests.integration.test_spark_queries import of_local, of_spark
from tests.property.continuous_cases import _rows, table_of

ROWS = 36
OVER = "PARTITION BY k ORDER BY ts"
FORMS = {
    "by_range": f"SELECT k, v, SUM(v) OVER ({OVER} RANGE BETWEEN INTERVAL 3 SECONDS PRECEDING AND "
    "CURRENT ROW) AS s, MAX(x) OVER (PARTITION BY g ORDER BY ts ROWS 2 PRECEDING) AS m FROM s1",
    "running": f"SELECT k, v, LAG(v, 2, 9) OVER ({OVER}) AS l, ROW_NUMBER() OVER ({OVER}) AS n, "
    f"SUM(x) OVER ({OVER}) AS s, MIN(g) OVER ({OVER}) AS m FROM s2 WHERE v IS NOT NULL",
    "sent": f"Istream(SELECT k, AVG(v) OVER ({OVER} ROWS 3 PRECEDING) AS a FROM s1)",
    "alive": "SELECT k, v, RANK() OVER (PARTITION BY k ORDER BY v DESC) AS r, "
    f"LEAD(v) OVER ({OVER}) AS l FROM s1 [RANGE 6 s]",
    "asof": "SELECT s1.v, s2.v AS w FROM s1 ASOF JOIN s2 MATCH_CONDITION (s2.ts <= s1.ts) "
    "ON s1.k = s2.k",
    "left_asof": "SELECT s1.v, s2.g FROM s1 LEFT ASOF JOIN s2 ON s1.g = s2.g AND s1.ts > s2.ts",
    "asof_alive": "SELECT s1.v, s2.v AS w FROM s1 [RANGE 5 s] LEFT ASOF JOIN s2 [RANGE 9 s] "
    "MATCH_CONDITION (s2.ts >= s1.ts) ON s1.k = s2.k",
    "as_of_stream": "SELECT s1.v, s2.x FROM s1 JOIN s2 FOR SYSTEM_TIME AS OF s1.ts ON s1.k = s2.k",
    "between": "SELECT k, ts AS t, v, x, g FROM RESAMPLE s1 PARTITION BY k EVERY 1500 ms LINEAR",
    "held": "SELECT k, ts AS t, v, g FROM RESAMPLE s2 PARTITION BY k EVERY 2 SECONDS LAST",
    "held_alone": "SELECT g, COUNT(*) AS n, SUM(v) AS s FROM RESAMPLE s1 EVERY 1 s [RANGE 4 s] r "
    "GROUP BY g",
    "as_of_relation": "SELECT s1.v, r.b FROM s1 LEFT JOIN r FOR SYSTEM_TIME AS OF s1.ts "
    "ON s1.k = r.a",
}
PARTNERS = [{"a": 1, "b": "one"}, {"a": 2, "b": None}]


def local() -> LocalSession:
    session = LocalSession()
    session.execute(DECLARATIONS)
    session.relation("r", PARTNERS, key="a")
    return session


def test_spark_goes_on_after_a_restart_as_this_process_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = Random(11)
    rows = {name: _rows(rng, name, ROWS) for name in STREAMS}
    # The end of a run closes its last instant: no row of it may come after the restart.
    border = min(listed[ROWS // 2]["ts"] for listed in rows.values())
    batches = [
        {name: table_of(name, [r for r in listed if early is (r["ts"] < border)])
         for name, listed in rows.items()}
        for early in (True, False)
    ]  # fmt: skip
    schemas = {name: table_of(name, []).schema for name in STREAMS}
    for number in range(len(batches)):
        record(tmp_path / "streams", batches[: number + 1])
        session = Session(spark)
        declare(session, tmp_path / "streams", schemas, sequence=["seq"])
        session.relation("r", PARTNERS, key="a")
        runs = session.queries(**FORMS).start(
            tmp_path / "ck", available_now=True, buckets=2, sync=False, history="forever"
        )
        assert all(run.await_done(400) for run in runs.values())
    for name, run in runs.items():
        alone: ContinuousRun = local().query(FORMS[name])
        own = alone.clocks.streams
        for batch in batches:
            alone.feed({stream: table for stream, table in batch.items() if stream in own})
        end = run.status().clock
        assert end is not None
        alone.feed({}, dict.fromkeys(own, end))
        assert of_spark(run), name
        assert of_spark(run) == of_local(alone), name
