"""What the strategies promise can really be drawn, and a found case shrinks to few rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from mayfly.testing import KEY_TYPES, ColumnSpec, JoinCase, assert_same_rows, micros_of
from mayfly.testing.strategies import (
    SILENCE,
    batch_cuts,
    bucket_counts,
    join_cases,
    key_types,
    slacks,
    streams,
    window_lengths,
)

SEARCH = settings(
    max_examples=2_000,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
)


def times(rows: pa.Table) -> list[int]:
    return [int(t) for t in micros_of(rows)]


def tie_split_by_a_cut(case: JoinCase) -> bool:
    return any(
        set(times(one["l"])) & set(times(other["l"])) for one, other in pairwise(case.batches)
    )


def silence_beyond_the_window(case: JoinCase) -> bool:
    arrived = sorted(times(case.accepted["l"]))
    return any(b - a > case.windows["l"] for a, b in pairwise(arrived))


FEATURES: dict[str, Callable[[JoinCase], bool]] = {
    "a tie within a batch": lambda c: any(
        len(set(times(b["l"]))) < b["l"].num_rows for b in c.batches
    ),
    "a tie split by a cut": tie_split_by_a_cut,
    "a NULL key": lambda c: c.accepted["r"]["key"].null_count > 0,
    "a NULL value": lambda c: c.accepted["r"]["value"].null_count > 0,
    "disorder": lambda c: times(c.accepted["l"]) != sorted(times(c.accepted["l"])),
    "an empty batch": lambda c: any(b["l"].num_rows == b["r"].num_rows == 0 for b in c.batches),
    "an empty stream": lambda c: c.accepted["l"].num_rows == 0 < c.accepted["r"].num_rows,
    "a silence": silence_beyond_the_window,
    "a heartbeat": lambda c: any(c.heartbeats or []),
    "two keys": lambda c: len(c.keys) == 2,
    "keys of two widths": lambda c: (
        c.accepted["l"].schema.field("key").type != c.accepted["r"].schema.field("key").type
    ),
    "negative times": lambda c: any(t < 0 for t in times(c.accepted["l"])),
    "several buckets": lambda c: c.buckets > 1,
}


@pytest.mark.parametrize("feature", FEATURES)
def test_a_case_can_have(feature: str) -> None:
    cases = join_cases(most_keys=2, mixed_widths=True)
    found = find(cases, FEATURES[feature], settings=settings(SEARCH, phases=[Phase.generate]))
    assert isinstance(found, JoinCase)


@pytest.mark.slow
def test_a_case_with_a_late_row_shrinks_to_a_few_rows_that_can_be_read() -> None:
    found = find(
        join_cases(types=["int64"], late=True, heartbeats=False),
        lambda case: case.late["l"].num_rows > 0,
        settings=SEARCH,
    )
    assert sum(rows.num_rows for batch in found.batches for rows in batch.values()) <= 4
    assert "  batch 1" in str(found).splitlines()
    assert "    r ('ts', 'key', 'value', 'seq'): []" in str(found).splitlines()


@given(st.data(), slacks())
def test_cuts_keep_the_stream_and_disorder_stays_within_slack(
    data: st.DataObject, slack: int
) -> None:
    keys = (ColumnSpec("a", "string"), ColumnSpec("b", "double"))
    stream = data.draw(streams(keys, slack=slack, start=1_000, ts_type="int64"))
    assert stream.column_names == ["ts", "a", "b", "value", "seq"]
    largest = 0
    for at in stream["ts"].to_pylist():
        assert at >= max(1_000, largest - slack)
        largest = max(largest, at)
    assert_same_rows(pa.concat_tables(data.draw(batch_cuts(stream))), stream)


@given(key_types(), bucket_counts(), window_lengths())
def test_settings_are_within_their_domains(kind: str, buckets: int, window: int) -> None:
    assert kind in KEY_TYPES
    assert buckets >= 1
    assert 1 <= window < SILENCE


def test_the_kit_itself_needs_neither_hypothesis_nor_duckdb() -> None:
    program = (
        "import sys; sys.modules['hypothesis'] = sys.modules['duckdb'] = None\n"
        "import mayfly.errors, mayfly.testing\n"
        "try:\n    import mayfly.testing.strategies\n"
        "except mayfly.errors.MayflyError as error:\n    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install hypothesis" in run.stdout
