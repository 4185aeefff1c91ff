"""TUMBLE, HOP, CUMULATE, SESSION and window(): each answer once, when its window is over.

DuckDB puts the rows into windows; its SQL is written in ``finished_cases``, not made from ours.
"""

from __future__ import annotations

import tempfile
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from mayfly.cql import catalog_after, parse
from mayfly.kernels.pane_store import PaneStore
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.local_session import LocalSession
from tests.property.finished_cases import (
    DECLARED,
    SCHEMA,
    Batch,
    Query,
    Windows,
    admitted,
    expected,
    given,
    random_batches,
    random_query,
    recut,
)
from tests.property.shared_runs import results_of, runner_of

QUERIES, CUTS = 10, 5
RULES = ((), (), ("panes",), ("groups-in-windows",))


@cache
def declared() -> LocalSession:
    session = LocalSession()
    session.execute(DECLARED)
    return session


def answer(run: ContinuousRun, batches: list[Batch]) -> Any:
    """What a query gives, once it was planned."""
    run = ContinuousRun(run.program, run.catalog, {}, run.bucket_count)
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
        without, buckets = rng.choice(RULES), rng.randint(1, 3)
        run = declared().query(query.cql, without=without, buckets=buckets)
        for number in range(CUTS):
            cut = recut(batches, rng) if number else batches
            assert answer(run, cut) == wanted, (seed, query.cql, without, buckets, cut)


@pytest.mark.parametrize("seed", range(20))
def test_every_window_is_answered_once_as_by_an_independent_engine(seed: int) -> None:
    """20 seeds of 10 queries, each over rows that are cut in five ways: 1,000 cases."""
    check_queries(seed, QUERIES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_230))
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


def test_panes_are_shared_with_windows_that_slide() -> None:
    """One store of panes, cut at the edges of both kinds of windows."""
    tail = "SELECT k, SUM(v) AS v, COUNT(*) AS n FROM {} GROUP BY k"
    texts = {
        "tumbling": tail.format("TUMBLE(s, ts, 10 us)"),
        "hopping": tail.format("HOP(s, ts, 5 us, 20 us)"),
        "cumulative": tail.format("CUMULATE(s, ts, 10 us, 40 us)"),
        "sliding": tail.format("s [RANGE 20 us SLIDE 10 us]"),
    }
    rng, catalog = Random(5), catalog_after(parse(DECLARED))
    batches = recut([b for _ in range(4) for b in random_batches(rng, ("s",))], rng)
    with tempfile.TemporaryDirectory() as folder:
        for batch in batches:
            runner = runner_of(folder, catalog, texts, 2)
            runner.feed({"s": pa.Table.from_pylist(batch["s"], SCHEMA)}, {})
        runner = runner_of(folder, catalog, texts, 2)
        runner.close_input()
        tasks = runner.dataflow.stages.tasks
        stores = [task.operator for task in tasks if isinstance(task.operator, PaneStore)]
        answers = {name: results_of(runner, name) for name in texts}
    assert len(stores) == 1
    assert len(stores[0].windows) == 4
    sums = "SELECT k, sum(v), count(*), given FROM copies_s GROUP BY k, window_end, given"
    for name, windows in (
        ("tumbling", Windows("TUMBLE", 10)),
        ("hopping", Windows("HOP", 20, 5)),
        ("cumulative", Windows("CUMULATE", 40, 10)),
    ):
        wanted = expected(Query(texts[name], sums, windows), admitted(batches))
        assert given(answers[name]) == wanted, name
