"""Joins run whole: right at every instant, however they are evaluated, ordered and cut."""

from __future__ import annotations

from random import Random

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.kernels.lifetime_rows import numbers
from mayfly.plan.strategy import Joining, Strategy
from mayfly.storage.merge import LIMIT
from mayfly.storage.segment import EXP
from tests.property.continuous_cases import Case, fed, table_of
from tests.property.multiway_cases import (
    any_order,
    joins_of,
    random_evaluation,
    random_join_case,
    started,
)
from tests.property.test_continuous import checked
from tests.property.test_continuous_independence import outcome, recut

seeds = st.integers(0, 2**48)
many = settings(max_examples=max(50, settings().max_examples * 2 - 30), phases=[Phase.generate])


def has_cuts(case: Case, strategy: Strategy) -> bool:
    counted = any(table.window.counts_rows for table in case.query.tables)
    return strategy is Strategy.NT or counted


@many
@given(seed=seeds)
def test_the_answer_is_that_of_the_alive_tuples(seed: int) -> None:
    case, rng = random_join_case(seed), Random(seed)
    strategy = rng.choice(list(Strategy))
    evaluation = random_evaluation(rng, has_cuts(case, strategy))
    checked(case, fed(case, started(case, evaluation, strategy)))


@many
@given(seed=seeds)
def test_a_whole_join_is_a_chain_of_joins(seed: int) -> None:
    """The same changes as binary joins, in other batches, buckets and ever changing orders."""
    case, rng = random_join_case(seed), Random(seed)
    strategy = rng.choice(list(Strategy))
    wanted = outcome(fed(case, started(case, Joining.BINARY, strategy)))
    again = recut(case, rng)
    if case.admitted()[1] or again.admitted()[1]:
        again = case
    evaluation = random_evaluation(rng, has_cuts(case, strategy))
    ways = [
        started(again, Joining.MULTIWAY, strategy),
        started(again, Joining.COST, strategy),
        started(again, evaluation, strategy, rng.choice((1, 2, 5)), any_order(rng)),
    ]
    for way in ways:
        assert outcome(fed(again, way)) == wanted, (case.query.cql, evaluation)


@many
@given(seed=seeds)
def test_only_the_inputs_are_kept(seed: int) -> None:
    """Few runs per input, and few stored rows that are dead; no intermediate result."""
    case, rng = random_join_case(seed), Random(seed)
    strategy = rng.choice(list(Strategy))
    run = started(case, random_evaluation(rng, has_cuts(case, strategy)), strategy)
    fed_rows = 0
    for batch, beats in zip(case.batches, case.heartbeats, strict=True):
        run.feed({name: table_of(name, rows) for name, rows in batch.items()}, beats)
        size = sum(len(rows) for rows in batch.values())
        fed_rows += size
        for state in joins_of(run):
            for kept in state.kept:
                assert len(kept.runs) <= LIMIT
                ends = [numbers(one.load(), EXP) for one in kept.runs]
                alive = sum(int((exp >= run.clocks.query).sum()) for exp in ends)
                assert kept.rows <= min(fed_rows, 1.25 * alive + size + 1), case.query.cql
