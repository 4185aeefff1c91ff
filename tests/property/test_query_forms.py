"""Forms that name or nest queries: right at every instant, however they are written and run."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from mayfly.cql import catalog_after, parse
from mayfly.optimizer.optimize import RULES
from mayfly.plan.logical_operators import OutputKind
from mayfly.plan.strategy import Strategy
from mayfly.testing.query_forms import FORMS
from tests.property.continuous_cases import Case, catalog, fed, random_case, rows_of, start
from tests.property.test_continuous import checked

CASES = 2_000
"""Of all forms together, in every run of the tests."""
SHAPES = (*FORMS, "outer", "exists", "in", "sets", "top")
MANY = 30_000
"""In the long run of the tests."""


def strategy_of(seed: int) -> Strategy:
    return Random(seed).choice([Strategy.UPA, Strategy.UPA, Strategy.NT, Strategy.DIRECT])


def check_cases(shape: str, seeds: range) -> None:
    for seed in seeds:
        case = random_case(seed, shape)
        checked(case, fed(case, start(case, strategy_of(seed))), instants=5)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_answer_is_that_of_the_alive_tuples(shape: str) -> None:
    check_cases(shape, range(10_000, 10_000 + -(-CASES // len(SHAPES))))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_so_it_is_in_many_cases(shape: str) -> None:
    check_cases(shape, range(100_000, 100_000 + -(-MANY // len(SHAPES))))


def over_views(case: Case) -> Case:
    return replace(case, query=replace(case.query, cql=case.query.over_views))


@pytest.mark.parametrize("seed", range(40))
def test_views_are_what_with_says(seed: int) -> None:
    case = over_views(random_case(seed, "with"))
    streams = catalog(case.slack)
    known = catalog_after(parse(case.query.views, streams), streams)
    checked(case, fed(case, start(case, strategy_of(seed), known=known)))


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_no_rule_changes_an_answer(rule: str) -> None:
    for seed, shape in enumerate(SHAPES * 2):
        case = random_case(1_000 + seed, shape)
        checked(case, fed(case, start(case, without=[rule])))


def test_where_over_outer_joins() -> None:
    """A condition behind an outer join on the padded side, which may refuse NULLs or take them."""
    for seed in range(60):
        case, rng = random_case(seed, "outer"), Random(seed)
        query, tables = case.query, [table.name for table in case.query.tables]
        column = f"{rng.choice(tables)}.k"
        condition = rng.choice(
            (f"{column} > 1", f"{column} IS NULL OR {column} > 1", f"NOT ({column} = 2)",
             f"{column} IS NOT NULL", f"coalesce({column}, 3) > 1", f"{column} IN (1, 2)")
        )  # fmt: skip
        word = " AND " if " WHERE " in query.cql else " WHERE "
        if " ORDER BY " in query.cql or "LIMIT" in query.cql:
            continue
        cql, sql = (f"{text}{word}({condition})" for text in (query.cql, query.sql))
        case = replace(case, query=replace(query, cql=cql, sql=sql))
        checked(case, fed(case, start(case)))


@pytest.mark.parametrize("shape", FORMS)
def test_buckets_do_not_matter(shape: str) -> None:
    for seed in range(5):
        case = random_case(seed, shape)
        whole, parts = fed(case, start(case)), fed(case, start(case, buckets=3))
        if whole.program.plan.kind is OutputKind.VIEW and whole.clocks.query > -(2**62):
            assert rows_of(whole.snapshot()) == rows_of(parts.snapshot())
