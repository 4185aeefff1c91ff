"""A SELECT on its own, answered once over what a session in this process holds."""

from __future__ import annotations

import pytest

from mayfly import LocalSession
from mayfly.cql import CqlError


def session() -> LocalSession:
    local = LocalSession()
    local.execute("""
        CREATE STREAM s (ts BIGINT, k INT) TIMESTAMP BY ts;
        CREATE RELATION hosts (k INT, owner STRING) KEY k;
        CREATE NRR names (k INT, name STRING) KEY k;
        INSERT INTO hosts VALUES (1, 'ann'), (2, 'bob'), (3, 'ann');
        INSERT INTO names VALUES (1, 'one');
        CREATE QUERY counts AS SELECT k, COUNT(*) AS n FROM s [RANGE 10 us] GROUP BY k;
    """)
    return local


def test_relations_are_asked_by_execute() -> None:
    answer = session().execute("SELECT owner, COUNT(*) AS n FROM hosts GROUP BY owner ORDER BY 1")
    assert answer is not None
    assert answer.to_pylist() == [{"owner": "ann", "n": 2}, {"owner": "bob", "n": 1}]


def test_outer_joins_and_values_are_in_one_time_queries_too() -> None:
    answer = session().execute(
        "WITH h AS (SELECT k FROM hosts) SELECT h.k, name, (SELECT COUNT(*) FROM names) AS n "
        "FROM h LEFT JOIN names ON h.k = names.k WHERE h.k < 3 ORDER BY h.k"
    )
    assert answer is not None
    assert answer.to_pylist() == [{"k": 1, "name": "one", "n": 1}, {"k": 2, "name": None, "n": 1}]


def test_a_query_that_runs_is_asked_by_its_name() -> None:
    local = session()
    run = local.query("counts")
    run.feed({"s": [{"ts": 1, "k": 1}, {"ts": 2, "k": 1}, {"ts": 3, "k": 2}]})
    run.finish()
    answer = local.execute("SELECT owner, n FROM counts JOIN hosts USING (k) ORDER BY n DESC")
    assert answer is not None
    assert answer.to_pylist() == [{"owner": "ann", "n": 2}, {"owner": "bob", "n": 1}]


def test_statements_without_a_query_give_nothing() -> None:
    assert session().execute("DELETE FROM hosts WHERE k = 1") is None


def test_streams_keep_no_rows_to_ask() -> None:
    with pytest.raises(CqlError, match="whose rows are not kept") as error:
        session().execute("SELECT k FROM s [RANGE 1 us]")
    assert "start a query by its name" in error.value.hint


def test_a_query_over_relations_alone_is_pointed_at_execute() -> None:
    with pytest.raises(CqlError, match="reads no stream") as error:
        session().query("SELECT k FROM hosts")
    assert "execute(" in error.value.hint
