"""TUMBLE, HOP, CUMULATE, SESSION and window(): each answer once, when its window is over.

DuckDB puts the rows into windows; its SQL is written in ``finished_cases``, not made from ours.
"""

from __future__ import annotations

import tempfile
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from mayfly.cql import catalog_after, parse
from mayfly.runtime.local_session import LocalSession
from tests.property.finished_cases import (
    DECLARED,
    SCHEMA,
    Batch,
    Query,
    admitted,
    expected,
    given,
    random_batches,
    random_query,
    recut,
)
from tests.property.shared_runs import results_of, runner_of

QUERIES, CUTS = 20, 3
RULES = ((), (), ("panes",), ("groups-in-windows",))


def answer(query: Query, batches: list[Batch], **options: Any) -> Any:
    session = LocalSession()
    session.execute(DECLARED)
    run = session.query(query.cql, **options)
    for batch in batches:
        run.feed({name: pa.Table.from_pylist(rows, SCHEMA) for name, rows in batch.items()})
    run.finish()
    return given(run.lifetimes())


def check_queries(seed: int, queries: int) -> None:
    rng = Random(seed)
    for _ in range(queries):
        query = random_query(rng)
        batches = random_batches(rng, query.streams)
        wanted = expected(query, admitted(batches))
        for number in range(CUTS):
            options = {"without": rng.choice(RULES), "buckets": rng.randint(1, 3)}
            cut = recut(batches, rng) if number else batches
            assert answer(query, cut, **options) == wanted, (seed, query.cql, options, cut)


@pytest.mark.parametrize("seed", range(20))
def test_every_window_is_answered_once_as_by_an_independent_engine(seed: int) -> None:
    """20 seeds of 20 queries, each over rows that are cut in three ways."""
    check_queries(seed, QUERIES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_200))
def test_many_more_queries_over_finished_windows(seed: int) -> None:
    check_queries(seed, QUERIES)


def check_restarts(seed: int, queries: int) -> None:
    """The tasks, states and commits of Spark, started anew before every batch."""
    rng, catalog = Random(seed), catalog_after(parse(DECLARED))
    for _ in range(queries):
        query = random_query(rng)
        batches, buckets = random_batches(rng, query.streams), rng.randint(1, 3)
        with tempfile.TemporaryDirectory() as folder:
            for batch in batches:
                runner = runner_of(folder, catalog, {"q": query.cql}, buckets)
                tables = {n: pa.Table.from_pylist(rows, SCHEMA) for n, rows in batch.items()}
                runner.feed(tables, {})
            runner = runner_of(folder, catalog, {"q": query.cql}, buckets)
            runner.close_input()
            table = results_of(runner, "q")
        assert given(table) == expected(query, admitted(batches)), (seed, query.cql, batches)


@pytest.mark.parametrize("seed", range(4))
def test_restarts_within_windows_change_no_answer(seed: int) -> None:
    check_restarts(seed, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_040))
def test_more_restarts_within_windows(seed: int) -> None:
    check_restarts(seed, 10)
