from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from mayfly.errors import InvalidSetting
from mayfly.testing import (
    StreamSpec,
    cut_at,
    cut_at_random,
    cut_by_rows,
    cut_by_time,
    generate,
    micros_of,
    together,
)

STREAM = generate(StreamSpec(1_000, rate=1_000, silences=(2, "5 s"), slack="50 ms", disorder=0.5))


def at(*times: int) -> pa.Table:
    return pa.table({"ts": pa.array(times, pa.int64())})


def times(batches: list[pa.Table]) -> list[list[int]]:
    return [batch["ts"].to_pylist() for batch in batches]


@pytest.mark.parametrize(
    "batches",
    [
        cut_at(STREAM, [10, 10, 500]),
        cut_by_rows(STREAM, 300),
        cut_by_rows(STREAM, [0, 1, 500]),
        cut_by_time(STREAM, "100 ms"),
        cut_by_time(STREAM, "100 ms", start=-1_000_000, empty=True),
        cut_at_random(STREAM, 20, seed=1, empty=0.3),
    ],
)
def test_a_cut_keeps_every_row_in_its_place(batches: list[pa.Table]) -> None:
    assert pa.concat_tables(batches).equals(STREAM)
    assert len(batches) > 1


def test_by_rows() -> None:
    assert times(cut_by_rows(at(1, 2, 3, 4, 5), 2)) == [[1, 2], [3, 4], [5]]
    assert times(cut_by_rows(at(1, 2, 3), [1, 0, 2])) == [[1], [], [2, 3]]
    assert times(cut_by_rows(at(1, 2, 3), [1])) == [[1], [2, 3]]
    assert times(cut_by_rows(at(), 2)) == [[]]


def test_by_time_cuts_where_event_time_passes_a_multiple() -> None:
    assert times(cut_by_time(at(0, 9, 10, 45), "10 us")) == [[0, 9], [10], [45]]
    assert times(cut_by_time(at(0, 12, 9, 20), "10 us")) == [[0], [12, 9], [20]]
    assert times(cut_by_time(at(), "10 us")) == [[]]


def test_by_time_with_empty_batches_fills_silences() -> None:
    assert times(cut_by_time(at(12, 45), "10 us", start=0, empty=True)) == [[], [12], [], [], [45]]


def test_random_cuts_are_seeded_and_have_empty_batches() -> None:
    sizes = [b.num_rows for b in cut_at_random(STREAM, 50, seed=4, empty=0.5)]
    assert len(sizes) == 50
    assert 15 <= sizes.count(0) <= 35
    assert sizes == [b.num_rows for b in cut_at_random(STREAM, 50, seed=4, empty=0.5)]
    assert sizes != [b.num_rows for b in cut_at_random(STREAM, 50, seed=5, empty=0.5)]


def test_together_pads_the_stream_that_ends_first() -> None:
    batches = together({"l": [at(1), at(2)], "r": [at(7)]})
    assert [times([b["l"], b["r"]]) for b in batches] == [[[1], [7]], [[2], []]]
    assert batches[1]["r"].schema == at().schema


def test_slack_bounds_every_cut() -> None:
    """No batch brings a row more than slack behind what earlier batches brought."""
    spec = StreamSpec(500, rate=100_000, slack="2 ms", disorder=1.0)
    for seed in range(10):
        batches = cut_at_random(generate(replace(spec, seed=seed)), 30, seed, empty=0.1)
        largest = None
        for batch in batches:
            ts = micros_of(batch)
            if largest is not None and len(ts):
                assert ts.min() >= largest - 2_000
            largest = max([t for t in [largest, *ts.tolist()] if t is not None], default=None)


def test_impossible_cuts_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="0 rows"):
        cut_by_rows(STREAM, 0)
    with pytest.raises(InvalidSetting, match="do not fit"):
        cut_by_rows(STREAM, [2_000])
    with pytest.raises(InvalidSetting, match="every"):
        cut_by_time(STREAM, 0)
    with pytest.raises(InvalidSetting, match="batches=0"):
        cut_at_random(STREAM, 0, seed=1)
    with pytest.raises(InvalidSetting, match="without any batch"):
        together({"l": []})
