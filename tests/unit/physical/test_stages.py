"""Programs cut into stages: which tasks are there for which query."""

from __future__ import annotations

from mayfly.cql import catalog_after, parse
from mayfly.physical.shared_program import shared
from mayfly.physical.stager import staged
from tests.property.shared_runs import program_of

CATALOG = catalog_after(
    parse(
        "CREATE STREAM a (ts TIMESTAMP, k INT, g INT) TIMESTAMP BY ts;"
        "CREATE STREAM b (ts TIMESTAMP, k INT, g INT) TIMESTAMP BY ts;"
    )
)
QUERIES = {
    "alone": "SELECT DISTINCT g FROM b [RANGE 3 s]",
    "groups": "SELECT j.g, COUNT(*) AS n FROM (SELECT x.g AS g FROM a [RANGE 5 s] x,"
    " b [RANGE 5 s] y WHERE x.k = y.k) j GROUP BY j.g",
    "pairs": "SELECT x.g FROM a [RANGE 5 s] x, b [RANGE 5 s] y WHERE x.k = y.k",
}


def test_a_query_has_its_own_tasks_and_those_it_shares() -> None:
    stages = staged(shared({n: program_of(cql, CATALOG) for n, cql in QUERIES.items()}, {}))
    kinds = {
        query: [type(task.operator).__name__ for task in stages.behind(query)] for query in QUERIES
    }
    assert kinds["alone"] == ["WindowRows", "WeakDistinct"]
    assert "GroupRows" in kinds["groups"]
    assert "GroupRows" not in kinds["pairs"]
    joins = {
        query: [one.number for one in stages.behind(query) if "Join" in type(one.operator).__name__]
        for query in QUERIES
    }
    assert joins["groups"] == joins["pairs"] != []
    assert joins["alone"] == []
