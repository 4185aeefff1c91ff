"""Constants of the cost model from reports of updates, predictions, and advice on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive.advice.cost_parameters import SCAM, CostParameters
from mayfly.archive.advice.wave_advice import (
    ArchiveAdvice,
    Workload,
    calibrated,
    with_advised_layout,
)
from mayfly.archive.advice.wave_advisor import Need
from mayfly.archive.advice.wave_constants import measured_updates, predictions
from mayfly.archive.advice.wave_cost import day_price, wave_cost
from mayfly.archive.layouts import UpdateTechnique, WaveScheme
from mayfly.archive.model.declaration import WindowRequest
from mayfly.archive.model.reports import REPORTS_KEPT, reports_after
from mayfly.errors import InvalidSetting

DDL = "k STRING, ts TIMESTAMP, v STRING"
CONSTANTS = replace(
    SCAM, build=3.0, add=2.0, delete=0, measured_copy=0.5, measured_packed_copy=0.25
)
OVERHEAD = 1.0


def settings(scheme: str, technique: str, window: int = 12) -> Any:
    return (
        WindowRequest(DDL, key="k", window=window, scheme=scheme, technique=technique)
        .declaration()
        .settings
    )


def made_up_reports(of: Any, updates: int, noise: float = 0.0) -> list[dict[str, Any]]:
    """Reports of updates that take just what the model says, and an overhead."""
    chance = np.random.default_rng(4)
    reports = []
    for update in range(1, updates + 1):
        now, later = day_price(of.layout, of.technique, CONSTANTS, update)
        took = OVERHEAD + now + chance.normal(0, noise)
        reports.append(
            {
                "update": update,
                "stored": 100,
                "transition_seconds": took,
                "pre_transition_seconds": later,
            }
        )
    return reports


@pytest.mark.parametrize("scheme", list(WaveScheme))
@pytest.mark.parametrize("technique", list(UpdateTechnique))
def test_the_price_of_a_day_averages_to_the_cost_of_the_layout(scheme: str, technique: str) -> None:
    layout = settings(scheme, technique).layout
    last = 2 * layout.window + layout.period
    prices = [
        day_price(layout, UpdateTechnique(technique), CONSTANTS, day)
        for day in range(last + 1, last + 1 + layout.period)
    ]
    cost = wave_cost(layout, UpdateTechnique(technique), CONSTANTS)
    assert sum(now for now, _ in prices) / layout.period == pytest.approx(cost.transition)
    assert sum(later for _, later in prices) / layout.period == pytest.approx(cost.pre_transition)


@pytest.mark.parametrize("scheme", list(WaveScheme))
@pytest.mark.parametrize("technique", list(UpdateTechnique))
def test_a_model_fitted_to_its_own_prices_predicts_them(scheme: str, technique: str) -> None:
    of = settings(scheme, technique)
    reports = made_up_reports(of, 60)
    late = predictions(of, reports)[40:]
    assert all(one.expected == pytest.approx(one.took, rel=0.02) for one in late)


def test_what_the_reports_tell_apart_is_found() -> None:
    of = settings("WATA", "packed shadow")
    found = measured_updates(of, made_up_reports(of, 60, noise=0.01))
    assert found is not None
    assert found.seconds["measured_packed_copy"] == pytest.approx(0.25, rel=0.05)
    # Every day builds once, so an overhead and Build cannot be told apart: their sum can.
    assert found.overhead + found.seconds["build"] == pytest.approx(4.0, rel=0.05)
    assert all(value >= 0 for value in (found.overhead, *found.seconds.values()))


def test_gaps_and_empty_updates_do_not_count() -> None:
    of = settings("WATA", "packed shadow")
    reports = made_up_reports(of, 20)
    odd = [
        {**reports[4], "transition_seconds": 900.0, "stored": 0},
        {**reports[-1], "update": 40, "transition_seconds": 900.0},
    ]
    mixed = [*reports[:4], odd[0], *reports[5:], odd[1]]
    found = measured_updates(of, mixed)
    assert found is not None
    assert found.reports == 19
    assert max(found.overhead, *found.seconds.values()) < 5
    assert measured_updates(of, [odd[0]]) is None
    assert predictions(of, reports[:1])[0].expected is None


def test_a_prediction_says_how_far_off_it_was() -> None:
    of = settings("DEL", "in-place")
    reports = made_up_reports(of, 10)
    reports[-1] = {**reports[-1], "transition_seconds": 2 * reports[-1]["transition_seconds"]}
    last = predictions(of, reports)[-1]
    assert last.error == pytest.approx(-0.5, abs=0.1)


def test_reports_are_kept_up_to_a_number_and_replaced_by_update() -> None:
    kept: dict[str, Any] = {}
    for update in range(1, REPORTS_KEPT + 5):
        kept = {"reports": reports_after(kept, {"update": update, "seconds": 1})}
    assert [one["update"] for one in kept["reports"]] == list(range(5, REPORTS_KEPT + 5))
    again = reports_after(kept, {"update": REPORTS_KEPT + 4, "seconds": 2})
    assert [one["seconds"] for one in again][-2:] == [1, 2]
    assert len(again) == REPORTS_KEPT


def filled(path: Path, updates: int, **declared: Any) -> mayfly.archive.Archive:
    archive = mayfly.archive.create(path, DDL, key="k", origin=0, **declared)
    chance = np.random.default_rng(1)
    day = 86_400_000_000
    for update in range(1, updates + 1):
        times = chance.integers((update - 1) * day + 1, update * day + 1, 400)
        archive.update(
            pa.table(
                {
                    "k": [f"c{one}" for one in chance.integers(0, 40, 400)],
                    "ts": pa.array(times, pa.timestamp("us", "UTC")),
                    "v": [f"{one:030x}" for one in chance.integers(0, 1 << 60, 400)],
                }
            )
        )
    return archive


def test_an_archive_advises_from_its_own_updates(tmp_path: Path) -> None:
    archive = filled(tmp_path / "a", 9, window=6, scheme="REINDEX", parts=2)
    assert [one["update"] for one in archive.inspect.reports()] == list(range(1, 10))
    assert [one.update for one in archive.inspect.predictions()] == list(range(1, 10))
    advice = archive.advise(probes=1000)
    assert isinstance(advice, ArchiveAdvice)
    parameters = advice.advice.parameters
    stored = archive.inspect.status()
    assert parameters.packed_day == pytest.approx(stored.bytes / 6 / 1e6, rel=0.3)
    assert parameters.probes == 1000
    assert parameters.seek_run == parameters.seek > 0
    assert advice.current.layout == archive.settings.layout
    assert "It is now REINDEX with 2" in advice.explain() or "what it is now" in advice.explain()
    bigger = archive.advise(megabytes=parameters.packed_day * 10)
    assert isinstance(bigger, ArchiveAdvice)
    assert bigger.advice.parameters.packed_day == pytest.approx(parameters.packed_day * 10)
    soft = archive.advise(need=Need(6, hard=False, techniques=(UpdateTechnique.IN_PLACE,)))
    assert isinstance(soft, ArchiveAdvice)
    assert {one.layout.scheme for one in soft.advice.candidates} == set(WaveScheme)


def test_an_archive_without_rows_has_nothing_to_advise_from(tmp_path: Path) -> None:
    archive = mayfly.archive.create(tmp_path / "a", DDL, key="k", window=6)
    with pytest.raises(InvalidSetting, match="has not stored any rows yet"):
        archive.advise()


def test_runs_of_an_unpacked_index_cost_a_probe_more() -> None:
    slow = replace(SCAM, seek_run=1.0)
    layout = settings("DEL", "in-place").layout
    unpacked = wave_cost(layout, UpdateTechnique.IN_PLACE, slow).probe
    packed = wave_cost(layout, UpdateTechnique.PACKED_SHADOW, slow).probe
    assert unpacked == pytest.approx(packed + 12 - layout.constituents)
    assert packed == wave_cost(layout, UpdateTechnique.PACKED_SHADOW, SCAM).probe


def test_auto_measures_the_machine_and_chooses(tmp_path: Path) -> None:
    declared = WindowRequest(DDL, key="k", window=12).declaration()
    load = Workload(megabytes=50, probes=100, scans=1)
    chosen, advice = with_advised_layout(declared, tmp_path / "not" / "yet", load)
    assert chosen.settings.layout == advice.best.layout
    assert chosen.settings.layout.scheme.hard
    assert advice.parameters.packed_day == pytest.approx(50)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidSetting, match="needs to know what to expect"):
        with_advised_layout(declared, tmp_path, Workload(probes=3))


def test_calibration_scales_with_the_day_but_not_with_the_key(tmp_path: Path) -> None:
    small, large = calibrated(tmp_path, 1), calibrated(tmp_path, 100)
    assert isinstance(small, CostParameters)
    assert large.packed_day == pytest.approx(100 * small.packed_day)
    assert large.bucket == pytest.approx(small.bucket, rel=0.01)
