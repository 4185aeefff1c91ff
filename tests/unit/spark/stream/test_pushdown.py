"""What Spark SQL selects before rows reach Python: never less than the queries want."""

from __future__ import annotations

import pytest

from mayfly.cql import catalog_after, parse
from mayfly.physical.shared_program import shared
from mayfly.physical.stager import staged
from mayfly.spark.stream.pushdown import wanted_rows
from tests.property.shared_runs import program_of

CATALOG = catalog_after(
    parse(
        "CREATE STREAM s (ts TIMESTAMP, k INT, g STRING, v BIGINT) TIMESTAMP BY ts;"
        "CREATE STREAM o (ts TIMESTAMP, k INT, g STRING, v BIGINT) TIMESTAMP BY ts;"
    )
)


def condition(*queries: str) -> str | None:
    programs = {f"q{at}": program_of(cql, CATALOG) for at, cql in enumerate(queries)}
    return wanted_rows(staged(shared(programs, {})).feeds)


@pytest.mark.parametrize(
    ("where", "test"),
    [
        ("v > 2", "((`v` > 2L))"),
        ("v > 2 AND g = 'a'", "((`v` > 2L) AND (`g` = 'a'))"),
        ("v > k", "((`v` > CAST(`k` AS bigint)))"),
        ("g IN ('a', 'b') OR k IS NULL", "(((`g` IN ('a', 'b')) OR (`k` IS NULL)))"),
        # What may fail, or is read in different ways, is left to the kernels.
        ("v > 2 AND 10 div v > 1", "((`v` > 2L))"),
        ("v > 2 AND ts > '2026-01-01'", "((`v` > 2L))"),
        ("v > 2 AND g <> 'a\\\\b'", "((`v` > 2L))"),
        ("v > 2 AND g <> 'it''s'", "((`v` > 2L))"),
    ],
)
def test_selections_are_made_by_spark(where: str, test: str) -> None:
    assert condition(f"SELECT k FROM s [RANGE 1 s] WHERE {where}") == test


def test_all_that_read_a_stream_have_their_rows() -> None:
    small, large = (f"SELECT k FROM s [RANGE 1 s] WHERE v {test}" for test in ("< 1", "> 5"))
    assert condition(small, large) == "((`v` < 1L)) OR ((`v` > 5L))"
    everything = None
    assert condition(small, "SELECT k FROM s [RANGE 1 s]") is everything
    assert condition(small, "SELECT k FROM s [RANGE 1 s] WHERE 1 div v > 0") is everything
    assert condition(small, "SELECT k FROM s [ROWS 5] WHERE v < 1") is everything, "others push out"
    many = [f"SELECT k FROM s [RANGE 1 s] WHERE v = {at}" for at in range(4)]
    assert condition(*many) is everything, "an index finds them"
