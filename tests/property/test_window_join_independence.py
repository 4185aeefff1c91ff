"""What must not matter: batch cuts, order within a batch, buckets, merging, calendar ranges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mayfly.kernels import upkeep, window_join
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.window_join import BothKept, JoinRows
from mayfly.testing import Batch, JoinCase, assert_same_rows, cut_at, together
from tests.property.busy_streams import busy_cases
from tests.property.join_runs import Chain, examples, run

NAMES = ("a", "b", "c")
CHAIN = Chain((["key"], [("b.value", "c.value")]))
CASES = busy_cases(NAMES)
"""Without late rows: for those the cut decides, by definition."""


def arrived(case: JoinCase) -> dict[str, pa.Table]:
    return {name: pa.concat_tables(batch[name] for batch in case.batches) for name in NAMES}


def at_once(case: JoinCase) -> JoinCase:
    """The case in a single batch, in which nothing is kept from one batch to the next."""
    return replace(case, batches=[arrived(case)])


@given(CASES, st.data())
def test_batch_cuts(case: JoinCase, data: st.DataObject) -> None:
    expected = run(at_once(case), CHAIN).lifetimes()
    assert_same_rows(run(case, CHAIN).lifetimes(), expected, "as drawn")
    cuts = {
        name: cut_at(rows, data.draw(st.lists(st.integers(0, rows.num_rows), max_size=9)))
        for name, rows in arrived(case).items()
    }
    anywhere = replace(case, batches=together(cuts))
    assert_same_rows(run(anywhere, CHAIN).lifetimes(), expected, "cut anywhere")


@given(CASES, st.sampled_from(NAMES))
def test_one_stream_entirely_before_the_others(case: JoinCase, ahead: str) -> None:
    """Its rows all wait, and are woken a few at a time."""
    nothing = {name: rows.slice(0, 0) for name, rows in arrived(case).items()}
    first: Batch = {**nothing, ahead: arrived(case)[ahead]}
    rest: list[Batch] = [{**batch, ahead: nothing[ahead]} for batch in case.batches]
    found = run(replace(case, batches=[first, *rest]), CHAIN).lifetimes()
    assert_same_rows(found, run(at_once(case), CHAIN).lifetimes())


@examples(0.5)
@given(CASES, st.integers(0, 2**32))
def test_order_within_a_batch(case: JoinCase, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shuffled: list[Batch] = [
        {name: rows.take(rng.permutation(rows.num_rows)) for name, rows in batch.items()}
        for batch in case.batches
    ]
    found = run(replace(case, batches=shuffled), CHAIN).lifetimes()
    assert_same_rows(found, run(at_once(case), CHAIN).lifetimes())


@examples(0.5)
@given(CASES)
def test_bucket_counts(case: JoinCase) -> None:
    expected = run(at_once(case), CHAIN).lifetimes()
    for buckets in (2, 5):
        assert_same_rows(run(case, CHAIN, buckets=buckets).lifetimes(), expected, f"{buckets}")


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
    expected = run(at_once(case), CHAIN).lifetimes()
    with merging(fan_in, limit, alive_per_dead):
        assert_same_rows(run(case, CHAIN).lifetimes(), expected)


@contextmanager
def calendars_of(ranges: int) -> Iterator[None]:
    """Calendar queues of joins have another number of ranges."""

    def shaped(join: JoinRows) -> BothKept:
        left, right = (KeptRows(replace(one, partitions=ranges)) for one in join.shapes)
        return BothKept(left, right)

    with patch.object(JoinRows, "state", shaped):
        yield


@examples(1.5)
@given(CASES, st.sampled_from([13, 25, 40]), st.sampled_from([1, 3, 7, 40]))
def test_calendar_ranges(case: JoinCase, window: int, partitions: int) -> None:
    """Results of the first join live long enough to be filed, and expire in any order."""
    case = replace(case, windows={"a": window, "b": window + 5, "c": 8})
    chain = Chain((["key"], ["key"]), select={"x": "a.ts", "y": "b.ts", "z": "c.ts"})
    expected = run(at_once(case), chain).lifetimes()
    with calendars_of(partitions):
        assert_same_rows(run(case, chain, buckets=1).lifetimes(), expected)


@examples(0.5)
@given(CASES, st.integers(1, 3))
def test_room_for_pairs(case: JoinCase, room: int) -> None:
    expected = run(at_once(case), CHAIN).lifetimes()
    with patch.object(window_join, "PAIRS_AT_ONCE", room):
        assert_same_rows(run(case, CHAIN).lifetimes(), expected)
