"""Rewrites of plans the language does not write: nested joins, and relations above STR inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mayfly.optimizer import label_plan, optimize
from mayfly.optimizer.rule import RuleContext
from mayfly.optimizer.rules.fold_constants import fold
from mayfly.optimizer.rules.join_relations_first import JOIN_RELATIONS_FIRST
from mayfly.optimizer.rules.merge_joins import MERGE_JOINS
from mayfly.optimizer.rules.place_negation import PLACE_NEGATION
from mayfly.optimizer.rules.push_distinct import PUSH_DISTINCT
from mayfly.optimizer.rules.push_predicates import push
from mayfly.patterns import STR, WK, PatternError
from mayfly.plan.expressions import Arithmetic, Column, Compare, Literal
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    Equality,
    Join,
    Named,
    Node,
    Output,
    Project,
    RelationJoin,
    RelationScan,
    StreamScan,
)
from mayfly.plan.plan_text import plan_text
from mayfly.plan.types import BIGINT, INT
from mayfly.plan.window_kinds import Range, RowsWindow, Window
from tests.unit.optimizer.plan_oracle import answer
from tests.unit.optimizer.window_tables import INSTANTS, random_tables

FIVE = Range(duration=5)


def column(relation: str, name: str) -> Column:
    return Column(relation, name, BIGINT)


def scan(name: str, window: Window = FIVE) -> StreamScan:
    return StreamScan(name, name, window, (column(name, "a"), column(name, "b")))


def table(name: str, retroactive: bool) -> RelationScan:
    columns = (column(name, "k"), column(name, "v"))
    return RelationScan(name, name, columns, retroactive, key=("k",))


def equal(left: str, right: str) -> Equality:
    (a, x), (b, y) = left.split("."), right.split(".")
    return Equality(column(a, x), column(b, y))


S1, S2, S3, S4 = (scan(name) for name in ("s1", "s2", "s3", "s4"))
R, N = table("r", retroactive=True), table("n", retroactive=False)
LEFT_OUT = AntiJoin(S1, S2, (equal("s1.a", "s2.a"),))


def root(node: Node) -> Output:
    outputs = tuple(Named(f"{c.relation}_{c.name}", c) for c in node.schema)
    return Output(Project(node, outputs))


def rewritten(rule_plan: Node, before: Node) -> None:
    """Both plans have the same answers."""
    for seed in range(40):
        rows = random_tables(seed)
        for at in INSTANTS:
            assert answer(rule_plan, rows, at) == answer(before, rows, at)


def lower(plan: Node) -> Node:
    assert JOIN_RELATIONS_FIRST.rewrite is not None
    return JOIN_RELATIONS_FIRST.rewrite(plan, RuleContext())


def test_nested_joins_become_one() -> None:
    nested = Join((Join((S1, S2), (equal("s1.a", "s2.a"),)), S3), (equal("s2.b", "s3.b"),))
    assert MERGE_JOINS.rewrite is not None
    merged = MERGE_JOINS.rewrite(root(nested), RuleContext())
    assert plan_text(merged.children()[0].children()[0]).splitlines() == [
        "Join s1.a = s2.a AND s2.b = s3.b",
        "  Stream s1 [RANGE 5 us] (a, b)",
        "  Stream s2 [RANGE 5 us] (a, b)",
        "  Stream s3 [RANGE 5 us] (a, b)",
    ]
    rewritten(merged, root(nested))


def test_a_relation_join_sinks_below_a_negation() -> None:
    plan = root(RelationJoin(LEFT_OUT, R, (equal("s1.b", "r.k"),)))
    with pytest.raises(PatternError):
        label_plan(plan)
    lowered = lower(plan)
    assert plan_text(lowered.children()[0].children()[0]).splitlines() == [
        "NOT EXISTS s1.a = s2.a",
        "  Relation join s1.b = r.k",
        "    Stream s1 [RANGE 5 us] (a, b)",
        "    Relation r (k, v)",
        "  Stream s2 [RANGE 5 us] (a, b)",
    ]
    assert label_plan(lowered).pattern == STR
    rewritten(lowered, plan)


def test_a_relation_join_sinks_below_a_negation_inside_a_join_and_a_projection() -> None:
    outputs = (Named("a", column("s1", "a")), Named("b", column("s1", "b")))
    block = Project(LEFT_OUT, outputs, "x")
    joined = Join((block, S3), (equal("x.a", "s3.a"),))
    plan = root(RelationJoin(joined, N, (equal("x.b", "n.k"),)))
    lowered = lower(plan)
    assert label_plan(lowered).pattern == STR
    rewritten(lowered, plan)


def test_two_relations_are_joined_in_one_step() -> None:
    inner = RelationJoin(S1, R, (equal("s1.a", "r.k"),))
    second = replace(R, alias="q", columns=(column("q", "k"), column("q", "v")))
    plan = root(RelationJoin(inner, second, (equal("s1.b", "q.k"), equal("r.v", "q.v"))))
    lowered = lower(plan)
    assert plan_text(lowered.children()[0].children()[0]).splitlines() == [
        "Relation join s1.a = r.k AND s1.b = q.k",
        "  Stream s1 [RANGE 5 us] (a, b)",
        "  Join r.v = q.v",
        "    Relation r (k, v)",
        "    Relation r q (k, v)",
    ]
    rewritten(lowered, plan)


def test_an_nrr_is_joined_below_a_relation() -> None:
    inner = RelationJoin(S1, R, (equal("s1.a", "r.k"),))
    plan = root(RelationJoin(inner, N, (equal("s1.b", "n.k"),)))
    lowered = lower(plan)
    assert label_plan(lowered).pattern == STR
    rewritten(lowered, plan)


def test_a_relation_above_an_nrr_stays_where_it_is() -> None:
    inner = RelationJoin(S1, N, (equal("s1.a", "n.k"),))
    plan = root(RelationJoin(inner, R, (equal("s1.b", "r.k"),)))
    assert lower(plan) == plan


def test_distinct_stays_above_a_join_while_an_input_has_duplicates() -> None:
    rows = scan("s1", RowsWindow(count=3))

    def distincts(first: Node) -> list[type[Node]]:
        plan = root(Distinct(Join((first, S2), (equal("s1.a", "s2.a"),))))
        assert PUSH_DISTINCT.alternatives is not None
        _, pushed = PUSH_DISTINCT.alternatives(plan, RuleContext())
        rewritten(pushed, plan)
        return [type(node) for node in pushed.children()[0].children()]

    assert distincts(rows) == [Distinct]
    assert distincts(S1) == [Join]


def test_a_count_window_below_a_relation_join_is_refused() -> None:
    plan = root(RelationJoin(scan("s1", RowsWindow(count=3)), R, (equal("s1.a", "r.k"),)))
    with pytest.raises(PatternError, match=r"negative tuples.*ROWS 3"):
        optimize(plan)


def test_a_retroactive_join_can_be_pulled_above_a_stream_join() -> None:
    related = RelationJoin(S1, R, (equal("s1.b", "r.k"),))
    plan = root(Join((related, S2), (equal("s1.a", "s2.a"),)))
    assert PLACE_NEGATION.alternatives is not None
    first, second = PLACE_NEGATION.alternatives(plan, RuleContext())
    assert first == plan
    assert isinstance(second.children()[0].children()[0], RelationJoin)
    rewritten(second, plan)


def test_an_nrr_join_never_moves_past_a_stream_join() -> None:
    related = RelationJoin(S1, N, (equal("s1.b", "n.k"),))
    plan = root(Join((related, S2), (equal("s1.a", "s2.a"),)))
    assert PLACE_NEGATION.alternatives is not None
    assert PLACE_NEGATION.alternatives(plan, RuleContext()) == [plan]


def test_pulling_a_negation_above_distinct_makes_it_weak() -> None:
    plan = root(Distinct(LEFT_OUT))
    assert PLACE_NEGATION.alternatives is not None
    _, pulled = PLACE_NEGATION.alternatives(plan, RuleContext())
    distinct = next(each for each in label_plan(pulled).walk() if isinstance(each.node, Distinct))
    assert distinct.pattern == WK
    rewritten(pulled, plan)


def test_a_join_taken_by_position_keeps_its_order() -> None:
    inputs = tuple(scan(f"s{n}", Range(duration=10 - 3 * n)) for n in (1, 2, 3))
    join = Join(inputs, (equal("s1.a", "s2.a"), equal("s2.a", "s3.a")))
    assert optimize(Output(join)).plan.schema == join.schema
    reordered = optimize(root(join)).plan.children()[0].children()[0]
    assert reordered.schema != join.schema


def test_a_selection_stays_above_a_count_window() -> None:
    rows = scan("s1", RowsWindow(count=2))
    predicate = Compare("=", column("s1", "a"), Literal(1, BIGINT))
    assert push(rows, (predicate,)).children() == (rows,)


@pytest.mark.parametrize(
    ("op", "left", "right"), [("+", 2**31 - 1, 1), ("*", 2**20, 2**20), ("/", 1, 0), ("div", 1, 0)]
)
def test_what_would_fail_is_left_to_fail(op: str, left: int, right: int) -> None:
    expression = Arithmetic(op, Literal(left, INT), Literal(right, INT), INT)
    assert fold(expression) == expression
