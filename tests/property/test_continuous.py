"""Every query is right at every instant: the runner against an independent engine."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.plan.logical_operators import OutputKind
from mayfly.plan.strategy import Strategy
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing.random_queries import SHAPES
from tests.property.continuous_cases import (
    Answer,
    Case,
    Oracle,
    change_points,
    fed,
    random_case,
    rows_of,
    start,
)

seeds = st.integers(0, 2**48)
many = settings(
    max_examples=40 if settings().max_examples < 200 else 5 * settings().max_examples,
    phases=[Phase.generate],
)
INSTANTS = 14


def checked(case: Case, run: ContinuousRun, instants: int = INSTANTS) -> None:
    """Compare with the oracle at change points and between them; a view at so many."""
    rows, late, _ = case.admitted()
    if run.clocks.query == -(2**63):
        return
    assert sum(run.late.values()) == late
    points = change_points(case, rows, run.clocks.query)
    kind = run.program.plan.kind
    if kind is OutputKind.VIEW:
        rng = Random(case.seed)
        asked = sorted(rng.sample(points, min(instants, len(points))))
        asked += [points[0] - 5] if points else []
        oracle = Oracle(case, rows, asked)
        for at in asked:
            found, wanted = rows_of(run.snapshot(at)), oracle.answer(at)
            assert found == wanted, (case.query.cql, at, wanted - found, found - wanted)
        return
    oracle = Oracle(case, rows, points)
    sent = by_instant(run)
    for at, wanted in definition(case, run, oracle, points).items():
        found = sent.pop(at, Counter())
        assert found == wanted, (case.query.cql, at, wanted - found, found - wanted)
    assert not sent, (case.query.cql, sent)


def by_instant(run: ContinuousRun) -> dict[int, Answer]:
    table = run.changes()
    sent: dict[int, Answer] = {}
    for at in set(table["ts"].to_pylist()):
        rows = table.filter(pc_equal(table["ts"], at)).drop_columns(["ts"])
        sent[at] = rows_of(rows)
    return sent


def pc_equal(column: object, value: int) -> object:
    import pyarrow.compute as pc

    return pc.equal(column, value)


def definition(
    case: Case, run: ContinuousRun, oracle: Oracle, points: list[int]
) -> dict[int, Answer]:
    """What Istream, Dstream and Rstream send at each instant, from the answers alone."""
    slide = next((t.window.slide for t in case.query.tables if t.window.slide), None)
    answers = {at: oracle.answer(at) for at in points}
    instants = points
    if slide is not None and slide.period:
        instants = [at for at in points if (at - slide.origin) % slide.period == 0]
    kind, wanted = run.program.plan.kind, {}
    before: Answer = oracle_before(case)
    for at in instants:
        now = answers[at]
        if kind is OutputKind.ISTREAM:
            wanted[at] = now - before
        elif kind is OutputKind.DSTREAM:
            wanted[at] = before - now
        elif slide is not None or now != before:
            wanted[at] = now
        before = now
    return {at: rows for at, rows in wanted.items() if rows}


def oracle_before(case: Case) -> Answer:
    return Oracle(case, {name: [] for name in case.streams}, [0]).answer(0)


@pytest.mark.parametrize("shape", SHAPES)
@many
@given(seed=seeds)
def test_the_answer_is_that_of_the_alive_tuples(shape: str, seed: int) -> None:
    case = random_case(seed, shape)
    strategy = Random(seed).choice([Strategy.UPA, Strategy.UPA, Strategy.NT, Strategy.DIRECT])
    checked(case, fed(case, start(case, strategy)))
