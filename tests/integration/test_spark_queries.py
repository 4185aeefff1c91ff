"""Queries of the language on Spark: the same changes as in this process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.local_session import LocalSession
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from tests.integration.recorded import declare, record
from tests.property.continuous_cases import told

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("seq", pa.int64()),
        ("k", pa.int32()),
        ("g", pa.string()),
        ("v", pa.int64()),
        ("x", pa.float64()),
    ]
)
BATCHES = 3
QUERIES = {
    "join": "SELECT l.k, l.v, r.v AS w FROM a [RANGE 30 us] l, b [RANGE 20 us] r"
    " WHERE l.k = r.k AND l.v < r.v",
    "groups": "SELECT g, COUNT(*) AS n, SUM(v) AS s, MAX(x) AS m FROM a [RANGE 50 us] GROUP BY g",
    "top": "SELECT k, g FROM a [RANGE 40 us] ORDER BY v DESC, x LIMIT 4",
    "frequent": "SELECT g, FREQUENT(k, 2) AS f, COUNT(*) AS n,"
    " APPROX_FREQUENT(v, 3, 0.1, 'NO FALSE NEGATIVES') AS h"
    " FROM a [RANGE 60 us SLIDE 20 us] GROUP BY g",
    "distinct over join": "SELECT DISTINCT l.g FROM a [RANGE 30 us] l, b [RANGE 20 us] r"
    " WHERE l.k = r.k",
}
MORE = {
    "top of groups": "SELECT g, k, COUNT(*) AS n FROM a [RANGE 50 us] GROUP BY g, k"
    " ORDER BY n DESC, g LIMIT 3 OFFSET 1",
    "exists": "SELECT k, v FROM a [RANGE 30 us] l WHERE EXISTS"
    " (SELECT * FROM b [RANGE 20 us] r WHERE r.k = l.k AND r.v > l.v)"
    " AND g IN (SELECT g FROM b [RANGE 40 us])",
    "intersect": "SELECT g, k FROM a [RANGE 50 us] INTERSECT SELECT g, k FROM b [RANGE 50 us]",
    "outer": "SELECT l.k, l.v, r.v AS w FROM a [RANGE 30 us] l FULL JOIN b [RANGE 20 us] r"
    " ON l.k = r.k AND l.v > 2",
    "extremes": "SELECT g, MAX(x) AS m, MIN(v) AS l FROM a [RANGE 50 us] GROUP BY g",
    "panes": "SELECT g, SUM(v) AS s, COUNT(*) AS n, MAX(x) AS m FROM a [RANGE 60 us SLIDE 20 us]"
    " GROUP BY g",
    "selection": "SELECT k, upper(g) AS g, v * 2 AS w FROM a [RANGE 40 us] WHERE v > 2",
    "frequent everywhere": "SELECT FREQUENT(k, 2) AS f FROM a [RANGE 60 us SLIDE 20 us]",
    "frequent rows": "SELECT g, FREQUENT(k, 2) AS f FROM a [ROWS 40 SLIDE 10 ROWS] GROUP BY g",
    "negation": "SELECT k, v FROM a [RANGE 30 us] l WHERE NOT EXISTS"
    " (SELECT * FROM b [RANGE 20 us] r WHERE r.k = l.k AND r.v > l.v)",
    "last rows": "SELECT g, v FROM a [ROWS 5] EXCEPT ALL SELECT g, v FROM b [RANGE 40 us]",
    "union": "SELECT k FROM a [RANGE 20 us] UNION ALL SELECT k FROM b [PARTITION BY k ROWS 2]",
    "not in": "SELECT k FROM a [RANGE 25 us] WHERE k NOT IN (SELECT k FROM b [RANGE 5 us])",
    "three-way": "SELECT l.k, m.v, r.v AS w FROM a [RANGE 30 us] l, b [RANGE 20 us] m,"
    " a [RANGE 10 us] r WHERE l.k = m.k AND m.g = r.g",
    "istream": "SELECT Istream(k, COUNT(*) AS n) FROM a [RANGE 40 us] GROUP BY k",
    "rstream": "SELECT Rstream(g, SUM(v) AS s) FROM a [RANGE 60 us SLIDE 30 us] GROUP BY g"
    " ORDER BY s DESC LIMIT 3",
    "restore": "SELECT Istream-restore(g) FROM a [RANGE 5 us SLIDE 30 us]",
    "sessions": "SELECT k, window_start, SUM(v) AS s, COUNT(*) AS n"
    " FROM SESSION(a PARTITION BY k, ts, 4 us) GROUP BY k, window_start, window_end",
    "hop": "SELECT g, window_end, SUM(v) AS s, MAX(x) AS m FROM HOP(a, ts, 10 us, 40 us)"
    " GROUP BY g, window_start, window_end",
    "over": "SELECT k, v, LAG(v) OVER (PARTITION BY k ORDER BY ts) AS w, SUM(v) OVER"
    " (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 20 us PRECEDING AND CURRENT ROW) AS s"
    " FROM a",
    "decayed": "SELECT g, DECAYED_SUM(x, INTERVAL 20 us) AS s, DECAYED_COUNT(*, INTERVAL 5 us) AS n"
    " FROM a [UNBOUNDED SLIDE 15 us] GROUP BY g",
    "histogram": "SELECT g, APPROX_COUNT(*, 0.4) AS n, APPROX_SUM_HIGH(v, 0.4) AS h"
    " FROM a [RANGE 500 us SLIDE 5 us] GROUP BY g",
    "asof": "SELECT l.k, l.v, r.v AS w FROM a l LEFT ASOF JOIN b r"
    " MATCH_CONDITION (r.ts <= l.ts) ON l.k = r.k",
    "two levels": "SELECT SUM(Wstream(SUM(v))[ROWS 3]) FROM a [RANGE 20 us SLIDE 20 us]",
    "internal": "SELECT l.k FROM a [RANGE 30 us INTERNAL] l, b [RANGE 20 us INTERNAL] r"
    " WHERE l.k = r.k",
}


def batches(rows: int = 60, seed: int = 3) -> list[dict[str, pa.Table]]:
    rng, at = Random(seed), {"a": 0, "b": 0}
    made = []
    for number in range(BATCHES):
        batch = {}
        for name in at:
            listed = []
            for row in range(rows):
                at[name] += rng.choice((0, 0, 1, 2))
                listed.append(
                    {
                        "ts": at[name],
                        "seq": number * rows + row,
                        "k": rng.choice((0, 1, 2, 3, 4, None)),
                        "g": rng.choice(("p", "q", "r", None)),
                        "v": rng.randint(0, 9),
                        "x": rng.random(),
                    }
                )
            batch[name] = pa.Table.from_pylist(listed, schema=SCHEMA)
        made.append(batch)
    return made


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    record(folder, batches())
    return folder


def in_process(cql: str) -> ContinuousRun:
    session = LocalSession()
    for name in ("a", "b"):
        session.stream(name, SCHEMA, sequence=["seq"])
    run = session.query(cql)
    for batch in batches():
        run.feed({name: rows for name, rows in batch.items() if name in run.clocks.streams})
    run.finish()
    return run


def on_spark(spark: SparkSession, folder: Path, checkpoint: Path, cql: str) -> QueryRun:
    session = Session(spark)
    declare(session, folder, {"a": SCHEMA, "b": SCHEMA}, sequence=["seq"])
    run = session.query(cql).start(
        checkpoint, available_now=True, buckets=2, sync=False, history="forever"
    )
    assert run.await_done(240)
    return run


def of_spark(run: QueryRun) -> Any:
    table = run.changes()
    for name in ("ts", "exp"):
        at = table.schema.get_field_index(name)
        if at >= 0:
            endless = NEVER if name == "exp" else MIN_TIME
            times = pc.fill_null(table[name].cast(pa.int64()), endless)
            table = table.set_column(at, name, times)
    return told(table, view=run.results.view)


def of_local(run: ContinuousRun) -> Any:
    view = run.program.sent is None
    return told(run.lifetimes() if view else run.changes(), view=view)


def check(spark: SparkSession, folder: Path, checkpoint: Path, cql: str) -> None:
    local = in_process(cql)
    wanted = of_local(local)
    assert wanted, "a query without results shows nothing"
    run = on_spark(spark, folder, checkpoint, cql)
    assert of_spark(run) == wanted
    if run.results.view:
        at = local.clocks.query - 20
        found = run.snapshot(at)
        assert Counter(map(repr, found.to_pylist())) == Counter(
            map(repr, local.snapshot(at).to_pylist())
        )
        run.view("answer", at)
        assert spark.sql("SELECT * FROM answer").count() == found.num_rows
    assert run.verify().ok


@pytest.mark.halved
@pytest.mark.parametrize("name", QUERIES)
def test_spark_does_what_this_process_does(
    spark: SparkSession, recorded: Path, tmp_path: Path, name: str
) -> None:
    check(spark, recorded, tmp_path / "checkpoint", QUERIES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_spark_does_what_this_process_does_with_more(
    spark: SparkSession, recorded: Path, tmp_path: Path, name: str
) -> None:
    check(spark, recorded, tmp_path / "checkpoint", MORE[name])


def test_a_relation_sinks_and_a_second_start(
    spark: SparkSession, recorded: Path, tmp_path: Path
) -> None:
    cql = "SELECT l.k, r.name, l.v FROM a [RANGE 30 us] l, r WHERE l.k = r.id"
    names = pa.table({"id": pa.array([0, 2, 4], pa.int32()), "name": ["zero", "two", "four"]})
    local = LocalSession()
    local.stream("a", SCHEMA, sequence=["seq"])
    local.relation("r", names, key=["id"])
    run = local.query(cql)
    for batch in batches():
        run.feed({"a": batch["a"]})
    run.finish()
    session = Session(spark)
    declare(session, recorded, {"a": SCHEMA}, sequence=["seq"])
    session.relation("r", names, key=["id"])
    told: dict[int, int] = {}

    def note(changes: DataFrame, batch: int) -> None:
        told[batch] = changes.count()

    query = session.query(cql)
    started = query.start(
        tmp_path / "ck",
        on_changes=note,
        parquet=tmp_path / "out",
        available_now=True,
        buckets=2,
        sync=False,
        history="forever",
    )
    assert started.await_done(240)
    assert of_spark(started) == of_local(run)
    assert sum(told.values()) == run.lifetimes().num_rows
    files = spark.read.parquet(str(tmp_path / "out"))
    assert files.count() == run.lifetimes().num_rows
    again = query.open(tmp_path / "ck")
    assert of_spark(again) == of_local(run)
    with pytest.raises(InvalidSetting, match="belongs to another query"):
        session.query("SELECT k FROM a [RANGE 30 us]").open(tmp_path / "ck")
