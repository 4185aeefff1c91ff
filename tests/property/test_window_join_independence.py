"""What must not matter: batch cuts, order within a batch, buckets, merging, calendar ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mayfly.kernels import join, upkeep
from mayfly.pipeline import InProcessRun
from mayfly.testing import Batch, JoinCase, assert_same_rows, cut_at, together
from mayfly.testing.strategies import join_cases
from tests.property.join_runs import Chain, run

NAMES = ("a", "b", "c")
CHAIN = Chain((["key"], [("b.value", "c.value")]))
CASES = join_cases(NAMES, types=("int64", "string"), heartbeats=False, max_rows=10).map(
    lambda case: replace(case, buckets=1)
)
"""Without late rows: for those the cut decides, by definition."""


def arrived(case: JoinCase) -> dict[str, pa.Table]:
    return {name: pa.concat_tables(batch[name] for batch in case.batches) for name in NAMES}


def cut_into(case: JoinCase, cuts: dict[str, Sequence[int]]) -> JoinCase:
    rows = arrived(case)
    return replace(case, batches=together({name: cut_at(rows[name], cuts[name]) for name in NAMES}))


@given(CASES, st.data())
def test_batch_cuts(case: JoinCase, data: st.DataObject) -> None:
    expected = run(case, CHAIN).changes()
    rows = arrived(case)
    at_once = cut_into(case, dict.fromkeys(NAMES, ()))
    one_by_one = cut_into(case, {name: range(rows[name].num_rows) for name in NAMES})
    anywhere = cut_into(
        case,
        {
            name: data.draw(st.lists(st.integers(0, rows[name].num_rows), max_size=9))
            for name in NAMES
        },
    )
    for other in (at_once, one_by_one, anywhere):
        assert_same_rows(run(other, CHAIN).changes(), expected, f"{len(other.batches)} batches")


@given(CASES, st.integers(0, 2**32))
def test_one_stream_entirely_before_the_others(case: JoinCase, seed: int) -> None:
    """Its rows all wait, and are woken a few at a time."""
    expected = run(case, CHAIN).changes()
    ahead = NAMES[seed % 3]
    nothing = {name: rows.slice(0, 0) for name, rows in arrived(case).items()}
    first: Batch = {**nothing, ahead: arrived(case)[ahead]}
    rest: list[Batch] = [{**batch, ahead: nothing[ahead]} for batch in case.batches]
    found = run(replace(case, batches=[first, *rest]), CHAIN).changes()
    assert_same_rows(found, expected)


@given(CASES, st.integers(0, 2**32))
def test_order_within_a_batch(case: JoinCase, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shuffled: list[Batch] = [
        {name: rows.take(rng.permutation(rows.num_rows)) for name, rows in batch.items()}
        for batch in case.batches
    ]
    found = run(replace(case, batches=shuffled), CHAIN).changes()
    assert_same_rows(found, run(case, CHAIN).changes())


@given(CASES)
def test_bucket_counts(case: JoinCase) -> None:
    expected = run(case, CHAIN, buckets=1).changes()
    for buckets in (2, 5):
        assert_same_rows(run(case, CHAIN, buckets=buckets).changes(), expected, f"{buckets}")


@contextmanager
def merging(fan_in: int, limit: int, alive_per_dead: int) -> Iterator[None]:
    with patch.multiple(
        upkeep,
        FAN_IN=fan_in,
        LIMIT=limit,
        WAITING=max(1, limit // 4),
        PER_CELL=1,
        ALIVE_PER_DEAD=alive_per_dead,
        RANGES_PER_WINDOW=1,
    ):
        yield


@given(CASES, st.sampled_from([2, 3]), st.sampled_from([2, 4, 12]), st.sampled_from([1, 4, 10**9]))
def test_merging(case: JoinCase, fan_in: int, limit: int, alive_per_dead: int) -> None:
    """Merges all the time, down to a single run, with eager and with hardly any compaction."""
    expected = run(case, CHAIN).changes()
    rows = arrived(case)
    many = cut_into(case, {name: range(rows[name].num_rows) for name in NAMES})
    with merging(fan_in, limit, alive_per_dead):
        assert_same_rows(run(many, CHAIN).changes(), expected)


class Partitioned(InProcessRun):
    """A run whose calendar queues have another number of ranges."""

    def with_partitions(self, count: int) -> Partitioned:
        self._stages = tuple(
            replace(
                stage,
                join=replace(
                    stage.join,
                    inputs=(
                        replace(stage.join.inputs[0], partitions=count),
                        replace(stage.join.inputs[1], partitions=count),
                    ),
                ),
            )
            for stage in self._stages
        )
        return self


@given(CASES, st.sampled_from([1, 2, 7, 40]))
def test_calendar_ranges(case: JoinCase, partitions: int) -> None:
    rows = arrived(case)
    many = cut_into(case, {name: range(0, rows[name].num_rows, 2) for name in NAMES})
    running = Partitioned(CHAIN.query(many), 1).with_partitions(partitions)
    for batch in many.batches:
        running.feed(batch)
    running.finish()
    assert_same_rows(running.changes(), run(case, CHAIN).changes())


@given(CASES, st.integers(1, 3))
def test_room_for_pairs(case: JoinCase, room: int) -> None:
    expected = run(case, CHAIN).changes()
    with patch.object(join, "PAIRS_AT_ONCE", room):
        assert_same_rows(run(case, CHAIN).changes(), expected)
