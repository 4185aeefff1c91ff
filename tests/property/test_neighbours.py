"""OVER and ASOF JOIN: right at every instant, append-only or as views, however batches are cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mayfly.kernels.asof_rows import AsofRows
from mayfly.kernels.asof_view import AsofView
from mayfly.kernels.over_rows import OverRows
from mayfly.kernels.over_view import OverView
from mayfly.optimizer.optimize import RULES
from mayfly.plan.logical_operators import OutputKind
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing.neighbour_queries import NEIGHBOURS
from tests.property.continuous_cases import (
    Case,
    fed,
    other_rows,
    random_case,
    rows_of,
    start,
    told,
)
from tests.property.test_continuous import checked
from tests.property.test_query_forms import strategy_of

QUERIES = {"over": 115, "asof": 70}
"""In every run of the tests, each over so many sets of rows: to plan is what costs most."""
DATA = 4
MANY = 1_030
"""Queries of each form in the long run of the tests."""
PARTS = 10


def check_cases(shape: str, seeds: range) -> None:
    for seed in seeds:
        case = random_case(seed, shape)
        first = start(case, strategy_of(seed))
        for number in range(DATA):
            data = other_rows(case, DATA * seed + number) if number else case
            run = ContinuousRun(first.program, first.catalog)
            checked(data, fed(data, run), instants=3)


@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("shape", NEIGHBOURS)
def test_the_answer_is_that_of_the_alive_tuples(shape: str, part: int) -> None:
    size = QUERIES[shape] // 5
    check_cases(shape, range(20_000 + part * size, 20_000 + (part + 1) * size))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("shape", NEIGHBOURS)
def test_so_it_is_in_many_cases(shape: str, part: int) -> None:
    first = 200_000 + part * (MANY // PARTS)
    check_cases(shape, range(first, first + MANY // PARTS))


def test_both_ways_of_each_are_tried() -> None:
    """The generator does not leave out the append-only case, nor the views."""
    tried = {
        type(task.operator)
        for shape in NEIGHBOURS
        for seed in range(20_000, 20_020)
        for task in start(random_case(seed, shape)).program.tasks()
    }
    assert tried >= {OverRows, OverView, AsofRows, AsofView}


def recut(case: Case) -> Case:
    """The same rows, each in a batch of its own, in the same order."""
    batches: list[dict[str, Any]] = []
    heartbeats: list[dict[str, Any]] = []
    for batch, beats in zip(case.batches, case.heartbeats, strict=True):
        pieces = [{name: [row]} for name, rows in batch.items() for row in rows] or [{}]
        batches += pieces
        heartbeats += [{} for _ in pieces[1:]] + [beats]
    return replace(case, batches=batches, heartbeats=heartbeats)


@pytest.mark.parametrize("shape", NEIGHBOURS)
def test_cuts_do_not_matter(shape: str) -> None:
    for seed in range(30):
        case = random_case(seed, shape)
        again = recut(case)
        if case.admitted()[1] or again.admitted()[1]:
            continue  # which rows are late depends on the cut
        whole, parts = fed(case, start(case)), fed(again, start(again))
        view = whole.program.plan.kind is OutputKind.VIEW
        tables = [run.lifetimes() if view else run.changes() for run in (whole, parts)]
        assert told(tables[0], view) == told(tables[1], view), case.query.cql


@pytest.mark.parametrize("shape", NEIGHBOURS)
def test_buckets_do_not_matter(shape: str) -> None:
    for seed in range(15):
        case = random_case(seed, shape)
        whole, parts = fed(case, start(case)), fed(case, start(case, buckets=3))
        if whole.program.plan.kind is OutputKind.VIEW and whole.clocks.query > -(2**62):
            assert rows_of(whole.snapshot()) == rows_of(parts.snapshot())


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_no_rule_changes_an_answer(rule: str) -> None:
    for seed, shape in enumerate(NEIGHBOURS * 2):
        case = random_case(3_000 + seed, shape)
        checked(case, fed(case, start(case, without=[rule])), instants=4)
