"""Windows over the latest rows that move by rows (n-of-N), against an independent engine.

DuckDB answers over the n rows that come before a multiple of m; its SQL is written here.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_late_query_counts_rows_from_its_own_beginning() -> None:
    """As with rows in the place of panes: nothing says at which instant so many rows have come."""
    wide, late = (RowQuery(("g",), ("COUNT(*)",), "", count, 10, 0) for count in (60, 20))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_pane_sharing, "CATALOG", CATALOG)
        pipeline = Pipeline(folder, 2, SHARING)
        pipeline.begin({"wide": wide})
        pipeline.runner().feed({"s": table_of(rows_at(*range(1, 101)))}, {})
        pipeline.add({"late": late})
        assert pipeline.entries["late"][WHOLE_FROM] == NEVER
        pipeline.runner().feed({"s": table_of(rows_at(*range(101, 156)))}, {})
        pipeline.drop("wide")
        pipeline.runner().feed({"s": table_of(rows_at(*range(156, 201)))}, {})
        running = pipeline.runner()
        running.close_input()
        table = results_of(running, "late")
    assert shown(table, 109) == []
    assert shown(table, 115) == [("a", 10)]
    assert [shown(table, at) for at in (150, 180, 200)] == [[("a", 20)]] * 3


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
