"""Names of users never meet ours: whatever columns are called, answers are the same.

The oracle is the same query over columns with plain names: changes, snapshots and lifetimes must
agree column by column, and the user's columns keep their names.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mayfly
from mayfly.runtime.in_process import ContinuousRun

OURS = (
    "ts", "exp", "cut", "_ts", "_exp", "_cut", "ts_", "exp_", "TS", "Exp", "_id", "_end", "_code",
    "_seen", "_seen_end", "_owner", "_count", "_shown", "_next", "_open", "_since", "_stream",
    "_argument0", "bucket", "_bucket", "code", "sign", "kind", "stream", "order", "group", "select",
    "a b", "größe", "名前", "x'y", "a`b", "s0", "_reason", "id",
)  # fmt: skip
PLAIN = ("p", "q")
QUERIES = (
    "SELECT * FROM s [RANGE 3 us]",
    "SELECT {a}, {b} FROM s [RANGE 3 us] WHERE {a} > 0",
    "SELECT {a}, COUNT(*) AS {b} FROM s [RANGE 3 us] GROUP BY {a}",
    "SELECT MAX({a}) AS {a} FROM s [RANGE 3 us]",
    "SELECT DISTINCT {a} FROM s [RANGE 3 us]",
    "SELECT s.{a}, u.{b} FROM s [RANGE 3 us], u [RANGE 3 us] WHERE s.{a} = u.{a}",
    "SELECT s.{a}, s.{b} FROM s [RANGE 3 us]"
    " WHERE NOT EXISTS (SELECT * FROM u [RANGE 2 us] WHERE u.{a} = s.{b})",
    "SELECT {a} FROM (SELECT {a} FROM s [RANGE 3 us] UNION ALL SELECT {b} FROM u [ROWS 2]) x",
    "SELECT Istream({a}, {b}) FROM s [RANGE 3 us]",
    "SELECT Rstream({a}, COUNT(*) AS {b}) FROM s [RANGE 3 us SLIDE 2 us] GROUP BY {a}",
    "SELECT s.{b}, r.{b} AS {a} FROM s [RANGE 3 us], r WHERE s.{a} = r.{a}",
    "SELECT {a} FROM s [PARTITION BY {b} ROWS 1]",
)
names = st.lists(
    st.sampled_from(OURS), min_size=2, max_size=2, unique_by=lambda name: name.casefold()
)
rows = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(0, 2)), max_size=12)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def run_of(query: str, a: str, b: str, times: list[tuple[int, int, int]]) -> ContinuousRun:
    """A query over two streams and a relation whose columns have these names, fed in two parts."""
    session = mayfly.LocalSession()
    for stream in "su":
        session.stream(stream, {"t": "BIGINT", a: "BIGINT", b: "BIGINT"}, time="t")
    session.relation("r", pa.table({a: [0, 1], b: [7, 8]}), key=[a])
    run = session.query(query.format(a=quoted(a), b=quoted(b)))
    listed = sorted(times)
    for part in (listed[: len(listed) // 2], listed[len(listed) // 2 :]):
        batch = [{"t": t, a: x, b: y} for t, x, y in part]
        schema = pa.schema([("t", pa.int64()), (a, pa.int64()), (b, pa.int64())])
        table = pa.Table.from_pylist(batch, schema=schema)
        run.feed(dict.fromkeys(run.clocks.streams, table))
        session.execute(f"UPDATE r SET {quoted(b)} = {quoted(b)} + 1 WHERE {quoted(a)} = 1")
    run.finish()
    return run


def values(table: pa.Table) -> list[Any]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=str)


def check(hostile: ContinuousRun, plain: ContinuousRun, known: dict[str, str]) -> None:
    columns = [known.get(one.name, one.name) for one in plain.program.plan.schema]
    views: list[tuple[str, tuple[int, ...]]] = [("changes", ())]
    if plain.program.sent is None:
        views += [("lifetimes", ()), ("snapshot", (4,))]
    for view, arguments in views:
        if view == "snapshot" and plain.clocks.query <= 4:
            continue
        found = getattr(hostile, view)(*arguments)
        expected = getattr(plain, view)(*arguments)
        assert found.schema.names[: len(columns)] == columns, view
        spelled = [name.casefold() for name in found.schema.names]
        assert len(set(spelled)) == len(spelled), f"{view} has {found.schema.names}"
        assert values(found) == values(expected), view


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=max(1, settings().max_examples // 10))
@given(names=names, times=rows)
@example(names=["ts", "exp"], times=[(1, 1, 2), (2, 2, 1), (5, 1, 1)])
@example(names=["_ts", "_id"], times=[(1, 1, 2), (2, 2, 1), (5, 1, 1)])
@example(names=["cut", "ts_"], times=[(1, 1, 2), (2, 2, 1), (5, 1, 1)])
def test_answers_do_not_depend_on_what_columns_are_called(
    query: str, names: list[str], times: list[tuple[int, int, int]]
) -> None:
    a, b = names
    hostile, plain = run_of(query, a, b, times), run_of(query, *PLAIN, times)
    check(hostile, plain, dict(zip(PLAIN, names, strict=True)))


def test_times_keep_their_names_where_these_are_free() -> None:
    run = run_of("SELECT {a} FROM s [RANGE 3 us]", "n", "TS", [(1, 1, 1)])
    assert run.changes().schema.names == ["n", "ts", "exp", "cut"]
    run = run_of("SELECT * FROM s [RANGE 3 us]", "ts_", "TS", [(1, 1, 1)])
    assert run.changes().schema.names == ["t", "ts_", "TS", "ts__", "exp", "cut"]
    assert run.times.ts == "ts__"
