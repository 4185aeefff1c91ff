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
from mayfly.optimizer.optimize import optimize
from mayfly.optimizer.plan_warnings import Warned
from mayfly.physical.concerns import answer_label, foreseen_warnings
from mayfly.physical.explain.explainer import plan_physically
from mayfly.plan.catalog import Catalog, QueryDefinition
from mayfly.plan.logical_operators import Output
from mayfly.serving.periodic.planned_window import planned_windows
from mayfly.serving.periodic.stored_query import bound_query
from mayfly.testing.random_queries import DECLARATIONS, SHAPES, random_query
from tests.golden.cql.cases import Case, cases, catalog

SEEDS = 12
GENERATED = catalog_after(parse(DECLARATIONS))
ROOT = Path(__file__).parents[3]
SCRIPTS = [ROOT / "tests/golden/explain/queries.cql", *sorted(ROOT.glob("examples/*/pipeline.cql"))]
RIGHT = catalog()
HAND_MADE_TEXT = """CREATE STREAM s (ts BIGINT, a BIGINT, b BIGINT, c STRING) TIMESTAMP BY ts;
CREATE STREAM t (ts BIGINT, a BIGINT, b BIGINT, c STRING) TIMESTAMP BY ts;
CREATE STREAM u (ts BIGINT, a BIGINT, b BIGINT, c STRING) TIMESTAMP BY ts;
CREATE RELATION r (k BIGINT, v BIGINT) KEY k;
CREATE NRR n (k BIGINT, v BIGINT) KEY k"""
HAND_MADE = catalog_after(parse(HAND_MADE_TEXT))


def foreseen(plan: Output, catalog: Catalog) -> tuple[Warned, ...] | None:
    """The warnings of a plan as far as they are known; if so, they are those of the program."""
    optimized = optimize(plan)
    warnings = foreseen_warnings(optimized, catalog)
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


CONTINUOUS = [each for each in cases("right") if not each.text.startswith("-- one-time")]


@pytest.mark.parametrize("case", CONTINUOUS, ids=str)
def test_right_texts(case: Case) -> None:
    foreseen(bind_query(case.text, RIGHT), RIGHT)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM s [RANGE 5 MIN] WHERE c = 'x'",
        "SELECT DISTINCT a FROM s [RANGE 5 MIN]",
        "SELECT Istream(a, SUM(b) AS b) FROM s [PARTITION BY a ROWS 5 RANGE 1 DAY] GROUP BY a",
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
        ("SELECT a, b FROM s [PARTITION BY a ROWS 5]", 1),
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
    ("query", "messages"),
    [
        ("SELECT a FROM s [RANGE 5 MIN SLIDE 5 ROWS]", ["s [RANGE 5 min SLIDE 5 ROWS]"]),
        ("SELECT a, COUNT(*) AS n FROM s GROUP BY a", ["the state of GROUP BY"]),
        ("SELECT Istream(s.a) FROM s, t [RANGE 1 MIN] WHERE s.a = t.a", ["the state of the join"]),
        ("SELECT s.a FROM s [RANGE 5 MIN], r WHERE s.a < r.k", ["the join with r"]),
        (
            "SELECT a FROM s [RANGE 5 MIN] WHERE a NOT IN (SELECT a FROM t [RANGE 5 MIN])",
            ["NOT IN"],
        ),
        (
            "SELECT a FROM s [RANGE 5 MIN] WHERE NOT EXISTS "
            "(SELECT * FROM t [RANGE 1 MIN] WHERE t.a < s.a)",
            ["NOT EXISTS"],
        ),
        (
            "SELECT a FROM s [ROWS 3] WHERE NOT EXISTS "
            "(SELECT * FROM t WHERE t.a = s.a AND t.b < s.b)",
            ["s [ROWS 3]", "the state of NOT EXISTS"],
        ),
        ("SELECT a FROM s [RANGE 5 MIN] ORDER BY a LIMIT 3", ["LIMIT"]),
        ("SELECT COUNT(*) AS n FROM s [RANGE 5 MIN SLIDE 1 MIN]", ["s [RANGE 5 min SLIDE 1 min]"]),
        (
            "SELECT Istream(MEDIAN(b) AS m) FROM s [RANGE 5 MIN SLIDE 1 MIN INTERNAL]",
            ["the aggregate"],
        ),
        (
            "SELECT SUM(t.b) AS b FROM s [RANGE 6 MIN SLIDE 1 MIN], t [RANGE 6 MIN SLIDE 1 MIN] "
            "WHERE s.a = t.a",
            ["the aggregate"],
        ),
        (
            "SELECT MAX(t.b) AS b FROM s [RANGE 6 MIN SLIDE 1 MIN], t [RANGE 6 MIN SLIDE 1 MIN] "
            "WHERE s.a < t.a",
            ["the aggregate", "the join"],
        ),
        (
            "SELECT s.c, SUM(t.b) AS b FROM s [RANGE 6 MIN SLIDE 1 MIN], "
            "t [RANGE 6 MIN SLIDE 1 MIN] WHERE s.a < t.a GROUP BY s.c",
            ["the join"],
        ),
        (
            "SELECT MEDIAN(t.b) AS b FROM s [RANGE 6 MIN SLIDE 1 MIN], "
            "t [RANGE 6 MIN SLIDE 1 MIN] WHERE s.a = t.a",
            ["the aggregate"],
        ),
        ("SELECT a, LAG(b) OVER (ORDER BY ts) AS b FROM s [RANGE 1 MIN]", ["OVER"]),
        (
            "SELECT a FROM (SELECT a FROM s WHERE b > 1) [ROWS 3] q",
            ["the sub-query", "s [UNBOUNDED]"],
        ),
        (
            "SELECT a FROM (SELECT DISTINCT a FROM s) [ROWS 3] q",
            ["the sub-query", "the state of DISTINCT"],
        ),
        (
            "SELECT window_start, COUNT(*) AS n FROM "
            "TABLE(SESSION(TABLE s, DESCRIPTOR(ts), INTERVAL 5 SECONDS)) "
            "GROUP BY window_start, window_end",
            ["the answer grows", "GROUP BY"],
        ),
        (
            "SELECT Istream-restore(a, COUNT(*) AS n) FROM s [RANGE 6 MIN SLIDE 1 MIN] GROUP BY a",
            [],
        ),
    ],
)
def test_other_warnings_are_foreseen_too(query: str, messages: list[str]) -> None:
    warnings = foreseen(bind_query(query, HAND_MADE), HAND_MADE)
    assert warnings is not None
    assert len(warnings) == len(messages)
    for warning, message in zip(warnings, messages, strict=True):
        assert warning.message.startswith(message)


SERVED = [
    ("SERVE", "SELECT a, SUM(b) AS b, COUNT(*) AS n FROM s [RANGE 6 MIN SLIDE 4 MIN] GROUP BY a"),
    ("SERVE", "SELECT a, AVG(b) AS b FROM s [RANGE 6 MIN SLIDE 2 MIN] WHERE b > 1 GROUP BY a"),
    ("SERVE", "SELECT a, MAX(c) AS c FROM s [RANGE 6 MIN SLIDE 2 MIN] WHERE b > 1 GROUP BY a"),
    ("SERVE", "SELECT COUNT(DISTINCT c) AS c, SUM(a) AS a FROM s [RANGE 6 MIN SLIDE 2 MIN]"),
    ("SERVE", "SELECT MEDIAN(b) AS m FROM s [RANGE 6 MIN SLIDE 2 MIN]"),
    ("SERVE", "SELECT a, AVG(b) AS b FROM t [RANGE 6 MIN SLIDE 2 MIN] WHERE b > 1 GROUP BY a"),
    ("SERVE SCAN WINDOW", "SELECT a, SUM(b) AS b FROM s [RANGE 4 MIN SLIDE 2 MIN] GROUP BY a"),
    (
        "SERVE PRIORITY 2 SCAN INCREMENTAL SYNOPSIS",
        "SELECT a, SUM(b) AS b, COUNT(b) AS n FROM s [RANGE 6 MIN SLIDE 4 MIN] GROUP BY a "
        "HAVING COUNT(b) > 1",
    ),
    (
        "SERVE SCAN INCREMENTAL SYNOPSIS",
        "SELECT a + 1 AS a, SUM(b) AS b FROM (SELECT a, b * 2 AS b FROM s [RANGE 6 MIN SLIDE 2 MIN]"
        " WHERE a > 0) q GROUP BY a + 1",
    ),
]


def served_plans() -> dict[str, Output]:
    texts = [f"CREATE QUERY q{n} {clause} AS {query}" for n, (clause, query) in enumerate(SERVED)]
    statements = parse(";\n".join([HAND_MADE_TEXT, *texts]))
    queries = [each.definition for each in statements if isinstance(each, Create)]
    return {each.name: each.plan for each in queries if isinstance(each, QueryDefinition)}


@pytest.mark.parametrize("name", [f"q{n}" for n in range(len(SERVED))])
def test_served_queries_are_foreseen(name: str) -> None:
    assert foreseen(served_plans()[name], HAND_MADE) is not None


def test_what_served_queries_ask_of_a_server_is_foreseen() -> None:
    plans = served_plans()
    windows = planned_windows(plans)
    stored = [bound_query(name, plan, HAND_MADE) for name, plan in plans.items()]
    for window, query in zip(windows, stored, strict=True):
        assert (window.grid, window.window) == (query.grid, query.window)
        assert window.panes_held == query.panes_held
        assert window.columns == len(query.store.nothing_stored.schema.names)
    together = [[mine.synopsis == other.synopsis for other in windows] for mine in windows]
    assert together == [[mine.synopsis == other.synopsis for other in stored] for mine in stored]
    assert 1 < len({window.synopsis for window in windows}) < len(windows)


@pytest.mark.parametrize("call", ["MAX(b)", "COUNT(DISTINCT b)", "AVG(CAST(b AS DOUBLE))"])
def test_what_cannot_be_subtracted_needs_the_program(call: str) -> None:
    text = (
        f"CREATE QUERY q SERVE SCAN INCREMENTAL SYNOPSIS AS SELECT {call} AS b FROM s "
        "[RANGE 4 MIN SLIDE 2 MIN]"
    )
    *_, statement = parse(f"{HAND_MADE_TEXT};\n{text}")
    assert isinstance(statement, Create)
    assert isinstance(statement.definition, QueryDefinition)
    optimized = optimize(statement.definition.plan)
    assert foreseen_warnings(optimized, HAND_MADE) is None
    with pytest.raises(InvalidSetting):
        plan_physically(optimized, HAND_MADE)


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
    assert foreseen_warnings(optimized, HAND_MADE) is None
    with pytest.raises(InvalidSetting):
        plan_physically(optimized, HAND_MADE)
