"""The answer depends on nothing but the input: not on batches, buckets, plans or strategies."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.kernels.anti_join import FEW, NegationState
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import numbers
from mayfly.optimizer.optimize import RULES
from mayfly.plan.logical_operators import OutputKind
from mayfly.plan.strategy import Strategy
from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage.merge import LIMIT
from mayfly.storage.segment import EXP
from mayfly.testing.random_queries import SHAPES
from tests.property.continuous_cases import (
    Case,
    comparable,
    fed,
    random_case,
    start,
    table_of,
)

seeds = st.integers(0, 2**48)
some = settings(max_examples=max(10, settings().max_examples // 6), phases=[Phase.generate])


def outcome(run: ContinuousRun) -> Any:
    """What a query came to: the changes of its answer's multiset of values, or what it sent."""
    if run.program.plan.kind is not OutputKind.VIEW:
        return [[comparable(v) for v in row.values()] for row in run.changes().to_pylist()]
    table = run.lifetimes()
    columns = [[comparable(v) for v in column.to_pylist()] for column in table.columns]
    changes: Counter[Any] = Counter()
    for *values, ts, exp in zip(*columns, strict=True):
        changes[(*values, ts)] += 1
        changes[(*values, exp)] -= 1
    return {key: net for key, net in changes.items() if net and key[-1] < run.clocks.query}


def recut(case: Case, rng: Random) -> Case:
    """The same rows and heartbeats in other batches; only for cases without late rows."""
    arrivals = [
        (name, row) for batch in case.batches for name, rows in batch.items() for row in rows
    ]
    batches: list[dict[str, list[dict[str, Any]]]] = []
    while arrivals:
        size = rng.choice((0, 1, 3, 7, 40))
        taken, arrivals = arrivals[:size], arrivals[size:]
        batch: dict[str, list[dict[str, Any]]] = {}
        for name, row in taken:
            batch.setdefault(name, []).append(row)
        batches.append(batch)
    beats: list[dict[str, int]] = [{} for _ in batches]
    last = [one for one in case.heartbeats if one]
    return replace(case, batches=[*batches, *({} for _ in last)], heartbeats=[*beats, *last])


@pytest.mark.parametrize("shape", SHAPES)
@some
@given(seed=seeds)
def test_variants_agree(shape: str, seed: int) -> None:
    case, rng = random_case(seed, shape), Random(seed)
    wanted = outcome(fed(case, start(case)))
    off = [rule.name for rule in RULES if rng.random() < 0.4]
    variants: list[dict[str, Any]] = [
        {"strategy": Strategy.NT},
        {"strategy": Strategy.DIRECT},
        {"without": off},
        {"buckets": rng.choice((2, 3, 7))},
        {"strategy": Strategy.NT, "buckets": 3, "candidate": rng.randint(0, 9)},
        {"candidate": rng.randint(1, 9)},
    ]
    for variant in rng.sample(variants, 3):
        assert outcome(fed(case, start(case, **variant))) == wanted, (case.query.cql, variant)


@pytest.mark.parametrize("shape", SHAPES)
@some
@given(seed=seeds)
def test_batches_do_not_matter(shape: str, seed: int) -> None:
    case, rng = random_case(seed, shape), Random(seed)
    again = recut(case, rng)
    if case.admitted()[1] or again.admitted()[1]:
        return
    strategy = rng.choice(list(Strategy))
    wanted = outcome(fed(case, start(case, strategy)))
    assert outcome(fed(again, start(again, strategy))) == wanted, case.query.cql


@pytest.mark.parametrize("shape", SHAPES)
@some
@given(seed=seeds)
def test_state_is_bounded(shape: str, seed: int) -> None:
    """Few runs per operator, and few stored rows that are dead."""
    case = random_case(seed, shape)
    run = start(case, Random(seed).choice(list(Strategy)))
    for batch, beats in zip(case.batches, case.heartbeats, strict=True):
        run.feed({name: table_of(name, rows) for name, rows in batch.items()}, beats)
        size = sum(len(rows) for rows in batch.values())
        for states in run.states.values():
            for state in states:
                assert bounded(state, run.clocks.query, size), case.query.cql


def bounded(state: Any, clock: int, batch: int) -> bool:
    kept = [state] if isinstance(state, KeptRows) else [
        getattr(state, name) for name in getattr(state, "__dataclass_fields__", {})
        if isinstance(getattr(state, name), KeptRows)
    ]  # fmt: skip
    for one in kept:
        if len(one.runs) > LIMIT:
            return False
        alive = sum(int((numbers(run.load(), EXP) >= clock).sum()) for run in one.runs)
        if isinstance(state, NegationState) and one is state.covers:
            # An uncovered key still says since when, for the left rows that are kept.
            alive += 2 * max(state.left.rows, FEW)
        if one.rows > 1.25 * alive + batch + 1:
            return False
    return True
