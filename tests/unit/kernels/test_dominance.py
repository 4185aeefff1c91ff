"""Early pruning: which rows MIN and MAX may forget, and that nobody notices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mayfly import LocalSession
from mayfly.checkpoint.operator_state import load_state, store_state
from mayfly.kernels import resident
from mayfly.kernels.dominance import undominated
from mayfly.kernels.group_by import GroupRows, GroupState
from mayfly.kernels.resident import RESIDENTS
from mayfly.physical.program import Task
from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage.directory import Directory
from mayfly.storage.segment import Segment

OFF = ("early-pruning",)
SCHEMA = {
    "ts": "BIGINT", "n": "BIGINT", "k": "BIGINT", "x": "DOUBLE", "t": "STRING", "d": "DECIMAL(9,2)",
}  # fmt: skip
BOTH = "MAX(x) AS high, MIN(x) AS low"
NAN = float("nan")
VALUES = st.none() | st.sampled_from([0.5, -0.0, 0.0, 1.0, 2.0, NAN])


def run_of(select: str, window: str, without: Sequence[str] = (), **settings: Any) -> ContinuousRun:
    return run_query(f"SELECT k, {select} FROM s [{window}] GROUP BY k", without, **settings)


def run_query(cql: str, without: Sequence[str] = (), **settings: Any) -> ContinuousRun:
    session = LocalSession()
    session.stream("s", SCHEMA, sequence=["n"])
    return session.query(cql, without=without, **settings)


def grouping(run: ContinuousRun) -> Task:
    return next(one for one in run.program.tasks() if isinstance(one.operator, GroupRows))


def members(run: ContinuousRun) -> int:
    return sum(state.members.rows for state in run.states[grouping(run)])


def listed(rows: Sequence[tuple[int, int, Any]]) -> list[dict[str, Any]]:
    times = np.cumsum([gap for gap, _, _ in rows]).tolist()
    return [
        {"ts": ts, "n": n, "k": k, "x": x, "t": None if x is None else str(x),
         "d": None if x is None or x != x else Decimal(str(x))}
        for n, (ts, (_, k, x)) in enumerate(zip(times, rows, strict=True))
    ]  # fmt: skip


# ── which rows stay ───────────────────────────────────────────────────────────────────────


def staying(rows: Sequence[tuple[int, int, Any]], *functions: str) -> list[int]:
    """The places of the rows (code, exp, value) that stay."""
    (task,) = [grouping(run_of(", ".join(f"{f}(x) AS {f}" for f in functions), "RANGE 1 s"))]
    operator = task.operator
    assert isinstance(operator, GroupRows)
    code, exp, value = zip(*rows, strict=True)
    values = {f"_argument{at}": pa.array(value, pa.float64()) for at in range(len(functions))}
    table = pa.table({"_code": pa.array(code), "_exp": pa.array(exp), **values})
    return np.flatnonzero(undominated(table, operator.calls)).tolist()


@pytest.mark.parametrize(
    ("rows", "function", "stays"),
    [
        ([(0, 1, 5.0), (0, 2, 4.0), (0, 3, 3.0)], "max", [0, 1, 2]),
        ([(0, 1, 3.0), (0, 2, 4.0), (0, 3, 5.0)], "max", [2]),
        ([(0, 1, 3.0), (0, 2, 4.0), (0, 3, 5.0)], "min", [0, 1, 2]),
        ([(0, 2, 3.0), (0, 1, 5.0)], "max", [0, 1]),
        ([(0, 1, 5.0), (0, 2, 5.0)], "max", [1]),
        ([(0, 1, 5.0), (0, 1, 7.0), (0, 1, 6.0)], "max", [1]),
        ([(0, 1, 5.0), (0, 1, 5.0)], "min", [1]),
        ([(0, 1, 5.0), (1, 2, 6.0)], "max", [0, 1]),
        ([(0, 1, 5.0), (0, 2, None)], "max", [0, 1]),
        ([(0, 1, None), (0, 2, 5.0)], "max", [1]),
        ([(0, 1, None), (0, 2, None)], "min", [1]),
        ([(0, 1, None), (0, 1, 5.0)], "min", [1]),
        ([(0, 1, 5.0), (0, 2, NAN)], "max", [1]),
        ([(0, 1, 5.0), (0, 2, NAN)], "min", [0, 1]),
        ([(0, 1, 0.0), (0, 2, -0.0)], "max", [1]),
    ],
)
def test_a_row_stays_unless_another_lives_as_long_and_is_as_good(
    rows: list[tuple[int, int, Any]], function: str, stays: list[int]
) -> None:
    assert staying(rows, function) == stays


def test_a_row_stays_that_is_good_for_one_of_two() -> None:
    rows = [(0, 1, 1.0), (0, 2, 2.0), (0, 3, 3.0), (0, 4, 2.0)]
    assert staying(rows, "min", "max") == [0, 2, 3]


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), VALUES), min_size=1, max_size=12),
    st.sampled_from([("min",), ("max",), ("min", "max")]),
)
def test_what_stays_has_the_same_extremes_and_nothing_to_spare(
    rows: list[tuple[int, int, Any]], functions: tuple[str, ...]
) -> None:
    stays = staying(rows, *functions)

    def answers(places: Sequence[int]) -> list[Any]:
        return [
            (bool(alive := [rows[i][2] for i in places if rows[i][0] == code and rows[i][1] > at]),
             [extreme(alive, function) for function in functions])
            for code in (0, 1) for at in range(-1, 6)
        ]  # fmt: skip

    assert answers(stays) == answers(range(len(rows)))
    for place in stays:
        assert answers([one for one in stays if one != place]) != answers(stays)


def extreme(values: Sequence[Any], function: str) -> Any:
    """NaN is larger than any number; NULL is passed over."""
    present = [(x != x, 0.0 if x != x else x + 0.0) for x in values if x is not None]
    return (max if function == "max" else min)(present, default=None)


# ── nobody notices ────────────────────────────────────────────────────────────────────────


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), VALUES), max_size=40)
FALLING = [(1, 0, float(x)) for x in range(20, 0, -1)]
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)
QUERIES = (
    "SELECT k, MAX(x) AS a FROM s [RANGE 6 us] GROUP BY k",
    "SELECT k, MIN(x) AS a, MAX(x) AS b FROM s [RANGE 7 us] GROUP BY k",
    "SELECT MAX(x) AS a FROM s [RANGE 5 us]",
    "SELECT k, MIN(x) AS a FROM s [RANGE 9 us SLIDE 3 us] GROUP BY k",
    "SELECT k, MAX(x) AS a FROM s [RANGE 8 us SLIDE 3 us] GROUP BY k HAVING MAX(x) > 0.5",
    "SELECT k, MAX(x) AS a FROM s [UNBOUNDED] GROUP BY k",
    "SELECT k, MAX(t) AS a, MIN(d) AS b FROM s [RANGE 7 us] GROUP BY k",
    "SELECT l.k, MAX(r.x) AS a, MIN(l.x) AS b FROM s [RANGE 4 us] l, s [RANGE 9 us] r"
    " WHERE l.k = r.k GROUP BY l.k",
    "SELECT m, MAX(a) AS a FROM (SELECT DISTINCT k AS m, x AS a FROM s [RANGE 6 us]) GROUP BY m",
    "SELECT k, MAX(x) AS a FROM s [ROWS 5] GROUP BY k",
    "SELECT Istream(k, MAX(x) AS a) FROM s [RANGE 6 us] GROUP BY k",
)


def fed(
    run: ContinuousRun, rows: Sequence[dict[str, Any]], sizes: Sequence[int], at: int = 0
) -> list[str]:
    """What each batch changes."""
    changes = []
    for number in range(len(rows)):
        if not rows[at:]:
            break
        size = sizes[number % len(sizes)]
        changes.append(repr(run.feed({"s": rows[at : at + size]}).to_pylist()))
        at += size
    changes.append(repr(run.feed(heartbeats={"s": 10_000}).to_pylist()))
    return changes


@pytest.mark.parametrize("cql", QUERIES)
@settings(max_examples=max(5, settings().max_examples // 4))
@given(rows=ROWS, sizes=SIZES, strategy=st.sampled_from(["UPA", "UPA", "DIRECT", "NT"]))
@example(rows=FALLING, sizes=[4], strategy="UPA")
@example(rows=FALLING, sizes=[4], strategy="NT")
def test_changes_are_the_same_without_it(
    cql: str, rows: list[Any], sizes: list[int], strategy: str
) -> None:
    runs = [run_query(cql, without, strategy=strategy) for without in ((), OFF)]
    pruned, plain = (fed(run, listed(rows), sizes) for run in runs)
    assert pruned == plain


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, sizes=SIZES)
def test_changes_are_the_same_in_groups_that_leave_their_counts_in_memory(
    monkeypatch: pytest.MonkeyPatch, rows: list[Any], sizes: list[int]
) -> None:
    RESIDENTS.clear()
    monkeypatch.setattr(resident, "LEAST_ROWS", 2)
    pruned, plain = (
        fed(run_of(BOTH, "RANGE 9 us", without), listed(rows), sizes) for without in ((), OFF)
    )
    RESIDENTS.clear()
    assert pruned == plain


@settings(max_examples=max(5, settings().max_examples // 2))
@given(rows=ROWS, sizes=SIZES)
@example(rows=[(1, 0, 2.0), (1, 0, 2.0), (0, 0, None), (3, 0, 1.0)], sizes=[1])
def test_answers_are_those_of_the_rows_alive(rows: list[Any], sizes: list[int]) -> None:
    run, all_rows = run_of(BOTH, "RANGE 6 us"), listed(rows)
    fed(run, all_rows, sizes)
    columns = {
        name: pa.array([row[name] for row in all_rows], kind)
        for name, kind in (("ts", pa.int64()), ("k", pa.int64()), ("x", pa.float64()))
    }
    with duckdb.connect(":memory:", config={"threads": 1}) as database:
        database.register("rows", pa.table(columns))
        for at in range(-1, all_rows[-1]["ts"] + 8 if all_rows else 0):
            answer = database.execute(
                "SELECT k, MAX(x) AS high, MIN(x) AS low FROM rows"
                " WHERE ts <= $at AND $at < ts + 6 GROUP BY k ORDER BY k", {"at": at}
            ).fetchall()  # fmt: skip
            got = sorted(tuple(row.values()) for row in run.snapshot(at).to_pylist())
            assert repr(got) == repr(answer).replace("-0.0", "0.0")


@settings(max_examples=max(5, settings().max_examples // 4))
@given(rows=ROWS, sizes=SIZES, turns=st.lists(st.booleans(), min_size=1, max_size=5))
def test_it_may_be_switched_on_and_off_and_states_may_be_stored(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], sizes: list[int], turns: list[bool]
) -> None:
    """As with a checkpoint of a version without it, and one that is opened by such a version."""
    run, plain = (run_of(BOTH, "RANGE 9 us", without) for without in ((), OFF))
    task, all_rows, at, segments = grouping(run), listed(rows), 0, dict[str, Segment]()
    directory = Directory.at(tmp_path_factory.mktemp("state"), sync=False)
    for number in range(len(all_rows)):
        batch = all_rows[at : at + sizes[number % len(sizes)]]
        at += len(batch)
        object.__setattr__(task.operator, "early_pruning", turns[number % len(turns)])
        assert repr(run.feed({"s": batch}).to_pylist()) == repr(
            plain.feed({"s": batch}).to_pylist()
        )
        stored, added, _ = store_state(run.states[task][0], f"state{number}", directory)
        segments |= {segment.path: segment for segment in added}
        loaded = load_state(task.operator.state(), stored, segments, directory)
        assert isinstance(loaded, GroupState)
        run.states[task][0] = loaded
    last = [repr(one.feed(heartbeats={"s": 10_000}).to_pylist()) for one in (run, plain)]
    assert last[0] == last[1]


# ── what is kept ──────────────────────────────────────────────────────────────────────────


def stream(values: np.ndarray, size: int) -> list[pa.Table]:
    number = np.arange(len(values))
    kinds = {
        "t": pa.nulls(len(values), pa.string()),
        "d": pa.nulls(len(values), pa.decimal128(9, 2)),
    }
    table = pa.table({"ts": number, "n": number, "k": number % 2, "x": values, **kinds})
    return [table.slice(at, size) for at in range(0, len(values), size)]


@pytest.mark.parametrize("window", ["RANGE 4000 us", "UNBOUNDED"])
@pytest.mark.parametrize(
    ("select", "order", "least", "most"),
    [
        ("MAX(x) AS a", "ascending", 2, 64),
        ("MIN(x) AS a", "descending", 2, 64),
        ("MAX(x) AS a", "random", 2, 600),
        (BOTH, "random", 4, 1200),
    ],
)
def test_what_is_dominated_is_not_kept(
    select: str, order: str, least: int, most: int, window: str
) -> None:
    """Of 4,000 rows alive in two groups; a row per run, and there are at most 32 runs."""
    values = np.random.default_rng(1).random(8000)
    values = values if order == "random" else np.sort(values)[:: 1 if order == "ascending" else -1]
    run, plain = (run_of(select, window, without) for without in ((), OFF))
    for batch in stream(values.copy(), 100):
        run.feed({"s": batch})
        plain.feed({"s": batch})
        assert members(run) <= most
    assert least <= members(run)
    assert members(plain) >= 3900
    assert run.lifetimes().equals(plain.lifetimes())


def test_what_may_still_be_an_answer_is_kept() -> None:
    run = run_of("MAX(x) AS a", "RANGE 4000 us")
    for batch in stream(np.arange(8000.0)[::-1].copy(), 100):
        run.feed({"s": batch})
    assert members(run) >= 3999


def test_a_state_that_was_kept_whole_is_thinned_by_and_by() -> None:
    run = run_of("MAX(x) AS a", "RANGE 4000 us")
    operator = grouping(run).operator
    object.__setattr__(operator, "early_pruning", False)
    batches = stream(np.arange(16_000.0), 100)
    for batch in batches[:80]:
        run.feed({"s": batch})
    assert members(run) >= 3900
    object.__setattr__(operator, "early_pruning", True)
    for batch in batches[80:]:
        run.feed({"s": batch})
    assert members(run) <= 64


# ── what EXPLAIN says ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("cql", "note"),
    [
        ("SELECT k, MAX(x) AS a FROM s [RANGE 6 us] GROUP BY k", "early pruning: rows go that"),
        ("SELECT MIN(x) AS a, MAX(t) AS b FROM s", "early pruning: rows go that"),
        ("SELECT MAX(x) AS a, SUM(x) AS b FROM s [RANGE 6 us]",
         "no early pruning: SUM(s.x) needs every row"),
        ("SELECT MAX(x) AS a, COUNT(*) AS b FROM s [RANGE 6 us]",
         "no early pruning: COUNT(*) needs every row"),
        ("SELECT MAX(x) AS a FROM s [ROWS 6]",
         "no early pruning: negative tuples may delete what outlives a row"),
        ("SELECT Istream(MAX(x) AS a) FROM s [RANGE 6 us INTERNAL]",
         "no early pruning: what was an answer stays one (INTERNAL)"),
    ],
)  # fmt: skip
def test_explain_says_whether_rows_go_early(cql: str, note: str) -> None:
    session = LocalSession()
    session.stream("s", SCHEMA, sequence=["n"])
    assert re.search(rf"(^|; ){re.escape(note)}", str(session.explain(cql)), re.M)


def test_explain_says_so_in_every_strategy() -> None:
    session = LocalSession()
    session.stream("s", SCHEMA, sequence=["n"])
    cql = "SELECT MAX(x) AS a FROM s [RANGE 6 us]"
    assert "; no early pruning: DIRECT" in str(session.explain(cql, strategy="DIRECT"))
    assert "; no early pruning: negative tuples" in str(session.explain(cql, strategy="NT"))
    assert "early pruning" not in str(session.explain("SELECT SUM(x) AS a FROM s [RANGE 6 us]"))


def test_a_state_that_may_lack_rows_is_no_source_for_newcomers() -> None:
    for without in ((), OFF):
        assert grouping(run_of("MAX(x) AS a", "RANGE 6 us", without)).operator.copy(0) is None
    assert grouping(run_of("MAX(x) AS a, COUNT(*) AS n", "RANGE 6 us")).operator.copy(0) is not None
