"""Random queries: what the binder understands is what an independent engine answers."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.cql import CqlError, bind_query, catalog_after, parse
from mayfly.cql.restrictions import kind_of
from mayfly.optimizer.labels import label_plan
from mayfly.patterns import Kind
from mayfly.plan.logical_operators import Node, Output, StreamScan, SubqueryWindow
from mayfly.plan.window_kinds import Window
from mayfly.testing.query_mutations import broken, damaged, respelled
from mayfly.testing.random_queries import (
    DECLARATIONS,
    SHAPES,
    STREAMS,
    GeneratedQuery,
    random_query,
)
from tests.property.cql_plan_sql import plan_sql

CATALOG = catalog_after(parse(DECLARATIONS))
seeds = st.integers(0, 2**32)

STATEMENTS = [
    "CREATE STREAM z (ts TIMESTAMP, a STRUCT<b: INT, c: ARRAY<DECIMAL(10, 2)>>) FROM csv('in', p =>"
    " '*') TIMESTAMP BY ts SEQUENCE ts SLACK 2 SECONDS IDLE WALL CLOCK MINUS 5s DEAD LETTERS TO"
    " json('late')",
    "CREATE ARCHIVE z KEY (k, g) REFRESH 1 MIN LAYOUT REINDEX++(4) USING PACKED SHADOW SOFT(2)"
    " PHYSICAL WITHIN 1 DAY MAX LIFETIME 1 DAY AS SELECT k, g FROM s1 [RANGE 10 MIN]",
    "CREATE QUERY z TO parquet('out') AS SELECT Rstream-restore(k) FROM s1 [RANGE 10 MIN"
    " SLIDE 1 MIN ORIGIN '2026-01-01']",
    "CREATE QUERY z SERVE PRIORITY 2 OVERLOAD SKIP ISOLATION LATEST BOUNDED STALENESS 5 S"
    " SCAN WINDOW AS SELECT k, COUNT(*) AS n FROM s1 [RANGE 10 MIN SLIDE 1 MIN] GROUP BY k",
    "INSERT INTO r (b, a) VALUES ('x', 1), (NULL, -2) AT '2026-01-01'; SHOW RELATIONS",
    "UPDATE r SET b = upper(b), c = c + 1 WHERE a BETWEEN 1 AND 2 AT '2026-02-01'",
    "DELETE FROM n WHERE a IN (1, 2); DROP NRR IF EXISTS n; EXPLAIN COMPARE SELECT k FROM s1 [NOW]",
]
KNOWN = catalog_after(
    parse(
        "CREATE RELATION r (a INT, b STRING, c DECIMAL(5, 2)) KEY a; CREATE NRR n (a INT) KEY a",
        CATALOG,
    ),
    CATALOG,
)


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})


def fill_tables(query: GeneratedQuery, rng: Random) -> None:
    """Few rows over few values, with NULLs and duplicates, in every table of the query."""
    script = []
    for table in query.tables:
        columns = {"ts": "number", "seq": "number", **STREAMS[table.stream]}
        declared = ", ".join(f"{name} {_TYPES[kind]}" for name, kind in columns.items())
        script.append(f"CREATE OR REPLACE TEMP TABLE {table.name} ({declared})")
        rows = [
            f"({', '.join(rng.choice(_VALUES[kind]) for kind in columns.values())})"
            for _ in range(rng.randint(0, 6))
        ]
        if rows:
            script.append(f"INSERT INTO {table.name} VALUES {', '.join(rows)}")
    database().execute(";".join(script))


_TYPES = {"number": "BIGINT", "text": "VARCHAR", "real": "DOUBLE"}
_VALUES = {
    "number": ("0", "1", "2", "3", "NULL"),
    "text": ("'a'", "'b'", "'ab'", "''", "NULL"),
    "real": ("0.5", "1", "2", "NULL"),
}


def answer(sql: str) -> Counter[tuple[Any, ...]]:
    rows = database().execute(sql).fetchall()
    return Counter(tuple(_rounded(value) for value in row) for row in rows)


def _rounded(value: Any) -> Any:
    """Sums of doubles depend on their order in the last digits."""
    return round(value, 9) if isinstance(value, float) and math.isfinite(value) else value


def windows_of(plan: Node) -> dict[str, Window]:
    """The outermost windows by alias, as the generator counts them."""
    found: dict[str, Window] = {}
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if isinstance(node, SubqueryWindow):
            found[node.child.schema[0].relation] = node.window
        elif isinstance(node, StreamScan):
            found[node.alias] = node.window
        else:
            waiting.extend(node.children())
    return found


@pytest.mark.parametrize("shape", SHAPES)
@given(seed=seeds)
def test_the_plan_means_what_the_query_says(shape: str, seed: int) -> None:
    rng = Random(seed)
    query = random_query(rng, shape)
    plan = bind_query(query.cql, CATALOG)
    assert windows_of(plan) == {table.name: table.window for table in query.tables}
    fill_tables(query, rng)
    assert answer(plan_sql(plan)) == answer(query.sql)


@given(seed=seeds)
def test_spelling_does_not_matter(seed: int) -> None:
    rng = Random(seed)
    query = random_query(rng)
    assert bind_query(respelled(query.cql, rng), CATALOG) == bind_query(query.cql, CATALOG)


@given(seed=seeds)
def test_every_node_knows_its_place(seed: int) -> None:
    query = random_query(Random(seed))
    text = query.cql.replace(" FROM ", "\nFROM ")
    lines = text.split("\n")
    for node in bind_query(text, CATALOG).walk():
        assert node.position is not None
        rest = lines[node.position.line - 1][node.position.column - 1 :]
        assert rest
        if isinstance(node, StreamScan):
            assert rest.startswith(node.stream)


@given(seed=seeds)
def test_a_mistake_is_found_where_it_was_made(seed: int) -> None:
    rng = Random(seed)
    wrong = broken(random_query(rng).cql, rng)
    if wrong is None:
        return
    with pytest.raises(CqlError) as caught:
        bind_query(wrong.text, CATALOG)
    assert caught.value.position is not None
    assert caught.value.position.line == 1
    assert caught.value.position.column == wrong.place + 1, (wrong, str(caught.value))
    assert caught.value.hint


def plan_or_error(text: str) -> Output | CqlError:
    try:
        return bind_query(text, CATALOG)
    except CqlError as error:
        return error


@given(seed=seeds)
def test_damaged_queries_give_a_plan_or_an_error(seed: int) -> None:
    rng = Random(seed)
    text = random_query(rng).cql
    for _ in range(5):
        text = damaged(text, rng)
        outcome = plan_or_error(text)
        if isinstance(outcome, CqlError):
            assert outcome.position is not None
            assert outcome.hint, (text, str(outcome))
            assert "sqlglot" not in str(outcome)


@given(seed=seeds)
def test_damaged_statements_are_read_or_refused(seed: int) -> None:
    rng = Random(seed)
    text = damaged(rng.choice(STATEMENTS), rng)
    try:
        parse(text, KNOWN)
    except CqlError as error:
        outcome = error
    else:
        return
    assert outcome.position is not None
    assert outcome.hint, (text, str(outcome))


@given(text=st.text())
def test_any_text_gives_statements_or_an_error(text: str) -> None:
    for wrapped in (text, f"SELECT {text} FROM s1", f"CREATE STREAM {text}", f"INSERT INTO {text}"):
        with suppress(CqlError):
            parse(wrapped, CATALOG)


@given(seed=seeds)
def test_the_binder_and_the_labels_agree_on_update_patterns(seed: int) -> None:
    plan = bind_query(random_query(Random(seed)).cql, CATALOG)
    for labelled in label_plan(plan).walk():
        if not isinstance(labelled.node, Output):
            kind = labelled.pattern.kind
            assert kind_of(labelled.node) == (Kind.WK if kind is Kind.WKS else kind)
