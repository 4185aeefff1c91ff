"""Windows over the latest rows that move by rows (n-of-N), against an independent engine.

DuckDB answers over the n rows that come before a multiple of m; its SQL is written here.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.checkpoint.awaited_rows import awaited_rows
from mayfly.cql import catalog_after, parse
from mayfly.kernels.row_panes import RowPaneStore
from mayfly.lifetime import NEVER
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.physical.explain.sharing import sharing_of
from mayfly.runtime.local_session import LocalSession
from mayfly.spark.stream.query_checkpoint import WHOLE_FROM
from mayfly.spark.stream.runner import Runner
from tests.property import test_pane_sharing
from tests.property.shared_runs import HereRunner, program_of, results_of, runner_of
from tests.property.test_pane_sharing import Pipeline
from tests.property.test_panes import DECLARED as WITHOUT_SEQUENCE
from tests.property.test_panes import (
    SCHEMA,
    SLACK,
    Query,
    Row,
    admitted,
    database,
    many,
    random_batches,
    random_query,
    shown,
)

DECLARED = WITHOUT_SEQUENCE.replace("f DOUBLE)", "f DOUBLE, seq BIGINT)").replace(
    "TIMESTAMP BY ts", "TIMESTAMP BY ts SEQUENCE (seq)"
)
NUMBERED = SCHEMA.append(pa.field("seq", pa.int64()))
CATALOG = catalog_after(parse(DECLARED))
Batch = list[dict[str, Any]]


@dataclass(frozen=True)
class RowQuery(Query):
    """``duration`` and ``period`` are numbers of rows."""

    @property
    def cql(self) -> str:
        window = f"[ROWS {self.duration} SLIDE {self.period} ROWS]"
        return f"SELECT {self._body} FROM s {window}{self._tail}"


def random_rows_query(rng: Random) -> RowQuery:
    query = random_query(rng)
    calls = tuple(call for call in query.calls if call != "SUM(v)") or ("COUNT(*)",)
    duration, period = rng.choice((1, 2, 5, 7, 12, 40)), rng.choice((1, 2, 3, 4, 10))
    return RowQuery(query.keys, calls, query.where, duration, period, 0)


def numbered(rng: Random, batches: list[Batch]) -> list[Batch]:
    """Rows of one instant come in any order of their numbers."""
    count = sum(map(len, batches))
    numbers = iter(rng.sample(range(count), count))
    return [[{**row, "seq": next(numbers)} for row in batch] for batch in batches]


def table_of(batch: Batch) -> pa.Table:
    return pa.Table.from_pylist(batch, schema=NUMBERED)


def oracle(query: Query, rows: Batch, at: int) -> list[tuple[Any, ...]]:
    """Over the last rows that came by the last multiple of m that an instant has seen."""
    came = sorted((r for r in rows if r["ts"] <= at), key=lambda r: (r["ts"], r["seq"]))
    last = len(came) // query.period * query.period
    database().register("alive", table_of(came[max(0, last - query.duration) : last]))
    rows_of = map(query.answered, database().sql(query.sql).fetchall())
    return sorted((Row(row) for row in rows_of), key=str)


def check(query: Query, table: pa.Table, rows: Batch) -> None:
    for at in range(max((row["ts"] for row in rows), default=-1) + 1):
        assert shown(table, at) == oracle(query, rows, at), (query.cql, at)


@many
@given(seed=st.integers(0, 2**48))
def test_panes_of_rows_answer_as_the_latest_rows_of_each_move(seed: int) -> None:
    rng = Random(seed)
    query, batches = random_rows_query(rng), numbered(rng, random_batches(rng))
    for without in ((), ("row-panes",)):
        session = LocalSession()
        session.execute(DECLARED)
        run = session.query(query.cql, without=without, buckets=rng.randint(1, 3))
        for batch in batches:
            run.feed({"s": table_of(batch)})
        run.finish()
        check(query, run.lifetimes(), admitted(batches))


def runner(
    folder: str, queries: dict[str, RowQuery], buckets: int, rules: frozenset[str]
) -> HereRunner:
    texts = {name: query.cql for name, query in queries.items()}
    return runner_of(folder, CATALOG, texts, buckets, sharing=rules)


def stores(runner: Runner) -> list[RowPaneStore]:
    tasks = runner.dataflow.stages.tasks
    return [t.operator for t in tasks if isinstance(t.operator, RowPaneStore)]


@many
@given(seed=st.integers(0, 2**48))
def test_several_windows_answer_from_one_state_that_goes_on_after_restarts(seed: int) -> None:
    """The tasks, states and commits of Spark, started anew before every batch."""
    rng = Random(seed)
    made = [random_rows_query(rng) for _ in range(rng.randint(2, 4))]
    keys, where, batches = made[0].keys, made[0].where, numbered(rng, random_batches(rng))
    queries = {f"q{n}": replace(query, keys=keys, where=where) for n, query in enumerate(made)}
    rules = frozenset(rule for rule in sorted(SHARING) if rng.random() < 0.8)
    buckets = rng.randint(1, 3)
    with tempfile.TemporaryDirectory() as folder:
        for batch in batches:
            runner(folder, queries, buckets, rules).feed({"s": table_of(batch)}, {})
        last = runner(folder, queries, buckets, rules)
        last.close_input()
        for name, query in queries.items():
            check(query, results_of(last, name), admitted(batches))


def rows_at(*times: int) -> Batch:
    row = {"k": 1, "g": "a", "v": 0, "m": None, "f": None}
    return [{**row, "ts": ts, "v": ts, "seq": ts} for ts in times]


def test_queries_of_one_grouping_have_one_state_without_rows() -> None:
    queries = {
        "a": RowQuery(("g",), ("SUM(k)", "COUNT(*)"), "v > 1", 600, 20, 0),
        "b": RowQuery(("g",), ("AVG(k)",), "v > 1", 70, 10, 0),
        "c": RowQuery(("g",), ("MAX(v)",), "v > 1", 40, 10, 0),
        "other rows": RowQuery(("g",), ("MAX(v)",), "", 40, 10, 0),
        "moves by each row": RowQuery(("g",), ("MAX(v)",), "v > 1", 40, 1, 0),
    }
    with tempfile.TemporaryDirectory() as folder:
        for start in range(1, 1000, 90):
            running = runner(folder, queries, 2, SHARING)
            running.feed({"s": table_of(rows_at(*range(start, start + 90)))}, {})
        assert sorted(len(store.windows) for store in stores(running)) == [1, 3]
        task = next(
            t
            for t in running.dataflow.stages.tasks
            if isinstance(t.operator, RowPaneStore) and len(t.operator.windows) == 3
        )
        stored = running.repository.current()
        state = stored.properties["state"][f"task/{task.name}/0"]
        (path,) = state["runs"]["held"]
        # The last 80 rows by tens, the 540 before by twenties, and what its refresh waits for.
        assert stored.segments[path].rows <= 8 + 27 + 2
        assert not stored.properties["state"][f"task/{task.name}/0"]["runs"].get("pending")
        assert len(stores(runner(folder, queries, 2, frozenset({"row-panes"})))) == 4
        assert not stores(runner(folder, queries, 2, SHARING - {"row-panes"}))


@dataclass
class RowPipeline(Pipeline):
    """Queries over rows that come and go."""

    def feed(self, batch: Batch) -> None:
        self.runner().feed({"s": table_of(batch)}, {})

    def check(self, rows: Batch, rng: Random, count: int = 9) -> None:
        running = self.runner()
        running.close_input()
        entries = running.repository.current().properties["queries"]
        last = max((row["ts"] for row in rows), default=-1)
        for name, query in self.queries.items():
            entry = self.entries[name] | entries.get(name, {})
            table = results_of(running, name)
            since = max(entry.get(WHOLE_FROM) or 0, entry["since"] or 0, 0)
            for at in range(since, last + 1):
                assert shown(table, at) == oracle(query, rows, at), (name, query.cql, at, since)


@pytest.fixture(autouse=True)
def with_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_pane_sharing, "CATALOG", CATALOG)


SEEN = Counter[str]()


@many
@given(seed=st.integers(0, 2**48))
def test_queries_that_come_and_go_number_rows_as_the_stream_does(seed: int) -> None:
    rng = Random(seed)
    model = random_rows_query(rng)
    batches = numbered(rng, random_batches(rng, rng.randint(3, 8), (0, 3, 8, 20)))
    number = 0

    def some(count: int) -> dict[str, Query]:
        nonlocal number
        number += count
        made = [random_rows_query(rng) for _ in range(count)]
        alike = [replace(q, keys=model.keys, where=model.where) for q in made]
        mixed = zip(made, alike, strict=True)
        chosen = [own if rng.random() < 0.2 else like for own, like in mixed]
        return {f"q{number - count + n}": query for n, query in enumerate(chosen)}

    with tempfile.TemporaryDirectory() as folder:
        pipeline = RowPipeline(folder, rng.randint(1, 3), SHARING)
        # It numbers the rows from the first on, whoever comes and goes.
        first = replace(model, period=max(2, model.period))
        pipeline.begin({"first": first, **some(rng.randint(0, 2))})
        for batch in batches:
            if rng.random() < 0.5:
                pipeline.add(some(rng.randint(1, 2)))
            names = sorted(pipeline.queries.keys() - {"first"})
            if names and rng.random() < 0.3:
                pipeline.drop(rng.choice(names))
            pipeline.feed(batch)
        for name, entry in pipeline.entries.items():
            if entry["since"] is not None and pipeline.queries[name].period > 1:
                SEEN["at once" if entry[WHOLE_FROM] < NEVER else "later"] += 1
        pipeline.check(admitted(batches), rng)


def test_some_of_them_answered_at_once() -> None:
    if not SEEN:
        test_queries_that_come_and_go_number_rows_as_the_stream_does()
    assert SEEN["at once"], SEEN
    assert SEEN["later"], SEEN


def awaited(pipeline: Pipeline, name: str) -> list[str]:
    entry = pipeline.runner().repository.current().properties["queries"][name]
    return [row.words for row in awaited_rows(entry)]


def test_a_late_query_answers_at_once_from_the_panes_of_a_longer_window() -> None:
    wide, late = (RowQuery(("g",), ("COUNT(*)",), "", count, 10, 0) for count in (60, 20))
    with tempfile.TemporaryDirectory() as folder:
        pipeline = RowPipeline(folder, 2, SHARING)
        pipeline.begin({"wide": wide})
        pipeline.feed(rows_at(*range(1, 104 + SLACK)))
        pipeline.add({"late": late})
        entry = pipeline.entries["late"]
        assert entry[WHOLE_FROM] == entry["since"] - 1 == 102
        assert shown(results_of(pipeline.runner(), "late"), 102) == [("a", 20)]
        pipeline.drop("wide")
        pipeline.feed(rows_at(*range(104 + SLACK, 201)))
        pipeline.check(rows_at(*range(1, 201)), Random(1))


def test_a_late_query_says_with_which_row_it_is_whole_where_panes_are_not_kept() -> None:
    """A longer window, another function, other edges, other groups: 102 rows are closed."""
    wide = RowQuery(("g",), ("COUNT(*)",), "", 60, 10, 0)
    late = {
        "longer": (replace(wide, duration=200), 240),
        "function": (replace(wide, calls=("MAX(v)",), duration=20), 130),
        "edges": (replace(wide, duration=20, period=15), 135),
        "groups": (replace(wide, keys=("k",), duration=35), 140),
    }
    for name, (query, row) in late.items():
        rows = rows_at(*range(1, 104 + SLACK))
        with tempfile.TemporaryDirectory() as folder:
            pipeline = RowPipeline(folder, 2, SHARING)
            pipeline.begin({"wide": wide})
            pipeline.feed(rows)
            pipeline.add({"late": query})
            assert pipeline.entries["late"][WHOLE_FROM] == NEVER, name
            assert awaited(pipeline, "late") == [f"row {row} of s has come"], name
            for end in (row + SLACK, row + 1 + SLACK, row + 50):
                batch = rows_at(*range(len(rows) + 1, end + 1))
                rows += batch
                pipeline.feed(batch)
                assert bool(awaited(pipeline, "late")) == (end == row + SLACK), name
            entry = pipeline.runner().repository.current().properties["queries"]["late"]
            assert entry[WHOLE_FROM] == row, name
            pipeline.check(rows, Random(1))


def test_a_stream_is_numbered_from_the_first_query_over_its_rows_on() -> None:
    """What was read before and is still open is missing: nothing is known until it is closed."""
    timed = Query(("g",), ("COUNT(*)",), "", 60, 10, 0)
    late = RowQuery(("g",), ("COUNT(*)",), "", 20, 10, 0)
    with tempfile.TemporaryDirectory() as folder:
        pipeline = RowPipeline(folder, 2, SHARING)
        pipeline.begin({"timed": timed})
        pipeline.feed(rows_at(*range(1, 101)))
        pipeline.add({"late": late})
        said = "20 rows of s have come after 1970-01-01 00:00:00.000100"
        assert awaited(pipeline, "late") == [said]
        pipeline.add({"later": late})
        assert awaited(pipeline, "later") == [said]
        pipeline.feed(rows_at(*range(101, 110)))
        assert awaited(pipeline, "late") == awaited(pipeline, "later") == ["row 30 of s has come"]
        pipeline.feed(rows_at(*range(110, 200)))
        running = pipeline.runner()
        running.close_input()
        entries = running.repository.current().properties["queries"]
        for name in ("late", "later"):
            assert entries[name][WHOLE_FROM] == 199 - SLACK - 1, name
            assert shown(results_of(running, name), 198) == [("a", 20)], name


def test_rows_that_do_not_count_push_others_out() -> None:
    query = RowQuery((), ("COUNT(*)",), "v < 4", 4, 2, 0)
    with tempfile.TemporaryDirectory() as folder:
        running = runner(folder, {"q": query}, 1, SHARING)
        running.feed({"s": table_of(rows_at(*range(1, 12)))}, {})
        running.close_input()
        table = results_of(running, "q")
    assert [shown(table, at)[0][0] for at in (1, 2, 3, 4, 5, 6, 8, 11)] == [0, 2, 2, 3, 3, 1, 0, 0]


def test_explain_says_which_panes_of_rows_are_kept_or_why_none() -> None:
    session = LocalSession()
    session.execute(DECLARED)
    query = "SELECT g, SUM(k) FROM s [ROWS 100 SLIDE {} ROWS] GROUP BY g{}"
    said = {
        query.format(10, ""): "synopsis of 10 panes of 10 rows by s.g",
        query.format(30, ""): "synopsis of 7 panes of 10 and 20 rows by s.g",
        query.format(1, ""): "rows and no panes: a pane of one row is no fewer than rows",
        query.format(10, "").replace("SUM(k)", "LAST(v)"): "needs every value",
        query.format(10, "").replace("[ROWS 100", "[PARTITION BY g ROWS 100"): (
            "rows and no panes: n rows of a partition may begin with any of its rows"
        ),
    }
    for text, words in said.items():
        assert words in str(session.explain(text)), text


def test_explain_sharing_names_the_state_that_windows_over_rows_share() -> None:
    wide = RowQuery(("g",), ("SUM(k)",), "k > 1", 40, 10, 0)
    queries = {"wide": wide, "short": replace(wide, calls=("MAX(v)",), duration=7, period=5)}
    queries |= {"same": replace(wide, calls=("COUNT(*)",))}
    programs = {name: program_of(query.cql, CATALOG) for name, query in queries.items()}
    sharing = sharing_of(programs)
    head = "panes of rows 1: SUM(s.k), MAX(s.v), COUNT(*) of s WHERE s.k > 1 BY s.g"
    assert sharing.text().splitlines() == [
        head,
        "  cut every 5 rows, every 5 rows + 3",
        "  made of rows once for 3 queries; in each group 8.6 rows kept in place of 15 (58 %)",
        "    wide  first  [ROWS 40 SLIDE 10 ROWS] SUM(s.k): keeps 5 more, alone 5",
        "    short  SS1  [ROWS 7 SLIDE 5 ROWS] MAX(s.v): keeps 3.6 more, alone 4.8",
        "    same  SS1, CS1  [ROWS 40 SLIDE 10 ROWS] COUNT(*): keeps 0 more, alone 5",
    ]
    assert sharing.values()["rows"][0]["head"] == head
    assert 'r0 -- "SS1" --> q_short("short<br/>[ROWS 7 SLIDE 5 ROWS]")' in sharing.mermaid()
    assert sharing.added_cost("short")["words"] == "3.6 rows more, alone 4.8"
