"""Keys that PUNCTUATION closes: the answers are those of DuckDB over the rows that were in time.

Which rows are late is worked out in SQL too. Neither the cut of the input into batches nor the
number of buckets may matter, and what is forgotten of closed keys must not be missed.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from mayfly import LocalSession

SLACK, END = 4, 60
TIME = f"TIMESTAMP BY ts MICROSECONDS SLACK {SLACK} MICROSECONDS"
DECLARATIONS = f"""
CREATE STREAM o (ts BIGINT, k STRING, v BIGINT) {TIME} PUNCTUATION (k) WHEN (v = 0);
CREATE STREAM p (ts BIGINT, k STRING, w BIGINT) {TIME} PUNCTUATION (k) WHEN (w = 0);
CREATE STREAM q (ts BIGINT, k STRING, w BIGINT) {TIME}"""
QUERIES = (
    "SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM o GROUP BY k",
    "SELECT v, k, COUNT(*) AS n FROM o WHERE v > 2 GROUP BY v, k",
    "SELECT x.j, MIN(x.v) AS m FROM (SELECT k AS j, v FROM o) AS x GROUP BY x.j",
    "SELECT k, COUNT(*) AS n FROM o GROUP BY k HAVING COUNT(*) > 2",
    "SELECT o.k, v, w FROM o, p WHERE o.k = p.k",
    "SELECT o.k, v, w FROM o, p WHERE o.k = p.k AND v = w",
    "SELECT o.k, SUM(v) AS s FROM o, p WHERE o.k = p.k GROUP BY o.k",
    "SELECT p.k, w, COUNT(*) AS n FROM o, p WHERE o.k = p.k GROUP BY p.k, w",
    "SELECT v, w FROM o, p WHERE v = w",
    "SELECT o.k, v, w FROM o, q WHERE o.k = q.k",
    "SELECT o.k, SUM(w) AS s FROM o, q WHERE o.k = q.k GROUP BY o.k",
    "SELECT o.k, v, w FROM o LEFT JOIN p ON o.k = p.k",
    "SELECT o.k, v, w FROM o, p [RANGE 9 MICROSECONDS] WHERE o.k = p.k",
    "SELECT k, SUM(v) AS s FROM o [RANGE 9 MICROSECONDS] GROUP BY k",
    "SELECT DISTINCT k FROM o",
    "SELECT DISTINCT v, k FROM o",
    "SELECT DISTINCT v FROM o",
    "SELECT k, v FROM o WHERE NOT EXISTS (SELECT * FROM p WHERE p.k = o.k)",
    "SELECT k, v FROM o WHERE NOT EXISTS (SELECT * FROM p WHERE p.k = o.k AND w = v)",
    "SELECT k, v FROM o WHERE NOT EXISTS (SELECT * FROM q WHERE q.k = o.k)",
    "SELECT q.k, q.w FROM q WHERE NOT EXISTS (SELECT * FROM p WHERE p.k = q.k)",
    "SELECT k, v FROM o EXCEPT SELECT k, w FROM p",
    "SELECT k FROM o EXCEPT ALL SELECT k FROM p",
    "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS s,"
    " MAX(v) OVER (PARTITION BY k ORDER BY ts) AS m FROM o",
    "SELECT o.k, o.v, w, x.v AS u FROM o, p, o x WHERE o.k = p.k AND p.k = x.k AND o.v + x.v = w",
    "SELECT o.k, v, p.w, q.w AS u FROM o, p, q WHERE o.k = p.k AND p.k = q.k AND v > 3",
    "SELECT v, COUNT(*) AS n, MAX(v) AS m FROM o [RANGE 8 us SLIDE 4 us] GROUP BY v",
    "SELECT k, SUM(v) AS s FROM o [RANGE 8 us SLIDE 4 us] WHERE v > 1 GROUP BY k",
    "SELECT a.k, a.v, b.v AS u FROM o a, o b WHERE a.k = b.k AND a.v < b.v",
)
ROWS_QUERY = "SELECT o.k, v, w FROM o, p [ROWS 3] WHERE o.k = p.k"


def stream_rows(rng: Random, value: str, length: int = 70) -> list[dict[str, Any]]:
    """Rows in the order in which they come: out of order by the slack at most."""
    rows = [
        {"ts": rng.randrange(END), "k": rng.choice(["a", "b", "c", "d", "e", None]), value: number}
        for number in (rng.choice([0, *range(1, 6), 2, 3, 4]) for _ in range(length))
    ]
    return sorted(rows, key=lambda row: row["ts"] + rng.uniform(0, SLACK))


def rows_in_time(name: str, table: pa.Table) -> str:
    """The rows that come no later than the first that closes their key."""
    if name == "q":
        return "SELECT * FROM all_q"
    key, value = "c.k IS NOT DISTINCT FROM x.k", table.schema.names[2]
    closing = f"SELECT min(ts) FROM all_{name} c WHERE {value} = 0 AND {key}"
    return f"SELECT * FROM all_{name} x WHERE ts <= coalesce(({closing}), {END})"


def expected(tables: dict[str, pa.Table], query: str, instant: int) -> list[tuple[Any, ...]]:
    """The answer at an instant, by an independent engine."""
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(f"all_{name}", table)
        text = f"SELECT * FROM ({rows_in_time(name, table)}) WHERE ts <= {instant}"
        connection.execute(f"CREATE TABLE {name} AS {text}")
    recent = rf"(SELECT * FROM \1 WHERE ts > {instant} - 9) AS \1"
    text = re.sub(r"(\w) \[RANGE 9 MICROSECONDS\]", recent, query)
    slid = instant // 4 * 4
    refreshed = rf"(SELECT * FROM \1 WHERE ts > {slid} - 8 AND ts <= {slid}) AS \1"
    text = re.sub(r"(\w) \[RANGE 8 us SLIDE 4 us\]", refreshed, text)
    last = "(SELECT * FROM p ORDER BY ts DESC LIMIT 3) AS p"
    return rows_of(connection.execute(text.replace("p [ROWS 3]", last)).fetchall())


def rows_of(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def streams_of(query: str) -> list[str]:
    return [name for name in ("o", "p", "q") if re.search(rf"(FROM|,|JOIN) {name}\b", query)]


@pytest.mark.halved
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_over_the_rows_in_time(query: str, seed: int) -> None:
    check(query, Random(f"{query} {seed}"))


@pytest.mark.parametrize("seed", range(3))
def test_a_window_that_counts_meets_a_stream_with_closed_keys(seed: int) -> None:
    """Rows at one instant are left out: the oracle does not know their order."""
    check(ROWS_QUERY, Random(seed), distinct_times=True)


def check(query: str, rng: Random, distinct_times: bool = False) -> None:
    session = LocalSession()
    session.execute(DECLARATIONS)
    rows = {n: stream_rows(rng, "v" if n == "o" else "w") for n in streams_of(query)}
    if distinct_times:
        rows = {
            name: list({row["ts"]: row for row in mine}.values()) for name, mine in rows.items()
        }
        rows = {n: sorted(mine, key=lambda row: row["ts"]) for n, mine in rows.items()}
    tables = {name: pa.Table.from_pylist(mine, schema_of(name)) for name, mine in rows.items()}
    run = session.query(query, buckets=rng.choice([1, 2, 3]))
    cuts = {
        name: sorted(rng.sample(range(table.num_rows), rng.choice([0, 3, 15])))
        for name, table in tables.items()
    }
    for number in range(16):
        batch = {}
        for name, table in tables.items():
            ends = [0, *cuts[name], *[table.num_rows] * 16]
            batch[name] = table.slice(ends[number], ends[number + 1] - ends[number])
        run.feed(batch)
    run.feed(heartbeats=dict.fromkeys(tables, END + 1))
    for instant in (9, 27, 44, END):
        answer = run.snapshot(instant)
        found = rows_of(list(zip(*(c.to_pylist() for c in answer.columns), strict=True)))
        assert found == expected(tables, query, instant), instant
    for name, table in tables.items():
        assert run.late[name] == len(late_rows(name, table))


def late_rows(name: str, table: pa.Table) -> list[tuple[Any, ...]]:
    """Those that are not in time, by an independent engine."""
    connection = duckdb.connect()
    connection.register(f"all_{name}", table)
    left = f"SELECT * FROM all_{name} EXCEPT ALL ({rows_in_time(name, table)})"
    return rows_of(connection.execute(left).fetchall())


def schema_of(name: str) -> pa.Schema:
    value = "v" if name == "o" else "w"
    return pa.schema([("ts", pa.int64()), ("k", pa.string()), (value, pa.int64())])
