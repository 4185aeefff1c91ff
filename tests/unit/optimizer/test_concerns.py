"""What is checked without being compiled would compile, with the same warnings and label.

Random queries of every shape, the queries of the golden plans and of the examples, and hand-made
ones for each warning and each refusal of the compiler.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mayfly.cql import Create, bind_query, catalog_after, parse
from mayfly.errors import InvalidSetting
from mayfly.optimizer.concerns import answer_label, foreseen_warnings
from mayfly.optimizer.optimize import optimize
from mayfly.optimizer.plan_warnings import Warned
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


def foreseen(plan: Output, catalog: Catalog) -> tuple[Warned, ...] | None:
    """The warnings of a plan as far as they are known; if so, they are those of the program."""
    optimized = optimize(plan)
    warnings = foreseen_warnings(optimized)
    if warnings is not None:
        physical = plan_physically(optimized, catalog)
        assert physical.warnings == warnings
        assert physical.answer.label == answer_label(optimized)
    return warnings


@pytest.mark.parametrize("shape", SHAPES)
def test_random_queries(shape: str) -> None:
    for seed in range(SEEDS):
        query = random_query(Random(f"{shape} {seed}"), shape)
        foreseen(bind_query(query.cql, GENERATED), GENERATED)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.parent.name)
def test_the_queries_of_scripts(script: Path) -> None:
    statements = parse(script.read_text(encoding="utf-8"))
    catalog = catalog_after(statements)
    for statement in statements:
        if isinstance(statement, Create) and isinstance(statement.definition, QueryDefinition):
            foreseen(statement.definition.plan, catalog)


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
def test_usual_queries_have_no_warning(query: str) -> None:
    assert foreseen(bind_query(query, HAND_MADE), HAND_MADE) == ()


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("SELECT a FROM s [ROWS 5]", 1),
        ("SELECT DISTINCT a FROM s [ROWS 5]", 1),
        ("SELECT a, MAX(b) AS b FROM s [ROWS 5] WHERE c = 'x' GROUP BY a", 1),
        ("SELECT a FROM s", 1),
        ("SELECT a + 1 AS a FROM s WHERE b > 1", 1),
        ("SELECT COUNT(*) AS n FROM s [RANGE 5 MIN]", 1),
        ("SELECT COUNT(*) AS n FROM s [ROWS 5]", 2),
        ("SELECT s.a FROM s [RANGE 5 MIN], t [RANGE 5 MIN] WHERE s.a < t.a", 1),
        ("SELECT a FROM s [RANGE 5 MIN] WHERE 1 = 2", 1),
        (
            "SELECT s.a FROM s [RANGE 1 MIN], t [RANGE 1 MIN], u [RANGE 1 MIN] WHERE s.a = t.a",
            1,
        ),
        ("SELECT a FROM s [ROWS 5] WHERE 1 = 2", 2),
        ("SELECT a FROM s [ROWS 5] UNION ALL SELECT a FROM t [ROWS 6]", 2),
    ],
)
def test_usual_warnings_are_foreseen(query: str, count: int) -> None:
    warnings = foreseen(bind_query(query, HAND_MADE), HAND_MADE)
    assert warnings is not None
    assert len(warnings) == count


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM s [RANGE 5 MIN SLIDE 5 ROWS]",
        "SELECT a, COUNT(*) AS n FROM s GROUP BY a",
        "SELECT s.a FROM s [RANGE 5 MIN], r WHERE s.a < r.k",
        "SELECT a FROM s [RANGE 5 MIN] WHERE a NOT IN (SELECT a FROM t [RANGE 5 MIN])",
        "SELECT a FROM s [RANGE 5 MIN] WHERE NOT EXISTS "
        "(SELECT * FROM t [RANGE 1 MIN] WHERE t.a < s.a)",
        "SELECT a FROM s [RANGE 5 MIN] ORDER BY a LIMIT 3",
        "SELECT COUNT(*) AS n FROM s [RANGE 5 MIN SLIDE 1 MIN]",
    ],
)
def test_other_warnings_need_the_program(query: str) -> None:
    optimized = optimize(bind_query(query, HAND_MADE))
    assert foreseen_warnings(optimized) is None
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
def test_what_the_compiler_refuses_needs_the_program(query: str, one_time: bool) -> None:
    optimized = optimize(bind_query(query, HAND_MADE, one_time=one_time))
    assert foreseen_warnings(optimized) is None
    with pytest.raises(InvalidSetting):
        plan_physically(optimized, HAND_MADE)
