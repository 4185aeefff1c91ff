"""Estimates, state structures and costs of whole plans."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import pytest

from mayfly.optimizer import SourceStatistics, Statistics
from mayfly.optimizer.estimates import Flow
from mayfly.optimizer.labels import UnknownNodeError, label_plan
from mayfly.optimizer.plan_cost import Costed, cost_plan
from mayfly.optimizer.structures import (
    Cost,
    StateEstimate,
    Strict,
    Upkeep,
    maintenance,
    structure_for,
)
from mayfly.patterns import MON, STR, WK, Pattern, wks
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    GroupAggregate,
    Join,
    Node,
    Output,
    StreamScan,
)
from mayfly.plan.strategy import Strategy, Structure
from tests.unit.optimizer.window_tables import STREAMS, bound

TEN = Statistics({name: SourceStatistics(10.0, distinct={"a": 500, "b": 50}) for name in STREAMS})


def costed(
    query: str, statistics: Statistics = TEN, strategy: Strategy = Strategy.UPA, weak: bool = True
) -> Costed:
    return cost_plan(bound(query), statistics, strategy, weak)


def of(plan: Costed, kind: type[Node]) -> Costed:
    if isinstance(plan.node, kind):
        return plan
    return next(found for child in plan.inputs if (found := _find(child, kind)) is not None)


def _find(plan: Costed, kind: type[Node]) -> Costed | None:
    if isinstance(plan.node, kind):
        return plan
    return next((f for child in plan.inputs if (f := _find(child, kind)) is not None), None)


def flow(plan: Costed, kind: type[Node]) -> Flow:
    return of(plan, kind).estimated.flow


def structures(states: tuple[StateEstimate, ...]) -> list[Structure]:
    return [state.structure for state in states]


# ── estimates ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("window", "size", "premature"),
    [
        ("[RANGE 100 SECONDS]", 1000, 0),
        ("[NOW]", 1e-5, 0),
        ("[ROWS 7]", 7, 10),
        ("[PARTITION BY b ROWS 2]", 100, 10),
        ("[PARTITION BY b ROWS 2 RANGE 1 SECOND]", 10, 10),
        ("[UNBOUNDED]", 864_000, 0),
    ],
)
def test_windows_hold_what_arrives_in_a_lifetime(
    window: str, size: float, premature: float
) -> None:
    found = flow(costed(f"SELECT a FROM s1 {window}"), StreamScan)
    assert (found.rate, found.premature) == (10, premature)
    assert found.size == pytest.approx(size)
    assert found.grows == (window == "[UNBOUNDED]")


def test_a_join_has_the_size_of_the_ordering_model() -> None:
    found = flow(
        costed("SELECT s1.a FROM s1 [RANGE 100 s], s2 [RANGE 200 s] WHERE s1.a = s2.a"), Join
    )
    assert found.size == pytest.approx(1000 * 2000 / 500)
    assert found.rate == pytest.approx(10 * 2000 / 500 + 10 * 1000 / 500)


def test_a_negation_blocks_values_that_are_present_on_the_right() -> None:
    query = (
        "SELECT a FROM s1 [RANGE 100 s] WHERE NOT EXISTS "
        "(SELECT * FROM s2 [RANGE 10 s] WHERE s2.a = s1.a)"
    )
    found = flow(costed(query), AntiJoin)
    absent = exp(-100 / 500)
    assert found.size == pytest.approx(1000 * absent)
    assert found.premature == pytest.approx(10 * absent * 1000 / 500)


def test_columns_that_were_not_counted_are_taken_to_be_as_many_as_rows() -> None:
    plan = costed("SELECT s1.c FROM s1 [RANGE 100 s], s2 [RANGE 200 s] WHERE s1.c = s2.c")
    assert flow(plan, Join).size == pytest.approx(1000)


def test_distinct_values_fill_up() -> None:
    plan = costed("SELECT DISTINCT a FROM s1 [RANGE 50 s]")
    assert flow(plan, Distinct).size == pytest.approx(500 * (1 - exp(-1)))


def test_groups_change_at_most_once_per_slide() -> None:
    query = "SELECT b, COUNT(*) AS n FROM s1 [RANGE 100 s{}] GROUP BY b"
    assert flow(costed(query.format("")), GroupAggregate).rate == 20
    assert flow(costed(query.format(" SLIDE 50 s")), GroupAggregate).rate == pytest.approx(1)


# ── structures ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "strategy", "strict", "expected"),
    [
        (MON, Strategy.UPA, Strict.CALENDAR, Structure.APPEND),
        (wks(5), Strategy.UPA, Strict.CALENDAR, Structure.FIFO),
        (WK, Strategy.UPA, Strict.CALENDAR, Structure.CALENDAR),
        (STR, Strategy.UPA, Strict.CALENDAR, Structure.CALENDAR_NEGATIVE),
        (STR, Strategy.UPA, Strict.HASH, Structure.HASH),
        (wks(5), Strategy.NT, Strict.CALENDAR, Structure.HASH),
        (WK, Strategy.NT, Strict.CALENDAR, Structure.HASH),
        (MON, Strategy.NT, Strict.CALENDAR, Structure.APPEND),
        (wks(5), Strategy.DIRECT, Strict.CALENDAR, Structure.BUFFER),
        (STR, Strategy.DIRECT, Strict.HASH, Structure.BUFFER),
    ],
)
def test_the_pattern_decides_the_structure(
    pattern: Pattern, strategy: Strategy, strict: Strict, expected: Structure
) -> None:
    found, reason = structure_for(pattern, Upkeep(strategy, strict))
    assert found is expected
    assert reason


def test_what_maintenance_touches() -> None:
    arriving = Flow(rate=10, size=1000, premature=2)
    upkeep = Upkeep(partitions=10)
    assert maintenance(Structure.APPEND, arriving, upkeep) == 10
    assert maintenance(Structure.FIFO, arriving, upkeep) == 20
    assert maintenance(Structure.CALENDAR, arriving, upkeep) == 10 + 20 * 10 / 10
    assert maintenance(Structure.CALENDAR, arriving, replace(upkeep, partitions=50)) == 20
    assert maintenance(Structure.CALENDAR_NEGATIVE, arriving, upkeep) == 30 + 2 * 1000
    assert maintenance(Structure.CALENDAR_NEGATIVE, arriving, upkeep, buckets=100) == 30 + 20
    assert maintenance(Structure.HASH, arriving, upkeep) == 20
    assert maintenance(Structure.BUFFER, arriving, upkeep) == 10 + 20 * 10 + 2 * 1000


def test_few_early_deaths_keep_the_calendar_many_do_not() -> None:
    query = (
        "SELECT a FROM s1 [RANGE 100 s] WHERE NOT EXISTS "
        "(SELECT * FROM s2 [RANGE 100 s] WHERE s2.a = s1.a)"
    )

    def answer_structure(right_rate: float) -> list[Structure]:
        sources = {**TEN.sources, "s2": SourceStatistics(right_rate, distinct={"a": 500})}
        return structures(of(costed(query, Statistics(sources)), Output).state)

    assert answer_structure(0.000001) == [Structure.CALENDAR_NEGATIVE]
    assert answer_structure(1.0) == [Structure.HASH]


def test_count_windows_leave_no_choice() -> None:
    plan = costed("SELECT s1.a FROM s1 [ROWS 2], s2 [RANGE 100 s] WHERE s1.a = s2.a")
    assert structures(of(plan, Join).state) == [Structure.HASH, Structure.FIFO]
    assert structures(of(plan, StreamScan).state) == [Structure.FIFO]
    assert structures(plan.state) == [Structure.HASH]


def test_weak_distinct_keeps_at_most_twice_its_output() -> None:
    query = "SELECT DISTINCT a FROM s1 [RANGE 100 s]"
    weak, strict = of(costed(query), Distinct), of(costed(query, weak=False), Distinct)
    (kept,) = weak.state
    assert kept.structure is Structure.CALENDAR
    assert kept.rows == pytest.approx(2 * weak.estimated.flow.size)
    assert structures(strict.state) == [Structure.FIFO, Structure.COUNTS]


def test_weak_distinct_never_keeps_more_than_its_input() -> None:
    (kept,) = of(costed("SELECT DISTINCT c FROM s1 [RANGE 100 s]"), Distinct).state
    assert kept.rows == pytest.approx(1000)


def test_strict_distinct_keeps_its_rows_and_their_counts() -> None:
    state = of(costed("SELECT DISTINCT a FROM s1 [ROWS 50]"), Distinct).state
    assert structures(state) == [Structure.HASH, Structure.COUNTS]


@pytest.mark.parametrize(
    ("aggregate", "window", "expected"),
    [
        ("SUM(b)", "[RANGE 100 s]", [Structure.FIFO, Structure.GROUPS]),
        ("SUM(b)", "[ROWS 9]", [Structure.HASH, Structure.GROUPS]),
        ("MAX(b)", "[ROWS 9]", [Structure.HASH, Structure.GROUPS]),
        ("MAX(b)", "[UNBOUNDED]", [Structure.APPEND, Structure.GROUPS]),
        ("COUNT(DISTINCT b)", "[UNBOUNDED]", [Structure.APPEND, Structure.GROUPS]),
    ],
)
def test_aggregates_keep_their_input(
    aggregate: str, window: str, expected: list[Structure]
) -> None:
    plan = costed(f"SELECT a, {aggregate} AS x FROM s1 {window} GROUP BY a")
    assert structures(of(plan, GroupAggregate).state) == expected


def test_groups_are_the_answer_without_another_copy_or_negative_tuples() -> None:
    plan = costed("SELECT a, COUNT(*) AS n FROM s1 [RANGE 100 s] GROUP BY a")
    assert plan.state == ()
    assert of(plan, GroupAggregate).negative == 0


def test_appended_results_are_not_kept() -> None:
    assert costed("SELECT Istream(a) FROM s1").state == ()
    (answer,) = costed("SELECT a FROM s1").state
    assert answer.grows


# ── costs ─────────────────────────────────────────────────────────────────────────────────


def test_strategies_differ_where_the_thesis_says() -> None:
    query = "SELECT s1.a FROM s1 [RANGE 100 s], s2 [RANGE 100 s] WHERE s1.a = s2.a"
    upa, nt, direct = (costed(query, strategy=each).total for each in Strategy)
    assert upa.negative == direct.negative == 0
    # Negative tuples double the processing; scanning for the dead multiplies the upkeep.
    assert nt.negative == pytest.approx(nt.processing)
    assert nt.processing == upa.processing == direct.processing
    assert max(upa.state, nt.state) < direct.state / 2
    assert upa.total < min(nt.total, direct.total)


def test_costs_add_up() -> None:
    assert Cost(1, 2, 3) + Cost(10, 20, 30) == Cost(11, 22, 33)
    assert Cost(1, 2, 3).total == 6


def test_an_operator_above_strict_results_processes_their_negative_tuples() -> None:
    query = (
        "SELECT x.a + 1 AS y FROM (SELECT a FROM s1 [RANGE 100 s] WHERE NOT EXISTS "
        "(SELECT * FROM s2 [RANGE 100 s] WHERE s2.a = s1.a)) x"
    )
    plan = costed(query)
    projection = plan.inputs[0]
    assert projection.cost.negative == pytest.approx(projection.inputs[0].negative)
    assert projection.cost.negative > 0


def test_a_plan_for_a_node_without_a_rule_is_refused() -> None:
    with pytest.raises(UnknownNodeError, match="Node"):
        label_plan(Node())
