"""DISTINCT from the first and last row of each value and pane, against an independent engine.

DuckDB answers over the rows that are alive at each instant; its SQL is written here. What Istream
and Dstream send is the difference of two such answers.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.checkpoint.history import KeptHistory, history_of
from mayfly.cql import bind_query, catalog_after, parse
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.physical.explain.explainer import explain
from mayfly.physical.shared_program import shared
from mayfly.physical.stager import staged
from mayfly.runtime.clock import Clocks
from mayfly.runtime.local_session import LocalSession
from tests.property.shared_runs import program_of, results_of, runner_of
from tests.property.test_panes import (
    DECLARED,
    SCHEMA,
    SLACK,
    Row,
    admitted,
    database,
    many,
    random_batches,
    shown,
)

LISTS = ("g", "k", "k, g", "v", "f", "g, f", "v, k")
GROUPS = (
    ("", "COUNT(DISTINCT g) AS a"),
    ("", "COUNT(DISTINCT v) AS a, MAX(v) AS b"),
    ("g", "COUNT(DISTINCT k) AS a"),
    ("k", "COUNT(DISTINCT g) AS a, MIN(g) AS b"),
    ("k", "SUM(DISTINCT v % 7) AS a, COUNT(DISTINCT v) AS b"),
    ("g", "COUNT(DISTINCT v) FILTER (WHERE v > 0) AS a"),
)
PREDICATES = ("", "v > 1", "g = 'a' OR g = 'b'", "k IN (1, 2)", "f < 1.0")


@dataclass(frozen=True)
class Asked:
    body: str
    """With ``{}`` for what is read."""
    duration: int
    period: int = 0
    origin: int = 0

    @property
    def cql(self) -> str:
        slide = f" SLIDE {self.period} us" if self.period else ""
        if self.origin:
            slide += f" ORIGIN '1970-01-01 00:00:00.{self.origin:06d}'"
        return self.body.format(f"s [RANGE {self.duration} us{slide}]")

    def answer(self, rows: list[dict[str, Any]], at: int) -> list[tuple[Any, ...]]:
        if self.period:
            at = (at - self.origin) // self.period * self.period + self.origin
        alive = [row for row in rows if at - self.duration < row["ts"] <= at]
        database().register("alive", pa.Table.from_pylist(alive, schema=SCHEMA))
        # 0.0 and -0.0 are one value, which we show without a sign.
        rows_of = database().sql(self.body.format("alive")).fetchall()
        plain = (Row(v + 0.0 if isinstance(v, float) else v for v in row) for row in rows_of)
        return sorted(plain, key=str)


def random_question(rng: Random, *, slides: bool = True) -> Asked:
    where = rng.choice(PREDICATES)
    where = f" WHERE {where}" if where else ""
    listed = rng.choice(LISTS)
    if rng.random() < 0.5:
        body = f"SELECT DISTINCT {listed} FROM {{}}{where}"
        if rng.random() < 0.3:
            body = f"SELECT COUNT(*) AS n FROM ({body}) AS x"
    else:
        keys, calls = rng.choice(GROUPS)
        body = f"SELECT {keys}{', ' if keys else ''}{calls} FROM {{}}{where}"
        body += f" GROUP BY {keys}" if keys else ""
    period = rng.choice((0, 0, 3, 4, 10)) if slides else 0
    return Asked(body, rng.choice((1, 2, 6, 7, 12, 40)), period, period and rng.randrange(period))


def every_instant(rows: list[dict[str, Any]], duration: int) -> list[int]:
    """Those around which something comes or goes, up to the last that is closed."""
    last = max(row["ts"] for row in rows)
    ends = {row["ts"] + duration for row in rows}
    around = {at + near for at in {row["ts"] for row in rows} | ends for near in (-1, 0, 1)}
    return sorted(at for at in around if 0 <= at <= last)


@many
@given(seed=st.integers(0, 2**48))
def test_spans_of_values_answer_as_all_rows(seed: int) -> None:
    """The tasks, states and commits of Spark, started anew before some batches."""
    rng = Random(seed)
    asked, batches = random_question(rng), random_batches(rng)
    rows, buckets = admitted(batches), rng.randint(1, 3)
    restarts = {number for number in range(len(batches)) if rng.random() < 0.5}
    with tempfile.TemporaryDirectory() as folder:
        catalog = catalog_after(parse(DECLARED))
        for number, batch in enumerate(batches):
            if not number or number in restarts:
                runner = runner_of(folder, catalog, {"q": asked.cql}, buckets)
            runner.feed({"s": pa.Table.from_pylist(batch, schema=SCHEMA)}, {})
        runner.close_input()
        table = results_of(runner, "q")
    if rows:
        for at in rng.sample(times := every_instant(rows, asked.duration), min(12, len(times))):
            assert shown(table, at) == asked.answer(rows, at), (asked.cql, at)


@many
@given(seed=st.integers(0, 2**48))
def test_what_comes_and_goes_is_what_all_rows_say(seed: int) -> None:
    rng = Random(seed)
    asked, batches = random_question(rng, slides=False), random_batches(rng)
    kind, rows = rng.choice(("ISTREAM", "DSTREAM")), admitted(batches)
    session = LocalSession()
    session.execute(DECLARED)
    run = session.query(f"{kind}({asked.cql})")
    for batch in batches:
        run.feed({"s": pa.Table.from_pylist(batch, schema=SCHEMA)})
    run.finish()
    sent: dict[int, Counter[str]] = {}
    for row in run.changes().to_pylist():
        at = row.pop("ts")
        sent.setdefault(at, Counter()).update([str(Row(row.values()))])
    if not rows:
        return
    first = min(row["ts"] for row in rows)
    for at in every_instant(rows, asked.duration):
        if at <= first:
            continue  # what there is before the first row is for other tests to say
        now, before = (Counter(map(str, asked.answer(rows, t))) for t in (at, at - 1))
        expected = now - before if kind == "ISTREAM" else before - now
        assert sent.get(at, Counter()) == expected, (asked.cql, kind, at)


def _seen(at: list[int], g: str = "a") -> list[dict[str, Any]]:
    return [{"ts": ts, "g": g} for ts in at]


@pytest.mark.parametrize(
    ("batches", "at"),
    [
        # The middle one is alone in the window: no pane is longer than that.
        ([_seen([1, 10, 20])], (9, 15, 19, 20)),
        ([_seen([1, 15, 29])], (10, 15, 24, 28)),
        # The row of 12 is late, and stands for none of those that wait.
        ([_seen([18], "b"), _seen([12, 15, 20])], (14, 15, 17, 19)),
    ],
)
def test_rows_that_no_other_stands_for_are_not_left_out(
    batches: list[list[dict[str, Any]]], at: tuple[int, ...]
) -> None:
    asked, rows = Asked("SELECT DISTINCT g FROM {}", 10), admitted(batches)
    with tempfile.TemporaryDirectory() as folder:
        runner = runner_of(folder, catalog_after(parse(DECLARED)), {"q": asked.cql}, 1)
        for batch in batches:
            runner.feed({"s": pa.Table.from_pylist(batch, schema=SCHEMA)}, {})
        runner.close_input()
        table = results_of(runner, "q")
    for instant in at:
        assert shown(table, instant) == asked.answer(rows, instant), instant


@pytest.mark.parametrize(
    "body",
    [
        "SELECT g, COUNT(DISTINCT v) AS n FROM s [RANGE 400 us] GROUP BY g",
        "SELECT g, SUM(DISTINCT v) AS n, MIN(v) AS m FROM s [RANGE 400 us] GROUP BY g",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT g, v FROM s [RANGE 400 us]) AS x",
    ],
)
@pytest.mark.parametrize("without", [(), ("early-pruning",)])
def test_small_batches_leave_no_more_rows_than_large_ones(
    body: str, without: tuple[str, ...]
) -> None:
    """At most two for each of six values in two panes, the groups, and rows that wait."""
    session = LocalSession()
    session.execute(DECLARED)
    run = session.query(body, without=without)
    rows = [{"ts": ts, "g": "ab"[ts % 2], "v": ts % 3} for ts in range(1, 1001)]
    for batch in range(100):
        some = rows[10 * batch : 10 * batch + 10]
        run.feed({"s": pa.Table.from_pylist(some, schema=SCHEMA)})
        assert run.state_rows <= 2 * 6 * 2 + 2 + SLACK + 1, batch
    run.finish()
    asked = Asked(body.replace("s [RANGE 400 us]", "{}"), 400)
    for at in (50, 400, 777, 1000):
        assert shown(run.lifetimes(), at) == asked.answer(rows, at), at


@pytest.mark.parametrize("without", [(), ("first-last",)])
def test_a_value_stays_until_the_last_of_its_rows_leaves(without: tuple[str, ...]) -> None:
    """Values come again within the window, then no more; small batches leave rows out."""
    session = LocalSession()
    session.execute(DECLARED)
    body = "SELECT g, COUNT(DISTINCT v) AS n FROM s [RANGE 400 us] GROUP BY g"
    run = session.query(body, without=without)
    rows = [
        {"ts": ts, "g": "ab"[ts % 2], "v": ts % 40 if ts < 200 else 1000 + ts % 2}
        for ts in range(1, 701)
    ]
    for batch in range(100):
        run.feed({"s": pa.Table.from_pylist(rows[7 * batch : 7 * batch + 7], schema=SCHEMA)})
    run.finish()
    asked = Asked(body.replace("s [RANGE 400 us]", "{}"), 400)
    for at in range(390, 700, 7):
        assert shown(run.lifetimes(), at) == asked.answer(rows, at), at


def test_of_many_rows_two_for_each_value_and_pane_are_kept() -> None:
    session = LocalSession()
    session.execute(DECLARED)
    rows = [{"ts": ts, "g": "ab"[ts % 2], "v": ts % 3} for ts in range(1, 1001)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    kept = {}
    for without in ((), ("first-last",)):
        run = session.query(
            "SELECT g, COUNT(DISTINCT v) AS n FROM s [RANGE 100 us] GROUP BY g", without=without
        )
        run.feed({"s": table})
        kept[without] = run.state_rows
    # Two rows for each of six values in two panes, and two groups.
    assert kept[()] <= 2 * 6 * 2 + 2
    assert kept["first-last",] >= 100


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "SELECT DISTINCT s.g FROM s [RANGE 9 us], s [RANGE 9 us] AS t WHERE s.k = t.k",
            "one stream",
        ),
        ("SELECT DISTINCT g FROM s [ROWS 9]", "rows of [ROWS 9] do not live equally long"),
        ("SELECT COUNT(DISTINCT g) FROM s [RANGE 9 us INTERNAL]", "INTERNAL"),
        ("SELECT DISTINCT g, ts FROM s [RANGE 9 us]", "every row has a ts of its own"),
        ("SELECT COUNT(DISTINCT g), COUNT(*) FROM s [RANGE 9 us]", "COUNT(*) needs every row"),
    ],
)
def test_who_needs_every_row_says_why(body: str, why: str) -> None:
    session = LocalSession()
    session.execute(DECLARED)
    text = str(session.explain(body))
    assert "reads every row: " in text
    assert why in text
    assert "First and last" not in text


def test_the_rule_can_be_switched_off_and_says_so() -> None:
    catalog, body = catalog_after(parse(DECLARED)), "SELECT DISTINCT g FROM s [RANGE 9 us]"
    text = str(explain(bind_query(body, catalog), catalog, body))
    assert "First and last row of each g and pane of 9 us" in text
    text = str(explain(bind_query(body, catalog), catalog, body, without=("first-last",)))
    assert "reads every row: the rule is switched off" in text


def test_a_newcomer_does_not_take_what_is_left_of_rows_for_all() -> None:
    """Its COUNT(*) begins when it comes: the rows of the window are not all kept."""
    texts = {"q": "SELECT g, COUNT(DISTINCT v) AS n FROM s [RANGE 100 us] GROUP BY g"}
    late = {"late": "SELECT g, COUNT(v) AS n FROM s [RANGE 100 us] GROUP BY g"}
    rows = [{"ts": ts, "g": "a", "v": 1} for ts in range(1, 40)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    catalog = catalog_after(parse(DECLARED))
    for rules in (SHARING, SHARING - {"first-last"}):
        with tempfile.TemporaryDirectory() as folder:
            runner = runner_of(folder, catalog, texts, 1, sharing=rules)
            runner.feed({"s": table}, {})
            keeping = _known_from(runner, catalog, texts | late, rules)
        assert keeping == ("first-last" not in rules)


def _known_from(runner: Any, catalog: Any, texts: dict[str, str], rules: Any) -> bool:
    """Whether a newcomer finds all rows of its window kept."""
    programs = {name: program_of(text, catalog, sharing=rules) for name, text in texts.items()}
    stages = staged(shared(programs, {"late": 35}))
    stored = runner.repository.current().properties
    kept = KeptHistory(Clocks.from_json(stored["clocks"]), {}, {}, {}, {}, {"s": "ts"})
    return bool(history_of(stages, frozenset({"late"}), kept).fillings)
