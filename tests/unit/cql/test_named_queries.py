"""WITH, views and earlier queries: read by name, planned once, computed once."""

from __future__ import annotations

import pytest

from mayfly import LocalSession
from mayfly.cql import CqlError, bind_query, catalog_after, parse
from mayfly.kernels.group_by import GroupRows
from mayfly.plan.catalog import Catalog, QueryDefinition, ViewDefinition
from mayfly.plan.logical_operators import Output, Shared

STREAM = "CREATE STREAM s (ts BIGINT, k INT, v INT) TIMESTAMP BY ts;"
VIEWS = """
CREATE VIEW sums AS SELECT k, SUM(v) AS total FROM s [RANGE 10 us] GROUP BY k;
CREATE VIEW large AS SELECT k, total FROM sums WHERE total > 3;
CREATE QUERY counts AS SELECT k, COUNT(*) AS n FROM s [RANGE 10 us] GROUP BY k;
"""


def catalog() -> Catalog:
    return catalog_after(parse(STREAM + VIEWS))


def shared_parts(plan: Output) -> list[str]:
    return [node.name for node in plan.walk() if isinstance(node, Shared)]


def session() -> LocalSession:
    local = LocalSession()
    local.execute(STREAM + VIEWS)
    return local


def groupings(query: str) -> int:
    run = session().query(query)
    return sum(isinstance(task.operator, GroupRows) for task in run.program.tasks())


def test_read_once_it_is_a_sub_query() -> None:
    inner = "SELECT k, SUM(v) AS total FROM s [RANGE 10 us] GROUP BY k"
    texts = (
        "SELECT k FROM sums WHERE total > 3",
        f"WITH sums AS ({inner}) SELECT k FROM sums WHERE total > 3",
        f"SELECT k FROM ({inner}) sums WHERE total > 3",
    )
    assert len({bind_query(text, catalog()) for text in texts}) == 1


def test_read_twice_it_is_one_part_computed_once() -> None:
    query = "SELECT a.k, b.total FROM sums a, sums b WHERE a.total = b.total"
    assert shared_parts(bind_query(query, catalog())) == ["sums", "sums"]
    assert groupings(query) == 1
    alone = query.replace("sums b", "(SELECT k, SUM(v) AS total FROM s [RANGE 9 us] GROUP BY k) b")
    assert groupings(alone) == 2


def test_a_view_of_a_view_and_a_query_are_read_by_name() -> None:
    run = session().query("SELECT l.k, l.total, c.n FROM large l JOIN counts c USING (k)")
    run.feed(
        {"s": [{"ts": 1, "k": 1, "v": 2}, {"ts": 2, "k": 1, "v": 2}, {"ts": 2, "k": 2, "v": 1}]}
    )
    run.finish()
    assert run.snapshot(2).to_pylist() == [{"k": 1, "total": 4, "n": 2}]


def test_the_text_of_a_query_stands_alone() -> None:
    known = catalog_after(
        parse("CREATE QUERY q AS WITH z AS (SELECT k FROM large) SELECT z.k, n FROM z, counts c "
              "WHERE z.k = c.k", catalog()), catalog()
    )  # fmt: skip
    query, streams = known.lookup("q"), catalog_after(parse(STREAM))
    assert isinstance(query, QueryDefinition)
    again = bind_query(query.text, streams)
    assert [column.name for column in again.schema] == ["k", "n"]
    view = known.lookup("large")
    assert isinstance(view, ViewDefinition)
    assert bind_query(view.text, streams).schema == view.plan.schema


@pytest.mark.parametrize("name", ["VIEW sums", "STREAM s", "QUERY counts"])
def test_what_is_read_cannot_be_dropped(name: str) -> None:
    known = catalog_after(parse("CREATE VIEW more AS SELECT n FROM counts", catalog()), catalog())
    with pytest.raises(CqlError, match="still read by"):
        parse(f"DROP {name}", known)
    assert (
        catalog_after(parse("DROP VIEW large; DROP VIEW sums", known), known).lookup("sums") is None
    )


def test_names_that_multiply_are_bounded() -> None:
    parts = ["a0 AS (SELECT k FROM s [RANGE 1 us])"]
    parts += [f"a{n} AS (SELECT x.k FROM a{n - 1} x, a{n - 1} y)" for n in range(1, 30)]
    with pytest.raises(CqlError, match="more than 2,000 operators"):
        bind_query(f"WITH {', '.join(parts)} SELECT k FROM a29", catalog())


def test_outer_joins_that_multiply_are_bounded() -> None:
    joins = " ".join(f"LEFT JOIN s [RANGE 1 us] s{n} ON s0.k = s{n}.k" for n in range(1, 30))
    with pytest.raises(CqlError, match="more than 2,000 operators"):
        bind_query(f"SELECT s0.k FROM s [RANGE 1 us] s0 {joins}", catalog())
