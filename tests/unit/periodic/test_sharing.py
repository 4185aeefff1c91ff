"""Each rule by what it saves: which rule a second query falls under, and values kept and read."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

from mayfly.errors import InvalidSetting
from mayfly.periodic import RULES, Aggregate, PeriodicQuery, QueryWorkload, Term, any_of
from mayfly.periodic.cost import joint_groups, kind_for, probe_merges, slide_merges
from mayfly.periodic.execution import accesses
from mayfly.periodic.predicate import EVERYTHING, Predicate
from mayfly.periodic.sharing.sharing_rule import (
    Access,
    Board,
    Combine,
    Divide,
    Forward,
    Probe,
    SynopsisPlan,
    SynopsisReading,
)
from mayfly.periodic.sharing.ss3_join import SS3
from mayfly.periodic.sharing.ss4_relevant_set import pays
from mayfly.synopses.contents import Count, Counters, Maximum, Total

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string(), "x": pa.int64(), "y": pa.int64()})
SUM, COUNT, AVG, MAX = (Aggregate(name, "x") for name in ("SUM", "COUNT", "AVG", "MAX"))
A, B = any_of(Term("x", "=", 1)), any_of(Term("x", "=", 2))


def query(
    name: str,
    call: Aggregate = MAX,
    length: int = 12,
    period: int = 2,
    origin: int = 0,
    where: Predicate = EVERYTHING,
    keys: tuple[str, ...] = (),
) -> PeriodicQuery:
    return PeriodicQuery(name, call, (length,), period, origin, where, keys)


@pytest.mark.parametrize(
    ("first", "second", "rule", "access"),
    [
        (query("a"), query("b", period=4), "CS8", Forward("a")),
        (query("a"), query("b", period=3), "SS1", Probe("S1")),
        (query("a"), query("b", length=6), "SS1", Probe("S1")),
        (query("a"), query("b", length=14), "SS1, grown", Probe("S1")),
        (query("a", SUM), query("b", AVG), "SS1", Probe("S1")),
        (query("a", SUM), query("b", COUNT), "SS1", Probe("S1")),
        (query("a", Aggregate("TOP", "x", 3)), query("b", MAX), "SS1", Probe("S1")),
        (query("a", COUNT), query("b", AVG), "own synopsis", Probe("S2")),
        (query("a", Aggregate("COUNT")), query("b", COUNT), "own synopsis", Probe("S2")),
        (query("a"), query("b", SUM), "own synopsis", Probe("S2")),
        (query("a"), query("b", Aggregate("MAX", "y")), "own synopsis", Probe("S2")),
        (query("a"), query("b", keys=("k",)), "own synopsis", Probe("S2")),
        (query("a"), query("b", where=A), "own synopsis", Probe("S2")),
        (query("a"), query("b", origin=1), "own synopsis", Probe("S1")),
    ],
)
def test_two_queries_and_the_rule_between_them(
    first: PeriodicQuery, second: PeriodicQuery, rule: str, access: Access
) -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(first)
    share = workload.add(second)
    assert (share.rule, share.access) == (rule, access)
    if rule not in ("own synopsis", "SS1, grown"):
        alone = QueryWorkload(SCHEMA, without=RULES)
        alone.add(first)
        assert alone.add(second).access == Probe("S2")


def test_an_average_takes_a_sum_and_a_count_of_others() -> None:
    workload = QueryWorkload(SCHEMA, without=["SS1", "SS4"])
    workload.add(query("sum", SUM))
    workload.add(query("rows", Aggregate("COUNT")))
    assert workload.add(query("early", AVG)).rule == "own synopsis"
    workload.remove("early")
    workload.add(query("count", COUNT))
    share = workload.add(query("mean", AVG, length=6, keys=()))
    assert (share.rule, share.access) == ("SS2", Divide("S1", "S3"))
    rows = pa.table([[1, 2, 3], ["a"] * 3, [4, None, 8], [0] * 3], schema=SCHEMA)
    answers = {answer.query: answer.rows.to_pylist() for answer in workload.feed(rows, 5)}
    assert answers["mean"] == [{"value": 6.0}]


def test_a_set_of_others_is_taken_where_merging_costs_less_than_keeping() -> None:
    plans = {
        name: SynopsisPlan(name, "interval", Maximum("x"), (), where, 100)
        for name, where in (("a", A), ("b", B))
    }
    asked = query("q", length=100, period=2, where=A | B)
    for rows, worth in ((0.0, False), (1000.0, True)):
        board = Board(SCHEMA, plans, {}, {}, frozenset({(2, 0)}), rows)
        assert pays(asked, Combine(("a", "b")), board) is worth


def test_joins_share_within_the_spread() -> None:
    plan = SynopsisPlan("J", "basic interval join", Total("x"), (), EVERYTHING, 8, spread=2)
    board = Board(SCHEMA, {"J": plan})
    asked = {pair: PeriodicQuery("q", SUM, pair, 1) for pair in ((8, 8), (6, 8), (5, 8), (9, 9))}
    shared = {pair: SS3.share(one, board) for pair, one in asked.items()}
    assert shared == {(8, 8): Probe("J"), (6, 8): Probe("J"), (5, 8): None, (9, 9): None}


# ── computation ───────────────────────────────────────────────────────────────────────────


def reading(
    name: str, kind: str, panes: int | tuple[int, int], access: Access | None = None
) -> SynopsisReading:
    plan = SynopsisPlan("S", kind, Counters("x"), (), EVERYTHING, 100)
    return SynopsisReading(name, plan, panes, access or Probe("S"))


@pytest.mark.parametrize(
    ("rule", "kind", "same", "other", "access"),
    [
        ("CS1", "interval", True, False, None),
        ("CS1", "running", True, False, None),
        ("CS2", "basic interval", True, True, None),
        ("CS3", "interval", True, False, Divide("S", "T")),
        ("CS3", "running", True, False, Divide("S", "T")),
        ("CS4", "interval join", True, False, None),
        ("CS4", "running join", True, False, None),
        ("CS5", "basic interval join", True, True, None),
        ("CS6", "interval", True, False, Combine(("S", "T"))),
        ("CS6", "running join", True, False, Combine(("S", "T"))),
        ("CS7", "basic interval", True, True, Combine(("S", "T"))),
        ("CS7", "basic interval join", True, True, Combine(("S", "T"))),
    ],
)
def test_one_access_for_two_readings(
    rule: str, kind: str, same: bool, other: bool, access: Access | None
) -> None:
    long: int | tuple[int, int] = (8, 8) if kind.endswith("join") else 8
    short: int | tuple[int, int] = (6, 8) if kind.endswith("join") else 6
    for panes, together in ((long, same), (short, other)):
        both = [reading("a", kind, long), reading("b", kind, panes, access)]
        assert len(accesses(both, RULES)) == (1 if together else 2)
        assert len(accesses(both, {rule})) == (1 if together else 2)
        assert len(accesses(both, RULES - {rule})) == 2
        assert len(accesses(both, ())) == 2


def values_read(without: list[str], *queries: PeriodicQuery) -> int:
    """By all answers at the instant 24, over panes of 2 with a row each."""
    workload = QueryWorkload(SCHEMA, without=without)
    for one in queries:
        workload.add(one)
    rows = [{"ts": t, "k": "a", "x": t % 5, "y": 0} for t in range(24)]
    workload.feed(pa.Table.from_pylist(rows, SCHEMA), 24)
    before = workload.read
    workload.feed(pa.Table.from_pylist([], SCHEMA), 25)
    return workload.read - before


def test_values_read_with_and_without_each_computation_rule() -> None:
    scan = [query(f"q{n}", MAX, 2 * n, 24) for n in range(1, 8)]
    assert values_read([], *scan) == 7
    assert values_read(["CS2"], *scan) == sum(range(1, 8))
    probe = [query("a", SUM, 16, 24), query("b", COUNT, 16, 24), query("c", AVG, 16, 24)]
    assert values_read([], *probe) == 2
    assert values_read(["CS1"], *probe) == 6
    assert values_read(["SS1", "SS4"], *probe) == 2 + 2
    assert values_read(["SS1", "SS4", "CS3"], *probe) == 2 + 2 + (2 + 2)
    combined = [query("a", SUM, 16, 24, where=A), query("b", SUM, 16, 24, where=B)]
    combined.append(query("c", SUM, 16, 24, where=A | B))
    assert values_read([], *combined) == 4
    assert values_read(["CS6"], *combined) == 8


def test_a_follower_reads_nothing_and_goes_on_when_its_leader_leaves() -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(query("lead", MAX, 4, 2))
    workload.add(query("follow", MAX, 4, 4))
    rows = [{"ts": t, "k": "a", "x": t, "y": 0} for t in range(1, 9)]
    answers = workload.feed(pa.Table.from_pylist(rows[:4], SCHEMA), 5)
    assert [(a.query, a.as_of) for a in answers] == [("lead", 2), ("lead", 4), ("follow", 4)]
    workload.remove("lead")
    answers = workload.feed(pa.Table.from_pylist(rows[4:], SCHEMA), 9)
    assert [(a.query, a.as_of, a.rows.to_pylist()) for a in answers] == [
        ("follow", 8, [{"value": 8}])
    ]
    workload.remove("follow")
    assert workload.stored == 0


def test_the_cheapest_kind_by_the_windows_that_run_together() -> None:
    lengths = [10, 5, 6, 15, 12, 20, 30]
    assert probe_merges("basic interval", lengths) == 29
    assert probe_merges("interval", lengths) == Fraction(37, 2)
    assert kind_for(Maximum("x"), [lengths]) == "interval"
    assert kind_for(Maximum("x"), [range(1, 31)]) == "basic interval"
    assert kind_for(Maximum("x"), [[1]]) == "basic interval"
    assert kind_for(Count("x"), [lengths]) == "running"
    assert kind_for(Counters("x"), [[30]]) == "interval"
    assert [slide_merges(kind, 8) for kind in ("running", "basic interval", "interval")] == [
        1, 0, Fraction(7, 8),
    ]  # fmt: skip


def test_windows_that_are_seldom_due_together_are_no_reason_to_scan() -> None:
    together = [(panes, 30, 0) for panes in range(1, 31)]
    apart = [(panes, 30, panes) for panes in range(1, 31)]
    assert len(joint_groups(together)) == 4
    assert len(joint_groups(apart)) == 30 * 4
    assert kind_for(Maximum("x"), joint_groups(together)) == "basic interval"
    assert kind_for(Maximum("x"), joint_groups(apart)) == "interval"


def test_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="no sharing rule 'SS9'"):
        QueryWorkload(SCHEMA, without=["SS9"])
