"""Every candidate plan of a random query gives the answer an independent engine gives."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from mayfly.cql import bind_query
from mayfly.optimizer.optimize import optimize
from mayfly.testing.random_queries import SHAPES, random_query
from tests.property.cql_plan_sql import plan_sql
from tests.property.test_cql import CATALOG, answer, fill_tables, seeds

# The tables of these hold what a window over a filter keeps; rewrites move the filter around it.
WITHOUT_OWN_TABLES = [shape for shape in SHAPES if shape != "windowed_subquery"]


@pytest.mark.parametrize("shape", WITHOUT_OWN_TABLES)
@given(seed=seeds)
def test_all_candidates_give_the_same_answer(shape: str, seed: int) -> None:
    rng = Random(seed)
    query = random_query(rng, shape)
    candidates = optimize(bind_query(query.cql, CATALOG)).candidates
    fill_tables(query, rng)
    expected = answer(query.sql)
    for candidate in candidates:
        assert answer(plan_sql(candidate.plan)) == expected
