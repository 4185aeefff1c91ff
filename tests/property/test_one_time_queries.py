"""One-time SQL equals DuckDB over the same rows; each table is read once, at one instant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.cql import CqlError, bind_query
from mayfly.plan.catalog import ColumnDefinition, QueryDefinition, StreamDefinition
from mayfly.plan.types import arrow_type, parse_type
from mayfly.runtime.one_time_query import OneTimePlan
from mayfly.runtime.table_sources import Keys, access_words
from tests.unit.serving.stored_pipelines import CATALOG

COLUMNS = {
    "a": (("k", "string"), ("x", "bigint"), ("y", "double")),
    "b": (("k", "string"), ("town", "string")),
    "c": (("x", "bigint"), ("day", "date"), ("_instant", "bigint")),
}
SQL = (
    "SELECT k, x FROM a",
    "SELECT * FROM c",
    "SELECT x + 1 AS more, k || '!' AS loud FROM a WHERE x > 2 AND k <> 'u'",
    "SELECT COUNT(*) AS n FROM a",
    "SELECT COUNT(*) AS n, SUM(x) AS s, MIN(k) AS low FROM a WHERE x > 100",
    "SELECT k, COUNT(*) AS n, SUM(x) AS s, MAX(y) AS top FROM a GROUP BY k",
    "SELECT k, COUNT(x) AS n FROM a GROUP BY k HAVING COUNT(*) > 1",
    "SELECT DISTINCT k FROM a",
    "SELECT a.x, b.town FROM a, b WHERE a.k = b.k",
    "SELECT a.x, b.town FROM a JOIN b ON a.k = b.k AND a.x > 1",
    "SELECT p.x AS px, q.x AS qx FROM a p, a q WHERE p.k = q.k AND p.x < q.x",
    "SELECT a.k, b.town, c.day FROM a, b, c WHERE a.k = b.k AND a.x = c.x",
    "SELECT b.town, SUM(a.x) AS s FROM a, b WHERE a.k = b.k GROUP BY b.town",
    "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) t WHERE n > 1",
    "SELECT t.k, t.n, b.town FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) t, b WHERE t.k = b.k",
    "SELECT u.n, v.n AS m FROM (SELECT COUNT(*) AS n FROM a) u, (SELECT COUNT(*) AS n FROM a) v",
    "SELECT k FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.k = a.k)",
    "SELECT x FROM c WHERE x NOT IN (SELECT x FROM a WHERE x IS NOT NULL)",
    "SELECT k FROM a UNION ALL SELECT k FROM b",
    "SELECT k FROM a EXCEPT ALL SELECT k FROM b",
    "SELECT a.x FROM a, b WHERE a.x > 3",
    "SELECT a.k, a.x, b.town FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT a.x, b.town FROM a RIGHT JOIN b ON a.k = b.k AND a.x > 1",
    "SELECT a.x, b.town, c.day FROM a FULL JOIN b ON a.k = b.k LEFT JOIN c ON a.x = c.x",
    "SELECT b.town, COUNT(a.x) AS n FROM b LEFT JOIN a ON a.k = b.k GROUP BY b.town",
)
ORDERED = (
    "SELECT k, x FROM a ORDER BY x DESC NULLS LAST, k NULLS FIRST LIMIT 3",
    "SELECT k, x, y FROM a ORDER BY x NULLS FIRST, k NULLS FIRST, y NULLS FIRST LIMIT 4 OFFSET 2",
    "SELECT k, COUNT(*) AS n FROM a GROUP BY k ORDER BY n DESC, k NULLS FIRST",
)


@dataclass
class Table:
    """A table in memory that counts its reads."""

    name: str
    content: pa.Table
    kind: str = "view"
    closed: int | None = 7
    keys: list[Keys] = field(default_factory=list)
    streams: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[ColumnDefinition, ...]:
        return tuple(ColumnDefinition(n, parse_type(kind)) for n, kind in COLUMNS[self.name])

    def latest(self) -> int | None:
        return self.closed

    def rows(self, instant: int, columns: Sequence[str], keys: Keys) -> pa.Table:
        self.keys.append(keys)
        return self.content.select(list(columns))

    def access(self, keys: Keys) -> str:
        return access_words(keys)

    def missing(self, instant: int) -> Iterator[str]:
        return iter(())


def table(name: str, rows: Sequence[Sequence[Any]]) -> Table:
    fields = [(n, arrow_type(parse_type(kind))) for n, kind in COLUMNS[name]]
    values = [dict(zip((n for n, _ in fields), row, strict=True)) for row in rows]
    return Table(name, pa.Table.from_pylist(values, schema=pa.schema(fields)))


keys = st.sampled_from([None, "u", "v", "w", ""])
small = st.one_of(st.none(), st.integers(0, 5))
fractions = st.one_of(st.none(), st.sampled_from([0.5, -1.0, 2.25]))
contents = st.tuples(
    st.lists(st.tuples(keys, small, fractions), max_size=12),
    st.lists(st.tuples(keys, st.sampled_from(["Kiel", "Bonn", None])), max_size=6),
    st.lists(st.tuples(small, st.dates(), small), max_size=4),
)


def tables_of(content: Sequence[Sequence[Sequence[Any]]]) -> list[Table]:
    return [table(name, rows) for name, rows in zip("abc", content, strict=True)]


def oracle(sql: str, tables: Sequence[Table]) -> list[tuple[Any, ...]]:
    for entry in tables:
        database().register(entry.name, entry.content)
    return [tuple(row) for row in database().execute(sql).fetchall()]


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def answered(sql: str, tables: Sequence[Table]) -> list[tuple[Any, ...]]:
    plan = OneTimePlan.of(sql, tables)
    answer = plan.answer(plan.instant(default=0))
    assert answer.as_of == 7
    return [tuple(row.values()) for row in answer.rows.to_pylist()]


@given(contents, st.sampled_from(SQL))
def test_answers_equal_duckdb(content: Any, sql: str) -> None:
    tables = tables_of(content)
    assert sorted(answered(sql, tables), key=str) == sorted(oracle(sql, tables), key=str)


@given(contents, st.sampled_from(ORDERED))
def test_ordered_answers_equal_duckdb(content: Any, sql: str) -> None:
    tables = tables_of(content)
    assert answered(sql, tables) == oracle(sql, tables)


@pytest.mark.parametrize("sql", SQL)
def test_nothing_at_all(sql: str) -> None:
    tables = tables_of(((), (), ()))
    assert answered(sql, tables) == oracle(sql, tables)


def test_a_table_is_read_once_however_often_it_is_named() -> None:
    tables = tables_of(([("u", 1, 0.5)], (), ()))
    answered("SELECT p.x, q.x AS y FROM a p, (SELECT x FROM a) q", tables)
    assert [len(entry.keys) for entry in tables] == [1, 0, 0]


def test_keys_are_handed_down_where_every_use_has_one() -> None:
    a, b, c = tables_of(([("u", 1, 0.5), ("v", 2, 0.5)], (), ()))
    answered("SELECT x FROM a WHERE k = 'u' AND x > 0", [a, b, c])
    answered("SELECT p.x, q.x AS y FROM a p, a q WHERE p.k = 'u' AND q.k = 'v'", [a, b, c])
    answered("SELECT p.x, q.x AS y FROM a p, a q WHERE p.k = 'u'", [a, b, c])
    answered("SELECT x FROM a WHERE k = 'u' OR x = 1", [a, b, c])
    first, second, *others = a.keys
    assert first == {"k": ("u",)}
    assert sorted(second["k"]) == ["u", "v"]
    assert others == [{}, {}]


def test_the_instant_is_one_that_all_views_show() -> None:
    a, b, c = tables_of(((), (), ()))
    a.closed, b.closed, c.kind, c.closed = 9, 5, "archive", 2
    assert OneTimePlan.of("SELECT a.x FROM a, b", [a, b, c]).instant(0) == 5
    assert OneTimePlan.of("SELECT a.x FROM a, c", [a, b, c]).instant(0) == 9
    assert OneTimePlan.of("SELECT x FROM c", [a, b, c]).instant(0) == 2
    a.closed = None
    assert OneTimePlan.of("SELECT x FROM a", [a, b, c]).instant(3) == 3


@pytest.mark.parametrize(
    ("sql", "problem", "hint"),
    [
        ("SELECT x FROM aa", "no view, relation or archive called aa", "did you mean a?"),
        ("SELECT z FROM a", "z", ""),
        ("SELECT user FROM clicks", "clicks is a stream, whose rows are not kept", "control add"),
        ("SELECT Istream(x) FROM a", "Istream sends changes", "leave the stream operator out"),
        ("SELECT user FROM fresh", "fresh is a query", "--changes fresh"),
        ("SELECT x FROM a [RANGE 5 s]", "it has no window", ""),
    ],
)
def test_errors_point_at_their_place(sql: str, problem: str, hint: str) -> None:
    clicks = CATALOG.lookup("clicks")
    assert isinstance(clicks, StreamDefinition)
    text = "SELECT Istream(user) FROM clicks [RANGE 5 s]"
    fresh = QueryDefinition("fresh", bind_query(text, CATALOG), text)
    with pytest.raises(CqlError) as refusal:
        OneTimePlan.of(sql, tables_of(((), (), ())), [clicks, fresh])
    assert problem in refusal.value.message
    assert "^" in refusal.value.message
    assert hint in refusal.value.hint
