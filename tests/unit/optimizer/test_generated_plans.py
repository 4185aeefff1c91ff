"""Random queries of the language: every candidate plan answers what an independent engine answers.

The engine (DuckDB) gets SQL that was written beside the query, over the tuples alive at an
instant; the plans go through the slow evaluator. So parser, binder, every rewrite and the
evaluator have to agree with something none of them made.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb
import pytest

from mayfly.cql import bind_query, catalog_after, parse
from mayfly.optimizer import optimize
from mayfly.physical.explain.explainer import explain
from mayfly.plan.strategy import Strategy
from mayfly.testing.random_queries import (
    DECLARATIONS,
    SECOND,
    SHAPES,
    STREAMS,
    GeneratedQuery,
    alive_at,
    random_query,
)
from tests.unit.optimizer.plan_oracle import answer

CATALOG = catalog_after(parse(DECLARATIONS))
SEEDS = 10
TYPES = {"number": "BIGINT", "text": "VARCHAR", "real": "DOUBLE"}
Rows = list[dict[str, Any]]


def random_rows(seed: int) -> dict[str, Rows]:
    chance = Random(seed)
    values: dict[str, Any] = {
        "number": lambda: chance.choice([None, 0, 1, 2, 3, 5]),
        "text": lambda: chance.choice([None, "a", "b", "ab"]),
        "real": lambda: chance.choice([None, 0.5, 1.0]),
    }
    return {
        stream: [
            {"ts": chance.randrange(40) * SECOND, "seq": number}
            | {name: values[kind]() for name, kind in columns.items()}
            for number in range(chance.randrange(3, 9))
        ]
        for stream, columns in STREAMS.items()
    }


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


def independent_answer(
    engine: duckdb.DuckDBPyConnection, query: GeneratedQuery, rows: dict[str, Rows], at: int
) -> Counter[Any]:
    for table in query.tables:
        columns = {"ts": "number", "seq": "number", **STREAMS[table.stream]}
        listed = ", ".join(f"{name} {TYPES[kind]}" for name, kind in columns.items())
        engine.execute(f"CREATE OR REPLACE TABLE {table.name} ({listed})")
        held = alive_at(table, rows[table.stream], at)
        if held:
            marks = ", ".join("?" for _ in columns)
            values = [[row[name] for name in columns] for row in held]
            engine.executemany(f"INSERT INTO {table.name} VALUES ({marks})", values)
    return Counter(rounded(row) for row in engine.execute(query.sql).fetchall())


def rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sums in another order differ in the last digits."""
    return tuple(float(f"{v:.9g}") if isinstance(v, float) else v for v in row)


@pytest.mark.parametrize("shape", SHAPES)
def test_all_candidates_answer_like_an_independent_engine(
    shape: str, engine: duckdb.DuckDBPyConnection
) -> None:
    answered = 0
    for seed in range(SEEDS):
        query = random_query(Random(f"{shape} {seed}"), shape)
        plan = bind_query(query.cql, CATALOG)
        candidates = [each.plan for each in optimize(plan).candidates]
        rows = random_rows(seed)
        for at in (15 * SECOND, 33 * SECOND):
            expected = independent_answer(engine, query, rows, at)
            answered += expected.total()
            for candidate in (plan, *candidates):
                found = answer(candidate, rows, at)
                rounded_rows = Counter[Any]()
                for row, times in found.items():
                    rounded_rows[rounded(row)] += times
                assert rounded_rows == expected, f"seed {seed} at {at}: {query.cql}"
    assert answered


@pytest.mark.parametrize("strategy", Strategy)
def test_every_query_can_be_explained(strategy: Strategy) -> None:
    for seed in range(30):
        query = random_query(Random(seed))
        explained = explain(
            bind_query(query.cql, CATALOG), CATALOG, query.cql, strategy=strategy, compare=True
        )
        for plan in explained.plans:
            assert math.isfinite(plan.physical.cost.total)
            assert plan.physical.cost.total >= 0
            assert math.isfinite(plan.physical.state_bytes)
        assert explained.text()
        assert explained.html().count("<svg") == len(explained.plans)
