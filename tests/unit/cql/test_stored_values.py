"""A value looked up by the key of a relation is that of a LEFT JOIN, at every instant."""

from __future__ import annotations

import pytest

from mayfly import LocalSession
from mayfly.cql import CqlError
from tests.property.continuous_cases import told

ROWS = [{"ts": ts, "k": ts % 4, "x": ts} for ts in range(12)]
PAIRS = {
    "SELECT x, (SELECT b FROM {} q WHERE q.a = s.k) AS b FROM s [RANGE 5 us]": "SELECT x, q.b "
    "FROM s [RANGE 5 us] LEFT JOIN {} q ON q.a = s.k",
    "SELECT x, (SELECT b || '!' FROM {} q WHERE s.k = q.a AND b <> 'two') AS b FROM s [RANGE 5 us]":
    "SELECT x, q.b || '!' AS b FROM s [RANGE 5 us] LEFT JOIN {} q ON q.a = s.k AND q.b <> 'two'",
    "SELECT x FROM s [RANGE 5 us] WHERE (SELECT b FROM {} q WHERE q.a = s.k) = 'one'":
    "SELECT x FROM s [RANGE 5 us] JOIN {} q ON q.a = s.k WHERE q.b = 'one'",
}  # fmt: skip


def session() -> LocalSession:
    local = LocalSession()
    local.stream("s", {"ts": "BIGINT", "k": "INT", "x": "INT"})
    for name in ("r", "n"):
        rows = [{"a": 1, "b": "one"}, {"a": 2, "b": "two"}, {"a": 0, "b": None}]
        local.relation(name, rows, key="a", retroactive=name == "r")
    return local


@pytest.mark.parametrize("table", ["r", "n"])
@pytest.mark.parametrize("query", PAIRS)
def test_it_is_a_left_join(query: str, table: str) -> None:
    answers = []
    for text in (query, PAIRS[query]):
        local = session()
        run = local.query(text.format(table))
        run.feed({"s": ROWS[:6]})
        local.execute(f"INSERT INTO {table} VALUES (3, 'three'); DELETE FROM {table} WHERE a = 1")
        run.feed({"s": ROWS[6:]})
        run.finish()
        answers.append(told(run.lifetimes(), view=True))
    assert answers[0]
    assert answers[0] == answers[1]


def test_without_a_row_there_is_no_value() -> None:
    run = session().query(
        "SELECT x, (SELECT coalesce(b, 'none') FROM n WHERE n.a = s.k) AS b FROM s [RANGE 50 us]"
    )
    run.feed({"s": ROWS[:4]})
    run.finish()
    values = {row["x"]: row["b"] for row in run.snapshot().to_pylist()}
    assert values == {0: "none", 1: "one", 2: "two", 3: None}


def test_a_part_of_the_key_is_not_enough() -> None:
    local = session()
    local.relation("p", [{"a": 1, "c": 1, "b": "x"}], key=("a", "c"))
    with pytest.raises(CqlError, match="more than one row"):
        local.query("SELECT (SELECT b FROM p WHERE p.a = s.k) AS b FROM s [NOW]")
