"""Random workloads: every refresh is answered once, as DuckDB answers it over the window."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.periodic import RULES
from tests.property.workload_cases import Step, assert_same, cases, check, drawn_steps, run


@given(cases())
def test_every_refresh_is_answered_once_and_right(steps: list[Step]) -> None:
    check(run(steps))


@given(cases(), st.lists(st.sampled_from(sorted(RULES)), unique=True))
@settings(max_examples=settings().max_examples // 2)
def test_rules_on_and_off_never_change_an_answer(steps: list[Step], without: list[str]) -> None:
    result = run(steps, without)
    check(result)
    shared = {(a.query, a.as_of): a.rows for a in run(steps).answers}
    early = {query.name for query in steps[0].come}
    for answer in result.answers:
        if answer.query in early:
            rows = shared[answer.query, answer.as_of].to_pylist()
            assert_same(answer, {row.get("k"): row["value"] for row in rows})


@given(cases())
@settings(max_examples=settings().max_examples // 2)
def test_a_restart_between_any_two_batches_changes_nothing(steps: list[Step]) -> None:
    check(run(steps, restart=True))


@pytest.mark.parametrize("batches", [1, 7, 100])
def test_batches_may_be_cut_anywhere(batches: int) -> None:
    """Rows that come in order, so that none is late however they are cut."""
    result = run(drawn_steps(Random(5), queries=12, rows=200, batches=batches))
    check(result)
    assert len(result.answers) == 232


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_240_queries_that_come_and_go(seed: int) -> None:
    steps = drawn_steps(Random(seed), queries=240, rows=300, batches=10, at_once=False)
    check(run(steps, restart=bool(seed % 2)))
