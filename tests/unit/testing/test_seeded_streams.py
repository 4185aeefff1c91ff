"""Every feature of a generated stream really occurs, within its bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mayfly.errors import BadInput, InvalidSetting
from mayfly.testing import (
    KEY_TYPES,
    ColumnSpec,
    StreamSpec,
    as_micros,
    as_timestamps,
    assert_same_rows,
    domain,
    generate,
    in_event_order,
    micros_of,
    shuffle_within_slack,
)

PLAIN = StreamSpec(rows=4_000, rate=1_000)


def behind(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How far each row's ts lies behind the largest ts that arrived before it."""
    ts = micros_of(table)
    return np.asarray(np.maximum.accumulate(ts) - ts)


def gaps(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(np.diff(micros_of(in_event_order(table))))


def test_a_plain_stream_is_in_order_at_its_rate_with_a_running_seq() -> None:
    table = generate(replace(PLAIN, start=10_000_000))
    ts = micros_of(table)
    assert table.column_names == ["ts", "key", "value", "seq"]
    assert ts[0] == 10_000_000
    assert (np.diff(ts) >= 0).all()
    assert 3.5e6 < ts[-1] - ts[0] < 4.5e6
    assert table["seq"].to_pylist() == list(range(4_000))


def test_the_same_spec_gives_the_same_table_and_another_seed_another() -> None:
    assert generate(PLAIN).equals(generate(PLAIN))
    assert not generate(PLAIN).equals(generate(replace(PLAIN, seed=1)))


def test_one_aspect_does_not_disturb_another() -> None:
    with_nulls = replace(PLAIN, keys=(ColumnSpec("key", nulls=0.5),))
    assert generate(PLAIN)["ts"].equals(generate(with_nulls)["ts"])
    assert generate(PLAIN)["value"].equals(generate(with_nulls)["value"])


def test_ts_comes_as_timestamp_or_as_int64() -> None:
    stamped, counted = generate(PLAIN), generate(replace(PLAIN, ts_type="int64"))
    assert stamped.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert counted.schema.field("ts").type == pa.int64()
    assert as_micros(stamped).equals(counted)
    assert as_timestamps(counted).equals(stamped)


def test_ties_are_as_frequent_as_asked_and_keep_the_rate() -> None:
    table = generate(replace(PLAIN, ties=0.6))
    assert 0.57 < (gaps(table) == 0).mean() < 0.63
    assert 3.4e6 < micros_of(table)[-1] < 4.6e6
    assert (gaps(generate(replace(PLAIN, ties=1.0))) == 0).all()


def test_bursts_send_only_in_the_on_phase() -> None:
    phase = micros_of(generate(replace(PLAIN, burst=("100 ms", "900 ms")))) % 1_000_000
    assert phase.max() < 100_000
    assert phase.max() > 90_000


def test_silences_appear_as_long_gaps() -> None:
    long = gaps(generate(replace(PLAIN, silences=(3, "1 min")))) >= 60_000_000
    assert 1 <= long.sum() <= 3
    assert not (gaps(generate(PLAIN)) >= 60_000_000).any()


def test_disorder_occurs_and_stays_within_slack() -> None:
    table = generate(replace(PLAIN, slack="20 ms", disorder=0.5))
    assert (behind(table) > 0).mean() > 0.3
    assert behind(table).max() <= 20_000
    assert in_event_order(table)["seq"].to_pylist() == list(range(4_000))


def test_late_rows_come_later_than_slack_allows() -> None:
    table = generate(replace(PLAIN, slack="20 ms", late=0.05, late_by="200 ms"))
    beyond = (behind(table) > 20_000).mean()
    assert 0.03 < beyond < 0.06
    assert behind(table).max() <= 220_000


def test_shuffling_within_slack_keeps_rows_and_bound() -> None:
    table = generate(replace(PLAIN, ties=0.3))
    shuffled = shuffle_within_slack(table, "10 ms", seed=3)
    assert 5_000 < behind(shuffled).max() <= 10_000
    assert_same_rows(shuffled, table)
    assert not shuffled.equals(table)


def test_shuffling_without_slack_mixes_the_rows_of_one_instant_only() -> None:
    table = generate(replace(PLAIN, ties=0.6))
    shuffled = shuffle_within_slack(table, 0, seed=3)
    assert behind(shuffled).max() == 0
    assert shuffled["seq"].to_pylist() != table["seq"].to_pylist()
    assert_same_rows(shuffled, table)


def test_uniform_keys_are_even_and_zipf_keys_follow_rank() -> None:
    def counts(zipf: float) -> list[int]:
        column = ColumnSpec("key", distinct=50, zipf=zipf, edges=False)
        drawn = generate(StreamSpec(50_000, keys=(column,)))["key"]
        return [pc.sum(pc.equal(drawn, value)).as_py() for value in domain(column)]

    assert max(counts(0)) < 1.3 * min(counts(0))
    skewed = counts(1.0)
    assert 1.8 < skewed[0] / skewed[1] < 2.2
    assert 8 < skewed[0] / skewed[9] < 12


@pytest.mark.parametrize("kind", KEY_TYPES)
def test_every_key_type_has_its_arrow_type_its_values_and_nulls(kind: str) -> None:
    column = ColumnSpec("key", kind, distinct=12, nulls=0.25)
    table = generate(StreamSpec(2_000, keys=(column,)))
    drawn = table["key"]
    assert drawn.type == column.arrow_type
    assert 0.2 < drawn.null_count / 2_000 < 0.3
    values = domain(column)
    assert len(values) == (2 if kind == "boolean" else 12)
    assert set(map(str, drawn.drop_null().to_pylist())) == set(map(str, values.to_pylist()))


@pytest.mark.parametrize("kind", ["double", "float"])
def test_floats_hold_nan_in_two_bit_patterns_and_both_zeros(kind: str) -> None:
    values = domain(ColumnSpec("key", kind, distinct=10)).to_numpy()
    nans = values[np.isnan(values)]
    assert len({value.tobytes() for value in nans}) == 2
    zeros = values[values == 0]
    assert sorted(np.signbit(zeros).tolist()) == [False, True]


@pytest.mark.parametrize("kind", [k for k in KEY_TYPES if k not in ("double", "float", "boolean")])
@pytest.mark.parametrize("edges", [True, False])
def test_the_values_of_a_domain_are_distinct(kind: str, edges: bool) -> None:
    values = domain(ColumnSpec("key", kind, distinct=100, edges=edges))
    assert len(pc.unique(values)) == 100


def test_an_offset_shares_only_part_of_the_keys() -> None:
    first = set(domain(ColumnSpec("key", distinct=10)).to_pylist())
    second = set(domain(ColumnSpec("key", distinct=10, offset=7)).to_pylist())
    assert len(first & second) == 3


def test_payload_nulls_are_independent_of_key_nulls() -> None:
    spec = StreamSpec(
        4_000, keys=(ColumnSpec("key", nulls=0.5),), payload=(ColumnSpec("value", nulls=0.5),)
    )
    table = generate(spec)
    both = pc.sum(pc.and_(table["key"].is_null(), table["value"].is_null())).as_py()
    assert 800 < both < 1_200


def test_an_empty_stream_has_the_columns_and_no_rows() -> None:
    table = generate(StreamSpec(0, ties=0.5, slack="5 us", disorder=1.0, silences=(2, "5 us")))
    assert table.num_rows == 0
    assert table.column_names == ["ts", "key", "value", "seq"]


def test_null_and_misplaced_times_are_bad_input() -> None:
    with pytest.raises(BadInput, match="1 NULLs"):
        micros_of(pa.table({"ts": pa.array([1, None], pa.int64())}))
    with pytest.raises(BadInput, match="string"):
        micros_of(pa.table({"ts": ["noon"]}))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1},
        {"rate": 0},
        {"ties": 1.5},
        {"ts_type": "datetime"},
        {"burst": (0, 5)},
        {"keys": (ColumnSpec("ts"),)},
    ],
)
def test_impossible_specs_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting):
        replace(PLAIN, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings", [{"type": "map"}, {"distinct": 0}, {"nulls": 2.0}, {"zipf": -1.0}, {"offset": -1}]
)
def test_impossible_columns_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting, match="'key'"):
        ColumnSpec("key", **settings)  # type: ignore[arg-type]
