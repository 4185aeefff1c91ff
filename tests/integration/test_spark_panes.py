"""Many aggregates over windows with SLIDE on Spark: panes made by Spark SQL, for all in one pass.

Every answer is compared with DuckDB over the rows that its refresh shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.io.sinks import Memory
from mayfly.spark.stream import pane_pass, runner
from tests.integration.recorded import declare, record, run_over
from tests.property.test_panes import (
    PREDICATES,
    SCHEMA,
    SLACK,
    Query,
    admitted,
    instants,
    oracle,
    random_batches,
    random_query,
    shown,
)


def queries_of(rng: Random, count: int) -> dict[str, Query]:
    """Without sums that may not fit: these end a run, as they should."""
    made: dict[str, Query] = {}
    while len(made) < count:
        query = random_query(rng)
        if "SUM(v)" not in query.calls:
            made[f"q{len(made)}"] = query
    return made


def session_of(spark: SparkSession, folder: Path) -> Session:
    session = Session(spark)
    declare(session, folder, {"s": SCHEMA}, slack=f"{SLACK} us")
    return session


def recorded(folder: Path, batches: list[list[dict[str, Any]]], first: int = 0) -> None:
    tables = [{"s": pa.Table.from_pylist(batch, schema=SCHEMA)} for batch in batches]
    record(folder, tables, first)


def lifetimes(run: QueryRun) -> pa.Table:
    """What came of a view, each row until it was replaced."""
    table = run.changes()
    for name, endless in (("ts", MIN_TIME), ("exp", NEVER)):
        times = pc.fill_null(table[name].cast(pa.int64()), endless)
        table = table.set_column(table.schema.get_field_index(name), name, times)
    return table


def compared(runs: dict[str, QueryRun], queries: dict[str, Query], rows: list[Any]) -> None:
    rng = Random(1)
    for name, query in queries.items():
        table = lifetimes(runs[name])
        for instant in instants(rows, rng)[:4]:
            expected = oracle(query, rows, instant)
            assert shown(table, instant) == expected, (query.cql, instant)


class Killed(Exception):
    """Stands for the death of the driver."""


def compared_since(runs: dict[str, QueryRun], queries: dict[str, Query], rows: list[Any]) -> None:
    """Those that came later, since each says that it is whole."""
    stored = next(iter(runs.values())).runner.repository.current().properties["queries"]
    last = max(row["ts"] for row in rows)
    for name, query in queries.items():
        since = max(stored[name]["since"], stored[name]["whole_from"])
        for instant in range(since, last + 1, max(1, (last - since) // 3)):
            expected = oracle(query, rows, instant)
            assert shown(lifetimes(runs[name]), instant) == expected, (query.cql, instant, since)


def check(
    spark: SparkSession, folder: Path, seed: int, count: int, kills: pytest.MonkeyPatch,
    come: int = 0,
) -> dict[str, QueryRun]:  # fmt: skip
    """With queries that ``come``, and as many that go, after the death."""
    rng = Random(seed)
    queries, batches = queries_of(rng, count), random_batches(rng, 3, (40, 60))
    later = {f"late_{name}": query for name, query in queries_of(rng, come).items()}
    return check_queries(spark, folder, queries, batches, kills, later)


def check_queries(
    spark: SparkSession,
    folder: Path,
    queries: dict[str, Query],
    batches: list[list[dict[str, Any]]],
    kills: pytest.MonkeyPatch,
    later: Mapping[str, Query] = MappingProxyType({}),
) -> dict[str, QueryRun]:
    """A part of the input, a death before its second batch is committed, the rest of it: without
    the last queries, as many as come ``later``."""
    texts = {name: query.cql for name, query in queries.items()}
    recorded(folder, batches[:2])
    begun, reached = session_of(spark, folder).queries(**texts), list[str]()

    def reach(place: str) -> None:
        reached.append(place)
        if reached.count("batch.receipts") == 2:
            raise Killed

    with kills.context() as deadly:
        deadly.setattr(runner, "reach", reach)
        settings: Any = {"sync": False, "history": "forever", "buckets": 2}
        runs = begun.start(folder / "ck", available_now=True, **settings)
        with pytest.raises(Killed):
            runs["q0"].await_done(1200)
    recorded(folder, batches[2:], 2)
    stay = dict(list(queries.items())[: len(queries) - len(later)])
    texts = {name: query.cql for name, query in (stay | dict(later)).items()}
    runs = run_over(session_of(spark, folder).queries(**texts), folder / "ck", ends=True)
    compared(runs, stay, admitted(batches))
    compared_since(runs, dict(later), admitted(batches))
    return runs


def test_twenty_queries_answer_from_panes_that_spark_makes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = check(spark, tmp_path, 9, 20, monkeypatch)
    dataflow = runs["q0"].runner.dataflow
    (panes,) = dataflow.panes
    assert len(panes.feeds) < 20, "no two queries share panes"
    assert len(panes.sets) > 1


JOINED = {
    "short": Query(("g",), ("COUNT(*)",), "", 12, 3, 0),
    "long": Query(("g",), ("COUNT(*)",), "", 60, 5, 0),
    "whole": Query((), ("COUNT(*)",), "", 9, 4, 0),
    "wide": Query((), ("COUNT(*)",), "", 31, 4, 0),
    "rare": Query(("k", "g", "v"), ("COUNT(*)",), "", 400, 5, 0),
    "brief": Query(("k", "g", "v"), ("COUNT(*)",), "", 12, 5, 0),
}
"""In pairs with one log. Some of the rare groups stay as they are in a batch."""


def delivered(memory: Memory) -> pa.Table:
    """Results with their lifetimes, as one who applies what is delivered knows them."""
    lasting: dict[tuple[Any, ...], int] = {}
    for number in sorted(memory.batches):
        table = memory.batches[number]
        times = {name: table[name].cast(pa.int64()).to_pylist() for name in ("ts", "exp", "cut")}
        columns = [table[name].to_pylist() for name in table.schema.names[:-3]]
        changes = zip(*columns, *times.values(), strict=True)
        for *values, ts, exp, cut in sorted(changes, key=lambda change: change[-1] is not None):
            key = (*values, MIN_TIME if ts is None else ts)
            if cut is None:
                assert key not in lasting, "a result comes once"
                lasting[key] = NEVER if exp is None else exp
            else:
                assert lasting[key] == NEVER, "what is cut came, and lasted"
                assert exp is None
                lasting[key] = cut
    rows = [dict(zip(table.schema.names[:-2], key, strict=True)) for key in lasting]
    whole = pa.Table.from_pylist(rows).select(table.schema.names[:-2])
    return whole.append_column("exp", pa.array(lasting.values(), pa.int64()))


def test_changes_of_queries_that_share_a_log_are_delivered_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of a batch whose driver died behind the commit."""
    batches = random_batches(Random(9), 4, (40, 60))
    recorded(tmp_path, batches)
    sinks = {name: [Memory()] for name in JOINED}
    settings: Any = {"available_now": True, "sync": False, "history": "1 second", "buckets": 2}
    reached = list[str]()

    def reach(place: str) -> None:
        reached.append(place)
        if reached.count("batch.committed") == 2:
            raise Killed

    def started() -> dict[str, QueryRun]:
        queries = session_of(spark, tmp_path).queries(**{n: q.cql for n, q in JOINED.items()})
        return queries.start(tmp_path / "ck", sinks=sinks, **settings)

    with monkeypatch.context() as deadly:
        deadly.setattr(runner, "reach", reach)
        with pytest.raises(Killed):
            started()["short"].await_done(1200)
    runs = started()
    assert all(run.await_done(1200) for run in runs.values())
    stages = runs["short"].runner.dataflow.stages
    assert len({answer.log for answer in stages.answers}) == 3, "two queries have one log"
    assert not list(runs["short"].runner.repository.current().in_group("out"))
    rows = admitted(batches)
    for name, query in JOINED.items():
        table = delivered(sinks[name][0])
        for instant in instants(rows, Random(1))[:8]:
            assert shown(table, instant) == oracle(query, rows, instant), (name, instant)


A, B = "g = 'a'", "g = 'b'"
COVERED = {
    "q0": ((), ("AVG(k)", "COUNT(*)"), B),
    "either": ((), ("AVG(k)", "COUNT(*)"), f"{A} OR {B}"),
    "only_a": ((), ("COUNT(*)",), A),
    "largest_of_a": (("k",), ("MAX(v)",), A),
    "largest_of_b": (("k",), ("MAX(v)",), B),
    "largest": (("k",), ("MAX(v)",), f"{A} OR {B}"),
}
"""Keys, calls and WHERE: ``only_a`` is one difference, ``largest`` the larger of two."""


def test_panes_of_other_predicates_answer_after_a_death(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SS4, with subtraction: the covered queries have no panes, before and after."""
    queries = {name: Query(*asked, 40, 8, 0) for name, asked in COVERED.items()}
    batches = random_batches(Random(4), 3, (40, 60))
    runs = check_queries(spark, tmp_path, queries, batches, monkeypatch)
    stored = runs["q0"].runner.repository.current().properties["queries"]
    sides = {
        name: [len(side) for side in query.get("cover") or ()] for name, query in stored.items()
    }
    assert sides["only_a"] == [1, 1], sides
    assert sides["largest"] == [2, 0], sides
    (made,) = runs["q0"].runner.dataflow.panes
    assert len(made.feeds) == 4


@pytest.mark.slow
def test_240_queries_answer_from_panes_that_spark_makes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty of them go after the death, and forty others come."""
    check(spark, tmp_path, 6, 240, monkeypatch, come=40)


EIGHT_GROUPS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("k",), ("SUM(k)",)), (("k",), ("MAX(v)",)), (("g",), ("SUM(k)",)), (("g",), ("AVG(v)",)),
    (("k", "g"), ("SUM(k)",)), (("g",), ("COUNT(*)",)), (("k", "g"), ("MIN(v)",)),
    ((), ("SUM(k)",)),
)  # fmt: skip


@pytest.mark.slow
def test_240_queries_in_eight_groups_have_eight_logs(spark: SparkSession, tmp_path: Path) -> None:
    """As in the thesis (8.5.1): 30 windows each of eight questions."""
    rng = Random(8)
    queries = {}
    for number in range(240):
        keys, calls = EIGHT_GROUPS[number % 8]
        queries[f"q{number}"] = Query(keys, calls, "", rng.randint(20, 100), rng.randint(1, 10), 0)
    batches = random_batches(rng, 3, (40, 60))
    recorded(tmp_path, batches)
    asked = session_of(spark, tmp_path).queries(**{name: q.cql for name, q in queries.items()})
    runs = run_over(asked, tmp_path / "ck", ends=True, buckets=2)
    compared(runs, queries, admitted(batches))
    explained = asked.sharing()
    assert [len(some.readers) for some in explained.panes] == [60, 90, 60, 30]
    assert "together: 240 queries from 4 states of panes" in explained.text()
    stages = runs["q0"].runner.dataflow.stages
    assert len(stages.tasks) == 4 + 8
    assert len({answer.log for answer in stages.answers}) == 8
    manifest = runs["q0"].runner.repository.current()
    kept = sum(s.rows for s in manifest.segments.values() if s.group.endswith("/panes"))
    status = runs["q0"].status()
    assert kept < len(admitted(batches)) * 4
    assert 0 < status.state_bytes < 1_000_000
    assert len(manifest.segments) < 240, "files for each query"


def test_rows_that_are_marked_with_many_predicates_answer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Predicates that overlap, that are unknown for NULL, in words of four bits."""
    monkeypatch.setattr(pane_pass, "WORD", 4)
    wheres = [*PREDICATES[1:], "v = 1", "v < 3", "g <> 'a'", "k > 1", "g = 'c' OR k = 2", "v > 1"]
    calls = (("COUNT(*)", "SUM(k)"), ("COUNT(DISTINCT v)",), ("VAR(f)", "MAX(g)"))
    queries = {
        f"q{n}": Query(("g",), calls[n % 3], where, 20 + n, 3, 0)
        for n, where in enumerate(["", *wheres])
    }
    batches = random_batches(Random(12), 3, (40, 60))
    runs = check_queries(spark, tmp_path, queries, batches, monkeypatch)
    (panes,) = runs["q0"].runner.dataflow.panes
    assert panes.marks_rows
    assert {feed.mark[0] for feed in panes.feeds if feed.mark} >= {"_m0_0", "_m0_1", "_m1_0"}


def test_panes_of_many_groupings_are_made_of_rows_that_cross(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = {
        f"q{number}": Query(*asked, "", 20 + 7 * number, 3 + number % 4, 0)
        for number, asked in enumerate(EIGHT_GROUPS)
    }
    batches = random_batches(Random(11), 3, (40, 60))
    runs = check_queries(spark, tmp_path, queries, batches, monkeypatch)
    assert not runs["q0"].runner.dataflow.panes


def test_sums_of_panes_that_do_not_fit_are_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Those of panes leave 64 bits; what they cancel is exact."""
    large = 2**63 - 1
    listed = {1: large, 2: large, 3: large, 11: -large, 12: -large, 13: -large, 14: 8, 21: -large}
    listed |= {22: -(2**63), 40: 1}
    rows = [{"ts": ts, "k": 1, "g": "a", "v": v, "m": None} for ts, v in listed.items()]
    recorded(tmp_path, [rows])
    query = Query((), ("AVG(v)", "COUNT(v)"), "", 20, 10, 0)
    queries = session_of(spark, tmp_path).queries(q=query.cql)
    runs = run_over(queries, tmp_path / "ck", ends=True, buckets=2)
    assert runs["q"].runner.dataflow.panes
    table = lifetimes(runs["q"])
    assert [shown(table, refresh) for refresh in (10, 20, 30)] == [
        [(float(large), 3)],
        [(8 / 7, 7)],
        [((8 - 4 * large - 2**63) / 6, 6)],
    ]


def test_panes_of_one_stream_beside_rows_of_another_and_a_late_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = Random(7)
    batches = random_batches(rng, 4, (40, 60))
    queries = {
        "short": Query(("g",), ("COUNT(*)", "MAX(v)"), "", 12, 3, 0),
        "long": Query(("g",), ("COUNT(*)", "SUM(k)"), "", 60, 3, 0),
    }
    late = {"late": Query(("g",), ("SUM(k)", "COUNT(*)"), "", 30, 6, 0)}
    texts = {name: query.cql for name, query in queries.items()}
    texts["rows"] = "SELECT g, COUNT(*) AS n FROM t [RANGE 40 us] GROUP BY g"
    texts["beside"] = "SELECT g, COUNT(*) AS n FROM s [RANGE 40 us] WHERE k = 1 GROUP BY g"

    def started(asked: dict[str, str]) -> dict[str, QueryRun]:
        session = Session(spark)
        declare(session, tmp_path, {"s": SCHEMA, "t": SCHEMA}, slack=f"{SLACK} us")
        return run_over(session.queries(**asked), tmp_path / "ck", ends=len(asked) > 4, buckets=2)

    for first, some in ((0, batches[:2]), (2, batches[2:])):
        tables = [pa.Table.from_pylist(batch, schema=SCHEMA) for batch in some]
        record(tmp_path, [{"s": table, "t": table} for table in tables], first)
        asked = texts | {name: query.cql for name, query in late.items() if first}
        runs = started(asked)
    (panes,) = runs["short"].runner.dataflow.panes
    assert len(panes.feeds) == 1, "three queries have one state"
    assert len(panes.rest) == 1, "rows of the stream cross for one query only"
    rows = admitted(batches)
    compared(runs, queries, rows)
    table = lifetimes(runs["beside"])
    for instant in instants(rows, rng)[:6]:
        alive = [r["g"] for r in rows if r["ts"] <= instant < r["ts"] + 40 and r["k"] == 1]
        groups = [(g, alive.count(g)) for g in set(alive)]
        assert shown(table, instant) == sorted(groups, key=str)
    entry = runs["late"].runner.repository.current().properties["queries"]["late"]
    assert entry["whole_from"] <= entry["since"], "what it needs is kept"
    for instant in instants([row for row in rows if row["ts"] >= entry["since"]], rng):
        if instant >= entry["since"]:
            assert shown(lifetimes(runs["late"]), instant) == oracle(late["late"], rows, instant)
