"""Window joins on Spark against the oracle: disorder, lateness, keys of all types, chains, cuts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from mayfly.errors import BadInput, NotClosed
from mayfly.plan.expressions import And, Arithmetic, Compare, Expression, Literal, Or
from mayfly.plan.expressions import Column as Reference
from mayfly.plan.types import BIGINT
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.testing import (
    ColumnSpec,
    JoinCase,
    StreamSpec,
    Windowed,
    WindowJoinOracle,
    assert_same_rows,
    cut_at_random,
    cut_by_rows,
    generate,
    micros_of,
    shuffle_within_slack,
    together,
)
from tests.integration.recorded import (
    assert_nothing_orphaned,
    assert_right,
    declare,
    drained,
    pair_case,
    pair_query,
    record,
)
from tests.property.join_runs import started


def test_disorder_late_rows_null_keys_and_a_callback(spark: SparkSession, tmp_path: Path) -> None:
    case = pair_case(400, 100, slack=10_000, disorder=0.5, late=0.05, late_by="100 ms")
    record(tmp_path, case.batches)
    called: dict[int, pa.Table] = {}

    def keep(changes: DataFrame, batch: int) -> None:
        called[batch] = changes.toArrow()

    query = pair_query(Session(spark), tmp_path, case)
    run = drained(query, tmp_path / "ck", buckets=3, on_changes=keep, history="forever")
    assert_right(run, case.oracle())
    status = run.status()
    assert status.late == {name: rows.num_rows for name, rows in case.late.items()}
    assert min(status.late.values()) > 0
    assert status.null_keys == {name: t["k"].null_count for name, t in case.accepted.items()}
    assert status.rows == {"a": 400, "b": 400}
    assert list(called) == sorted(called)
    assert_same_rows(pa.concat_tables(called.values()), case.oracle().lifetimes(), "callback")
    assert_same_rows(run.changes_frame().toArrow(), run.changes(), "changes as a DataFrame")
    assert_same_rows(run.snapshot_frame(200_000).toArrow(), run.snapshot(200_000), "snapshot")
    clock = status.clock
    assert clock is not None
    with pytest.raises(NotClosed, match="not closed yet"):
        run.snapshot(clock)
    assert run.snapshot(clock - 1).num_rows == run.snapshot().num_rows


def column(name: str) -> Reference:
    relation, _, own = name.partition(".")
    return Reference(relation, own, BIGINT)


@pytest.mark.slow
def test_a_chain_of_three_with_residuals(spark: SparkSession, tmp_path: Path) -> None:
    """Keys of different widths, a residual in each join, fewer columns than there are."""
    width = {"a": "int32", "b": "int64", "c": "int16"}
    windows = {"a": 40_000, "b": 70_000, "c": 30_000}
    rows = {
        name: generate(
            StreamSpec(
                240,
                keys=(ColumnSpec("k", kind, distinct=25), ColumnSpec("s", "string", distinct=9)),
                payload=(ColumnSpec("v", distinct=10, edges=False),),
                ts_type="int64",
                seed=seed,
            )
        )
        for seed, (name, kind) in enumerate(width.items())
    }
    record(tmp_path, together({name: cut_by_rows(t, 60) for name, t in rows.items()}))
    streams = declare(Session(spark), tmp_path, {name: t.schema for name, t in rows.items()})
    a, b, c = (streams[name].window(f"{length} us") for name, length in windows.items())
    first: Expression = Compare("<", column("a.v"), column("b.v"))
    doubled = Arithmetic("*", column("c.v"), Literal(2, BIGINT), BIGINT)
    second: Expression = Or(
        (
            Compare(">", doubled, column("a.v")),
            And((Compare("=", column("b.v"), Literal(9, BIGINT)),)),
        )
    )
    select = {"k": "a.k", "s": "c.s", "av": "a.v", "bt": "b.ts", "cv": "c.v"}
    query = a.join(b, "k", where=first).join(c, [("b.s", "c.s")], where=second, select=select)
    run = drained(query, tmp_path / "ck", history="forever")
    oracle = WindowJoinOracle(
        {name: Windowed(t, f"{windows[name]} us") for name, t in rows.items()},
        [("a.k", "b.k"), ("b.s", "c.s")],
        residual="a.v < b.v AND (c.v * 2 > a.v OR b.v = 9)",
        select=select,
    )
    assert oracle.lifetimes().num_rows > 100
    assert_right(run, oracle)
    assert_nothing_orphaned(run)


KEYS: dict[str, tuple[list[str], list[str]]] = {
    "int": (["int32"], ["int32"]),
    "string": (["string"], ["string"]),
    "double": (["double"], ["double"]),
    "decimal": (["decimal"], ["decimal"]),
    "date": (["date"], ["date"]),
    "timestamp": (["timestamp"], ["timestamp"]),
    "timestamp_ntz": (["timestamp_ntz"], ["timestamp_ntz"]),
    "boolean": (["boolean"], ["boolean"]),
    "binary": (["binary"], ["binary"]),
    "int and bigint": (["int32"], ["int64"]),
    "int and decimal": (["int32"], ["decimal"]),
    "float and double": (["float"], ["double"]),
    "two columns": (["string", "int64"], ["string", "int16"]),
}


def keyed(kinds: list[str], seed: int) -> pa.Table:
    keys = tuple(ColumnSpec(f"k{at}", kind, distinct=8, nulls=0.1) for at, kind in enumerate(kinds))
    return generate(StreamSpec(60, keys=keys, payload=(), ts_type="int64", seed=seed))


@pytest.mark.slow
def test_keys_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    """NULL, NaN in two bit patterns, both zeros, extremes; all queries run side by side.

    Times are kept in a session far from UTC, which must not matter.
    """
    far = spark.newSession()
    far.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    windows = {"a": 30_000, "b": 20_000}
    runs: dict[str, tuple[QueryRun, WindowJoinOracle]] = {}
    for name, kinds in KEYS.items():
        rows = {"a": keyed(kinds[0], 1), "b": keyed(kinds[1], 2)}
        folder = tmp_path / name.replace(" ", "_")
        record(folder, [rows])
        session = Session(far if name.startswith("timestamp") else spark)
        streams = declare(session, folder, {n: t.schema for n, t in rows.items()})
        a, b = (streams[n].window(f"{length} us") for n, length in windows.items())
        keys = [f"k{at}" for at in range(len(kinds[0]))]
        run = a.join(b, keys).start(folder / "ck", available_now=True)
        oracle = WindowJoinOracle(
            {n: Windowed(t, f"{windows[n]} us") for n, t in rows.items()}, keys
        )
        runs[name] = run, oracle
    for name, (run, oracle) in runs.items():
        run.await_done()
        expected = oracle.lifetimes()
        assert expected.num_rows > 10, name
        assert_same_rows(run.changes(), expected, f"keys of type {name}")
        assert min(run.status().null_keys.values()) > 0, name


def test_rows_without_a_time_stop_the_query_or_are_set_aside(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = pair_case(120, 60)
    timeless = case.batches[1]["b"].slice(0, 3)
    timeless = timeless.set_column(0, "ts", pa.nulls(3, pa.int64()))
    rows = {**case.batches[1], "b": pa.concat_tables([case.batches[1]["b"], timeless])}
    record(tmp_path, [case.batches[0], rows])
    run = pair_query(Session(spark), tmp_path, case).start(tmp_path / "ck", available_now=True)
    with pytest.raises(BadInput, match="3 rows of stream b without ts"):
        run.await_done()
    assert run.status().batch == 0, "nothing of the second batch was applied"

    dead = tmp_path / "dead"
    query = pair_query(
        Session(spark), tmp_path, case, declared={"null_time": "dead_letter", "dead_letter": dead}
    )
    run = drained(query, tmp_path / "ck")
    assert_right(run, case.oracle())
    assert run.status().timeless == {"a": 0, "b": 3}
    assert_same_rows(
        pq.read_table(dead), timeless.append_column("reason", pa.array(["no time"] * 3))
    )


def test_a_dead_letter_tells_the_time_of_a_late_row(spark: SparkSession, tmp_path: Path) -> None:
    """Also where the result does not show it."""
    case = pair_case(120, 40, slack=5_000, late=0.2, late_by="100 ms")
    record(tmp_path, case.batches)
    schemas = {name: t.schema for name, t in case.batches[0].items()}
    dead = tmp_path / "dead"
    streams = declare(Session(spark), tmp_path, schemas, slack=f"{case.slack} us", dead_letter=dead)
    a, b = (streams[name].window(f"{length} us") for name, length in case.windows.items())
    drained(a.join(b, "k", select=["a.v"]), tmp_path / "ck")
    for name, late in case.late.items():
        files = sorted(dead.glob(f"{name}-*.parquet"))
        found = pa.concat_tables(map(pq.read_table, files))
        assert late.num_rows > 0
        assert_same_rows(found.select(["ts", "k"]), late.select(["ts", "k"]))


@pytest.fixture(scope="module")
def cuts() -> list[tuple[JoinCase, dict[str, Any]]]:
    """The same rows, in other arrival orders within slack, other batches and other buckets."""
    base = pair_case(300, 300, seed=5)
    slack = 4_000
    found = []
    for seed, buckets in enumerate((1, 2, 5)):
        shuffled = {
            n: shuffle_within_slack(t, f"{slack} us", seed) for n, t in base.batches[0].items()
        }
        cut = {n: cut_at_random(t, 2 + seed, seed=seed) for n, t in shuffled.items()}
        case = JoinCase(together(cut), base.windows, base.keys, slack)
        found.append((case, {"buckets": buckets}))
    return found


@pytest.mark.slow
def test_neither_cuts_nor_buckets_nor_the_runner_change_the_log(
    spark: SparkSession, tmp_path: Path, cuts: list[tuple[JoinCase, dict[str, Any]]]
) -> None:
    runs = []
    for number, (case, settings) in enumerate(cuts):
        folder = tmp_path / str(number)
        record(folder, case.batches)
        query = pair_query(Session(spark), folder, case)
        run = query.start(folder / "ck", available_now=True, history="forever", **settings)
        runs.append((case, query, run))
    expected = cuts[0][0].oracle().lifetimes()
    assert expected.num_rows > 300
    for case, query, run in runs:
        run.await_done()
        assert_same_rows(run.changes(), expected, "on Spark")
        in_process = started(query.joined, 3)
        for batch in case.batches:
            in_process.feed(batch)
        in_process.finish()
        assert_same_rows(in_process.lifetimes(), expected, "in process")
        assert in_process.clocks.query == run.status().clock
        assert in_process.clocks.query == 1 + max(
            int(micros_of(t).max()) for t in case.accepted.values()
        )


def test_skew_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    even = pair_case(400, 400, keys=(ColumnSpec("k", "int64", distinct=400),))
    hot = pair_case(400, 400, keys=(ColumnSpec("k", "int64", distinct=1),))
    skews = {}
    runs = {}
    for name, case in (("even", even), ("hot", hot)):
        folder = tmp_path / name
        record(folder, case.batches)
        query = pair_query(Session(spark), folder, case)
        runs[name] = query.start(folder / "ck", available_now=True, buckets=4)
    for name, run in runs.items():
        assert run.query is not None
        run.query.awaitTermination()
        skews[name] = run.status().skew
    assert skews["hot"] == 4.0
    assert 1.0 <= skews["even"] < 1.5
