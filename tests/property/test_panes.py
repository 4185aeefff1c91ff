"""Aggregates over windows with SLIDE: from panes as from rows, against an independent engine.

DuckDB answers over the rows that each refresh shows; its SQL is written here, not made from ours.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.cql import catalog_after, parse
from mayfly.errors import BadInput
from mayfly.runtime.local_session import LocalSession
from tests.property.shared_runs import results_of, runner_of

many = settings(
    max_examples=25 if settings().max_examples < 200 else settings().max_examples,
    phases=[Phase.generate],
)
SLACK = 5
DECLARED = (
    f"CREATE STREAM s (ts TIMESTAMP, k INT, g STRING, v BIGINT, m DECIMAL(6, 2), f DOUBLE)"
    f" FROM parquet('x') TIMESTAMP BY ts SLACK {SLACK} us"
)
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "k": pa.int32(),
        "g": pa.string(),
        "v": pa.int64(),
        "m": pa.decimal128(6, 2),
        "f": pa.float64(),
    }
)
CALLS = (
    "COUNT(*)", "COUNT(v)", "SUM(v)", "SUM(k)", "AVG(v)", "MIN(v)", "MAX(g)", "SUM(m)",
    "COUNT(DISTINCT v)", "COUNT(DISTINCT g)", "MIN(k)", "AVG(k)", "SUM(f)", "AVG(f)", "AVG(m)",
    "VAR(f)", "STDDEV(k)", "VAR_POP(m)", "STDDEV_POP(f)", "MEDIAN(k)", "MEDIAN(f)",
    "QUANTILE(v, 0.3)", "PERCENTILE(f, 0.4)", "MODE(g)", "TOP(v, 2)", "TOP(g, 1)",
    "SUM(f) FILTER (WHERE k = 1)", "COUNT(*) FILTER (WHERE v > 1)",
    "MEDIAN(f) FILTER (WHERE g = 'a')", "APPROX_COUNT_DISTINCT(g)", "APPROX_COUNT_DISTINCT(v)",
    "APPROX_PERCENTILE(k, 0.3)", "APPROX_TOP_K(g, 2)", "APPROX_COUNT_DISTINCT(m)",
    "SUM(k) * 2 + COUNT(*)", "MAX(k) - MIN(k)",
    "CASE WHEN COUNT(*) > 2 THEN MIN(g) ELSE 'few' END",
    "APPROX_FREQUENCY(g, 'a')", "APPROX_FREQUENCY(k, 2)",
)  # fmt: skip
FORMS = {
    "QUANTILE(v, 0.3)": "QUANTILE_DISC(v, 0.3)",
    "PERCENTILE(f, 0.4)": "QUANTILE_CONT(f, 0.4)",
    "VAR(f)": "VAR_SAMP(f)",
    "AVG(m)": "CAST(SUM(m) / COUNT(m) AS DOUBLE)",
    "MODE(g)": "LIST(g)",
    "TOP(v, 2)": "LIST(v)",
    "TOP(g, 1)": "LIST(g)",
    # Sketches that have never been full are exact.
    "APPROX_COUNT_DISTINCT(g)": "COUNT(DISTINCT g)",
    "APPROX_COUNT_DISTINCT(v)": "COUNT(DISTINCT v)",
    "APPROX_COUNT_DISTINCT(m)": "COUNT(DISTINCT m)",
    "APPROX_PERCENTILE(k, 0.3)": "QUANTILE_DISC(k, 0.3)",
    "APPROX_TOP_K(g, 2)": "LIST(g)",
    # So few values share no cell in every row.
    "APPROX_FREQUENCY(g, 'a')": "COUNT(*) FILTER (WHERE g = 'a')",
    "APPROX_FREQUENCY(k, 2)": "COUNT(*) FILTER (WHERE k = 2)",
}
"""How DuckDB writes them; of lists the test counts the values."""
PREDICATES = ("", "v > 1", "g = 'a' OR g = 'b'", "v IS NULL", "k IN (1, 2)")
HAVINGS = ("COUNT(*) > 1", "MAX(v) > 1", "SUM(k) IS NOT NULL", "AVG(k) > 1 OR MIN(g) = 'a'")
KEYS = ((), ("g",), ("k",), ("k", "g"))


@dataclass(frozen=True)
class Query:
    keys: tuple[str, ...]
    calls: tuple[str, ...]
    where: str
    duration: int
    period: int
    origin: int
    having: str = ""

    @property
    def _body(self) -> str:
        named = [*self.keys, *(f"{call} AS c{n}" for n, call in enumerate(self.calls))]
        return ", ".join(named)

    @property
    def _tail(self) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        grouped = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return where + grouped + (f" HAVING {self.having}" if self.having else "")

    @property
    def cql(self) -> str:
        origin = f" ORIGIN '1970-01-01 00:00:00.{self.origin:06d}'" if self.origin else ""
        window = f"[RANGE {self.duration} us SLIDE {self.period} us{origin}]"
        return f"SELECT {self._body} FROM s {window}{self._tail}"

    @property
    def sql(self) -> str:
        calls = [f"{FORMS.get(call, call)} AS c{n}" for n, call in enumerate(self.calls)]
        return f"SELECT {', '.join([*self.keys, *calls])} FROM alive{self._tail}"

    def answered(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row of DuckDB's as this query has it."""
        values = [
            _most_frequent(call, value) if FORMS.get(call, "").startswith("LIST") else value
            for call, value in zip(self.calls, row[len(self.keys) :], strict=True)
        ]
        return (*row[: len(self.keys)], *values)


def _most_frequent(call: str, values: list[Any] | None) -> Any:
    """The values that occur most often, of equally many the smallest first."""
    counts = Counter(value for value in values or () if value is not None)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    if call.startswith("MODE"):
        return ranked[0][0] if ranked else None
    return [{"value": v, "count": n} for v, n in ranked[: int(call[-2])]]


def random_query(rng: Random) -> Query:
    period = rng.choice((1, 3, 4, 10))
    return Query(
        rng.choice(KEYS),
        tuple(rng.sample(CALLS, rng.randint(1, 4))),
        rng.choice(PREDICATES),
        rng.choice((1, 6, 7, 12, 40)),
        period,
        rng.randrange(period),
        rng.choice(HAVINGS) if rng.random() < 0.25 else "",
    )


def random_batches(
    rng: Random, count: int = 0, sizes: tuple[int, ...] = (0, 1, 4, 12)
) -> list[list[dict[str, Any]]]:
    """Rows in disorder, some late; silence, and batches without rows."""
    at, made = 0, []
    for _ in range(count or rng.randint(1, 6)):
        batch = []
        for _ in range(rng.choice(sizes)):
            at += rng.choice((0, 0, 1, 2, 3, 25 if rng.random() < 0.1 else 1))
            late = rng.choice((0, 0, 0, 3, 5, 9, 30))
            batch.append(
                {
                    "ts": max(0, at - late),
                    "k": rng.choice((1, 2, None)),
                    "g": rng.choice(("a", "b", "", None)),
                    "v": rng.choice((0, 1, 5, -2, 2**62, None)),
                    "m": rng.choice((Decimal("0.25"), Decimal("-9999.99"), None)),
                    "f": rng.choice((0.1, -0.0, 1e6, -3.7, 123456.789, None)),
                }
            )
        made.append(batch)
    return made


def admitted(batches: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows that were not late when they came."""
    clock, largest, kept = None, None, []
    for batch in batches:
        kept += [row for row in batch if clock is None or row["ts"] >= clock]
        times = [row["ts"] for row in batch] + ([] if largest is None else [largest])
        largest = max(times, default=None)
        clock = None if largest is None else largest - SLACK
    return kept


def oracle(query: Query, rows: list[dict[str, Any]], at: int) -> list[tuple[Any, ...]]:
    """What the refresh at or before an instant shows."""
    refresh = (at - query.origin) // query.period * query.period + query.origin
    alive = [row for row in rows if refresh - query.duration < row["ts"] <= refresh]
    database().register("alive", pa.Table.from_pylist(alive, schema=SCHEMA))
    rows_of = map(query.answered, database().sql(query.sql).fetchall())
    return sorted((Row(row) for row in rows_of), key=str)


class Row(tuple[Any, ...]):
    """Values of which floating-point numbers are equal to rounding."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and len(self) == len(other) and all(map(_same, self, other))

    __hash__ = None  # type: ignore[assignment]


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, float | Decimal) and isinstance(other, float | Decimal):
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-6)
    return bool(value == other)


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})


def instants(rows: list[dict[str, Any]], rng: Random) -> list[int]:
    """Some that are closed at the end."""
    last = max(row["ts"] for row in rows)
    return sorted(rng.sample(range(last + 1), min(8, last + 1)))


def shown(table: pa.Table, at: int) -> list[tuple[Any, ...]]:
    alive = [row for row in table.to_pylist() if row["ts"] <= at < row["exp"]]
    life = {"ts", "exp"}
    return sorted((Row(v for n, v in row.items() if n not in life) for row in alive), key=str)


def outcome(
    query: Query, batches: list[list[dict[str, Any]]], without: tuple[str, ...], buckets: int
) -> pa.Table | str:
    """All results with their lifetimes, or that a sum of 2^62 does not fit."""
    session = LocalSession()
    session.execute(DECLARED)
    run = session.query(query.cql, without=without, buckets=buckets)
    try:
        for batch in batches:
            run.feed({"s": pa.Table.from_pylist(batch, schema=SCHEMA)})
        run.finish()
    except BadInput as error:
        return str(error)
    return run.lifetimes()


@many
@given(seed=st.integers(0, 2**48))
def test_panes_answer_as_the_rows_of_each_refresh(seed: int) -> None:
    rng = Random(seed)
    query, batches = random_query(rng), random_batches(rng)
    rows = admitted(batches)
    panes = outcome(query, batches, (), rng.randint(1, 3))
    plain = outcome(query, batches, ("panes",), 1)
    if isinstance(panes, str) or isinstance(plain, str):
        assert panes == plain
        assert "does not fit" in plain
        assert "SUM(v)" in query.calls
        return
    if rows:
        for at in instants(rows, rng):
            expected = oracle(query, rows, at)
            assert shown(panes, at) == expected, (query.cql, at)
            assert shown(plain, at) == expected, (query.cql, at)


@many
@given(seed=st.integers(0, 2**48))
def test_panes_go_on_after_a_restart_and_answer_the_same(seed: int) -> None:
    """The tasks, states and commits of Spark, started anew before every batch."""
    rng = Random(seed)
    query, batches = random_query(rng), random_batches(rng)
    calls = tuple(call for call in query.calls if call != "SUM(v)") or ("COUNT(*)",)
    query = replace(query, calls=calls)
    rows, buckets = admitted(batches), rng.randint(1, 3)
    with tempfile.TemporaryDirectory() as folder:
        for batch in batches:
            runner = runner_of(folder, catalog_after(parse(DECLARED)), {"q": query.cql}, buckets)
            runner.feed({"s": pa.Table.from_pylist(batch, schema=SCHEMA)}, {})
        runner = runner_of(folder, catalog_after(parse(DECLARED)), {"q": query.cql}, buckets)
        runner.close_input()
        table = results_of(runner, "q")
    if rows:
        for at in instants(rows, rng):
            assert shown(table, at) == oracle(query, rows, at), (query.cql, at)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("LAST(v)", "needs every value"),
        ("STRING_AGG(g, ',')", "needs every value"),
    ],
)
def test_functions_that_do_not_fit_keep_rows_and_say_why(call: str, why: str) -> None:
    session = LocalSession()
    session.execute(DECLARED)
    text = str(session.explain(f"SELECT {call}, COUNT(*) FROM s [RANGE 9 us SLIDE 3 us]"))
    assert "rows and no panes: " in text
    assert why in text
    assert "synopsis" not in text


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("SUM(f)", "SUM(s.f)"),
        ("AVG(m)", "SUM(s.m), COUNT(s.m)"),
        ("STDDEV(v)", "MOMENTS(s.v)"),
        ("MEDIAN(v)", "COUNT(*), values of s.v"),
        ("TOP(g, 3)", "COUNT(*), values of s.g"),
    ],
)
def test_what_panes_hold_is_explained(call: str, kept: str) -> None:
    session = LocalSession()
    session.execute(DECLARED)
    text = str(session.explain(f"SELECT {call} FROM s [RANGE 9 us SLIDE 3 us]"))
    assert f"Panes {kept} BY pane" in text


@pytest.mark.parametrize("call", ["SUM(f)", "AVG(f)", "VAR(k)"])
def test_float_sums_exact_keeps_rows(call: str) -> None:
    session = LocalSession()
    session.execute(DECLARED)
    body = f"SELECT {call} FROM s [RANGE 9 us SLIDE 3 us]"
    assert "answers hold to rounding" in str(session.explain(body))
    for ending in ("FLOAT SUMS EXACT", "float sums exact"):
        text = str(session.explain(f"{body} {ending}"))
        assert "rows and no panes: " in text
        assert "is to be exact (FLOAT SUMS EXACT)" in text


def test_one_set_of_counters_serves_all_functions_of_a_value() -> None:
    session = LocalSession()
    session.execute(DECLARED)
    calls = "MEDIAN(v), QUANTILE(v, 0.9), TOP(v, 3), COUNT(DISTINCT v), COLLECT_SET(v)"
    text = str(session.explain(f"SELECT {calls} FROM s [RANGE 9 us SLIDE 3 us]"))
    assert "Panes COUNT(*), values of s.v BY pane" in text


def test_panes_are_explained() -> None:
    session = LocalSession()
    session.execute(DECLARED)
    plan = session.explain("SELECT g, SUM(v) FROM s [RANGE 10 us SLIDE 4 us] GROUP BY g")
    assert "keeps synopsis of 5 panes of 2 us by s.g" in str(plan)
    assert "Panes SUM(s.v) BY s.g, pane" in str(plan)
    assert "basic interval synopsis" in plan.json()


def test_a_sum_is_null_when_its_rows_have_left_that_were_parts_of_a_pane() -> None:
    """Many batches bring parts of a pane; a store makes one of them."""
    session = LocalSession()
    session.execute(DECLARED.replace("SLACK 5 us", "SLACK 50 us"))
    run = session.query("SELECT SUM(k) AS s FROM s [RANGE 100 us SLIDE 50 us]")
    for ts in (*range(1, 40), *range(120, 640, 20)):
        row = {"ts": ts, "k": 1 if ts < 50 else None}
        run.feed({"s": pa.Table.from_pylist([row], schema=SCHEMA)})
    run.finish()
    assert [row["s"] for row in run.lifetimes().sort_by("ts").to_pylist()] == [None, 39, None]
