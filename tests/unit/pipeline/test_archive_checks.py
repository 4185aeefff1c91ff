"""An archive that is called right from its statement alone can be made."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from mayfly.cql import Create, catalog_after, parse
from mayfly.errors import MayflyError
from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.physical.shared_program import canonical
from mayfly.pipeline.archive_checks import is_plain
from mayfly.pipeline.archive_settings import check_declaration
from mayfly.plan.catalog import ArchiveDefinition
from mayfly.plan.logical_operators import Output

STREAMS = parse(
    """CREATE STREAM s (ts BIGINT, a BIGINT, b BIGINT, c STRING, tags ARRAY<STRING>)
  TIMESTAMP BY ts;
CREATE STREAM t (ts BIGINT, a BIGINT, b BIGINT, c STRING) TIMESTAMP BY ts;
CREATE RELATION r (k BIGINT, v BIGINT) KEY k"""
)
CATALOG = catalog_after(STREAMS)
QUERIES = (
    "SELECT a, b FROM s [RANGE 1 HOUR]",
    "SELECT a, c AS `c d` FROM s [RANGE 1 HOUR]",
    "SELECT a, b AS _b FROM s [RANGE 1 HOUR]",
    "SELECT a, NULL AS b FROM s [RANGE 1 HOUR]",
    "SELECT a, tags FROM s [RANGE 1 HOUR]",
    "SELECT a, b AS ts, c AS exp FROM s [RANGE 1 HOUR]",
    "SELECT a, b FROM s [RANGE 50 MIN] UNION ALL SELECT a, b FROM t [RANGE 1 HOUR]",
    "SELECT DISTINCT a FROM s [RANGE 1 HOUR]",
    "SELECT s.a, t.b FROM s [RANGE 1 HOUR], t [RANGE 2 HOURS] WHERE s.a = t.a",
    "SELECT s.a, r.v FROM s [RANGE 1 HOUR], r WHERE s.a = r.k",
    "SELECT a, COUNT(*) AS n FROM s [RANGE 1 HOUR SLIDE 7 MIN] GROUP BY a",
    "SELECT a, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY a",
    "SELECT a FROM s [RANGE 1 HOUR SLIDE 10 MIN]",
    "SELECT a FROM s [PARTITION BY a ROWS 3]",
    "SELECT a FROM s [ROWS 3]",
    "SELECT a FROM s",
    "SELECT a FROM s [NOW]",
    "SELECT a, b FROM s [RANGE 1 HOUR] WHERE 1 = 2",
)
LAYOUTS = ("", "LAYOUT AUTO", "LAYOUT ROUND_ROBIN", "LAYOUT ROUND_ROBIN(4, 4)", "LAYOUT LAZY(2, 2)",
           "LAYOUT CHRONOLOGICAL(3, 1)", "LAYOUT COUNT(2, 2)", "LAYOUT INSERTION(4)",
           "LAYOUT WATA(4)", "LAYOUT WATA", "LAYOUT RATA(3)", "LAYOUT DEL(2)", "LAYOUT REINDEX(60)",
           "LAYOUT REINDEX++(4)", "LAYOUT WATA(61)")  # fmt: skip
USINGS = ("", "USING REBUILD", "USING NO REBUILD", "USING IN PLACE", "USING PACKED SHADOW",
          "USING SIMPLE SHADOW")  # fmt: skip
REFRESHES = ("1 MIN", "10 MIN", "7 MIN", "1 HOUR", "2 HOURS", "1 us")
PROMISES = ("", "SOFT(3)", "HARD PHYSICAL WITHIN 2 HOURS", "PHYSICAL WITHIN 5 MIN", "SOFT(20000)")
LIVES = ("", "MAX LIFETIME 90 DAYS", "MAX LIFETIME 1 HOUR", "MAX LIFETIME 5000000 DAYS")
KEYS = ("a", "a, b", "tags", "a, a")


def declared(text: str) -> ArchiveDefinition | None:
    """The archive of a statement; None if the language refuses it."""
    try:
        (statement,) = parse(text, CATALOG)
    except MayflyError:
        return None
    assert isinstance(statement, Create)
    assert isinstance(statement.definition, ArchiveDefinition)
    return statement.definition


def called_plain(definition: ArchiveDefinition) -> bool:
    """Whether it is; if so, it can be made into settings."""
    optimized = optimize(definition.plan)
    plain = is_plain(definition, optimized, CATALOG)
    if plain:
        chosen = optimized.chosen
        assert isinstance(chosen.plan, Output)
        program = compile_plan(canonical(chosen.plan), CATALOG, strict=chosen.strict)
        check_declaration(definition, program)
    return plain


def test_what_is_plain_can_be_made() -> None:
    """Of all combinations of clauses, some of each query, and more of those that may be made."""
    rng, plain = Random(5), 0
    every = list(product(LAYOUTS, USINGS, REFRESHES, PROMISES, LIVES, KEYS))
    usual = list(product(LAYOUTS, ("",), REFRESHES[:3], PROMISES[:2], LIVES[:3], KEYS[:1]))
    for query in QUERIES:
        chosen = rng.sample(every, 20) + rng.sample(usual, 12)
        for layout, using, refresh, promise, life, key in chosen:
            technique = using if layout else ""
            text = (
                f"CREATE ARCHIVE x KEY {key} REFRESH {refresh} {layout} {technique} {promise} "
                f"{life} AS {query}"
            )
            if (definition := declared(text)) is not None:
                plain += called_plain(definition)
    assert plain > 40


@pytest.mark.parametrize(
    "text",
    [
        "CREATE ARCHIVE x KEY a REFRESH 1 MIN LAYOUT AUTO AS SELECT s.a, t.b "
        "FROM s [RANGE 10 MIN], t [RANGE 10 MIN] WHERE s.a = t.a",
        "CREATE ARCHIVE x KEY a, b REFRESH 1 DAY LAYOUT ROUND_ROBIN(4, 4) USING NO REBUILD SOFT(3) "
        "PHYSICAL WITHIN 7 DAYS AS SELECT a, b FROM s [RANGE 90 DAYS]",
        "CREATE ARCHIVE x KEY a REFRESH 1 DAY LAYOUT WATA(4) USING PACKED SHADOW AS "
        "SELECT a, b FROM s [RANGE 90 DAYS]",
        "CREATE ARCHIVE x KEY a REFRESH 10 SECONDS MAX LIFETIME 1 HOUR AS SELECT a, COUNT(*) AS n "
        "FROM s [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY a",
        "CREATE ARCHIVE x KEY a REFRESH 1 DAY AS SELECT a FROM s [RANGE 90 DAYS]",
    ],
)
def test_the_archives_of_the_documents_are_plain(text: str) -> None:
    definition = declared(text)
    assert definition is not None
    assert called_plain(definition)
