"""What EXPLAIN shows is what runs: its stages, exchanges, operators and structures.

The structures are looked up in the states of a run that was fed, not in a description of it.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from mayfly.checkpoint.operator_state import parts_of
from mayfly.cql import bind_query, catalog_after, parse
from mayfly.kernels.kept_rows import KeptRows
from mayfly.optimizer import optimize
from mayfly.optimizer.structures import Strict
from mayfly.physical.compiler import compile_plan
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.model import ExplainedOperator, PhysicalPlan, Place
from mayfly.physical.program import Program
from mayfly.physical.shared_program import canonical, fingerprint, shared
from mayfly.physical.stager import stage_tasks
from mayfly.physical.stages import StagedProgram
from mayfly.plan.catalog import Catalog
from mayfly.plan.logical_operators import Output
from mayfly.plan.strategy import Strategy, Structure
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing.random_queries import DECLARATIONS, SHAPES, random_query
from tests.property.continuous_cases import table_of
from tests.unit.optimizer.test_generated_plans import random_rows
from tests.unit.physical.explain_cases import CATALOG, QUERIES

GENERATED = catalog_after(parse(DECLARATIONS))
THREE = "SELECT x.v FROM s1 [RANGE 9 s] x, s2 [RANGE 8 s] y, s3 [RANGE 7 s] z"
KNOWN = {
    "a function under a join": (
        "SELECT j.v FROM (SELECT upper(x.g) AS t, x.v AS v FROM s1 [RANGE 9 s] x, s2 [RANGE 8 s] y"
        " WHERE x.k = y.k) j, s2 [RANGE 5 s] w WHERE w.g = j.t",
        2,
    ),
    "three streams on different columns": (
        f"{THREE} WHERE x.k = y.k AND x.g = y.g AND y.k = z.k",
        1,
    ),
    "a count window over a selection": (
        "SELECT z.v FROM (SELECT k, v FROM s1 WHERE v > 1) [PARTITION BY k ROWS 2] z",
        2,
    ),
    "frames of a key and of a part of it": (
        "SELECT SUM(v) OVER (PARTITION BY k, g ORDER BY ts) AS s,"
        " LAG(v) OVER (PARTITION BY k ORDER BY ts) AS l FROM s1",
        1,
    ),
    "NOT IN over NULLs": (
        "SELECT v FROM s1 [RANGE 5 s] WHERE k NOT IN (SELECT k FROM s2 [RANGE 5 s])",
        3,
    ),
}


def program_of(plan: Output, catalog: Catalog, strategy: Strategy) -> Program:
    """As it is started, on Spark and in this process."""
    chosen = optimize(plan, strategy=strategy).chosen
    assert isinstance(chosen.plan, Output)
    return compile_plan(canonical(chosen.plan), catalog, strategy, strict=chosen.strict)


def shown_exchanges(plan: PhysicalPlan) -> Counter[tuple[int, str]]:
    """Per stage that rows come to: how they come; the words of keys depend on aliases."""
    found: Counter[tuple[int, str]] = Counter()
    for operator in plan.operators:
        for edge in operator.inputs:
            if edge.exchange is not None and not edge.exchange.broadcast:
                way = edge.exchange
                kind = "straight" if way.straight else f"{len(way.key)} columns"
                found[operator.stage, kind] += 1
    return found


def run_exchanges(stages: StagedProgram) -> Counter[tuple[int, str]]:
    found: Counter[tuple[int, str]] = Counter()
    for feed in stages.feeds:
        found[feed.stage + 1, f"{len(feed.route.words)} columns"] += 1
    for link in stages.links:
        kind = "straight" if link.straight else f"{len(link.route.words)} columns"
        found[link.stage + 1, kind] += 1
    for answer in stages.answers:
        if answer.stage != stages.tasks[answer.task].stage:
            found[answer.stage + 1, f"{len(answer.route.words)} columns"] += 1
    return found


def check_operators(plan: PhysicalPlan, stages: StagedProgram) -> dict[int, ExplainedOperator]:
    shown = {one.task: one for one in plan.operators if one.task is not None}
    assert sorted(shown) == [task.number for task in stages.tasks]
    for task in stages.tasks:
        one = shown[task.number]
        assert one.name == task.operator.title
        if task.relation is None:
            assert one.stage == task.stage + 1
            assert one.place is (Place.KERNEL if task.bucketed else Place.SINGLE)
    before = Counter(one.name for one in plan.operators if one.place is Place.BEFORE)
    expected = Counter(["Stream"] * len(stages.feeds))
    expected += Counter(one.title for feed in stages.feeds for one in feed.path)
    expected += Counter("Relation" for task in stages.tasks if task.relation is not None)
    assert before == expected
    return shown


def structures_in(state: Any) -> dict[str, Structure | None]:
    """The parts of a state that have rows, with the structure of those that have one."""
    found: dict[str, Structure | None] = {}
    for name, part in parts_of(state).items():
        if isinstance(part, KeptRows):
            found[name] = part.shape.form if part.rows else None
    return {name: form for name, form in found.items() if form is not None}


def check(plan: Output, catalog: Catalog, strategy: Strategy) -> tuple[PhysicalPlan, Program]:
    physical = explain(plan, catalog, strategy=strategy).chosen.physical
    program = program_of(plan, catalog, strategy)
    # Alone: what a pass with others takes on itself is for EXPLAIN SHARING to tell.
    stages, _ = stage_tasks(shared({"query": program}, {}), together=False)
    shown = check_operators(physical, stages)
    kernels = {stage.number for stage in physical.stages if stage.place is not Place.BEFORE}
    assert len(kernels) == stages.stages
    assert shown_exchanges(physical) == run_exchanges(stages)
    for task in stages.tasks:
        told = {(one.part, one.structure) for one in shown[task.number].state}
        assert told == {(one.part, one.structure) for one in task.operator.holdings()}
    return physical, program


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("name", QUERIES)
def test_golden_queries_are_explained_as_they_run(name: str, strategy: Strategy) -> None:
    check(QUERIES[name].plan, CATALOG, strategy)


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("name", KNOWN)
def test_where_explanations_went_wrong(name: str, strategy: Strategy) -> None:
    cql, stages = KNOWN[name]
    physical, _ = check(bind_query(cql, GENERATED), GENERATED, strategy)
    assert len([one for one in physical.stages if one.place is not Place.BEFORE]) == stages


def test_nt_counts_where_others_keep_a_spare() -> None:
    plan = bind_query("SELECT DISTINCT k FROM s1 [RANGE 5 s]", GENERATED)
    names = {
        strategy: {one.name for one in check(plan, GENERATED, strategy)[0].operators}
        for strategy in Strategy
    }
    assert "δ*" in names[Strategy.UPA] & names[Strategy.DIRECT]
    assert "strict δ" in names[Strategy.NT]


@pytest.mark.parametrize("strategy", Strategy)
def test_states_of_a_run_are_those_explained(strategy: Strategy) -> None:
    held: set[str] = set()
    for shape in SHAPES:
        query = random_query(Random(f"{shape} 1"), shape)
        physical, program = check(bind_query(query.cql, GENERATED), GENERATED, strategy)
        told = {
            (one.name, state.part, state.structure)
            for one in physical.operators
            for state in one.state
            if one.task is not None
        }
        run = ContinuousRun(program, GENERATED)
        arrivals = sorted(
            (row["ts"], stream, row["seq"], row)
            for stream, rows in random_rows(1).items()
            for row in rows
            if stream in run.clocks.streams
        )
        for _, stream, _, row in arrivals:
            run.feed({stream: table_of(stream, [row])})
            for task, states in run.states.items():
                for part, structure in structures_in(states[0]).items():
                    held.add(shape)
                    assert (task.operator.title, part, structure) in told, query.cql
    assert len(held) > len(SHAPES) / 2


@pytest.mark.parametrize(
    ("cql", "structure"),
    [
        (
            "SELECT x.v FROM s1 [PARTITION BY g ROWS 9 RANGE 9 s] x, s2 [RANGE 5 s] y"
            " WHERE x.k = y.k",
            Structure.HASH,
        ),
        (
            "SELECT j.v, y.v AS w FROM (SELECT k, v FROM s1 [RANGE 9 s] x WHERE NOT EXISTS"
            " (SELECT * FROM s3 [RANGE 1 s] z WHERE z.k = x.k)) j, s2 [RANGE 2 s] y"
            " WHERE j.k = y.k",
            None,
        ),
    ],
)
def test_the_choice_of_the_optimizer_for_str_is_carried_out(
    cql: str, structure: Structure | None
) -> None:
    plan = bind_query(cql, GENERATED)
    chosen = optimize(plan).chosen
    calendar = Structure.CALENDAR_NEGATIVE
    expected = Structure.HASH if chosen.strict is Strict.HASH else calendar
    assert structure in (None, expected)
    _, program = check(plan, GENERATED, Strategy.UPA)
    forms = {one.structure for task in program.tasks() for one in task.operator.holdings()}
    assert expected in forms
    assert {Structure.HASH, calendar} - {expected} - forms
    for strict, form in ((Strict.CALENDAR, calendar), (Strict.HASH, Structure.HASH)):
        assert isinstance(chosen.plan, Output)
        made = compile_plan(canonical(chosen.plan), GENERATED, strict=strict)
        assert fingerprint(made.answer) == fingerprint(program.answer)
        assert form in {one.structure for t in made.tasks() for one in t.operator.holdings()}
