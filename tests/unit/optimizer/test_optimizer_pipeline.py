"""The pipeline: every candidate plan of every query has the same answers, whatever is switched."""

from __future__ import annotations

import pytest

from mayfly.errors import InvalidSetting
from mayfly.optimizer import Optimized, SourceStatistics, Statistics, label_plan, optimize
from mayfly.optimizer.optimize import RULES
from mayfly.patterns import STR, WK
from mayfly.plan.logical_operators import AntiJoin, Distinct, Join
from mayfly.plan.strategy import Strategy
from tests.unit.optimizer.plan_oracle import answer
from tests.unit.optimizer.window_tables import INSTANTS, bound, random_tables

FIG_35 = """SELECT s1.a, s2.b
FROM s1 [RANGE 10 MIN], s2 [RANGE 10 MIN]
WHERE s1.a = s2.a
  AND NOT EXISTS (SELECT * FROM s3 [RANGE 10 MIN] WHERE s3.a = s1.a)"""

QUERIES = [
    "SELECT DISTINCT s1.a, s2.b FROM s1 [RANGE 5 us], s2 [RANGE 4 us] "
    "WHERE s1.a = s2.a AND s1.b > 0",
    "SELECT DISTINCT s1.a FROM s1 [RANGE 5 us], s2 [RANGE 4 us], s3 [ROWS 3] "
    "WHERE s1.a = s2.a AND s2.b = s3.b AND s1.b + 1 > s3.a AND NOT EXISTS "
    "(SELECT * FROM s4 [RANGE 2 us] WHERE s4.a = s2.b AND s4.b <> s2.a)",
    "SELECT x.a, COUNT(*) AS n, SUM(x.b) AS t FROM "
    "(SELECT s1.a, s2.b FROM s1 [RANGE 5 us], s2 [RANGE 4 us] WHERE s1.c = s2.c) x "
    "WHERE x.b < 3 GROUP BY x.a HAVING COUNT(*) > 1 AND x.a > 0",
    "SELECT a FROM s1 [RANGE 5 us] WHERE b NOT IN (SELECT b FROM s2 [RANGE 5 us] WHERE a > 1)",
    "SELECT x.a FROM (SELECT a, b FROM s1 [RANGE 5 us] UNION ALL SELECT b, a FROM s2 [ROWS 4]) x "
    "WHERE x.b = 1 OR x.a IS NULL",
    "SELECT a, b FROM s1 [RANGE 5 us] WHERE a > 0 EXCEPT ALL SELECT b, a FROM s2 [RANGE 5 us]",
    "SELECT s1.a, r.v, n.v AS w FROM s1 [RANGE 5 us], s2 [RANGE 9 us], r, n "
    "WHERE s1.a = s2.a AND s1.b = r.k AND s2.b = n.k AND r.v > 0",
    "SELECT x.a FROM (SELECT a, b FROM s1 WHERE b > 0) [RANGE 5 us] x, s2 [ROWS 2] "
    "WHERE x.b = s2.b AND s2.a > 0",
    "SELECT s1.a FROM s1 [RANGE 5 us], s2 [RANGE 4 us], s3 [RANGE 3 us], s4 [RANGE 2 us] "
    "WHERE s1.a = s2.a AND s3.b = s4.b",
]
WITHOUT = [(), *((rule.name,) for rule in RULES), tuple(rule.name for rule in RULES)]


@pytest.mark.parametrize("query", QUERIES)
def test_every_candidate_has_the_answer_of_the_bound_plan(query: str) -> None:
    plan = bound(query)
    candidates = {each.plan for off in WITHOUT for each in optimize(plan, without=off).candidates}
    assert len(candidates) > 1
    rows_seen = 0
    for seed in range(25):
        rows = random_tables(seed)
        for at in INSTANTS:
            expected = answer(plan, rows, at)
            rows_seen += expected.total()
            for candidate in candidates:
                assert answer(candidate, rows, at) == expected, f"data set {seed}, instant {at}"
    assert rows_seen


@pytest.mark.parametrize("query", QUERIES)
def test_plans_are_stable(query: str) -> None:
    """Optimizing an optimized plan finds nothing cheaper, and twice the same gives the same."""
    once = optimize(bound(query))
    assert optimize(bound(query)).plan == once.plan
    assert optimize(once.plan).chosen.cost <= once.chosen.cost * (1 + 1e-9)


def test_switched_off_rules_do_not_run() -> None:
    plan = bound("SELECT a FROM s1 [RANGE 5 us] WHERE 1 = 1")
    report = optimize(plan, without=["prune-columns"]).chosen.applied
    assert [each.rule for each in report] == [
        rule.name for rule in RULES if rule.name != "prune-columns"
    ]
    changed = {each.rule for each in report if each.changed}
    assert changed == {"fold-constants"}
    assert all(each.seconds >= 0 for each in report)


def test_an_unknown_rule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidSetting, match="push-predicates") as caught:
        optimize(bound("SELECT a FROM s1 [RANGE 5 us]"), without=["push-predicate"])
    assert "push-predicate'" in caught.value.message


def rates(s1: float, s2: float, s3: float, *values: float) -> Statistics:
    each = zip(("s1", "s2", "s3"), (s1, s2, s3), values, strict=True)
    return Statistics(
        {name: SourceStatistics(rate, distinct={"a": count}) for name, rate, count in each}
    )


def negation_is_on_top(optimized: Optimized) -> bool:
    nodes = [node for node in optimized.plan.walk() if isinstance(node, AntiJoin | Join)]
    return isinstance(nodes[0], AntiJoin)


def test_fig_35_both_plans_are_candidates_with_different_patterns_inside() -> None:
    candidates = optimize(bound(FIG_35)).candidates
    inner = set()
    for candidate in candidates:
        labels = label_plan(candidate.plan)
        join = next(each for each in labels.walk() if isinstance(each.node, Join))
        inner.add((isinstance(labels.inputs[0].inputs[0].node, AntiJoin), join.pattern))
        assert labels.pattern == STR
    assert inner == {(True, WK), (False, STR)}


def test_fig_35_upa_pulls_the_negation_up_where_negative_tuples_alone_would_push_it_down() -> None:
    statistics = rates(0.1, 10, 0.1, 100, 1000, 100)
    assert negation_is_on_top(optimize(bound(FIG_35), statistics))
    assert not negation_is_on_top(optimize(bound(FIG_35), statistics, Strategy.NT))


def test_fig_35_a_negation_that_spares_a_large_join_is_pushed_down() -> None:
    assert not negation_is_on_top(optimize(bound(FIG_35), rates(10, 10, 10, 20, 20, 20)))


def test_candidates_come_cheapest_first() -> None:
    costs = [each.cost for each in optimize(bound(FIG_35)).candidates]
    assert costs == sorted(costs)
    assert len(costs) == 3


def test_distinct_goes_below_a_join_of_many_duplicates_only() -> None:
    query = "SELECT DISTINCT s1.a FROM s1 [RANGE 10 MIN], s2 [RANGE 10 MIN] WHERE s1.a = s2.a"

    def distincts(values: float) -> int:
        plan = optimize(bound(query), rates(10, 10, 10, values, values, values)).plan
        return sum(isinstance(node, Distinct) for node in plan.walk())

    assert distincts(10) == 3
    assert distincts(10_000_000) == 1


def test_without_weak_distinct_every_distinct_is_strict() -> None:
    plan = bound("SELECT DISTINCT a FROM s1 [RANGE 5 us]")
    assert optimize(plan).chosen.costed.estimated.label.pattern == WK
    strict = optimize(plan, without=["weak-distinct"])
    assert strict.chosen.costed.estimated.label.pattern == STR
    assert strict.chosen.cost > optimize(plan).chosen.cost
