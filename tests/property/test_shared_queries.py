"""Queries that run together give what each gives alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.runtime.clock import Clocks
from mayfly.runtime.in_process import ContinuousRun
from mayfly.spark.stream.query_checkpoint import RegisteredQueries
from mayfly.storage import verify
from mayfly.testing.random_queries import STREAMS, random_query
from tests.property.continuous_cases import _cut, _rows, catalog, table_of, told
from tests.property.shared_runs import program_of, results_of, runner_of

SECOND = 1_000_000
seeds = st.integers(0, 2**48)
some = settings(max_examples=max(20, settings().max_examples // 3), phases=[Phase.generate])


def random_queries(rng: Random) -> dict[str, str]:
    """A few queries, some of them equal to others or standing on them."""
    texts = [random_query(rng).cql for _ in range(rng.randint(1, 3))]
    join = "SELECT x.g, x.v, y.v AS w FROM s1 [RANGE 10 s] x, s2 [RANGE 5 s] y WHERE x.k = y.k"
    texts += rng.sample(
        [join, f"SELECT g, COUNT(*) AS n FROM ({join}) z GROUP BY g", *texts], rng.randint(1, 3)
    )
    if rng.random() < 0.4:
        tests = ("v = 1", "v > 2", "g = 'a' AND v >= 1", "k < 2", "x = 1.0", "k = 1 AND x > 0.5")
        picked = rng.sample(tests, 5)
        texts += [f"SELECT seq, v FROM s1 [RANGE {r} s] WHERE {t}" for r, t in enumerate(picked, 3)]
    return {f"q{number}": text for number, text in enumerate(texts)}


@some
@given(seeds)
def test_queries_together_and_apart_agree(seed: int) -> None:
    rng = Random(seed)
    known, queries = catalog(0), random_queries(rng)
    rows = {name: _rows(rng, name, rng.randint(0, 14)) for name in STREAMS}
    batches = _cut(rng, rows, 0)
    runs = {name: ContinuousRun(program_of(cql, known), known) for name, cql in queries.items()}
    with tempfile.TemporaryDirectory() as folder:
        together = runner_of(Path(folder), known, queries, buckets=rng.choice((1, 2, 3)))
        read = {stream.name for stream in together.dataflow.streams}
        end = dict.fromkeys(read, 10000 * SECOND)
        for batch in [*batches, {}]:
            tables = {n: table_of(n, listed) for n, listed in batch.items() if n in read}
            beats = {} if batch else end
            together.feed(tables, beats)
            for run in runs.values():
                own = set(run.clocks.streams)
                run.feed(
                    {n: t for n, t in tables.items() if n in own},
                    {n: at for n, at in beats.items() if n in own},
                )
        manifest = together.repository.current()
        for name, run in runs.items():
            view = run.program.sent is None
            wanted = told(run.lifetimes() if view else run.changes(), view)
            found = told(results_of(together, name), view)
            assert found == wanted, (queries, name)
            clocks = together.results[name].clocks(manifest)
            assert clocks.query == run.clocks.query
        assert Clocks.from_json(manifest.properties["clocks"]).query == 10_000 * SECOND


@some
@given(seeds)
def test_queries_come_and_go(seed: int) -> None:
    """A query that stays is not disturbed; one that comes sees what comes after it."""
    rng = Random(seed)
    known = catalog(0)
    stays, goes, comes = (random_query(rng).cql for _ in range(3))
    if rng.random() < 0.3:
        comes = stays
    queries = {"stays": stays, "goes": goes}
    rows = {name: _rows(rng, name, rng.randint(2, 14)) for name in STREAMS}
    batches = [*_cut(rng, rows, 0)]
    half = len(batches) // 2
    alone = {
        name: ContinuousRun(program_of(cql, known), known)
        for name, cql in (("stays", stays), ("comes", comes))
    }

    def fed(run: ContinuousRun, batch: Any, beats: dict[str, int]) -> None:
        own = set(run.clocks.streams)
        run.feed(
            {n: table_of(n, listed) for n, listed in batch.items() if n in own},
            {n: at for n, at in beats.items() if n in own},
        )

    with tempfile.TemporaryDirectory() as folder:
        every = ("s1", "s2", "s3")
        first = runner_of(Path(folder), known, queries, streams=every)
        for batch in batches[:half]:
            first.feed({n: table_of(n, listed) for n, listed in batch.items()}, {})
            fed(alone["stays"], batch, {})
        manifest = first.repository.current()
        clocks = Clocks.from_json(manifest.properties["clocks"])
        since = clocks.of(alone["comes"].clocks.streams).query
        after: dict[str, dict[str, Any]] = {"stays": {"since": None}, "comes": {"since": since}}
        second = runner_of(
            Path(folder), known, {"stays": stays, "comes": comes},
            since={"comes": since}, streams=every,
        )  # fmt: skip
        register = RegisteredQueries(second.repository, 2, after, ("comes",), ("goes",))
        base = second.repository.current()
        second.repository.commit(base, register.edits(base, second.dataflow.stages))
        # the newcomer's clock is that of its streams, and earlier rows are late for it
        alone["comes"].clocks = clocks.of(alone["comes"].clocks.streams)
        end = dict.fromkeys(every, 10_000 * SECOND)
        for batch in [*batches[half:], {}]:
            beats = {} if batch else end
            second.feed({n: table_of(n, listed) for n, listed in batch.items()}, beats)
            for run in alone.values():
                fed(run, batch, beats)
        for name, run in alone.items():
            view = run.program.sent is None
            if not view and name == "comes":
                continue  # its first refresh is that of the streams' first row ever
            wanted = told(run.lifetimes() if view else run.changes(), view)
            assert told(results_of(second, name), view) == wanted, (stays, comes, name)
        last = second.repository.current()
        assert not [name for name in last.properties["state"] if "/goes/" in name]
        assert verify(second.repository).ok


def test_equal_parts_are_computed_once(tmp_path: Path) -> None:
    join = "FROM s1 [RANGE 10 s] {0}, s2 [RANGE 5 s] {1} WHERE {0}.k = {1}.k"
    queries = {
        "pairs": "SELECT a.g, b.v " + join.format("a", "b"),
        "counts": "SELECT a.g, COUNT(b.v) AS n " + join.format("a", "b") + " GROUP BY a.g",
        "again": "SELECT x.g, y.v\n" + join.format("x", "y"),
        "other": "SELECT a.g, b.v FROM s1 [RANGE 11 s] a, s2 [RANGE 5 s] b WHERE a.k = b.k",
    }
    runner = runner_of(tmp_path / "ck", catalog(0), queries)
    joins = [t for t in runner.dataflow.stages.tasks if type(t.operator).__name__ == "JoinRows"]
    assert len(joins) == 2
    late = runner_of(tmp_path / "late", catalog(0), queries, since={"again": 5})
    joins = [t for t in late.dataflow.stages.tasks if type(t.operator).__name__ == "JoinRows"]
    assert len(joins) == 3, "a query that comes later has a state of its own"


@pytest.mark.parametrize("other", ["SELECT v FROM s1 [RANGE 9 s]", "SELECT k FROM s3 [NOW]"])
def test_names_of_states_do_not_depend_on_other_queries(tmp_path: Path, other: str) -> None:
    mine = "SELECT g, COUNT(*) AS n FROM s1 [RANGE 5 s] WHERE v > 1 GROUP BY g"
    alone = runner_of(tmp_path / "a", catalog(0), {"mine": mine})
    more = runner_of(tmp_path / "b", catalog(0), {"other": other, "mine": f"\n\n {mine}"})
    names = [{task.name for task in one.dataflow.stages.tasks} for one in (alone, more)]
    assert names[0] < names[1]
