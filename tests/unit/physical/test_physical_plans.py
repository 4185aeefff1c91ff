"""Stages, exchanges, fused kernels and warnings of physical plans."""

from __future__ import annotations

import pytest

from mayfly.cql import bind_query
from mayfly.errors import InvalidSetting
from mayfly.optimizer import Statistics
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.model import Exchange, ExplainedOperator, PhysicalPlan, Place
from mayfly.plan.catalog import (
    Catalog,
    ColumnDefinition,
    RelationDefinition,
    StreamDefinition,
    columns_from,
)
from mayfly.plan.strategy import Strategy
from mayfly.plan.types import BIGINT

_STREAM = columns_from([("ts", "bigint"), ("a", "bigint"), ("b", "bigint"), ("c", "string")])
_NOT_NULL = (*_STREAM[:1], ColumnDefinition("a", BIGINT, nullable=False))
_TABLE = columns_from([("k", "bigint"), ("v", "bigint")])


def catalog() -> Catalog:
    found = Catalog()
    for name in ("s1", "s2", "s3"):
        found = found.declare(StreamDefinition(name, _STREAM, time="ts"))
    for name in ("t1", "t2"):
        found = found.declare(StreamDefinition(name, _NOT_NULL, time="ts"))
    found = found.declare(RelationDefinition("r", _TABLE, key=("k",)))
    return found.declare(RelationDefinition("n", _TABLE, key=("k",), retroactive=False))


CATALOG = catalog()


def physical(query: str, without: tuple[str, ...] = ("push-distinct",)) -> PhysicalPlan:
    plan = bind_query(query, CATALOG)
    return explain(plan, CATALOG, query, Statistics(), without=without).chosen.physical


def stages(plan: PhysicalPlan) -> list[tuple[Place, tuple[str, ...], list[str]]]:
    """Without windows and the last projection, which are in each of them."""
    return [
        (stage.place, stage.key, [one.name for one in stage.operators if counts(plan, one)])
        for stage in plan.stages
        if stage.place in (Place.KERNEL, Place.SINGLE)
    ]


def counts(plan: PhysicalPlan, one: ExplainedOperator) -> bool:
    timed = one.name == "Window" and "ROWS" not in one.detail
    return not timed and not (one is plan.answer and one.name == "Project")


def exchanges(plan: PhysicalPlan) -> list[str]:
    edges = (edge for operator in plan.root.walk() for edge in operator.inputs)
    return sorted(str(edge.exchange) for edge in edges if edge.exchange)


def operator(plan: PhysicalPlan, name: str) -> ExplainedOperator:
    return next(each for each in plan.root.walk() if each.name == name)


def test_filters_and_projections_of_streams_run_before_the_exchange() -> None:
    plan = physical(
        "SELECT s1.a + s2.b AS x FROM s1 [RANGE 5 s], s2 [RANGE 5 s] "
        "WHERE s1.a = s2.a AND s1.c = 'x'"
    )
    places = {each.name: each.place for each in plan.root.walk()}
    assert places["Select"] is Place.BEFORE
    assert plan.answer.place is Place.KERNEL
    assert stages(plan) == [(Place.KERNEL, ("s2.a",), ["Join"])]


def test_operators_on_one_key_are_fused() -> None:
    plan = physical(
        "SELECT s1.a, COUNT(*) AS n FROM s1 [RANGE 5 s], s2 [RANGE 5 s] WHERE s1.a = s2.a "
        "GROUP BY s1.a"
    )
    assert [names for _, _, names in stages(plan)] == [["Join", "Aggregate"]]
    assert exchanges(plan) == ["exchange by s1.a", "exchange by s2.a"]


def test_a_negation_is_fused_with_what_has_its_key() -> None:
    plan = physical(
        "SELECT s1.a, COUNT(*) AS n FROM s1 [PARTITION BY a ROWS 2], s2 [RANGE 5 s] "
        "WHERE s1.a = s2.a "
        "AND NOT EXISTS (SELECT * FROM s3 [RANGE 5 s] WHERE s3.a = s1.a) GROUP BY s1.a"
    )
    (fused,) = [names for _, _, names in stages(plan)]
    assert sorted(fused) == ["Aggregate", "Join", "NOT EXISTS", "Project", "Window"]
    assert exchanges(plan) == ["exchange by s1.a", "exchange by s2.a", "exchange by s3.a"]


def test_another_key_needs_another_exchange() -> None:
    plan = physical(
        "SELECT s2.b, COUNT(*) AS n FROM s1 [RANGE 5 s], s2 [RANGE 5 s] WHERE s1.a = s2.a "
        "GROUP BY s2.b"
    )
    assert [names for _, _, names in stages(plan)] == [["Join"], ["Aggregate"]]
    assert "exchange by s2.b" in exchanges(plan)


def test_a_join_on_another_key_shuffles_what_was_joined() -> None:
    plan = physical(
        "SELECT s1.a FROM s1 [RANGE 1 s], s2 [RANGE 2 s], s3 [RANGE 9 s] "
        "WHERE s1.a = s2.a AND s2.b = s3.b"
    )
    assert [names for _, _, names in stages(plan)] == [["Join"], ["Join"]]
    assert exchanges(plan) == [
        "exchange by s1.a",
        "exchange by s2.a",
        "exchange by s2.b",
        "exchange by s3.b",
    ]


def test_a_group_stays_where_a_part_of_its_key_has_brought_its_rows() -> None:
    plan = physical(
        "SELECT s1.a, s2.b, COUNT(*) AS n FROM s1 [RANGE 5 s], s2 [RANGE 5 s] "
        "WHERE s1.a = s2.a GROUP BY s1.a, s2.b"
    )
    assert [names for _, _, names in stages(plan)] == [["Join", "Aggregate"]]
    assert exchanges(plan) == ["exchange by s1.a", "exchange by s2.a"]


def test_a_join_does_not_stay_by_a_part_of_its_key() -> None:
    plan = physical(
        "SELECT x.n, s2.c FROM (SELECT a, COUNT(*) AS n FROM s1 [RANGE 5 s] GROUP BY a) x, "
        "s2 [RANGE 5 s] WHERE x.a = s2.a AND x.n = s2.b"
    )
    assert [names for _, _, names in stages(plan)] == [["Aggregate", "Project"], ["Join"]]


def test_stages_are_numbered_as_they_run() -> None:
    plan = physical(
        "SELECT p.b, q.c FROM (SELECT s1.a, s1.b FROM s1 [RANGE 5 s], s2 [RANGE 5 s] "
        "WHERE s1.a = s2.a) p, (SELECT s1.a, s3.c FROM s1 [RANGE 5 s], s3 [RANGE 5 s] "
        "WHERE s1.b = s3.b) q WHERE p.a = q.a"
    )
    edges = [(each, edge) for each in plan.root.walk() for edge in each.inputs]
    assert all(each.stage >= edge.source.stage for each, edge in edges)
    assert all(each.stage > edge.source.stage for each, edge in edges if edge.exchange)
    assert exchanges(plan).count("exchange by s1.a") == 1
    assert [each.stage for each in plan.root.walk() if each.name == "Join"] == [2, 2, 1]


def test_what_is_distinct_by_the_key_of_a_join_stays() -> None:
    plan = physical(
        "SELECT x.a, s2.b FROM (SELECT DISTINCT a FROM s1 [RANGE 5 s]) x, s2 [RANGE 5 s] "
        "WHERE x.a = s2.a"
    )
    assert [sorted(names) for _, _, names in stages(plan)] == [["Join", "δ*"]]
    assert len(exchanges(plan)) == 2


def test_partitioned_windows_share_their_exchange_with_a_join_on_the_partition() -> None:
    plan = physical(
        "SELECT s1.b FROM s1 [PARTITION BY a ROWS 2 RANGE 1 s], s2 [RANGE 5 s] WHERE s1.a = s2.a"
    )
    assert [names for _, _, names in stages(plan)] == [["Window", "Project", "Join"]]
    assert plan.warnings == ()


def test_functions_run_in_the_kernel_of_their_rows() -> None:
    query = (
        "SELECT x.u FROM (SELECT {} AS u FROM s1 [RANGE 5 s], s2 [RANGE 5 s] WHERE s1.a = s2.a) x, "
        "s3 [RANGE 5 s] WHERE x.u = s3.c"
    )
    for value in ("upper(s1.c)", "s1.c"):
        fused = [names for _, _, names in stages(physical(query.format(value)))]
        assert fused == [["Join", "Project"], ["Join"]]


@pytest.mark.parametrize(
    ("query", "who", "advice"),
    [
        ("SELECT a FROM s1 [ROWS 5]", "[ROWS 5]", "PARTITION BY"),
        ("SELECT COUNT(*) AS n FROM s1 [RANGE 5 s]", "the aggregate", "GROUP BY"),
        (
            "SELECT s1.a FROM s1 [RANGE 5 s], s2 [RANGE 5 s] WHERE s1.a < s2.a",
            "the join",
            "equality",
        ),
        (
            "SELECT a FROM s1 [RANGE 5 s] WHERE a NOT IN (SELECT a FROM s2 [RANGE 5 s])",
            "NOT IN",
            "NOT EXISTS",
        ),
        (
            "SELECT a FROM s1 [RANGE 5 s] WHERE NOT EXISTS (SELECT * FROM s2 [RANGE 5 s])",
            "NOT EXISTS",
            "equality",
        ),
    ],
)
def test_single_tasks_are_announced(query: str, who: str, advice: str) -> None:
    (warning,) = physical(query).warnings
    assert who in warning.message
    assert "line 1" in warning.message
    assert "single task" in warning.message
    assert advice in warning.hint


def test_not_in_over_columns_without_nulls_is_divided_by_key() -> None:
    plan = physical("SELECT a FROM t1 [RANGE 5 s] WHERE a NOT IN (SELECT a FROM t2 [RANGE 5 s])")
    assert plan.warnings == ()
    assert stages(plan)[0][0] is Place.KERNEL


@pytest.mark.parametrize(
    ("query", "messages"),
    [
        ("SELECT a FROM s1", ["the answer grows"]),
        ("SELECT Istream(a) FROM s1", []),
        ("SELECT Istream(s1.a) FROM s1, s2 WHERE s1.a = s2.a", ["the state of the join"]),
        ("SELECT a, COUNT(*) AS n FROM s1 GROUP BY a", ["the state of GROUP BY"]),
        (
            "SELECT Istream(s1.a) FROM s1 [RANGE 5 s INTERNAL], s2 [RANGE 5 s INTERNAL] "
            "WHERE s1.a = s2.a",
            [],
        ),
    ],
)
def test_state_without_bound_is_announced(query: str, messages: list[str]) -> None:
    found = [warning.message for warning in physical(query).warnings]
    assert len(found) == len(messages)
    for message, expected in zip(found, messages, strict=True):
        assert message.startswith(expected)
        assert "grows without bound" in message


def test_a_selection_that_is_never_true_is_announced() -> None:
    (warning,) = physical("SELECT a FROM s1 [RANGE 5 s] WHERE 1 = 2").warnings
    assert "never true" in warning.message


def test_relations_are_broadcast() -> None:
    plan = physical(
        "SELECT s1.a, r.v, n.v AS w FROM s1 [RANGE 5 s], r, n WHERE s1.a = r.k AND s1.b = n.k"
    )
    assert exchanges(plan) == ["broadcast", "broadcast", "exchange by s1.a", "exchange by s1.b"]
    assert operator(plan, "NRR join").place is Place.KERNEL


def test_rates_that_are_not_known_are_named() -> None:
    assert physical("SELECT s1.a FROM s1 [NOW], s2 [NOW] WHERE s1.a = s2.a").assumed == ("s1", "s2")


def test_every_edge_between_stages_has_an_exchange() -> None:
    plan = physical(
        "SELECT DISTINCT s1.b FROM s1 [RANGE 5 s], s2 [ROWS 5], s3 [RANGE 1 s] "
        "WHERE s1.a = s2.a AND s2.b = s3.b"
    )
    for each in plan.root.walk():
        for edge in each.inputs:
            kernel = each.place in (Place.KERNEL, Place.SINGLE)
            if kernel and edge.source.stage != each.stage:
                assert isinstance(edge.exchange, Exchange)
            if edge.source.stage == each.stage:
                assert edge.exchange is None


def test_totals_are_sums_over_operators() -> None:
    plan = physical("SELECT s1.a FROM s1 [RANGE 5 s], s2 [RANGE 5 s] WHERE s1.a = s2.a")
    states = [state for each in plan.root.walk() for state in each.state]
    assert plan.state_rows == sum(state.rows or 0.0 for state in states)
    assert plan.cost.total == pytest.approx(sum(each.cost.total for each in plan.root.walk()))


def test_strategies_are_known_by_name() -> None:
    assert Strategy.named("direct") is Strategy.DIRECT
    with pytest.raises(InvalidSetting, match="there is no strategy 'lazy'") as raised:
        Strategy.named("lazy")
    assert raised.value.hint == "use one of UPA, NT, DIRECT"
