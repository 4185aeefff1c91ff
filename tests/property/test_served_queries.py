"""Whatever is served is what DuckDB says over the panes it claims, and histories keep promises."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.errors import BadInput, InvalidSetting
from mayfly.periodic import EVERYTHING, Aggregate, PeriodicQuery, Term, any_of
from mayfly.periodic.isolation import IsolationLevel
from mayfly.periodic.scheduling import POLICIES, Overload
from mayfly.periodic.server import (
    EvaluationWay,
    PeriodicServer,
    ServedAnswer,
    ServeOptions,
    StaleAnswer,
    Workers,
)
from mayfly.testing import ManualClock

PANE = 10
SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string(), "x": pa.int64()})
CALLS = {
    "COUNT": (Aggregate("COUNT"), "count(*)"),
    "SUM": (Aggregate("SUM", "x"), "sum(x)::BIGINT"),
    "MAX": (Aggregate("MAX", "x"), "max(x)"),
    "DISTINCT": (Aggregate("COUNT DISTINCT", "x"), "count(DISTINCT x)"),
}
SUBTRACTABLE = ("COUNT", "SUM")
WHERES = {"": (EVERYTHING, "TRUE"), "a": (any_of(Term("k", "=", "a")), "k = 'a'")}


class Served:
    """A server, all rows it was fed, and what it answered."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.server = PeriodicServer(SCHEMA, pane=PANE, clock=self.clock, record=True, **options)
        self.rows = [SCHEMA.empty_table()]
        self.answers: dict[str, list[ServedAnswer]] = defaultdict(list)
        self.queries: dict[str, tuple[PeriodicQuery, str, str]] = {}

    def query(
        self, name: str, call: str, panes: int, period: int = 1, where: str = "", keys: bool = False
    ) -> PeriodicQuery:
        by = ("k",) if keys else ()
        query = PeriodicQuery(
            name, CALLS[call][0], (panes * PANE,), period * PANE, where=WHERES[where][0], keys=by
        )
        self.queries[name] = query, CALLS[call][1], WHERES[where][1]
        return query

    def add(self, query: PeriodicQuery, options: ServeOptions | None = None) -> None:
        self.server.add(query, self.answers[query.name].append, options)

    def update(self, values: list[tuple[str, int]]) -> None:
        first = self.server.as_of(self.server.update_number) + 1
        rows = [{"ts": first + n % PANE, "k": k, "x": x} for n, (k, x) in enumerate(values)]
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        self.rows.append(table)
        self.server.update(table)

    def check(self) -> None:
        """Every answer is the oracle's as of what it claims; as_of never falls; histories hold."""
        connection = duckdb.connect()
        connection.register("rows", pa.concat_tables(self.rows))
        for name, answers in self.answers.items():
            assert [a.as_of for a in answers] == sorted(a.as_of for a in answers)
            for answer in answers:
                self.check_answer(connection, name, answer)
        verdicts = self.server.check()
        assert all(verdict.level >= verdict.promised for verdict in verdicts)

    def check_answer(
        self, connection: duckdb.DuckDBPyConnection, name: str, answer: ServedAnswer
    ) -> None:
        query, function, where = self.queries[name]
        group = "k, " if query.keys else ""
        oldest = answer.as_of - query.length
        sql = (
            f"SELECT {group}{function} FROM rows WHERE ts > {oldest} AND ts <= {answer.as_of}"
            f" AND {where} {'GROUP BY k' if group else ''}"
        )
        expected = sorted(connection.sql(sql).fetchall(), key=repr)
        got = [tuple(row.values()) for row in answer.rows.to_pylist()]
        assert sorted(got, key=repr) == expected, (name, answer)
        assert answer.answered == 0
        assert answer.behind >= 0


rows_of_pane = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 9)), max_size=4)


@pytest.mark.parametrize("isolation", ["LATEST", "WINDOW", "SNAPSHOT", "lws", "serial"])
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_answers_are_the_oracles(isolation: str, data: st.DataObject) -> None:
    """Random queries that come and go, in every way, with one-time queries and reads that span
    updates."""
    policy = POLICIES[data.draw(st.sampled_from(list(POLICIES)))]
    served = Served(policy=policy, isolation=isolation, keep=data.draw(st.sampled_from([0, 3])))
    asks = []
    for action in data.draw(st.lists(st.sampled_from("uuuuaqssssssdg"), max_size=50)):
        if action == "u":
            served.update(data.draw(rows_of_pane))
        elif action == "s":
            served.server.step()
        elif action == "d" and served.server.queries:
            served.server.remove(data.draw(st.sampled_from(sorted(served.server.queries))))
        elif action in "aq":
            call, where = (
                data.draw(st.sampled_from(list(CALLS))),
                data.draw(st.sampled_from(["", "a"])),
            )
            panes, period = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
            keys = data.draw(st.booleans())
            name = f"{action}{len(served.queries)}"
            query = served.query(name, call, panes, period, where, keys)
            way = data.draw(st.sampled_from(EvaluationWay))
            if action == "a" and (call in SUBTRACTABLE or not way.incremental):
                overload = data.draw(st.sampled_from(Overload))
                options = ServeOptions(isolation=isolation, overload=overload, way=way)
                served.add(query, options)
            elif action == "q":
                with suppress(InvalidSetting):  # where nothing is kept that answers it
                    asks.append((name, served.server.ask(query)))
        elif action == "g":
            served.server.run()
    served.server.run()
    assert served.server.idle
    for name, ask in asks:
        assert ask.answer is not None
        served.answers[name].append(ask.answer)
    whole = {
        name: [a for a in answers if not a.partial] for name, answers in served.answers.items()
    }
    served.answers = defaultdict(list, whole)
    served.check()


@pytest.mark.parametrize("policy", POLICIES)
def test_every_query_is_answered_by_its_deadline_while_there_is_time(policy: str) -> None:
    served = Served(policy=POLICIES[policy])
    for number, (panes, period) in enumerate([(10, 2), (5, 2), (15, 3), (30, 5)]):
        where = "a" if number == 3 else ""
        served.add(served.query(f"Q{number}", "SUM", panes, period, where, number % 2 == 0))
    every = served.query("E", "MAX", 4, 3)
    served.add(every, ServeOptions(overload=Overload.EVERY))
    for number in range(30):
        served.update([("a", number), ("b", 2)])
        served.server.run()
    served.check()
    for name, (query, _, _) in served.queries.items():
        instants = [answer.as_of for answer in served.answers[name]]
        gaps = [after - before for before, after in zip([0, *instants], instants, strict=False)]
        assert max(gaps) <= query.period
        assert {answer.late_by for answer in served.answers[name]} == {0}
    assert [a.as_of for a in served.answers["E"]] == list(range(30, 301, 30))
    assert served.server.report().mean == 0


def test_under_load_answers_are_late_and_every_update_is_seen() -> None:
    """One read between two updates, for windows of six panes."""
    served = Served()
    served.add(served.query("Q", "SUM", 6, 1))
    served.add(served.query("S", "COUNT", 6, 1), ServeOptions(overload=Overload.SKIP))
    served.add(served.query("E", "MAX", 3, 2), ServeOptions(overload=Overload.EVERY))
    for number in range(40):
        served.update([("a", number)])
        served.server.step()
    served.server.run()
    served.check()
    late = [answer.late_by for answer in served.answers["Q"]]
    assert max(late) > 0
    assert all(by % PANE == 0 for by in late)
    report = served.server.report()
    assert report["S"].skipped > 0
    assert report["S"].worst <= 1
    assert [a.as_of for a in served.answers["E"]] == list(range(20, 401, 20))
    latest = [v for v in served.server.check() if v.promised is IsolationLevel.LATEST]
    assert latest


def test_a_query_whose_reads_were_spoiled_starts_again() -> None:
    """Two updates before the last read of five: no order of reading survives that."""
    served = Served()
    served.add(served.query("Q", "SUM", 5, 5))
    for number in range(5):
        served.update([("a", 10**number)])
    for _ in range(4):
        served.server.step()
    for number in (5, 6):
        served.update([("a", 10**number)])
    served.server.run()
    (answer,) = served.answers["Q"]
    assert (answer.as_of, answer.attempts, answer.late_by) == (7 * PANE, 2, 2 * PANE)
    served.check()


def test_a_one_time_query_gets_half_of_the_reads_while_others_are_due() -> None:
    served = Served(keep=4)
    served.add(served.query("P", "SUM", 4, 4))
    for number in range(4):
        served.update([("a", number)])
    ask = served.server.ask(served.query("O", "MAX", 4))
    steps = 0
    while not ask.done:
        served.server.step()
        steps += 1
    assert (steps, len(served.answers["P"])) == (7, 0)
    served.server.step()
    assert len(served.answers["P"]) == 1
    assert ask.rows().to_pylist() == [{"value": 3}]
    served.check()


@pytest.mark.parametrize("way", EvaluationWay)
def test_an_incremental_way_reads_less(way: EvaluationWay) -> None:
    """Windows of eight panes, answered after each: two reads instead of eight."""
    served = Served()
    served.add(served.query("Q", "SUM", 8, 1, keys=True), ServeOptions(way=way))
    for number in range(20):
        served.update([("a", number), ("b", 1)])
        served.server.run()
    served.check()
    (source,) = served.server.inputs.all()
    reads = sum(range(1, 9)) + 12 * 8
    fewer = 8 * 1 + 12 * 2  # until the window is full nothing leaves it
    assert source.transactions.reads == (fewer if way.incremental else reads)
    assert (source.name == "rows") == way.of_rows


def test_staleness_is_bounded() -> None:
    served = Served()
    strict = ServeOptions(staleness=PANE)
    served.add(served.query("P", "SUM", 2, 1), strict)
    served.update([("a", 1)])
    served.update([("a", 2)])
    served.server.advance_clock(5 * PANE)
    ask = served.server.ask(served.query("O", "SUM", 2), strict, timeout=100)
    served.server.run()
    assert (ask.done, served.answers["P"], served.server.queries["P"].stale) == (False, [], 1)
    served.update([("a", 4)])
    served.update([("a", 8)])
    served.server.run()
    assert [(a.as_of, a.behind) for a in served.answers["P"]] == [(40, 10)]
    assert ask.rows().to_pylist() == [{"value": 12}]
    served.server.advance_clock(9 * PANE)
    ask = served.server.ask(served.query("O", "SUM", 2), strict, timeout=100)
    served.server.run()
    served.clock.advance("100 us")
    served.server.run()
    with pytest.raises(StaleAnswer, match="50 us behind the clock, and may be 10 us"):
        ask.rows()


def test_threads_serve_while_panes_come() -> None:
    """Three workers; a feeder; a thread that asks and removes queries."""
    served = Served(keep=8)
    for number in range(12):
        served.add(
            served.query(
                f"Q{number}", ["SUM", "MAX", "COUNT"][number % 3], 2 + number % 6, 1 + number % 4
            )
        )
    asks = []
    half = Event()

    def feed() -> None:
        for number in range(120):
            served.update([("a", number % 9), ("b", 1)])
            if number == 60:
                half.set()

    def change() -> None:
        half.wait()
        served.server.remove("Q0")
        for number in range(20):
            name = f"O{number}"
            asks.append(
                (name, served.server.ask(served.query(name, "SUM", 1 + number % 8, keys=True)))
            )

    with Workers(served.server, 3) as workers:
        threads = [Thread(target=feed), Thread(target=change)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        workers.wait()
    for name, ask in asks:
        assert ask.answer is not None
        served.answers[name].append(ask.answer)
    served.answers = defaultdict(
        list, {n: [a for a in answers if not a.partial] for n, answers in served.answers.items()}
    )
    assert all(served.answers[f"Q{number}"] for number in range(1, 12))
    served.check()


def test_what_a_callback_raises_comes_out() -> None:
    served = Served()

    def fail(answer: ServedAnswer) -> None:
        raise BadInput("the sink is full", "empty it")

    served.server.add(served.query("Q", "SUM", 1), fail)

    def serve() -> None:
        with Workers(served.server) as workers:
            served.update([("a", 1)])
            workers.wait()

    with pytest.raises(BadInput, match="the sink is full"):
        serve()


def test_a_query_that_comes_again_is_another_one() -> None:
    served = Served()
    first = served.query("Q", "SUM", 2)
    served.add(first)
    served.update([("a", 1)])
    served.update([("a", 2)])
    served.server.step()
    served.server.remove("Q")
    assert served.server.inputs.histories() == {}
    served.add(served.query("Q", "MAX", 1))
    served.update([("a", 9)])
    served.server.run()
    assert [a.rows.to_pylist() for a in served.answers["Q"]] == [[{"value": 9}]]
    served.check()


def test_a_query_leaves_in_the_middle_of_its_scan() -> None:
    served = Served()
    served.add(served.query("often", "SUM", 4, 1))
    served.add(served.query("seldom", "SUM", 4, 3), ServeOptions(isolation="SNAPSHOT"))
    served.update([("a", 1)])
    served.update([("a", 2)])
    served.server.step()
    served.server.remove("often")
    served.server.run()
    assert served.server.idle
    served.update([("a", 4)])
    served.server.run()
    assert [a.rows.to_pylist() for a in served.answers["seldom"]] == [[{"value": 7}]]
    assert served.answers["often"] == []
    served.check()


def test_an_approximate_answer_has_bounds() -> None:
    served = Served()
    query = PeriodicQuery("D", Aggregate("APPROX COUNT DISTINCT", "x"), (2 * PANE,), PANE)
    served.server.add(query, served.answers["D"].append)
    served.update([("a", 1), ("a", 2), ("b", 2)])
    served.server.run()
    (row,) = served.answers["D"][0].rows.to_pylist()
    assert row["low"] <= 2 <= row["high"]
    assert served.answers["D"][0].partial


def test_advice_and_what_is_refused() -> None:
    served = Served()
    served.add(served.query("Q", "SUM", 10, 2))
    advice = served.server.advise(served.query("P", "SUM", 20, 4), capacity=9)
    assert (float(advice.before), float(advice.after)) == (5.0, 7.5)
    cases: dict[str, Callable[[], object]] = {
        "is served already": lambda: served.add(served.query("Q", "SUM", 1)),
        "not of whole panes": lambda: served.server.add(
            PeriodicQuery("W", Aggregate("COUNT"), (15,), 10), print
        ),
        "cannot be subtracted": lambda: served.add(
            served.query("M", "MAX", 2), ServeOptions(way=EvaluationWay.INCREMENTAL)
        ),
        "for one query of a server": lambda: served.add(
            served.query("S", "MAX", 2), ServeOptions(isolation="serial")
        ),
        "no query 'X'": lambda: served.server.remove("X"),
        "no panes are kept that answer": lambda: served.server.ask(served.query("Z", "MAX", 2)),
        "a staleness of -1": lambda: ServeOptions(staleness=-1),
        "there is no isolation": lambda: ServeOptions(isolation="DIRTY"),
    }
    for problem, action in cases.items():
        with pytest.raises(InvalidSetting, match=problem):
            action()
    with pytest.raises(BadInput, match="feed panes in order"):
        served.server.update(pa.Table.from_pylist([{"ts": 99, "k": "a", "x": 1}], schema=SCHEMA))
    with pytest.raises(BadInput, match="other types or names"):
        served.server.update(pa.table({"ts": [1]}))
