"""Decayed sums and exponential histograms of streams, against an independent engine.

DuckDB answers over the rows that each refresh shows; its SQL is written here, not made from ours.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.cql import catalog_after, parse
from mayfly.errors import BadInput
from mayfly.lifetime import NEVER
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.runtime.local_session import LocalSession
from mayfly.spark.stream.query_checkpoint import WHOLE_FROM
from tests.property.shared_runs import results_of, runner_of
from tests.property.test_joint_readers import spread
from tests.property.test_pane_sharing import Pipeline
from tests.property.test_panes import (
    DECLARED,
    SCHEMA,
    Query,
    Row,
    admitted,
    database,
    instants,
    many,
    random_batches,
    shown,
)

some = settings(many, max_examples=many.max_examples // 2)
KEYS = ((), ("g",), ("k", "g"))
PREDICATES = ("", "f > 0", "g = 'a' OR k = 1")
WEIGHT = "pow(2.0, (epoch_us(ts) - {at}) / {life}.0)"
DECAYS = {
    "DECAYED_SUM({x}, INTERVAL {life} us)": "SUM({x} * {weight})",
    "DECAYED_COUNT(*, INTERVAL {life} us)": "COALESCE(SUM({weight}), 0.0)",
    "DECAYED_COUNT({x}, INTERVAL {life} us)": "COALESCE(SUM({weight}) {there}, 0.0)",
    "DECAYED_AVG({x}, INTERVAL {life} us)": "SUM({x} * {weight}) / SUM({weight}) {there}",
    "DECAYED_SUM({x}, INTERVAL {life} us) FILTER (WHERE k = 1)": "SUM({x} * {weight}) {some}",
}
ERROR = 0.2
WINDOW, EXACT = 100, ("COUNT(*)", "COUNT(v)", "SUM(v)")
"""So long that panes are more than buckets."""


@dataclass(frozen=True)
class Decayed:
    keys: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    where: str
    period: int

    @property
    def _tail(self) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        return where + (f" GROUP BY {', '.join(self.keys)}" if self.keys else "")

    @property
    def cql(self) -> str:
        listed = [*self.keys, *(f"{call} AS c{n}" for n, (call, _) in enumerate(self.calls))]
        return f"SELECT {', '.join(listed)} FROM s [UNBOUNDED SLIDE {self.period} us]{self._tail}"

    def answer(self, rows: list[dict[str, Any]], at: int) -> list[tuple[Any, ...]]:
        refresh = at // self.period * self.period
        known = [row for row in rows if row["ts"] <= refresh]
        database().register("known", pa.Table.from_pylist(known, schema=SCHEMA))
        calls = [sql.replace("{at}", str(refresh)) for _, sql in self.calls]
        listed = ", ".join([*self.keys, *calls])
        found = database().sql(f"SELECT {listed} FROM known{self._tail}").fetchall()
        return sorted(map(Row, found), key=_by_keys(len(self.keys)))


def _by_keys(count: int) -> Callable[[tuple[Any, ...]], str]:
    return lambda row: str(row[:count])


def random_decay(rng: Random) -> Decayed:
    calls = []
    for call, sql in rng.sample(sorted(DECAYS.items()), rng.randint(1, 3)):
        life, x = rng.choice((1, 7, 300)), rng.choice(("f", "m", "k"))
        weight = WEIGHT.replace("{life}", str(life))
        named = {"x": x, "life": life, "some": "FILTER (k = 1)"}
        named["there"] = f"FILTER ({x} IS NOT NULL)"
        calls.append((call.format(**named), sql.format(**named, weight=weight)))
    return Decayed(rng.choice(KEYS), tuple(calls), rng.choice(PREDICATES), rng.choice((1, 4, 10)))


def in_process(cql: str, batches: list[list[dict[str, Any]]], buckets: int) -> pa.Table:
    session = LocalSession()
    session.execute(DECLARED)
    run = session.query(cql, buckets=buckets)
    for batch in batches:
        run.feed({"s": pa.Table.from_pylist(batch, schema=SCHEMA)})
    run.finish()
    return run.lifetimes()


def restarted(cql: str, batches: list[list[dict[str, Any]]], buckets: int) -> pa.Table:
    """The tasks, states and commits of Spark, started anew before every batch."""
    with tempfile.TemporaryDirectory() as folder:
        catalog = catalog_after(parse(DECLARED))
        for batch in batches:
            runner = runner_of(folder, catalog, {"q": cql}, buckets)
            runner.feed({"s": pa.Table.from_pylist(batch, schema=SCHEMA)}, {})
        runner = runner_of(folder, catalog, {"q": cql}, buckets)
        runner.close_input()
        return results_of(runner, "q")


@some
@given(seed=st.integers(0, 2**48))
def test_decayed_sums_are_those_of_all_rows(seed: int) -> None:
    rng = Random(seed)
    query, batches = random_decay(rng), random_batches(rng)
    rows, buckets = admitted(batches), rng.randint(1, 3)
    once, again = (way(query.cql, batches, buckets) for way in (in_process, restarted))
    if rows:
        for at in instants(rows, rng):
            wanted = query.answer(rows, at)
            for table in (once, again):
                found = sorted(shown(table, at), key=_by_keys(len(query.keys)))
                assert found == wanted, (query.cql, at)
    exact = [
        list(map(tuple, shown(table, at))) for table in (once, again) for at in range(0, 60, 7)
    ]
    assert exact[: len(exact) // 2] == exact[len(exact) // 2 :], query.cql


def _numbers(keys: tuple[str, ...], table: pa.Table, at: int) -> dict[tuple[Any, ...], list[Any]]:
    size = len(keys)
    return {row[:size]: list(row[size:]) for row in shown(table, at)}


@some
@given(seed=st.integers(0, 2**48))
def test_histograms_lie_around_the_exact_answer(seed: int) -> None:
    rng = Random(seed)
    keys, where = rng.choice(KEYS), rng.choice(PREDICATES)
    calls = rng.sample(EXACT, rng.randint(1, 2))
    forms = [f"APPROX_{call[:-1]}, {ERROR})" for call in calls]
    bounds = [form.replace("(", f"_{end}(", 1) for form in forms for end in ("LOW", "HIGH")]
    listed = ", ".join([*keys, *(f"{call} AS c{n}" for n, call in enumerate([*forms, *bounds]))])
    tail = (f" WHERE {where}" if where else "") + (f" GROUP BY {', '.join(keys)}" if keys else "")
    period = rng.choice((1, 4, 10))
    duration = WINDOW * period
    batches = random_batches(rng, sizes=(0, 4, 12, 90))
    for batch in batches:
        for row in batch:  # few instants of many, so that windows slide over rows
            row["ts"] *= rng.choice((1, 1, duration // 20)) if rng.random() < 0.5 else 1
            row["v"] = rng.choice((0, 1, 5, 300, None))
        batch.sort(key=lambda row: row["ts"])
    rows, buckets = admitted(batches), rng.randint(1, 3)
    cql = f"SELECT {listed} FROM s [RANGE {duration} us SLIDE {period} us]{tail}"
    once, again = (way(cql, batches, buckets) for way in (in_process, restarted))
    for at in instants(rows, rng) if rows else ():
        refresh = at // period * period
        alive = [row for row in rows if refresh - duration < row["ts"] <= refresh]
        database().register("alive", pa.Table.from_pylist(alive, schema=SCHEMA))
        exact = {
            tuple(row[: len(keys)]): row[len(keys) :]
            for row in database()
            .sql(f"SELECT {', '.join([*keys, *calls])} FROM alive{tail}")
            .fetchall()
        }
        answers = _numbers(keys, once, at)
        assert answers == _numbers(keys, again, at), (cql, at)
        assert answers.keys() == exact.keys(), (cql, at)
        for key, wanted in exact.items():
            for number, value in enumerate(wanted):
                about = answers[key][number]
                low, high = answers[key][len(calls) + 2 * number :][:2]
                if value is None:
                    assert (about, low, high) == (None, None, None)
                    continue
                assert low <= value <= high, (cql, at, key)
                assert abs(about - value) <= ERROR * value + 0.5, (cql, at, key)


class Histograms(Query):
    """So small an error that counts of few rows are exact."""

    @property
    def cql(self) -> str:
        return super().cql.replace("COUNT(*)", "APPROX_COUNT(*, 0.02)")


@some
@given(seed=st.integers(0, 2**48))
def test_histograms_of_queries_that_come_later_say_from_when_they_are_whole(seed: int) -> None:
    """States move to other numbers of buckets on the way."""
    rng, scale = Random(seed), 25
    batches = random_batches(rng, rng.randint(3, 6), (0, 1, 4))
    for row in (row for batch in batches for row in batch):
        row["ts"] *= scale
    asked = [
        Histograms(rng.choice(KEYS), ("COUNT(*)",), rng.choice(PREDICATES), 500, period, 0)
        for period in (1, 1, rng.choice((1, 60)))
    ]
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, rng.randint(1, 3), SHARING)
        pipeline.begin({"first": asked[0]})
        late = rng.randrange(1, len(batches))
        for number, batch in enumerate(batches):
            if number == late:
                pipeline.add({"later": asked[1], "seldom": asked[2]})
            pipeline.feed(batch)
            if rng.random() < 0.3:
                spread(pipeline, rng.randint(1, 3))
        for name, entry in pipeline.entries.items():
            assert (entry.get(WHOLE_FROM) or 0) < NEVER, name
        pipeline.check(admitted(batches), rng)


def test_histograms_are_much_smaller_than_what_they_count() -> None:
    session = LocalSession()
    session.execute("CREATE STREAM t (ts BIGINT, v BIGINT) FROM parquet('x') TIMESTAMP BY ts")
    calls = "APPROX_COUNT(*, 0.05) AS n, APPROX_SUM(v, 0.05) AS s"
    cql = f"SELECT {calls} FROM t [RANGE 9000 us SLIDE 10 us]"
    runs = [session.query(cql, without=without) for without in ((), ("sketches",))]
    for run in runs:
        for part in range(0, 20_000, 1_000):
            run.feed({"t": pa.table({"ts": range(part, part + 1_000), "v": [7] * 1_000})})
    (about,), (exact,) = (run.snapshot(19_990).to_pylist() for run in runs)
    assert exact == {"n": 9_000, "s": 63_000}
    assert abs(about["n"] - 9_000) <= 450
    assert abs(about["s"] - 63_000) <= 3_150
    assert about != exact
    small, large = (
        sum(state.bytes for states in run.states.values() for state in states) for run in runs
    )
    assert small < large / 4, (small, large)


def test_numbers_below_0_are_refused_where_they_come() -> None:
    session = LocalSession()
    session.execute("CREATE STREAM t (ts BIGINT, v BIGINT) FROM parquet('x') TIMESTAMP BY ts")
    run = session.query("SELECT APPROX_SUM(v, 0.1) AS s FROM t [RANGE 9000 us SLIDE 1 us]")
    with pytest.raises(BadInput, match="no numbers below 0"):
        run.feed({"t": pa.table({"ts": [1, 2, 9], "v": [3, -1, 0]})})


def test_nothing_is_kept_of_groups_of_which_nothing_is_left() -> None:
    session = LocalSession()
    session.execute("CREATE STREAM t (ts BIGINT, k BIGINT) FROM parquet('x') TIMESTAMP BY ts")
    run = session.query(
        "SELECT k, DECAYED_COUNT(*, INTERVAL 1 us) AS n FROM t [UNBOUNDED SLIDE 100 us] GROUP BY k"
    )
    run.feed({"t": pa.table({"ts": [1, 150, 5_000], "k": [1, 2, 3]})})
    run.finish()
    assert [row["k"] for row in run.snapshot(900).to_pylist()] == [1, 2]
    assert [row["k"] for row in run.snapshot(1_100).to_pylist()] == [2]
    assert [row["k"] for row in run.snapshot(5_000).to_pylist()] == [3]


def test_few_panes_are_counted_exactly() -> None:
    session = LocalSession()
    session.execute("CREATE STREAM t (ts BIGINT, v BIGINT) FROM parquet('x') TIMESTAMP BY ts")
    about = "APPROX_COUNT(v, 0.3) AS n, APPROX_COUNT_HIGH(v, 0.3) AS h, APPROX_SUM(v, 0.3) AS s"
    run = session.query(f"SELECT {about} FROM t [RANGE 9000 us SLIDE 1000 us]")
    run.feed({"t": pa.table({"ts": range(20_000), "v": [n % 7 for n in range(20_000)]})})
    total = sum(n % 7 for n in range(10_001, 19_001))
    assert run.snapshot(19_000).to_pylist() == [{"n": 9_000, "h": 9_000, "s": total}]


def test_rows_of_one_instant_have_an_order() -> None:
    """Sums are rounded with every row: whatever came first, the answer is the same to the bit."""
    session = LocalSession()
    session.execute("CREATE STREAM t (ts BIGINT, v DOUBLE) FROM parquet('x') TIMESTAMP BY ts")
    values, answers = [0.1, 1e16, -1e16, 0.7, 3.3], set()
    for turn in range(5):
        run = session.query(
            "SELECT DECAYED_SUM(v, INTERVAL 9 us) AS s FROM t [UNBOUNDED SLIDE 1 us]"
        )
        run.feed({"t": pa.table({"ts": [4] * 5, "v": values[turn:] + values[:turn]})})
        run.finish()
        answers.add(run.snapshot(4).to_pylist()[0]["s"])
    assert len(answers) == 1


def test_having_decides_about_the_only_group_from_the_beginning() -> None:
    session = LocalSession()
    session.execute("CREATE STREAM t (ts BIGINT, v BIGINT) FROM parquet('x') TIMESTAMP BY ts")
    count = "DECAYED_COUNT(*, INTERVAL 5 us) AS n"
    for limit, expected in (("> 0.9", [[], [2.0], [1.0], []]), ("< 0.9", [[0.0], [], [], [0.5]])):
        where = f"WHERE v > 0 HAVING n {limit}"
        run = session.query(f"SELECT {count} FROM t [UNBOUNDED SLIDE 5 us] {where}")
        for ts, v in (([1, 3], 0), ([5, 5], 1), ([16], 1)):
            run.feed({"t": pa.table({"ts": ts, "v": [v] * len(ts)})})
        run.finish()
        answers = [run.snapshot(at).to_pylist() for at in (4, 5, 10, 15)]
        assert [[row["n"] for row in rows] for rows in answers] == expected, limit
