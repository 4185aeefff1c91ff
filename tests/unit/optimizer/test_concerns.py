"""What is checked without being compiled would compile, without a warning and with the same label.

Random queries of every shape, the queries of the golden plans and of the examples, and hand-made
ones for each warning and each refusal of the compiler.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mayfly.cql import Create, bind_query, catalog_after, parse
from mayfly.errors import InvalidSetting
from mayfly.optimizer.concerns import answer_label, has_concerns
from mayfly.optimizer.optimize import optimize
from mayfly.physical.explain.explainer import plan_physically
from mayfly.plan.catalog import Catalog, QueryDefinition
from mayfly.plan.logical_operators import Output
from mayfly.testing.random_queries import DECLARATIONS, SHAPES, random_query

SEEDS = 12
GENERATED = catalog_after(parse(DECLARATIONS))
ROOT = Path(__file__).parents[3]
SCRIPTS = [ROOT / "tests/golden/explain/queries.cql", *sorted(ROOT.glob("examples/*/pipeline.cql"))]
HAND_MADE = catalog_after(
    parse(
        """CREATE STREAM s (ts BIGINT, a BIGINT, b BIGINT, c STRING) TIMESTAMP BY ts;
CREATE STREAM t (ts BIGINT, a BIGINT, b BIGINT, c STRING) TIMESTAMP BY ts;
CREATE STREAM u (ts BIGINT, a BIGINT, b BIGINT, c STRING) TIMESTAMP BY ts;
CREATE RELATION r (k BIGINT, v BIGINT) KEY k;
CREATE NRR n (k BIGINT, v BIGINT) KEY k"""
    )
)


def is_plain(plan: Output, catalog: Catalog) -> bool:
    """Whether a plan is of no concern; if so, it is as right as the compiler finds it."""
    optimized = optimize(plan)
    if has_concerns(optimized):
        return False
    physical = plan_physically(optimized, catalog)
    assert physical.warnings == ()
    assert physical.answer.label == answer_label(optimized)
    return True


@pytest.mark.parametrize("shape", SHAPES)
def test_random_queries(shape: str) -> None:
    for seed in range(SEEDS):
        query = random_query(Random(f"{shape} {seed}"), shape)
        is_plain(bind_query(query.cql, GENERATED), GENERATED)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.parent.name)
def test_the_queries_of_scripts(script: Path) -> None:
    statements = parse(script.read_text(encoding="utf-8"))
    catalog = catalog_after(statements)
    for statement in statements:
        if isinstance(statement, Create) and isinstance(statement.definition, QueryDefinition):
            is_plain(statement.definition.plan, catalog)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM s [RANGE 5 MIN] WHERE c = 'x'",
        "SELECT DISTINCT a FROM s [RANGE 5 MIN]",
        "SELECT Istream(a, SUM(b) AS b) FROM s [PARTITION BY a ROWS 5] GROUP BY a",
        "SELECT a, COUNT(*) AS n FROM s [RANGE 5 MIN SLIDE 1 MIN] GROUP BY a HAVING COUNT(*) > 1",
        "SELECT s.b FROM s [RANGE 5 MIN], t [RANGE 5 MIN] WHERE s.a = t.a AND s.b < t.b",
        "SELECT s.b FROM s [RANGE 1 MIN], t [RANGE 1 MIN], u [RANGE 1 MIN] "
        "WHERE s.a = t.a AND t.b = u.b",
        "SELECT s.b, r.v FROM s [RANGE 5 MIN], r WHERE s.a = r.k",
        "SELECT s.b, n.v FROM s [RANGE 5 MIN], n WHERE s.a < n.k",
        "SELECT a FROM s [RANGE 5 MIN] WHERE NOT EXISTS "
        "(SELECT * FROM t [RANGE 1 MIN] WHERE t.a = s.a AND t.b > s.b)",
        "SELECT a FROM s [RANGE 5 MIN] UNION ALL SELECT a FROM t [RANGE 5 MIN]",
        "SELECT a FROM s [RANGE 5 MIN] EXCEPT ALL SELECT a FROM t [RANGE 5 MIN]",
    ],
)
def test_usual_queries_are_of_no_concern(query: str) -> None:
    assert is_plain(bind_query(query, HAND_MADE), HAND_MADE)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM s [ROWS 5]",
        "SELECT a FROM s [RANGE 5 MIN SLIDE 5 ROWS]",
        "SELECT a FROM s",
        "SELECT a, COUNT(*) AS n FROM s GROUP BY a",
        "SELECT COUNT(*) AS n FROM s [RANGE 5 MIN]",
        "SELECT s.a FROM s [RANGE 5 MIN], t [RANGE 5 MIN] WHERE s.a < t.a",
        "SELECT s.a FROM s [RANGE 5 MIN], r WHERE s.a < r.k",
        "SELECT a FROM s [RANGE 5 MIN] WHERE a NOT IN (SELECT a FROM t [RANGE 5 MIN])",
        "SELECT a FROM s [RANGE 5 MIN] WHERE NOT EXISTS "
        "(SELECT * FROM t [RANGE 1 MIN] WHERE t.a < s.a)",
        "SELECT a FROM s [RANGE 5 MIN] ORDER BY a LIMIT 3",
        "SELECT a FROM s [RANGE 5 MIN] WHERE 1 = 2",
        "SELECT s.a FROM s [RANGE 1 MIN], t [RANGE 1 MIN], u [RANGE 1 MIN] WHERE s.a = t.a",
    ],
)
def test_what_is_warned_of_is_of_concern(query: str) -> None:
    optimized = optimize(bind_query(query, HAND_MADE))
    assert has_concerns(optimized)
    assert plan_physically(optimized, HAND_MADE).warnings


@pytest.mark.parametrize(
    ("query", "one_time"),
    [
        ("SELECT k FROM r", True),
        (
            "SELECT Istream-restore(a, FREQUENT(b, 3) AS f) "
            "FROM s [RANGE 6 MIN SLIDE 1 MIN] GROUP BY a",
            False,
        ),
    ],
)
def test_what_the_compiler_refuses_is_of_concern(query: str, one_time: bool) -> None:
    optimized = optimize(bind_query(query, HAND_MADE, one_time=one_time))
    assert has_concerns(optimized)
    with pytest.raises(InvalidSetting):
        plan_physically(optimized, HAND_MADE)
