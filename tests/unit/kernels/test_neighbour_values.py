"""OVER and ASOF JOIN over streams, against DuckDB: many rows in many batches."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from mayfly import LocalSession
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.runtime.in_process import ContinuousRun

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("k", pa.int64()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("n", pa.int64()),
    ]
)
TIES = "n"
CALLS = [
    ("SUM(v)", "RANGE BETWEEN 7 PRECEDING AND CURRENT ROW"),
    ("COUNT(*)", "RANGE BETWEEN 7 PRECEDING AND CURRENT ROW"),
    ("AVG(x)", "RANGE BETWEEN 5 PRECEDING AND 1 PRECEDING"),
    ("MAX(x)", "RANGE BETWEEN 9 PRECEDING AND 2 PRECEDING"),
    ("SUM(x)", "ROWS BETWEEN 4 PRECEDING AND CURRENT ROW"),
    ("MIN(v)", "ROWS BETWEEN 6 PRECEDING AND 2 PRECEDING"),
    ("COUNT(v)", "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING"),
    ("FIRST_VALUE(v)", "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"),
    ("LAST_VALUE(v)", "ROWS BETWEEN 5 PRECEDING AND 2 PRECEDING"),
    ("LAG(v, 3, -5)", ""),
    ("LAG(v)", ""),
    ("ROW_NUMBER()", ""),
    ("RANK()", ""),
    ("DENSE_RANK()", ""),
    ("SUM(v)", ""),
    ("AVG(v)", ""),
    ("SUM(x)", ""),
    ("STDDEV(x)", ""),
    ("MIN(x)", ""),
    ("COUNT(x)", ""),
    ("COUNT(*)", ""),
    ("MEDIAN(v)", "RANGE BETWEEN 6 PRECEDING AND CURRENT ROW"),
    ("FIRST_VALUE(v)", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
]


FOLLOWING = [
    ("SUM(v)", "RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING"),
    ("COUNT(*)", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"),
    ("MAX(x)", "ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING"),
    ("LAG(v, 2)", ""),
    ("LEAD(v, 2, 8)", ""),
]


def recorded(seed: int, count: int = 150) -> list[dict[str, Any]]:
    """Rows with ties, bursts and NULLs; ``n`` tells rows of one instant apart."""
    rng, instant, rows = Random(seed), 0, []
    for number in range(count):
        instant += rng.choice((0, 0, 0, 1, 1, 2, 9))
        rows.append(
            {
                "ts": instant,
                "k": rng.choice((0, 1, 2, None)),
                "v": rng.choice((None, -3, 0, 4, 10)),
                "x": rng.choice((None, 0.1, 0.7, 2.5)),
                "n": number,
            }
        )
    return rows


def fed(query: str, streams: dict[str, list[dict[str, Any]]], seed: int) -> ContinuousRun:
    """The query over rows in disorder within their slack, in random batches."""
    rng, session = Random(seed), LocalSession()
    for name in streams:
        columns = {"ts": "BIGINT", "k": "BIGINT", "v": "BIGINT", "x": "DOUBLE", "n": "BIGINT"}
        session.stream(name, columns, sequence=["n"], slack="4 us")
    run = session.query(query)
    arrivals = sorted(
        (
            (row["ts"] + rng.randint(0, 4), name, row)
            for name, rows in streams.items()
            for row in rows
        ),
        key=lambda arrival: arrival[0],
    )
    while arrivals:
        size = rng.choice((1, 3, 10, 40))
        batch, arrivals = arrivals[:size], arrivals[size:]
        run.feed(
            {
                name: pa.Table.from_pylist(
                    [row for _, owner, row in batch if owner == name], schema=SCHEMA
                )
                for name in streams
            }
        )
    run.finish()
    assert not any(run.late.values())
    return run


def comparable(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return round(value, 9)
    return int(value) if type(value).__name__ == "Decimal" else value


def multiset(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(comparable, row)) for row in rows)


def assert_same(
    run: ContinuousRun,
    sql: str,
    streams: dict[str, list[dict[str, Any]]],
    instant: int | None = None,
) -> None:
    database = duckdb.connect(config={"threads": 1})
    for name, rows in streams.items():
        database.register(name, pa.Table.from_pylist(rows, schema=SCHEMA))
    answer = run.snapshot(instant)
    own = list(zip(*answer.to_pydict().values(), strict=True))
    assert multiset(own) == multiset(database.execute(sql).fetchall())


@pytest.mark.parametrize("seed", range(4))
def test_frames_over_a_stream(seed: int) -> None:
    """Every call for every row, in one query: append-only, however batches are cut."""
    cql, sql = ["n"], ["n"]
    for number, (call, frame) in enumerate(CALLS):
        cql.append(f"{call} OVER (PARTITION BY k ORDER BY ts {frame}) AS c{number}")
        by_place = "ROWS" in frame or call.startswith(("LAG", "ROW_NUMBER"))
        order = f"ts, {TIES}" if by_place else "ts"
        sql.append(f"{call} OVER (PARTITION BY k ORDER BY {order} {frame}) AS c{number}")
    streams = {"s": recorded(seed)}
    run = fed(f"SELECT {', '.join(cql)} FROM s", streams, seed)
    assert all(node.appends for node in run.program.plan.walk() if isinstance(node, Over))
    assert_same(run, f"SELECT {', '.join(sql)} FROM s", streams)
    values = run.lifetimes()
    assert set(values["exp"].to_pylist()) == {2**63 - 1}, "a result never changes"


@pytest.mark.parametrize("call", [*CALLS[:6], *CALLS[12:15], *FOLLOWING], ids=" ".join)
def test_frames_over_a_window(call: tuple[str, str]) -> None:
    """Every row alive at some instants, as DuckDB computes it over the rows alive."""
    (function, frame), rows = call, recorded(7)
    by_place = "ROWS" in frame or function.startswith(("LAG", "LEAD", "ROW_NUMBER"))
    over = f"{function} OVER (PARTITION BY v > 0 ORDER BY ts {{}} {frame}) AS c"
    query = f"SELECT n, {over.format('')} FROM s [RANGE 12 us]"
    run = fed(query, {"s": rows}, 7)
    for instant in range(10, rows[-1]["ts"], 23):
        alive = [row for row in rows if row["ts"] <= instant < row["ts"] + 12]
        sql = f"SELECT n, {over.format(f', {TIES}' if by_place else '')} FROM s"
        assert_same(run, sql, {"s": alive}, instant)


@pytest.mark.parametrize("word", ["", "LEFT "])
@pytest.mark.parametrize("op", ["<=", "<", ">=", ">"])
@pytest.mark.parametrize("seed", range(2))
def test_closest_rows_over_streams(word: str, op: str, seed: int) -> None:
    streams = {"s": recorded(seed), "t": recorded(seed + 100, 90)}
    join = f"{word}ASOF JOIN t MATCH_CONDITION (t.ts {op} s.ts) ON s.k = t.k"
    run = fed(f"SELECT s.n, t.n AS o, t.x FROM s {join}", streams, seed)
    appends = [node.appends for node in run.program.plan.walk() if isinstance(node, AsofJoin)]
    assert appends == [op in ("<=", "<")]
    way = "DESC" if op in ("<=", "<") else "ASC"
    closest = (
        f"SELECT * FROM t WHERE t.k = s.k AND t.ts {op} s.ts ORDER BY t.ts {way}, t.n {way} LIMIT 1"
    )
    sql = f"SELECT s.n, t.n AS o, t.x FROM s {word}JOIN LATERAL ({closest}) t ON TRUE"
    assert_same(run, sql, streams)
