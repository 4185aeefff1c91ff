"""Many windows over the same panes, answered in one pass: as each query alone, and as DuckDB."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.kernels.pane_readers import PaneReaders
from mayfly.kernels.room import Touched
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.spark.stream.state_move import StateMove
from mayfly.storage import verify
from tests.property.shared_runs import results_of
from tests.property.test_pane_sharing import Pipeline, rows_at
from tests.property.test_panes import Query, admitted, oracle, random_batches, random_query, shown

many = settings(
    max_examples=8 if settings().max_examples < 200 else settings().max_examples,
    phases=[Phase.generate],
)
CALLS = (
    ("COUNT(*)",), ("COUNT(v)", "SUM(k)"), ("AVG(v)",), ("MAX(v)", "MIN(g)"), ("AVG(k)", "MAX(g)"),
)  # fmt: skip


def joint_tasks(pipeline: Pipeline) -> list[PaneReaders]:
    tasks = pipeline.runner().dataflow.stages.tasks
    return [task.operator for task in tasks if isinstance(task.operator, PaneReaders)]


@many
@given(seed=st.integers(0, 2**48))
def test_many_windows_answer_as_the_rows_of_each_refresh(seed: int) -> None:
    """Queries leave, and the number of buckets changes, on the way."""
    rng = Random(seed)
    keys, calls = rng.choice(((), ("g",), ("k",), ("k", "g"))), rng.choice(CALLS)
    asked = {
        f"q{n}": replace(random_query(rng), keys=keys, calls=calls, where="") for n in range(7)
    }
    batches = random_batches(rng, rng.randint(3, 6), (0, 3, 8, 25))
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, rng.randint(1, 3), SHARING - set(rng.choice(([], ["CS8"]))))
        pipeline.begin(asked)
        for number, batch in enumerate(batches):
            pipeline.feed(batch)
            if number and rng.random() < 0.3:
                pipeline.drop(rng.choice(sorted(pipeline.queries)))
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
    # Of 12 µs there are 6 + 3 + 2 + 1 refreshes, and 6 have something of their own.
    assert 0.45 < shared / alone < 0.6, (shared, alone)


def test_without_the_rule_every_query_has_a_state_and_a_log() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 1, SHARING - {"CS2"})
        query = Query((), ("COUNT(*)",), "", 20, 5, 0)
        pipeline.begin({"a": query, "b": replace(query, duration=40)})
        pipeline.feed(rows_at(*range(1, 60)))
        assert not joint_tasks(pipeline)
        states = pipeline.runner().repository.current().properties["state"]
        assert {name for name in states if name.startswith("log/")} == {"log/a/0", "log/b/0"}
