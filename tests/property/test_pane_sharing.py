"""Periodic queries that come and go while they share panes, against an independent engine.

DuckDB answers over the rows that each refresh shows. Every step is a new start on the checkpoint.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.cql import catalog_after, parse
from mayfly.kernels.pane_store import PaneStore
from mayfly.lifetime import MIN_TIME
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.physical.program import Program
from mayfly.runtime.clock import Clocks
from mayfly.spark.stream.query_checkpoint import ENTRY, SINCE, WHOLE_FROM, RegisteredQueries
from mayfly.spark.stream.query_history import settle
from mayfly.storage import verify
from tests.property.shared_runs import HereRunner, results_of, runner_of
from tests.property.test_panes import (
    DECLARED,
    SCHEMA,
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
CATALOG = catalog_after(parse(DECLARED))


@dataclass
class Pipeline:
    """Queries on one checkpoint, started anew before everything that happens."""

    folder: str
    buckets: int
    sharing: frozenset[str]
    queries: dict[str, Query] = field(default_factory=dict)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    def runner(self) -> HereRunner:
        return runner_of(
            self.folder, CATALOG, {name: query.cql for name, query in self.queries.items()},
            self.buckets, {name: entry[SINCE] for name, entry in self.entries.items()}, ("s",),
            {name: entry.get(ENTRY) for name, entry in self.entries.items()},
            sharing=self.sharing, programs=self.programs(),
        )  # fmt: skip

    def programs(self) -> dict[str, Program] | None:
        """Those of the queries, if they are not compiled one by one."""
        return None

    def begin(self, queries: dict[str, Query]) -> None:
        self.queries = dict(queries)
        self.entries = {name: {SINCE: None} for name in queries}
        self.runner()

    def add(self, queries: dict[str, Query]) -> None:
        stored = self.runner().repository.current()
        clock = Clocks.from_json(stored.properties["clocks"]).query
        begun = stored.properties["batch"] >= 0
        entry = {SINCE: clock, ENTRY: stored.version} if begun else {SINCE: None}
        self.queries |= queries
        self.entries |= {name: dict(entry) for name in queries}
        self._settle(added=tuple(queries))

    def drop(self, name: str) -> None:
        del self.queries[name], self.entries[name]
        self._settle(dropped=(name,))

    def _settle(self, added: tuple[str, ...] = (), dropped: tuple[str, ...] = ()) -> None:
        runner = self.runner()
        settle(
            runner,
            RegisteredQueries(runner.repository, self.buckets, self.entries, added, dropped),
        )
        settled = runner.repository.current().properties["queries"]
        self.entries = {name: dict(entry) for name, entry in settled.items()}

    def feed(self, batch: list[dict[str, Any]]) -> None:
        self.runner().feed({"s": pa.Table.from_pylist(batch, schema=SCHEMA)}, {})

    def check(self, rows: list[dict[str, Any]], rng: Random, count: int = 9) -> None:
        """Some of the answers since each says that they are whole."""
        runner = self.runner()
        runner.close_input()
        last = max((row["ts"] for row in rows), default=-1)
        for name, query in self.queries.items():
            table = results_of(runner, name)
            since = max(self.entries[name].get(WHOLE_FROM) or 0, self.entries[name][SINCE] or 0, 0)
            for instant in sorted(rng.sample(range(last + 1), min(count, last + 1))):
                if instant >= since:
                    expected = oracle(query, rows, instant)
                    assert shown(table, instant) == expected, (name, query.cql, instant, since)
        assert verify(runner.repository).ok

    def stores(self) -> list[PaneStore]:
        tasks = self.runner().dataflow.stages.tasks
        return [t.operator for t in tasks if isinstance(t.operator, PaneStore)]


def harmless(rng: Random, keys: tuple[str, ...] | None = None) -> Query:
    """Without a sum that may not fit: it ends a run, as it should."""
    while True:
        query = random_query(rng)
        query = query if keys is None else replace(query, keys=keys)
        if "SUM(v)" not in query.calls:
            return query


@many
@given(seed=st.integers(0, 2**48))
def test_queries_that_come_and_go_answer_as_the_rows_of_each_refresh(seed: int) -> None:
    rng = Random(seed)
    keys, where = rng.choice(((), ("g",), ("k", "g"))), rng.choice(("", "v > 1"))
    sharing = frozenset(rule for rule in sorted(SHARING) if rng.random() < 0.8)
    batches = random_batches(rng, rng.randint(2, 7), (0, 3, 8, 20))
    number = 0

    def some(count: int) -> dict[str, Query]:
        nonlocal number
        number += count
        made = [harmless(rng, keys) for _ in range(count)]
        made = [replace(q, where=where) if rng.random() < 0.8 else q for q in made]
        return {f"q{number - count + n}": query for n, query in enumerate(made)}

    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, rng.randint(1, 3), sharing)
        pipeline.begin(some(rng.randint(1, 4)))
        for batch in batches:
            if rng.random() < 0.4:
                pipeline.add(some(rng.randint(1, 3)))
            if len(pipeline.queries) > 1 and rng.random() < 0.3:
                pipeline.drop(rng.choice(list(pipeline.queries)))
            pipeline.feed(batch)
        pipeline.check(admitted(batches), rng)


def rows_at(*times: int) -> list[dict[str, Any]]:
    return [{"ts": ts, "k": 1, "g": "a", "v": ts, "m": None} for ts in times]


def test_windows_and_functions_of_one_grouping_have_one_state() -> None:
    queries = {
        "a": Query(("g",), ("SUM(k)", "COUNT(*)"), "", 10, 2, 0),
        "b": Query(("g",), ("AVG(k)",), "", 600, 30, 1),
        "c": Query(("g",), ("MAX(v)",), "", 7, 3, 0),
        "other rows": Query(("g",), ("MAX(v)",), "v > 1", 7, 3, 0),
        "other groups": Query(("k",), ("MAX(v)",), "", 7, 3, 0),
    }
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 2, SHARING)
        pipeline.begin(queries)
        stores = pipeline.stores()
        assert sorted(len(store.windows) for store in stores) == [1, 1, 3]
        widest = max(stores, key=lambda store: len(store.windows))
        # The sum, its count, the number of rows and the maximum: what AVG needs is there already.
        assert len(widest.contents) == 4
        pipeline.sharing = frozenset()
        assert len(pipeline.stores()) == 5


def test_a_late_query_answers_at_once_from_panes_of_others() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 2, SHARING)
        pipeline.begin({"long": Query(("g",), ("SUM(k)",), "", 60, 5, 0)})
        pipeline.feed(rows_at(*range(1, 101)))
        pipeline.add({"late": Query(("g",), ("SUM(k)",), "", 20, 10, 0)})
        entry = pipeline.entries["late"]
        assert entry[WHOLE_FROM] <= entry[SINCE]
        table = results_of(pipeline.runner(), "late")
        assert shown(table, entry[SINCE] - 1) == [("a", 20)]


def test_a_late_query_says_from_when_where_its_panes_are_not_kept() -> None:
    """Another function, other edges, a longer window: known since the last row, or as far back as
    panes are kept."""
    late = {
        "function": Query(("g",), ("MAX(v)",), "", 20, 10, 0),
        "edges": Query(("g",), ("SUM(k)",), "", 20, 10, 3),
        "longer": Query(("g",), ("SUM(k)",), "", 80, 10, 0),
    }
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 1, SHARING)
        pipeline.begin({"long": Query(("g",), ("SUM(k)",), "", 60, 5, 0)})
        pipeline.feed(rows_at(*range(1, 101)))
        pipeline.add(late)
        whole = {name: pipeline.entries[name][WHOLE_FROM] for name in late}
        assert whole == {"function": 130, "edges": 130, "longer": 119}
        pipeline.feed(rows_at(*range(101, 300)))
        table = results_of(pipeline.runner(), "edges")
        assert shown(table, 113) == [("a", 13)], "of rows up to 100 it knows nothing"
        pipeline.check(admitted([rows_at(*range(1, 101)), rows_at(*range(101, 300))]), Random(1))


def test_panes_are_no_finer_than_the_windows_that_still_read_them() -> None:
    """A second for a minute, a day for a year: not a second for a year."""
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 1, SHARING)
        pipeline.begin(
            {
                "short": Query((), ("COUNT(*)",), "", 10, 1, 0),
                "long": Query((), ("COUNT(*)",), "", 10_000, 1000, 0),
            }
        )
        for start in range(0, 6000, 250):
            pipeline.feed(rows_at(*range(start + 1, start + 251)))
        runner = pipeline.runner()
        states = runner.repository.current().properties["state"]
        store = next(t for t in runner.dataflow.stages.tasks if isinstance(t.operator, PaneStore))
        paths = states[f"task/{store.name}/0"]["runs"]["panes"]
        rows = sum(runner.repository.current().segments[path].rows for path in paths)
        assert rows < 1000, rows


def test_panes_are_merged_at_no_edge_in_use_and_kept_for_the_longest_window() -> None:
    """Many small batches: runs of panes are merged and dropped again and again."""
    batches = [rows_at(*range(start + 1, start + 7)) for start in range(0, 180, 6)]
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 1, SHARING)
        pipeline.begin(
            {
                "short": Query((), ("COUNT(*)", "MIN(v)"), "", 12, 3, 0),
                "other": Query((), ("SUM(k)", "MAX(v)"), "", 35, 5, 0),
                "long": Query((), ("COUNT(*)", "MIN(v)"), "", 60, 7, 2),
            }
        )
        for batch in batches:
            pipeline.feed(batch)
        pipeline.check(admitted(batches), Random(1), 180)


def test_what_the_longest_window_kept_goes_with_it() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, 1, SHARING)
        pipeline.begin(
            {
                "short": Query((), ("COUNT(*)",), "", 10, 5, 0),
                "long": Query((), ("COUNT(*)",), "", 1000, 5, 0),
            }
        )
        pipeline.feed(rows_at(*range(1, 501)))
        pipeline.drop("long")
        pipeline.feed(rows_at(*range(501, 520)))
        runner = pipeline.runner()
        segments = runner.repository.current().segments.values()
        oldest = min(s.ts.low for s in segments if "/panes" in s.path or "panes" in s.group)
        assert oldest > 480
        assert oldest > MIN_TIME
