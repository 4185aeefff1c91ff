"""Forms that name or nest queries, together on Spark, give what each gives in this process."""

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

ROWS = 30
VIEW = "SELECT k, COUNT(*) AS n FROM s1 [RANGE 5 s] GROUP BY k"
FORMS = {
    "through_a_view": "SELECT k, n FROM counts WHERE n > 1",
    "view_twice": "SELECT a.k, b.k AS other FROM counts a JOIN counts b USING (n)",
    "with_twice": "WITH q AS (SELECT DISTINCT g FROM s2 [RANGE 9 s]) SELECT a.g FROM q a, q b "
    "WHERE a.g < b.g",
    "value": "SELECT v, (SELECT COUNT(*) FROM s2 [RANGE 5 s] t WHERE t.k = s1.k) AS n "
    "FROM s1 [RANGE 5 s]",
    "condition": "SELECT v FROM s1 [RANGE 9 s] WHERE v >= (SELECT AVG(v) FROM s2 [RANGE 9 s])",
    "full_join": "SELECT k, s1.v, s2.x FROM s1 [RANGE 5 s] FULL JOIN s2 [RANGE 5 s] USING (k)",
    "relation": "SELECT s1.v, r.b FROM s1 [RANGE 9 s] LEFT JOIN r ON s1.k = r.a",
    "nrr": "SELECT s1.v, n.b FROM s1 [RANGE 9 s] LEFT JOIN n ON s1.k = n.a",
    "operator": "Istream(SELECT DISTINCT g FROM s1 [RANGE 5 s])",
}
PARTNERS = [{"a": 1, "b": "one"}, {"a": 2, "b": None}]


def local() -> LocalSession:
    session = LocalSession()
    session.execute(f"{DECLARATIONS} CREATE VIEW counts AS {VIEW}")
    for name in ("r", "n"):
        session.relation(name, PARTNERS, key="a", retroactive=name == "r")
    return session


def test_spark_tells_the_changes_that_this_process_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = Random(3)
    rows = {name: _rows(rng, name, ROWS) for name in STREAMS}
    batches = [
        {name: table_of(name, listed[at : at + ROWS // 2]) for name, listed in rows.items()}
        for at in range(0, ROWS, ROWS // 2)
    ]
    record(tmp_path / "streams", batches)
    session = Session(spark)
    schemas = {name: table_of(name, []).schema for name in STREAMS}
    declare(session, tmp_path / "streams", schemas, sequence=["seq"])
    for name in ("r", "n"):
        session.relation(name, PARTNERS, key="a", retroactive=name == "r")
    session.view("counts", VIEW)
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
