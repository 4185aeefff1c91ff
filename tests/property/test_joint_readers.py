"""Many windows over the same panes, answered in one pass: as each query alone, and as DuckDB."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.errors import UnsupportedFormat
from mayfly.kernels.pane_readers import PaneReaders
from mayfly.kernels.room import Touched
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.spark.stream.query_checkpoint import RegisteredQueries
from mayfly.spark.stream.state_move import StateMove
from mayfly.storage import verify
from tests.property.shared_runs import results_of
from tests.property.test_pane_sharing import Pipeline, rows_at
from tests.property.test_panes import (
    FORMS,
    Query,
    admitted,
    oracle,
    random_batches,
    random_query,
    shown,
)

many = settings(
    max_examples=8 if settings().max_examples < 200 else settings().max_examples,
    phases=[Phase.generate],
)
CALLS = (
    ("COUNT(*)",), ("COUNT(v)", "SUM(k)"), ("AVG(v)",), ("MAX(v)", "MIN(g)"), ("AVG(k)", "MAX(g)"),
    ("SUM(f)", "AVG(m)"), ("VAR(f)", "STDDEV_POP(k)"), ("SUM(m)", "COUNT(DISTINCT v)"),
    ("MEDIAN(k)", "QUANTILE(v, 0.3)", "MODE(g)"), ("TOP(v, 2)", "AVG(f)"),
    ("APPROX_COUNT_DISTINCT(g)", "APPROX_PERCENTILE(k, 0.3)"), ("APPROX_TOP_K(g, 2)", "COUNT(*)"),
    ("SUM(f) FILTER (WHERE k = 1)", "MEDIAN(f) FILTER (WHERE g = 'a')"),
    ("SUM(k) * 2 + COUNT(*)", "MAX(g)"), ("MAX(k) - MIN(k)", "SUM(m) * 2"),
)  # fmt: skip


def joint_tasks(pipeline: Pipeline) -> list[PaneReaders]:
    tasks = pipeline.runner().dataflow.stages.tasks
    return [task.operator for task in tasks if isinstance(task.operator, PaneReaders)]


@many
@given(seed=st.integers(0, 2**48))
def test_many_windows_answer_as_the_rows_of_each_refresh(seed: int) -> None:
    """Queries come and go, and the number of buckets changes, on the way."""
    rng = Random(seed)
    keys, calls = rng.choice(((), ("g",), ("k",), ("k", "g"))), rng.choice(CALLS)
    number = 0

    def some(count: int) -> dict[str, Query]:
        nonlocal number
        made = {}
        for _ in range(count):
            query = replace(random_query(rng), keys=keys, calls=calls, where="")
            # A call that only HAVING has would be another question.
            asks = [call for call in calls if call not in FORMS]
            having = [f"{call} > 1" if "COUNT" in call else f"{call} IS NOT NULL" for call in asks]
            made[f"q{number}"] = replace(query, having=rng.choice(["", *having]))
            number += 1
        return made

    batches = random_batches(rng, rng.randint(3, 6), (0, 3, 8, 25))
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, rng.randint(1, 3), SHARING - set(rng.choice(([], ["CS8"]))))
        pipeline.begin(some(7))
        for index, batch in enumerate(batches):
            pipeline.feed(batch)
            if index and rng.random() < 0.3:
                pipeline.drop(rng.choice(sorted(pipeline.queries)))
            if rng.random() < 0.4:
                pipeline.add(some(rng.randint(1, 3)))
            if rng.random() < 0.3:
                spread(pipeline, rng.randint(1, 3))
        (readers,) = joint_tasks(pipeline)
        assert len(readers.windows) == len({(q.duration, q.period, q.origin)
                                            for q in pipeline.queries.values()})  # fmt: skip
        pipeline.check(admitted(batches), rng)


def spread(pipeline: Pipeline, buckets: int) -> None:
    """Move the checkpoint to so many buckets."""
    runner = pipeline.runner()
    base = runner.repository.current()
    move = StateMove(runner.repository, base, runner.dataflow.program, buckets)
    runner.repository.commit(base, move.edits({}))
    pipeline.buckets = buckets


def test_results_of_a_window_end_when_its_query_leaves() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 1, SHARING)
        stays = Query((), ("COUNT(*)",), "", 20, 5, 0)
        pipeline.begin({"stays": stays, "leaves": replace(stays, duration=40)})
        first, second = rows_at(*range(1, 60)), rows_at(*range(60, 90))
        pipeline.feed(first)
        pipeline.drop("leaves")
        pipeline.feed(second)
        runner = pipeline.runner()
        log = [s for s in runner.repository.current().segments.values() if "state/log" in s.group]
        assert {s.group.split("/")[2].split(" ")[0] for s in log} == {"shared"}
        assert shown(results_of(runner, "stays"), 80) == oracle(stays, [*first, *second], 80)
        (task,) = [t for t in runner.dataflow.stages.tasks if isinstance(t.operator, PaneReaders)]
        state = runner.repository.current().properties["state"][f"task/{task.name}/0"]
        (path,) = state["runs"]["groups"]
        assert runner.repository.current().segments[path].rows == 1
        assert verify(runner.repository).ok


def test_queries_that_ask_the_same_have_one_reader_and_their_own_answers() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 2, SHARING)
        query = Query(("g",), ("COUNT(*)", "MAX(v)"), "", 20, 5, 0)
        pipeline.begin({"a": query, "b": query, "c": replace(query, period=10)})
        rows = rows_at(*range(1, 60))
        pipeline.feed(rows)
        (readers,) = joint_tasks(pipeline)
        assert len(readers.windows) == 2
        answered = pipeline.runner().repository.current().properties["answers"]
        assert answered["a"] == answered["b"] > answered["c"] > 0
        pipeline.check(rows, Random(1))


def values_read(sharing: frozenset[str], rows: list[dict[str, Any]]) -> int:
    """In steps of many refreshes, by extremes of one length and four periods that meet."""
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 1, sharing)
        query = Query(("g",), ("MAX(v)",), "", 200, 2, 0)
        pipeline.begin({f"q{n}": replace(query, period=2 * n) for n in (1, 2, 3, 6)})
        before = Touched.rows
        pipeline.feed(rows)
        read = Touched.rows - before
        pipeline.check(rows, Random(1))
    return read


def test_a_window_of_a_longer_period_is_given_what_another_has_read() -> None:
    rows = rows_at(*range(1, 600))
    alone, shared = (values_read(rules, rows) for rules in (SHARING - {"CS8"}, SHARING))
    # Of 12 µs there are 6 + 3 + 2 + 1 refreshes, and 6 have something of their own; blocks of the
    # 600 rows are made once in either case.
    assert 0.55 < shared / alone < 0.75, (shared, alone)
    assert alone < 600 * 12, "values of blocks, and not each of the rows in a window"


@pytest.mark.parametrize(
    ("call", "times"),
    [("MEDIAN(v)", 2), ("SUM(f)", 2), ("SUM(m)", 2), ("VAR_POP(k)", 4),
     ("APPROX_PERCENTILE(k, 0.3)", 4)],
)  # fmt: skip
def test_values_of_many_windows_are_read_once(call: str, times: int) -> None:
    """Also of several groups, at several refreshes of a step; what merges only, for each window."""
    rows = [
        {**row, "g": "ab"[n % 2], "f": 0.5 * n, "m": Decimal(n % 9), "k": n % 7, "v": n % 11}
        for n, row in enumerate(rows_at(*range(1, 400)))
    ]
    queries = {f"q{n}": Query(("g",), (call,), "", 40 * n, 8, 0) for n in (1, 2, 3, 4, 5)}
    read = {}
    for name, asked in {"one": {"q5": queries["q5"]}, "all": queries}.items():
        with tempfile.TemporaryDirectory() as folder:
            pipeline = Pipeline(folder, 1, SHARING)
            pipeline.begin(asked)
            pipeline.feed(rows[:300])
            before = Touched.rows
            pipeline.feed(rows[300:312])
            read[name] = Touched.rows - before
            pipeline.feed(rows[312:])
            assert len(joint_tasks(pipeline)) == 1
            pipeline.check(rows, Random(1), 30)
    # Five windows have 3 times the panes of the longest one.
    assert (times - 1) / 2 * read["one"] < read["all"] < times * read["one"], read


def test_having_and_computed_columns_are_answered_in_one_pass() -> None:
    rows = [{**row, "g": "ab"[n % 3 == 0]} for n, row in enumerate(rows_at(*range(1, 90)))]
    plain = Query(("g",), ("COUNT(*)", "SUM(k) * 2"), "", 20, 5, 0)
    queries = {
        "plain": plain,
        "many": replace(plain, having="COUNT(*) > 12"),
        "few": replace(plain, having="COUNT(*) < 9", duration=40),
        "other": replace(plain, calls=("COUNT(*)", "SUM(k) * 3")),
        "columns": replace(plain, calls=("COUNT(*)", "SUM(k)")),
    }
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 2, SHARING)
        pipeline.begin(queries)
        for start in range(0, len(rows), 30):
            pipeline.feed(rows[start : start + 30])
        assert sorted(len(task.readers) for task in joint_tasks(pipeline)) == [1, 1, 3]
        pipeline.check(rows, Random(1), 80)


def delivered_first(pipeline: Pipeline, name: str) -> int:
    """The results that the sinks of a newcomer get before those of any batch."""
    runner = pipeline.runner()
    stored = runner.repository.current()
    number = stored.properties["unsent"].get(name, stored.version)
    spark: Any = None
    delivery = runner.results[name].delivery(spark, runner.repository.directory, stored, number)
    return sum(batch.num_rows for batch in delivery.batches())


def test_newcomers_join_the_pass_of_the_others() -> None:
    """They answer at once, what others show is not theirs, and they leave with their results."""
    rows = [{**row, "g": "ab"[n % 2]} for n, row in enumerate(rows_at(*range(1, 160)))]
    query = Query(("g",), ("COUNT(*)", "MAX(v)"), "", 40, 5, 0)
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 2, SHARING)
        pipeline.begin({"first": query})
        pipeline.feed(rows[:80])
        pipeline.add({"equal": query, "short": replace(query, duration=20)})
        pipeline.add({"again": query, "some": replace(query, having="MAX(v) > 100")})
        since = pipeline.entries["again"]["since"]
        table = results_of(pipeline.runner(), "again")
        assert shown(table, since - 1) == oracle(query, rows[:80], since - 1)
        assert min(table.column("exp").to_pylist()) >= since, "what was shown before it came"
        assert delivered_first(pipeline, "again") == len(table)
        assert delivered_first(pipeline, "equal") == len(table), "of those that came before it"
        pipeline.feed(rows[80:120])
        pipeline.drop("equal")
        pipeline.drop("first")
        pipeline.add({"first": query})
        pipeline.feed(rows[120:])
        (readers,) = joint_tasks(pipeline)
        assert len(readers.readers) == 4
        pipeline.check(rows, Random(1), 150)
        states = pipeline.runner().repository.current().properties["state"]
        assert len({name.rpartition("/")[0] for name in states}) == 3, "panes, groups and a log"


def test_what_a_newcomer_shows_first_is_no_row_of_nothing() -> None:
    """Nothing is grouped, and nothing is known of the rows that it asks for."""
    query = Query((), ("COUNT(*)",), "", 20, 5, 0)
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 1, SHARING)
        pipeline.begin({"first": query})
        pipeline.feed(rows_at(*range(1, 40)))
        pipeline.add({"edges": replace(query, period=7, origin=1), "same": query})
        pipeline.feed(rows_at(*range(40, 90)))
        pipeline.check(rows_at(*range(1, 90)), Random(1), 80)


def test_a_checkpoint_whose_queries_were_apart_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 1, SHARING - {"CS2"})
        pipeline.begin({"a": Query((), ("SUM(f)",), "", 20, 5, 0)})
        pipeline.feed(rows_at(*range(1, 40)))
        pipeline.sharing = SHARING
        runner = pipeline.runner()
        register = RegisteredQueries(runner.repository, 1, pipeline.entries, dropped=("other",))
        with pytest.raises(UnsupportedFormat, match="results of a alone"):
            register.check_claimed(runner.dataflow.stages)


def test_without_the_rule_every_query_has_a_state_and_a_log() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 1, SHARING - {"CS2"})
        query = Query((), ("COUNT(*)",), "", 20, 5, 0)
        pipeline.begin({"a": query, "b": replace(query, duration=40)})
        pipeline.feed(rows_at(*range(1, 60)))
        assert not joint_tasks(pipeline)
        states = pipeline.runner().repository.current().properties["state"]
        assert {name for name in states if name.startswith("log/")} == {"log/a/0", "log/b/0"}
