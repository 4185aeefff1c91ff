"""Right queries and the logical plans they become."""

from __future__ import annotations

import pytest

from mayfly.cql import OneTimeQuery, bind_query, parse
from tests.golden.cql.cases import UPDATING, Case, cases, catalog, rewrite
from tests.golden.cql.plans import describe

CATALOG = catalog()
ONE_TIME = "-- one-time"
CASES = cases("right")


def plan(text: str) -> str:
    if text.startswith(ONE_TIME):
        (statement,) = parse(text, CATALOG)
        assert isinstance(statement, OneTimeQuery)
        return describe(statement.plan)
    return describe(bind_query(text, CATALOG))


if UPDATING:
    for file in {case.file for case in CASES}:
        rewrite(file, plan)
    CASES = cases("right")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_plan_is(case: Case) -> None:
    assert plan(case.text) == case.answer
