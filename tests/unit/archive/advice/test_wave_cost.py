"""The cost model against sums worked out by hand, and its published cases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.archive.advice.cost_parameters import BUILT_IN_CASES, SCAM, TPC_D, WSE, CostParameters
from mayfly.archive.advice.wave_cost import WaveCost, wave_cost
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.errors import InvalidSetting

IN_PLACE, SIMPLE, PACKED = UpdateTechnique
DEL, REINDEX, REINDEX_PLUS, REINDEX_PLUS_PLUS, WATA, RATA = WaveScheme
# Every constant of its own size, so that no two sums agree by accident.
CASE = CostParameters(
    "by hand", seek=0.5, transfer=1, packed_day=3, unpacked_day=5, build=1_000, add=20_000,
    delete=300_000, bucket=0.001, probes=7, scans=11, measured_copy=10, measured_packed_copy=1,
)  # fmt: skip


def cost(
    scheme: WaveScheme, technique: UpdateTechnique, n: int, window: int = 10,
    case: CostParameters = CASE,
) -> WaveCost:  # fmt: skip
    return wave_cost(WaveLayout(scheme, window, n), technique, case)


@pytest.mark.parametrize("technique", UpdateTechnique)
def test_spreading_takes_work_off_the_busiest_day_and_adds_none(technique: UpdateTechnique) -> None:
    for scheme, window, n in ((REINDEX_PLUS_PLUS, 36, 4), (RATA, 31, 4)):
        at_once, spread = (
            wave_cost(WaveLayout(scheme, window, n, wanted), technique, CASE)
            for wanted in (False, True)
        )
        assert spread.transition == pytest.approx(at_once.transition)
        assert spread.pre_transition <= at_once.pre_transition * 1.001
        assert spread.busiest_day < 0.85 * at_once.busiest_day
        assert at_once.busiest_day >= at_once.maintenance


def test_copies_are_derived_from_size_and_transfer() -> None:
    assert (SCAM.copy, SCAM.packed_copy) == pytest.approx((15.68, 11.2))
    assert (WSE.copy, WSE.packed_copy) == pytest.approx((21, 15))
    assert (TPC_D.copy, TPC_D.packed_copy) == pytest.approx((125.4, 120))
    assert (CASE.copy, CASE.packed_copy) == (10, 1)


@pytest.mark.parametrize(
    ("scheme", "technique", "n", "transition", "pre_transition"),
    [
        (DEL, IN_PLACE, 2, 320_000, 0),
        (DEL, SIMPLE, 2, 320_000 + 5 * 10, 0),
        (DEL, PACKED, 2, 1_000 + 6 * 1, 0),
        (DEL, PACKED, 1, 1_000 + 11 * 1, 0),
        (REINDEX, IN_PLACE, 2, 5_000, 0),
        (REINDEX, PACKED, 3, (4 * 4 + 3 * 3 + 3 * 3) / 10 * 1_000, 0),
        # Temp: Build and four adds; the constituent: copies of 1 (packed), 2, 3 and 4 days,
        # and 4 + 3 + 2 + 1 old days added.
        (REINDEX_PLUS, IN_PLACE, 2, (1_000 + 14 * 20_000 + 1 + (2 + 3 + 4) * 10) / 5, 0),
        (REINDEX_PLUS, SIMPLE, 2, (1_000 + 14 * 20_000 + 1 + (2 + 3 + 4) * 10) / 5, 0),
        # Temp is built and grows four times (1 + 1, 2 + 1, … 4 + 1 days merged); the constituent
        # is merged anew on four days, 5 days each, its 4 + 3 + 2 + 1 old days built first.
        (REINDEX_PLUS, PACKED, 2, (15 * 1_000 + (2 + 3 + 4 + 5) + 4 * 5) / 5, 0),
        # Ladder: Build, three adds on copies of 1 (packed), 2 and 3 days; then 4 + 3 + 2 + 1 adds.
        (REINDEX_PLUS_PLUS, IN_PLACE, 2, 20_000, (1_000 + 13 * 20_000 + 1 + 5 * 10) / 5),
        (REINDEX_PLUS_PLUS, SIMPLE, 2, 20_000, (1_000 + 13 * 20_000 + 1 + 5 * 10) / 5),
        (WATA, IN_PLACE, 4, 20_000, 0),
        (WATA, SIMPLE, 4, 20_000 + (1 + 2 + 0) * 10 / 3, 0),
        (WATA, PACKED, 4, 1_000 + (2 + 3) / 3, 0),
        (RATA, IN_PLACE, 4, 20_000, (1_000 + 20_000 + 1) / 3),
        (RATA, SIMPLE, 4, 20_000 + (1 + 2 + 0) * 10 / 3, (1_000 + 20_000 + 1) / 3),
        (RATA, PACKED, 4, 1_000 + (2 + 3) / 3, (1_000 + 1_000 + 2) / 3),
        (RATA, IN_PLACE, 10, 20_000, 0),
    ],
)
def test_times_are_the_sums_of_the_operations(
    scheme: WaveScheme, technique: UpdateTechnique, n: int, transition: float,
    pre_transition: float,
) -> None:  # fmt: skip
    predicted = cost(scheme, technique, n)
    assert predicted.transition == pytest.approx(transition)
    assert predicted.pre_transition == pytest.approx(pre_transition)


@pytest.mark.parametrize(
    ("scheme", "technique", "n", "in_operation", "on_top"),
    [
        (DEL, IN_PLACE, 2, 10 * 5, 0),
        (DEL, SIMPLE, 2, 10 * 5, 5 * 5),
        (DEL, PACKED, 2, 10 * 3, 5 * 3 + 1 * 3),
        (REINDEX, SIMPLE, 2, 10 * 3, 5 * 3),
        (WATA, IN_PLACE, 4, (11 + 12 + 10) * 5 / 3, (5 + 5 + 0) / 3),
        (WATA, SIMPLE, 4, (11 + 12 + 10) * 5 / 3, (2 * 5 + 3 * 5 + 0) / 3),
        # After its throw-away day RATA keeps T{1 day, packed} and T{2 days}; then T{1}; then none,
        # but the oldest constituent is that packed day, which an unpacked one replaces.
        (RATA, IN_PLACE, 4, (3 * 50 - 2 + 3 + 10 + 3) / 3, (5 + 5 + 2) / 3),
    ],
)
def test_space_is_what_the_indexes_hold(
    scheme: WaveScheme, technique: UpdateTechnique, n: int, in_operation: float, on_top: float
) -> None:
    predicted = cost(scheme, technique, n)
    assert predicted.space_in_operation == pytest.approx(in_operation)
    assert predicted.space_in_transition == pytest.approx(on_top)
    assert predicted.largest_space >= predicted.space - 1e-9


def test_queries_pay_for_every_constituent_and_every_stored_day() -> None:
    wata = cost(WATA, IN_PLACE, 4)
    assert wata.probe == pytest.approx(4 * 0.5 + 11 * 0.001)
    assert wata.scan == pytest.approx(4 * 0.5 + 11 * 5)
    packed = cost(DEL, PACKED, 2)
    assert packed.scan == pytest.approx(2 * 0.5 + 10 * 3)
    assert packed.queries == pytest.approx(7 * packed.probe + 11 * packed.scan)
    assert packed.total_work == packed.transition + packed.pre_transition + packed.queries


def test_queries_of_recent_days_touch_only_the_constituents_that_hold_them() -> None:
    newest = replace(CASE, probed_days=1, scanned_days=1)
    # The youngest constituent of WATA has 2, 3 and 1 days.
    assert cost(WATA, IN_PLACE, 4, case=newest).probe == pytest.approx(0.5 + 2 * 0.001)
    assert cost(REINDEX, IN_PLACE, 2, case=newest).scan == pytest.approx(0.5 + 5 * 3)
    two = replace(CASE, probed_days=2)
    # Only on throw-away days do the last two days lie in two constituents, of 1 and 3 days.
    expected = ((0.5 + 0.002) + (0.5 + 0.003) + (1.0 + 0.004)) / 3
    assert cost(WATA, IN_PLACE, 4, case=two).probe == pytest.approx(expected)


@given(
    st.sampled_from(WaveScheme),
    st.sampled_from(UpdateTechnique),
    st.integers(2, 20),
    st.data(),
    st.floats(0.1, 9),
)
def test_everything_but_seeks_scales_with_the_data(
    scheme: WaveScheme, technique: UpdateTechnique, window: int, data: st.DataObject, factor: float
) -> None:
    n = data.draw(st.integers(scheme.fewest_constituents, window))
    case = replace(SCAM, seek=0)
    layout = WaveLayout(scheme, window, n)
    once, more = (wave_cost(layout, technique, c) for c in (case, case.scaled(factor)))
    for measure in ("total_work", "space", "transition", "pre_transition", "probe", "scan"):
        assert getattr(more, measure) == pytest.approx(factor * getattr(once, measure))


def test_one_constituent_a_day_makes_the_reindexing_schemes_one() -> None:
    for technique in UpdateTechnique:
        reindex, plus = (cost(s, technique, 10) for s in (REINDEX, REINDEX_PLUS))
        assert reindex.total_work == pytest.approx(plus.total_work)


def test_the_built_in_cases_are_found_by_name() -> None:
    assert list(BUILT_IN_CASES) == ["SCAM", "WSE", "TPC-D"]
    assert SCAM.scaled(2).name == "SCAM × 2"


@pytest.mark.parametrize("wrong", [{"seek": -1}, {"build": float("nan")}, {"transfer": 0}])
def test_senseless_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting, match="cost parameter"):
        replace(SCAM, **wrong)  # type: ignore[arg-type]
